"""The admin endpoint of these tests."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kproxy.address import Address
from kproxy.admin.pages import AdminPages
from kproxy.admin.server import AdminServer, start_admin
from kproxy.metrics import Metrics
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


@contextmanager
def endpoint(host: str) -> Iterator[Running]:
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
