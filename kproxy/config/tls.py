"""The options of TLS, towards brokers and towards clients, a part of the declaration in `options`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from kproxy.config import kinds
from kproxy.config.declarations import TLS, Model, Option, Reload, kebab


class TlsOptions(Model):
    """The connections that use TLS, the trusted CAs, and the own certificates."""

    tls: Annotated[
        bool,
        kinds.boolean(),
        Option(
            TLS,
            "Use TLS for connections to the brokers. Clients still connect to kproxy without TLS.",
            off="--no-tls",
            reload=Reload.DRAINS_ALL,
        ),
    ] = False
    tls_ca: Annotated[
        Path | None,
        kinds.path(),
        Option(
            TLS,
            "Certificates to trust: a PEM file or a Java trust store (PKCS #12, JKS).",
            unset="the system's",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    tls_ca_password: Annotated[
        str | None,
        kinds.text("PASSWORD"),
        Option(TLS, "Password of the trust store.", unset="none", secret=True, reload=Reload.DRAINS_ALL),
    ] = None
    tls_cert: Annotated[
        Path | None,
        kinds.path(),
        Option(
            TLS,
            "Client certificate and chain to present to the brokers: a PEM file or a key store (PKCS #12, JKS).",
            unset="none",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    tls_key: Annotated[
        Path | None,
        kinds.path(),
        Option(TLS, "Private key of tls-cert, a PEM file.", unset="in the file of tls-cert", reload=Reload.DRAINS_ALL),
    ] = None
    tls_key_password: Annotated[
        str | None,
        kinds.text("PASSWORD"),
        Option(
            TLS, "Password of the private key or of the key store.", unset="none", secret=True, reload=Reload.DRAINS_ALL
        ),
    ] = None
    tls_server_name: Annotated[
        str | None,
        kinds.server_name(),
        Option(
            TLS,
            "Name that every broker's certificate must contain. * accepts any name, if the CA is trusted.",
            unset="the advertised host; for a bootstrap server, its host",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    tls_insecure: Annotated[
        bool,
        kinds.boolean(),
        Option(
            TLS,
            "Accept any certificate. Anyone on the network path can then read and change all data.",
            off="--tls-verify",
            reload=Reload.DRAINS_ALL,
        ),
    ] = False
    client_tls_cert: Annotated[
        Path | None,
        kinds.path(),
        Option(
            TLS,
            "Use TLS for connections from clients, with this certificate and chain: a PEM file or a key store "
            "(PKCS #12, JKS).",
            unset="clients connect without TLS",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    client_tls_key: Annotated[
        Path | None,
        kinds.path(),
        Option(
            TLS,
            "Private key of client-tls-cert, a PEM file.",
            unset="in the file of client-tls-cert",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None
    client_tls_key_password: Annotated[
        str | None,
        kinds.text("PASSWORD"),
        Option(
            TLS, "Password of the private key or of the key store.", unset="none", secret=True, reload=Reload.DRAINS_ALL
        ),
    ] = None
    client_tls_ca: Annotated[
        Path | None,
        kinds.path(),
        Option(
            TLS,
            "Refuse clients that present no certificate of these CAs.",
            unset="no client certificate is required",
            reload=Reload.DRAINS_ALL,
        ),
    ] = None

    def tls_problems(self) -> Iterator[tuple[str, str]]:
        """Yield options that contradict each other, as (key, text)."""
        given = {kebab(name) for name in TlsOptions.model_fields if getattr(self, name)}
        for key, needed in _NEEDS.items():
            if key in given and needed not in given:
                yield key, f"is given, but {needed} is not; allowed: together with {needed}"
        if {"tls-insecure", "tls-ca"} <= given:
            yield "tls-insecure", "cannot be combined with tls-ca, which it would ignore; allowed: one of them"


_NEEDS = {
    "tls-ca": "tls",
    "tls-cert": "tls",
    "tls-server-name": "tls",
    "tls-insecure": "tls",
    "tls-ca-password": "tls-ca",
    "tls-key": "tls-cert",
    "tls-key-password": "tls-cert",
    "client-tls-key": "client-tls-cert",
    "client-tls-key-password": "client-tls-cert",
    "client-tls-ca": "client-tls-cert",
}
