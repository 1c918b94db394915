"""Explanations of TLS errors, with a fixed word for metrics. Texts begin with "TLS"."""

from __future__ import annotations

import ssl

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
        return "tls-closed", (
            "TLS: the connection was closed during the handshake: its listener may be PLAINTEXT or SASL_PLAINTEXT"
            " (leave out --tls), or it requires a client certificate (--tls-cert)"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return _verification(error)
    reason = error.reason or ""
    if reason in _CERTIFICATE_MISSING:
        return "tls-client-certificate", "TLS: the broker requires a client certificate: give one with --tls-cert"
    if reason in _CERTIFICATE_REFUSED:
        text = f"TLS: the broker says that kproxy showed {_CERTIFICATE_REFUSED[reason]}: check --tls-cert"
        return "tls-client-certificate", text
    if reason in _VERSION:
        return "tls-version", "TLS: the broker supports neither TLS 1.2 nor TLS 1.3: check ssl.enabled.protocols"
    if reason in _PLAINTEXT:
        text = "TLS: the server at this address does not speak TLS: leave out --tls, or use the port of an SSL listener"
        return "tls-plaintext", text
    if reason == "TLSV1_UNRECOGNIZED_NAME":
        return "tls-name", "TLS: the server does not know the name that kproxy sent: check --tls-server-name"
    if reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
        text = "TLS: the broker refused the handshake: no cipher suite in common, or it requires a client certificate"
        return "tls", f"{text} (--tls-cert)"
    return "tls", f"TLS: {_plain(error)}"


def _verification(error: ssl.SSLCertVerificationError) -> tuple[str, str]:
    code = error.verify_code
    if code == _EXPIRED:
        return "tls-expired", "TLS: the broker's certificate, or one above it, has expired: renew it"
    if code == _NOT_YET_VALID:
        return "tls-expired", "TLS: the broker's certificate is not valid yet: check the clocks"
    if code in _UNTRUSTED:
        text = "TLS: the broker's certificate is from a CA that kproxy does not trust: set the CA with --tls-ca"
        return "tls-untrusted", text
    if code in _WRONG_NAME:
        return "tls-name", "TLS: the broker's certificate has another name"
    return "tls-untrusted", f"TLS: the broker's certificate is not valid: {error.verify_message}"


def explain_client_error(error: OSError) -> tuple[str, str]:
    """Return the reason and the text for a failure of TLS with a client."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        text = "TLS: the client closed the connection during the handshake; it may not trust the certificate of"
        return "client-tls-closed", f"{text} --client-tls-cert, or not find its own name for kproxy in it"
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"TLS: the client's certificate is not valid: {error.verify_message} (--client-tls-ca)"
        return "client-tls-certificate", text
    if reason in _CERTIFICATE_MISSING:
        text = "TLS: the client showed no certificate, which --client-tls-ca requires: set ssl.keystore in the client"
        return "client-tls-certificate", text
    if reason in _CERTIFICATE_REFUSED:
        text = f"TLS: the client says that kproxy showed {_CERTIFICATE_REFUSED[reason]}: check --client-tls-cert and"
        return "client-tls-refused", f"{text} the client's trust store"
    if reason in _VERSION:
        return "client-tls-version", "TLS: the client supports neither TLS 1.2 nor TLS 1.3"
    return "client-tls", f"TLS: {_plain(error)}"


def _plain(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
