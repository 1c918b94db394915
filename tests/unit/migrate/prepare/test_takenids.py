"""The producer ids that kproxy has used up, in the state topic."""

from __future__ import annotations

import json

import pytest

from kproxy.base.errors import WireError
from kproxy.migrate.clusters.producerids import id_ranges
from kproxy.migrate.copier.state import state_key
from kproxy.migrate.prepare import takenids


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    """The values of the state topic."""
    values: dict[bytes, bytes] = {}

    def write(target: str, name: str, records: dict[bytes, object], suffix: str) -> None:
        values.update({key: json.dumps(value).encode() for key, value in records.items()})

    monkeypatch.setattr(takenids, "write_once", write)
    monkeypatch.setattr(
        takenids, "read_state", lambda target, name, chosen: {key: values[key] for key in values if chosen(key)}
    )
    return values


def test_ranges_leave_out_what_clients_got_in_between() -> None:
    assert id_ranges([]) == []
    assert id_ranges([5, 3, 4, 9, 7, 8, 1]) == [(1, 1), (3, 5), (7, 9)]


def test_each_raise_is_remembered(state: dict[bytes, bytes]) -> None:
    state[state_key("partition", "a", 0)] = b"{}"
    takenids.record_taken_ids("h:1", "move", [(10, 19), (30, 39)])
    takenids.record_taken_ids("h:1", "move", [])
    takenids.record_taken_ids("h:1", "move", [(100, 100)])
    assert sorted(takenids.read_taken_ids("h:1", "move")) == [(10, 19), (30, 39), (100, 100)]


def test_the_largest_ranges_are_kept(state: dict[bytes, bytes]) -> None:
    takenids.record_taken_ids("h:1", "move", [(3 * number, 3 * number) for number in range(2000)] + [(9000, 9999)])
    kept = takenids.read_taken_ids("h:1", "move")
    assert len(kept) == 1000
    assert (9000, 9999) in kept


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{}", b'{"ranges": [[1]]}', b'{"ranges": [["a", 2]]}', b'{"ranges": 7}']
)
def test_what_kproxy_did_not_write_is_refused(state: dict[bytes, bytes], value: bytes) -> None:
    state[state_key("taken-ids", 7)] = value
    with pytest.raises(WireError, match="that kproxy did not write"):
        takenids.read_taken_ids("h:1", "move")


def test_only_ids_that_a_client_may_have_are_left() -> None:
    ids = {("a", 0): frozenset({5, 12}), ("a", 1): frozenset({11}), ("b", 0): frozenset({20})}
    assert takenids.without_taken_ids(ids, [(10, 19)]) == {("a", 0): [5], ("b", 0): [20]}
    assert takenids.without_taken_ids(ids, []) == {place: list(numbers) for place, numbers in ids.items()}
