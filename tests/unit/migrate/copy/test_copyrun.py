from __future__ import annotations

import threading
from unittest.mock import MagicMock, Mock

import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.copier.state import Job
from kproxy.migrate.copy import copyrun as module
from kproxy.migrate.copy.copyrun import CopyRun
from kproxy.migrate.copy.scope import CopySpec
from kproxy.migrate.copy.statereader import StateReader
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
