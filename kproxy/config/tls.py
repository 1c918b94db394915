"""The options of TLS, towards brokers and towards clients, a part of the declaration in `options`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kproxy.config.declarations import TLS, Options, Reload, option, settings_of
from kproxy.config.kinds import BOOLEAN, FILE, SERVER_NAME, text

_tls = partial(option, TLS, reload=Reload.DRAINS_ALL)


@dataclass(frozen=True, kw_only=True)
class TlsOptions(Options):
    """The connections that use TLS, the trusted CAs, and the own certificates."""

    tls: bool = _tls(BOOLEAN, "Use TLS for connections to the brokers. Clients still connect to kproxy without TLS.")
    tls_ca: Path | None = _tls(
        FILE, "Certificates to trust: a PEM file or a Java trust store (PKCS #12, JKS).", "the system's"
    )
    tls_ca_password: str | None = _tls(text("PASSWORD"), "Password of the trust store.", secret=True)
    tls_cert: Path | None = _tls(
        FILE, "Client certificate and chain to present to the brokers: a PEM file or a key store (PKCS #12, JKS)."
    )
    tls_key: Path | None = _tls(FILE, "Private key of tls-cert, a PEM file.", "in the file of tls-cert")
    tls_key_password: str | None = _tls(
        text("PASSWORD"), "Password of the private key or of the key store.", secret=True
    )
    tls_server_name: str | None = _tls(
        SERVER_NAME,
        "Name that every broker's certificate must contain. * accepts any name, if the CA is trusted.",
        "the advertised host; for a bootstrap server, its host",
    )
    tls_insecure: bool = _tls(
        BOOLEAN,
        "Accept any certificate. Anyone on the network path can then read and change all data.",
        off_flag="--tls-verify",
    )
    client_tls_cert: Path | None = _tls(
        FILE,
        "Use TLS for connections from clients, with this certificate and chain: a PEM file or a key store "
        "(PKCS #12, JKS).",
        "clients connect without TLS",
    )
    client_tls_key: Path | None = _tls(
        FILE, "Private key of client-tls-cert, a PEM file.", "in the file of client-tls-cert"
    )
    client_tls_key_password: str | None = _tls(
        text("PASSWORD"), "Password of the private key or of the key store.", secret=True
    )
    client_tls_ca: Path | None = _tls(
        FILE, "Refuse clients that present no certificate of these CAs.", "no client certificate is required"
    )

    def tls_problems(self) -> Iterator[tuple[str, str]]:
        """Yield options that contradict each other, as (key, text)."""
        given = {key for key, setting in settings_of(TlsOptions).items() if getattr(self, setting.name)}
        for key, needed in _NEEDS.items():
            if key in given and needed not in given:
                yield key, f"is given, but {needed} is not; allowed: together with {needed}"
        if {"tls-insecure", "tls-ca"} <= given:
            yield "tls-insecure", "cannot be combined with tls-ca, which it would ignore; allowed: one of them"


_NEEDS = {
    **dict.fromkeys(("tls-ca", "tls-cert", "tls-server-name", "tls-insecure"), "tls"),
    "tls-ca-password": "tls-ca",
    **dict.fromkeys(("tls-key", "tls-key-password"), "tls-cert"),
    **dict.fromkeys(("client-tls-key", "client-tls-key-password", "client-tls-ca"), "client-tls-cert"),
}
