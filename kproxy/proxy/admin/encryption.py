"""TLS of the admin endpoint, from the configuration."""

from __future__ import annotations

from kproxy.config import Config
from kproxy.net.tls.handshakes import AdminTls, TlsFiles


def admin_tls(config: Config) -> AdminTls | None:
    """Return TLS of the admin endpoint, if it is configured.

    Raises ConfigError if a file cannot be used.
    """
    if config.admin is None or config.admin_tls_cert is None:
        return None
    files = TlsFiles(cert=config.admin_tls_cert, key=config.admin_tls_key, key_password=config.admin_tls_key_password)
    return AdminTls(files)
