"""Two kproxies that lead to each other. Neither can know: what it dials is no listener of its own."""

from __future__ import annotations

import asyncio
import logging
import os

import pytest

from kproxy.base.address import Address
from kproxy.proxy.cluster import pendingconnections
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.process import free_window
from tests.unit.proxy.cluster.doorway import API_VERSIONS, Doorway, in_loop, is_closed, until

MOST = 16


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("asked_within_sessions", [False, True])
@in_loop
async def test_a_circle_of_two_is_bounded_and_falls_together(
    selector: RelaySelector,
    asked_within_sessions: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(pendingconnections, "pending_connection_limit", lambda files: MOST)
    caplog.set_level(logging.CRITICAL, "kproxy")
    ports = free_window(2)
    one, other = (
        Doorway(
            selector,
            f"127.0.0.1:{ports + 1 - number}",
            listen=Address("127.0.0.1", ports + number),
            connect_timeout=1.0,
        )
        for number in range(2)
    )
    if asked_within_sessions:  # each takes the other for a broker that answers clients with a login only
        for door in (one, other):
            door.gateway.dialer.verifier._identifier._login_required_until = float("inf")
    before, most = files(), 0
    clients = [one.connect() for _ in range(3)]
    for client in clients:
        client.send(API_VERSIONS)
    while not all(map(is_closed, clients)):
        most = max(most, files() - before)
        assert most < 200, "it grows"
        await asyncio.sleep(0.001)
    assert most >= MOST // 4, "there was a circle"
    for client in clients:
        client.close()
    await until(lambda: files() == before, "nothing is left of it")
    await one.close()
    await other.close()
