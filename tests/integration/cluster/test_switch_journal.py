"""The journal of switches on real brokers: who takes over, and the record of all switches."""

from __future__ import annotations

import json
import platform

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs forget NewTopic

from kproxy.base.errors import ConfigError
from kproxy.migrate.copier.state import state_topic_name
from kproxy.migrate.copier.statetopic import read_state
from kproxy.migrate.journal.driver import current_user
from kproxy.migrate.journal.switch_journal import (
    SWITCHING,
    SwitchEntry,
    SwitchJournal,
    is_switch_key,
    read_history,
    read_last_switch,
)
from kproxy.proxy.switching.twophase import JournalDecision
from tests.harness.process import Kproxy, wait_until
from tests.harness.topics import unique

pytestmark = [
    pytest.mark.integration,
    # kafka-python reads its message definitions in an old way.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]


def entry(switch: str, began: int) -> SwitchEntry:
    return SwitchEntry(switch, SWITCHING, "default", "blue", "green", ("kp-1",), began=began)


def create_state_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(state_topic_name(name), 3, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([topic])[topic.topic].result(30)


def values_after(bootstrap: str, name: str, records: int) -> dict[bytes, bytes]:
    """The records of switches, once there are so many: brokers write the markers of a transaction after the answer that
    it is committed, and to one partition before another."""
    wait_until(lambda: len(read_state(bootstrap, name, is_switch_key)) >= records, f"{records} records are seen")
    return read_state(bootstrap, name, is_switch_key)


def test_each_switch_is_recorded_once(kproxy: Kproxy) -> None:
    name, bootstrap = unique("move"), kproxy.bootstrap
    create_state_topic(bootstrap, name)
    assert read_last_switch(bootstrap, name) is None
    for number, switch in enumerate(("a", "b", "c")):
        with SwitchJournal(bootstrap, name) as journal:
            journal.take_over()
            held = journal.write(entry(switch, number).with_decision("000001-x", JournalDecision.RELEASED))
            with SwitchJournal(bootstrap, name) as other:
                wait_until(lambda other=other, held=held: other.read() == held, "the record is seen")
            journal.write(held)
    values = values_after(bootstrap, name, 3)
    assert len(values) == 3, "no switch has two records"
    history = read_history(values)
    assert [each.switch for each in history] == ["a", "b", "c"]
    assert {(each.user, each.host) for each in history} == {(current_user(), platform.node())}
    last = read_last_switch(bootstrap, name)
    assert last == history[-1]
    assert json.loads(values[b'["former-switch","a"]'])["switch"] == "a"


def test_a_former_driver_records_nothing_more(kproxy: Kproxy) -> None:
    name, bootstrap = unique("move"), kproxy.bootstrap
    create_state_topic(bootstrap, name)
    with SwitchJournal(bootstrap, name) as former, SwitchJournal(bootstrap, name) as later:
        former.take_over()
        former.write(entry("a", 1))
        later.take_over()
        with pytest.raises(ConfigError, match="another driver has taken over"):
            former.write(entry("a", 1).with_decision("000001-x", JournalDecision.RELEASED))
        later.write(entry("b", 2))
    assert [each.switch for each in read_history(values_after(bootstrap, name, 2))] == ["a", "b"]
