"""Explanations of TLS errors, with a fixed word for metrics. Texts begin with "TLS"."""

from __future__ import annotations

import ssl

from kproxy.base.messages.reachability import (
    CERTIFICATE_EXPIRED,
    CERTIFICATE_NOT_YET_VALID,
    CERTIFICATE_UNTRUSTED,
    CLIENT_CERTIFICATE_REFUSED,
    CLIENT_CERTIFICATE_REQUIRED,
    HANDSHAKE_CLOSED,
    HANDSHAKE_REFUSED,
    SERVER_NAME_UNKNOWN,
    SERVER_SPEAKS_NO_TLS,
    TLS_VERSION_UNSUPPORTED,
)
from kproxy.base.messages.sessions import (
    CLIENT_CERTIFICATE_INVALID,
    CLIENT_CERTIFICATE_MISSING,
    CLIENT_CLOSED_HANDSHAKE,
    CLIENT_DISTRUSTS,
)

# X509_V_ERR_* of OpenSSL's x509_vfy.h.
_NOT_YET_VALID, _EXPIRED = 9, 10
_UNTRUSTED = (2, 18, 19, 20, 21)  # no issuer, or a self-signed certificate that is not in the trust store
_WRONG_NAME = (62, 64)  # of a host, of an IP address

_VERSION = ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "WRONG_SSL_VERSION", "NO_PROTOCOLS_AVAILABLE")
_PLAINTEXT = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
)
# Alerts of the other side about our certificate.
_CERTIFICATE_MISSING = ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "PEER_DID_NOT_RETURN_A_CERTIFICATE")
_CERTIFICATE_REFUSED = {
    "SSLV3_ALERT_BAD_CERTIFICATE": "no certificate or a bad one",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "a certificate that it does not accept",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "an expired certificate",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "a revoked certificate",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "a certificate of a kind that it does not accept",
    "TLSV1_ALERT_UNKNOWN_CA": "a certificate of a CA that it does not know",
    "TLSV1_ALERT_ACCESS_DENIED": "a certificate that has no access",
}


def is_wrong_name(error: OSError) -> bool:
    """Return whether the only problem with the broker's certificate is its name."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _WRONG_NAME


def explain_broker_error(error: OSError) -> tuple[str, str]:
    """Return the reason and the text for a failure of TLS to a broker."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return HANDSHAKE_CLOSED.with_reason()
    if isinstance(error, ssl.SSLCertVerificationError):
        return _verification(error)
    reason = error.reason or ""
    if reason in _CERTIFICATE_MISSING:
        return CLIENT_CERTIFICATE_REQUIRED.with_reason()
    if reason in _CERTIFICATE_REFUSED:
        return CLIENT_CERTIFICATE_REFUSED.with_reason(shown=_CERTIFICATE_REFUSED[reason])
    if reason in _VERSION:
        return TLS_VERSION_UNSUPPORTED.with_reason()
    if reason in _PLAINTEXT:
        return SERVER_SPEAKS_NO_TLS.with_reason()
    if reason == "TLSV1_UNRECOGNIZED_NAME":
        return SERVER_NAME_UNKNOWN.with_reason()
    if reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
        return HANDSHAKE_REFUSED.with_reason()
    return "tls", f"TLS: {_plain(error)}"


def _verification(error: ssl.SSLCertVerificationError) -> tuple[str, str]:
    code = error.verify_code
    if code == _EXPIRED:
        return CERTIFICATE_EXPIRED.with_reason()
    if code == _NOT_YET_VALID:
        return CERTIFICATE_NOT_YET_VALID.with_reason()
    if code in _UNTRUSTED:
        return CERTIFICATE_UNTRUSTED.with_reason()
    if code in _WRONG_NAME:
        return "tls-name", "TLS: the broker's certificate has another name"
    return "tls-untrusted", f"TLS: the broker's certificate is not valid: {error.verify_message}"


def explain_client_error(error: OSError) -> tuple[str, str]:
    """Return the reason and the text for a failure of TLS with a client."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return CLIENT_CLOSED_HANDSHAKE.with_reason()
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return CLIENT_CERTIFICATE_INVALID.with_reason(error=error.verify_message)
    if reason in _CERTIFICATE_MISSING:
        return CLIENT_CERTIFICATE_MISSING.with_reason()
    if reason in _CERTIFICATE_REFUSED:
        return CLIENT_DISTRUSTS.with_reason(shown=_CERTIFICATE_REFUSED[reason])
    if reason in _VERSION:
        return "client-tls-version", "TLS: the client supports neither TLS 1.2 nor TLS 1.3"
    return "client-tls", f"TLS: {_plain(error)}"


def _plain(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
