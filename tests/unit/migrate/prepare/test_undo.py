"""Which topics undo does not delete below the clients that a switch has moved."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters.topic_identities import MigratedTopic
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, MovedPart, SwitchEntry
from kproxy.migrate.prepare.undo import Undo
from kproxy.proxy.switching.twophase import JournalDecision

_WAVE = MovedPart("wave-orders", ("orders-*",), (), True, "orders", ("orders-*",))
_CONSUMERS = MovedPart("readers", ("reader",), ("group",), False)


def check(topic: str, *parts: MovedPart, what: str = SWITCHING, decision: str = "undone", force: bool = False) -> None:
    names = ("blue", "green") if what == SWITCHING else ("green", "blue")
    last = SwitchEntry("s", what, "c", *names, ("k",), (("000001-a", decision),), ended=True, parts=parts)
    undo = Undo(Mock(), Mock(), topics=[topic], force=force, dry_run=False)
    undo._check_not_used(last, {topic: MigratedTopic(topic, topic)})


def test_a_topic_that_clients_of_the_target_use_stays() -> None:
    with pytest.raises(ConfigError, match=r"^clients of orders-eu are on green now.*kproxy migrate rollback first"):
        check("orders-eu", _WAVE)
    with pytest.raises(ConfigError, match=r"^clients are on green now"):  # it is not known what these read
        check("clicks", _CONSUMERS)
    with pytest.raises(ConfigError, match=r"^clients are on green now"):
        check("clicks", decision=JournalDecision.RELEASED)
    with pytest.raises(ConfigError, match=r"^clients are on green now"):  # a rollback that was undone
        check("clicks", what=ROLLBACK)


def test_other_topics_go_and_all_of_them_by_force() -> None:
    check("clicks")
    check("clicks", _WAVE)
    check("clicks", _WAVE, _CONSUMERS, what=ROLLBACK, decision=JournalDecision.RELEASED)
    check("orders-eu", _WAVE, _CONSUMERS, decision=JournalDecision.RELEASED, force=True)
