"""TLS of a cluster, as its configuration describes it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kproxy.config import ClusterConfig
from kproxy.net.tls.handshakes import ANY_NAME, BrokerTls, ClientTls, TlsFiles

log = logging.getLogger(__name__)


def broker_tls(config: ClusterConfig) -> BrokerTls | None:
    """Return TLS towards the brokers, None if it is not configured. Raises ConfigError if a file cannot be used."""
    if not config.tls:
        return None
    files = TlsFiles(config.tls_ca, config.tls_ca_password, config.tls_cert, config.tls_key, config.tls_key_password)
    return BrokerTls(files, f"cluster {config.name}", server_name=config.tls_server_name, insecure=config.tls_insecure)


def client_tls(config: ClusterConfig) -> ClientTls | None:
    """Return TLS towards the clients, None if it is not configured. Raises ConfigError if a file cannot be used."""
    if config.client_tls_cert is None:
        return None
    files = TlsFiles(
        ca=config.client_tls_ca,
        cert=config.client_tls_cert,
        key=config.client_tls_key,
        key_password=config.client_tls_key_password,
    )
    return ClientTls(files, f"cluster {config.name}")


@dataclass(frozen=True, slots=True)
class ClusterTls:
    """TLS of both sides, None where a side has none."""

    brokers: BrokerTls | None
    clients: ClientTls | None

    @classmethod
    def of(cls, config: ClusterConfig) -> ClusterTls:
        """Read the files of a configuration. Raises ConfigError if one cannot be used."""
        return cls(broker_tls(config), client_tls(config))


def warn_about_tls(config: ClusterConfig) -> None:
    """Log at start what kproxy does not check, and what clients will refuse."""
    _warn_about_sni(config)
    if config.tls_insecure:
        log.warning(
            "cluster %s: --tls-insecure: kproxy checks NO certificate."
            " Anyone on the network path can read and change all data",
            config.name,
        )
    elif config.tls_server_name == ANY_NAME:
        log.warning(
            "cluster %s: --tls-server-name *: kproxy accepts any certificate of a trusted CA from any broker",
            config.name,
        )


def _warn_about_sni(config: ClusterConfig) -> None:
    clients = client_tls(config) if config.sni is not None else None
    if clients is None or config.sni is None:
        return
    names, example = clients.names(), config.sni.name("1")
    if names and not any(_covers(name.lower(), example) for name in names):
        log.warning(
            "cluster %s: the certificate of --client-tls-cert is for %s, and not for %s: clients that check it cannot"
            " connect to nodes (--sni %s)",
            config.name,
            ", ".join(names[:5]),
            example,
            config.sni,
        )


def _covers(name: str, host: str) -> bool:
    """Check whether a name in a certificate is that of a host (RFC 9525 §6.3)."""
    return name == host or (name.startswith("*.") and name[1:] == host[host.index(".") :])
