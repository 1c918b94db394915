"""The OIDC server of tests/harness/servers/oidc_server.py as a process."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.harness.process import free_window, wait_until

AUDIENCE = "kafka"


class OidcServer:
    """Gives tokens to one client. With a certificate (PEM, with its key) over TLS."""

    def __init__(self, client: str, secret: str, certificate: Path | None = None) -> None:
        self.client = client
        self.secret = secret
        self.issuer = f"http{'s' if certificate else ''}://127.0.0.1:{free_window(1)}"
        self.token_url, self.jwks_url = f"{self.issuer}/token", f"{self.issuer}/jwks"
        self._certificate = certificate
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OidcServer:
        words = [self.issuer.rpartition(":")[2], self.client, self.secret, AUDIENCE]
        words += [str(self._certificate)] if self._certificate else []
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.harness.servers.oidc_server", *words],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONPATH": "."},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._up, "the OIDC server answers")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def asked(self) -> int:
        """Return the number of requests for a token."""
        return int(self._get("/count"))

    def _up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the OIDC server ended"
        try:
            return bool(self._get("/jwks"))
        except OSError:
            return False

    def _get(self, path: str) -> bytes:
        context = ssl._create_unverified_context() if self._certificate else None
        with urllib.request.urlopen(self.issuer + path, timeout=5, context=context) as answer:
            return bytes(answer.read())
