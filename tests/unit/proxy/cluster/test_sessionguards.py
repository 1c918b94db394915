"""Who is taken for a client that has fetched in the former cluster, and for how long."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kproxy.proxy.cluster import sessionguards
from kproxy.proxy.cluster.sessionguards import SessionGuards
from kproxy.proxy.relay.calls import GuardVerdict
from kproxy.proxy.relay.guard import Guard
from kproxy.proxy.switching import positions
from kproxy.proxy.switching.doubts import ClientIdentity


class Clock:
    """The guards of a cluster, at a time that the test sets."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        patch.setattr(sessionguards, "perf_counter", lambda: self.now)
        self.guards = SessionGuards("default", lambda: None)

    def session(self, client_id: str, made: SessionGuards | None = None) -> tuple[Any, Guard]:
        """One that begins now, and its guard."""
        seen: list[Guard] = []
        session: Any = Mock()
        session.conversation.introduction = SimpleNamespace(client_id=client_id, software="")
        session.conversation.guard = seen.append
        (made or self.guards).session_opened(session, "10.1.2.3")
        return session, seen[0]

    def comes(self, client_id: str, made: SessionGuards | None = None) -> bool:
        """Whether this client, which begins a session now, is taken for one that has fetched before."""
        _, guard = self.session(client_id, made)
        return guard._followed_client() is not None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_who_comes_long_after_a_restart_is_new(clock: Clock) -> None:
    """A query of Spark that is started again would else get no record before the next restart."""
    clock.guards.begin(everyone=True)
    clock.guards.note_writes_pass()
    assert clock.comes("running")
    clock.now += 309
    assert clock.comes("slow")
    clock.now += 1
    assert not clock.comes("new")
    assert clock.comes("running")
    assert clock.comes("slow")


def test_a_switch_soon_after_a_restart_doubts_no_longer(clock: Clock) -> None:
    clock.guards.begin(everyone=True)
    clock.now += 100
    clock.guards.begin()
    assert clock.comes("running")
    part = clock.guards.split([])
    clock.now += 210
    assert not clock.comes("new", part)
    assert not clock.comes("new")
    assert clock.comes("running")
    assert clock.comes("running", part)


def test_a_crowd_that_is_not_remembered_is_doubted_for_longer(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessionguards, "MAX_CLIENTS", 10)
    clock.guards.restore_fetched(ClientIdentity("10.1.2.3", str(number)) for number in range(11))
    clock.guards.begin(everyone=True)
    clock.now += 1_000
    assert clock.comes("may be one of them")
    monkeypatch.setattr(positions, "MAX_CLIENTS", 5)
    clock.guards.note_writes_pass()
    clock.guards.begin()
    clock.now += 48 * 3600
    assert clock.comes("may be one of the others"), "of these nobody knows when they came last"


@pytest.mark.parametrize("united", [False, True])
async def test_waiting_data_passes_when_a_session_joins_a_part(clock: Clock, united: bool) -> None:
    clock.guards.begin()
    clock.guards.note_writes_pass()
    session, guard = clock.session("producer")
    assert guard._judge_produce(clock.now) is GuardVerdict.PASS
    assert guard._judge_produce(clock.now) is GuardVerdict.HOLD
    part = clock.guards.split([session])
    if united:
        clock.guards.merge(part)
    guard._on_produce_response(refused=False)
    await asyncio.sleep(0.01)
    session.release.assert_called_once_with()
    assert guard._judge_produce(clock.now) is GuardVerdict.PASS


def test_more_clients_join_a_part_that_was_switched(clock: Clock) -> None:
    """They have positions of the cluster that they never left, and are guarded from the next switch on."""
    clock.guards.restore_fetched(ClientIdentity("10.1.2.3", name) for name in ("moved", "joins"))
    part = clock.guards.split([])
    for _ in range(2):  # there and back
        part.begin()
        part.note_writes_pass()
    assert part.can_take_from(clock.guards)
    clock.guards.restore_fetched([ClientIdentity("10.1.2.3", "joins-later")])
    part.take(clock.guards.split([]), lambda client_id: client_id.startswith("joins"))
    assert clock.comes("moved", part)
    assert not clock.comes("joins", part)
    assert not clock.comes("joins-later", part)
    part.begin()
    assert clock.comes("joins", part)
    assert clock.comes("joins-later", part)
    clock.guards.begin()
    assert not part.can_take_from(clock.guards), "their positions may be of the other cluster"
    clock.guards.end()
    part.end()
    assert part.can_take_from(clock.guards)


def test_no_client_is_guarded_once_all_have_positions(clock: Clock) -> None:
    """Then it does not matter which of the kproxies that share ports a client comes to."""
    clock.guards.begin(everyone=True)
    clock.guards.note_writes_pass()
    session, guard = clock.session("running")
    assert guard._followed_client() is not None
    assert [guard._judge_produce(clock.now) for _ in range(2)] == [GuardVerdict.PASS, GuardVerdict.HOLD]
    clock.guards.end()
    assert guard.keys == frozenset()
    session.release.assert_called_once_with()
    later: Any = Mock()
    clock.guards.session_opened(later, "10.1.2.3")
    later.conversation.guard.assert_not_called()
    assert clock.guards.fetched == ()
    clock.guards.begin()
    assert not clock.comes("running"), "nobody remembers it"
