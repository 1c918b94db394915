"""TLS of the admin endpoint, as its configuration says it."""

from __future__ import annotations

from kproxy.config import Config
from kproxy.net.tls.handshakes import AdminTls, TlsFiles


def admin_tls(config: Config) -> AdminTls | None:
    """TLS of the admin endpoint, if so. Raises ConfigError if a file is no good."""
    if config.admin is None or config.admin_tls_cert is None:
        return None
    files = TlsFiles(cert=config.admin_tls_cert, key=config.admin_tls_key, key_password=config.admin_tls_key_password)
    return AdminTls(files)
