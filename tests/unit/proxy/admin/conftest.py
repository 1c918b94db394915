"""The admin endpoint of these tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kproxy.net.tls.handshakes import AdminTls, TlsFiles
from tests.harness.tls import Authority
from tests.unit.proxy.admin.endpoint import Running, endpoint


@pytest.fixture
def running(caplog: pytest.LogCaptureFixture) -> Iterator[Running]:
    caplog.set_level(logging.DEBUG, "kproxy")
    with endpoint("127.0.0.1") as here:
        yield here


@pytest.fixture
def everywhere(caplog: pytest.LogCaptureFixture) -> Iterator[Running]:
    """One that other machines can ask too."""
    caplog.set_level(logging.DEBUG, "kproxy")
    with endpoint("0.0.0.0") as here:
        yield here


@pytest.fixture
def encrypted(authority: Authority, caplog: pytest.LogCaptureFixture) -> Iterator[Running]:
    """One that speaks TLS, with the certificate of `authority` for 127.0.0.1."""
    caplog.set_level(logging.DEBUG, "kproxy")
    cert, key = authority.files("127.0.0.1")
    with endpoint("127.0.0.1", AdminTls(TlsFiles(cert=cert, key=key))) as here:
        here.trust = authority.client_context()
        yield here
