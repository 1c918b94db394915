"""What prepare did, as the state topic keeps it."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from kproxy.base.errors import WireError
from kproxy.migrate.clusters.inventory import Acl
from kproxy.migrate.copier.state import PartitionState, state_key
from kproxy.migrate.offsets.groupsync import parse_journal
from kproxy.migrate.plan.changes import (
    AddPartitions,
    AlterTopic,
    Change,
    CreateAcl,
    CreateState,
    CreateTopic,
    MigrationHistory,
    SetQuota,
)
from kproxy.migrate.prepare import change_journal
from kproxy.migrate.prepare.change_journal import (
    ChangeJournal,
    JournaledChange,
    RaiseProducerIds,
    from_record,
    history_of,
    read_changes,
    to_record,
)
from kproxy.migrate.verify.results import parse_verified_ranges

CHANGES: list[Change | RaiseProducerIds] = [
    CreateState("s"),
    CreateTopic("t", 3, None, {"retention.ms": "-1"}, {"retention.ms": None}),
    AddPartitions("u", 1, 2),
    AlterTopic("u", {"a": None}, {"a": "1"}, {"a": "2"}),
    CreateAcl(Acl(2, "t", 4, "User:ü", "*", 3, 3)),
    SetQuota((("client-id", None), ("user", "u")), {"q": None}, {"q": 1.5}),
    RaiseProducerIds(1 << 40),
]


def journal(*changes: Change | RaiseProducerIds) -> dict[bytes, bytes]:
    records = {
        state_key("journal", number): json.dumps(to_record(change)).encode() for number, change in enumerate(changes)
    }
    return {b'["job"]': b"{}", **dict(reversed(records.items()))}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.kind)
def test_a_change_is_read_as_it_was_written(change: Change | RaiseProducerIds) -> None:
    assert from_record(json.loads(json.dumps(to_record(change)))) == change


def test_in_the_order_of_what_was_done() -> None:
    assert read_changes(journal(*CHANGES)) == [JournaledChange(number, change) for number, change in enumerate(CHANGES)]
    many = [RaiseProducerIds(number) for number in range(12)]
    assert [entry.number for entry in read_changes(journal(*many))] == list(range(12))


@pytest.mark.parametrize("record", [{}, {"v": 1}, {"v": 1, "kind": "other"}, {"v": 1, "kind": "topic", "topic": "t"},
                                    {"v": 1, "kind": "acl", "acl": [1]}])  # fmt: skip
def test_what_kproxy_did_not_write(record: dict[str, object]) -> None:
    with pytest.raises(WireError, match="the state topic has a journal that kproxy did not write"):
        from_record(record)


def test_a_newer_kproxy() -> None:
    with pytest.raises(WireError, match="was written by a newer kproxy: update this one"):
        from_record({"v": 2})


def test_what_is_known_of_the_past() -> None:
    later = AlterTopic("t", {}, {}, {"retention.ms": "5"})
    state = PartitionState("copied", 0, 1, 1).to_json()
    assert history_of({**journal(*CHANGES, later), state_key("partition", "source", 0): state}) == MigrationHistory(
        {"t": {"retention.ms": "5"}, "u": {"a": "2"}}, frozenset({"copied"}), frozenset({"t"}), has_state_topic=True
    )


@pytest.mark.parametrize(
    "name",
    [b'["journal",', b'["journal",]', b'["journal","x"]', b'["journal",null]', b'["journal",{}]', b'["journal",[]]'],
)
def test_a_foreign_key_in_the_journal_is_one_line(name: bytes) -> None:
    with pytest.raises(WireError, match="that kproxy did not write"):
        read_changes({name: b"{}"})


@pytest.mark.parametrize("name", [b'["verified",', b"\xff", b"{}"])
def test_a_foreign_key_elsewhere_is_one_line(name: bytes) -> None:
    for read in (parse_verified_ranges, parse_journal):
        with pytest.raises(WireError, match="that kproxy did not write"):
            read({name: b"{}"})


def test_a_copy_is_forgotten_by_whole_partitions_and_its_identity_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a failure between two transactions leaves nothing that contradicts itself."""
    removed: list[list[bytes]] = []
    monkeypatch.setattr(change_journal, "_MAX_REMOVED", 4)
    monkeypatch.setattr(ChangeJournal, "_write", lambda self, records: removed.append([*records]))
    kept = [state_key("topic", "b"), state_key("partition", "b", 0), state_key("offsets", "a"), state_key("job")]
    own = {
        partition: [state_key("map", "a", partition, begin) for begin in range(partition)]
        + [state_key("partition", "a", partition), state_key("verified", "a", partition)]
        for partition in range(4)
    }
    values = dict.fromkeys([state_key("topic", "a"), *kept, *chain.from_iterable(own.values())], b"{}")
    with ChangeJournal("127.0.0.1:1", "move") as journal:
        journal.forget_copies({"a"}, values)
    assert sorted(chain.from_iterable(removed)) == sorted(set(values) - set(kept))
    for keys in own.values():
        assert sum(bool(set(keys) & set(written)) for written in removed) == 1
    assert removed[-1][-1] == state_key("topic", "a")
    assert len(removed) > 1
