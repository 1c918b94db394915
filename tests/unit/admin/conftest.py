"""The admin endpoint of these tests."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kproxy.address import Address
from kproxy.admin.pages import AdminPages
from kproxy.admin.server import AdminServer, start_admin
from kproxy.metrics import Metrics
from kproxy.tls.handshakes import AdminTls, Files
from tests.harness.tls import Authority
from tests.unit.admin.endpoint import Running, readiness, source


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
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def encrypted(authority: Authority, caplog: pytest.LogCaptureFixture) -> Iterator[Running]:
    """One that speaks TLS, with the certificate of `authority` for 127.0.0.1."""
    caplog.set_level(logging.DEBUG, "kproxy")
    cert, key = authority.files("127.0.0.1")
    with endpoint("127.0.0.1", AdminTls(Files(cert=cert, key=key))) as here:
        here.trust = authority.client_context()
        yield here


@contextmanager
def endpoint(host: str, tls: AdminTls | None = None) -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    metrics, status, not_ready, loop_errors = Metrics(), dict[str, object](), list[str](), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: loop_errors.append(context))

    async def start() -> AdminServer:
        return await start_admin(
            Address(host, 0),
            AdminPages(
                source(metrics),
                lambda: json.dumps(status, ensure_ascii=False).encode(),
                lambda asked: readiness(asked, not_ready),
            ),
            tls,
        )

    admin = asyncio.run_coroutine_threadsafe(start(), loop).result(timeout=60)
    here = Running(loop, admin, metrics, status, not_ready, loop_errors)
    yield here
    here.do(admin.close())
    here.do(loop.shutdown_default_executor())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert loop_errors == []
