from __future__ import annotations

import threading
from queue import Empty, Queue
from unittest.mock import MagicMock, Mock

import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.copier.state import Job, Slice, SliceResult
from kproxy.migrate.copy import copyrun as module
from kproxy.migrate.copy.copyrun import CopyRun
from kproxy.migrate.copy.driverround import MAX_SIZE, DriverRounds
from kproxy.migrate.copy.scope import CopySpec
from kproxy.migrate.copy.statereader import StateReader, StateSnapshot
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, SwitchEntry
from kproxy.proxy.switching.twophase import JournalDecision


def test_a_defect_of_the_thread_that_watches_ends_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the rounds would go on, deaf to orders, and to another driver that takes over."""
    monkeypatch.setattr(module, "BEAT_INTERVAL", 0.03)
    monkeypatch.setattr(module, "CopyDriver", Mock())
    monkeypatch.setattr(module, "ClusterClient", MagicMock())
    monkeypatch.setattr(StateReader, "read", Mock(side_effect=RuntimeError("a defect")))
    spark, ended = Mock(), threading.Event()
    spark.sparkContext.cancelJobGroup.side_effect = lambda _: ended.set()
    monkeypatch.setattr(CopyRun, "_job", lambda self: Job("move", 1))
    monkeypatch.setattr(CopyRun, "_rounds", lambda self: ended.wait(30))
    with pytest.raises(RuntimeError, match="a defect"):
        CopyRun(spark, "source:1", "target:1", CopySpec("move", {"t": "t"}), check_allowed=lambda: None).run()
    spark.sparkContext.cancelJobGroup.assert_called_once_with("kproxy migrate move")


@pytest.mark.parametrize(
    ("what", "decision", "refused"),
    [
        (SWITCHING, JournalDecision.BEGUN, False),
        (SWITCHING, JournalDecision.UNDONE, False),
        (SWITCHING, JournalDecision.RELEASED, True),
        (ROLLBACK, JournalDecision.BEGUN, True),
        (ROLLBACK, JournalDecision.UNDONE, True),
        (ROLLBACK, JournalDecision.RELEASED, False),
    ],
)
def test_nothing_is_copied_against_the_stream(
    monkeypatch: pytest.MonkeyPatch, what: str, decision: JournalDecision, refused: bool
) -> None:
    """When clients are on the target, what comes to the source was copied back from there."""
    names = ("blue", "green") if what == SWITCHING else ("green", "blue")
    entry = SwitchEntry("x", what, "default", *names, ()).with_decision("000001-a", decision)
    monkeypatch.setattr(module, "read_last_switch", lambda target, name: entry)
    copy = CopyRun(Mock(), "source:1", "target:1", CopySpec("move", {"t": "t"}))
    if not refused:
        copy._check_not_switched()
        return
    with pytest.raises(ConfigError, match="clients of move are on green now"):
        copy._check_not_switched()


def following(monkeypatch: pytest.MonkeyPatch, idle: float, stuck: float) -> CopyRun:
    """A copy that follows, with these pauses; its clusters are never asked."""
    monkeypatch.setattr(module, "_IDLE_PAUSE", idle)
    monkeypatch.setattr(module, "_STUCK_PAUSE", stuck)
    monkeypatch.setattr(StateReader, "read", lambda self: StateSnapshot({}, {}, (0,)))
    return CopyRun(Mock(), "source:1", "target:1", CopySpec("move", {"t": "t"}, follow=True), lambda _: None)


def test_a_round_with_nothing_left_is_no_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read of the state topic may lack a transaction that has just ended."""
    copy, rounds = following(monkeypatch, 0.001, 600.0), list[int]()

    def run(number: int, *_: object) -> list[SliceResult]:
        rounds.append(number)
        if number == 3:
            copy.finish_round()
        return [SliceResult("t", 0, None)]

    monkeypatch.setattr(copy, "_plan_round", lambda _: [(1, Slice("t", 0, "t", 0, 9, 9, 1.0))])
    monkeypatch.setattr(copy, "_round", run)
    copy._rounds()
    assert rounds == [1, 2, 3]


def test_an_urgent_copy_does_not_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, plans = following(monkeypatch, 600.0, 600.0), list[int]()

    def plan(_: StateSnapshot) -> list[tuple[int, Slice]]:
        plans.append(len(plans))
        copy.set_urgent(True)
        if len(plans) == 3:
            copy.finish_round()
        return []

    monkeypatch.setattr(copy, "_plan_round", plan)
    copy._rounds()
    assert plans == [0, 1, 2]


@pytest.mark.parametrize("ends", ["the last round", "cancelled", "asked to leave"])
def test_a_resting_copy_looks_for_nothing_and_ends_at_once(monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    copy, plans = following(monkeypatch, 0.001, 600.0), Queue[int]()

    def plan(_: StateSnapshot) -> list[tuple[int, Slice]]:
        copy.rest()
        plans.put(0)
        return []

    monkeypatch.setattr(copy, "_plan_round", plan)
    rounds = threading.Thread(target=copy._rounds, daemon=True)
    rounds.start()
    plans.get(timeout=60)
    with pytest.raises(Empty):
        plans.get(timeout=0.2)
    copy.set_urgent(True)
    plans.get(timeout=60)
    if ends == "cancelled":
        copy._finished.set()
        copy.cancel()
        copy._cancel_when_asked()
    elif ends == "asked to leave":
        copy._read_orders(Mock(is_leave_request=lambda _: True))
    else:
        copy.finish_round()
    rounds.join(60)
    assert not rounds.is_alive()
    assert plans.empty()


@pytest.mark.parametrize(("size", "driver"), [(MAX_SIZE, True), (MAX_SIZE + 1, False)])
@pytest.mark.parametrize("small_rounds_in_driver", [False, True])
def test_the_driver_copies_only_small_rounds(
    monkeypatch: pytest.MonkeyPatch, size: int, driver: bool, small_rounds_in_driver: bool
) -> None:
    spec = CopySpec("move", {"t": "t"}, small_rounds_in_driver=small_rounds_in_driver)
    copy, ran = CopyRun(Mock(), "source:1", "target:1", spec), list[str]()
    monkeypatch.setattr(DriverRounds, "copy", lambda *_: ran.append("driver") or [])
    monkeypatch.setattr(copy, "_run_spark_job", lambda *_: ran.append("Spark") or [])
    assert copy._round(1, 16, [(size, Slice("t", 0, "t", 0, 9, 9, 1.0))]) == []
    assert ran == ["driver" if driver and small_rounds_in_driver else "Spark"]
