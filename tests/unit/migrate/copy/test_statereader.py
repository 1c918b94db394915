"""What both threads of a copy see of the state topic."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from kproxy.base.errors import UpstreamError
from kproxy.migrate.copier.state import PartitionState, state_key, state_partition
from kproxy.migrate.copy import statereader
from kproxy.migrate.copy.statereader import StateReader


class Topic:
    """A state topic of four partitions, without a cluster."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.logs = [Mock(resume_offset=number * 10) for number in range(4)]
        self.read = Mock()

    def copy(self, partition: int, upto: int) -> None:
        state = PartitionState("t", 0, upto, upto, upto, upto)
        self.values = {**self.values, state_key("partition", "t", partition): state.to_json()}


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(statereader, "read_state_topic", lambda *_: made)
    return made


def test_a_snapshot_has_what_was_copied_by_then(topic: Topic) -> None:
    reader = StateReader("target:1", "move")
    topic.copy(0, 10)
    topic.copy(1, 5)
    before = reader.read()
    topic.copy(0, 20)
    after = reader.read()
    assert {place: state.source_next for place, state in before.states.items()} == {("t", 0): 10, ("t", 1): 5}
    assert {place: state.source_next for place, state in after.states.items()} == {("t", 0): 20, ("t", 1): 5}
    assert after.states["t", 1] is before.states["t", 1], "what has not changed is not parsed again"
    assert after.resume_offset(("t", 1)) == 10 * state_partition(state_key("partition", "t", 1), 4)
    topic.values = {state_key("topic", "t"): b"{}"}
    assert reader.read().states == {}


def test_a_commit_whose_marker_is_not_written_yet(topic: Topic) -> None:
    """The next round would else begin where the last one began."""
    reader = StateReader("target:1", "move")
    topic.copy(0, 10)
    reader.read()
    reader.add_committed({("t", at): PartitionState("t", 0, 20, 20, 20, 20) for at in (0, 1)})
    assert {place: state.source_next for place, state in reader.read().states.items()} == {("t", 0): 20, ("t", 1): 20}
    topic.copy(0, 30)
    assert reader.read().states["t", 0].source_next == 30
    topic.copy(0, 25)  # another process has put it back
    assert reader.read().states["t", 0].source_next == 25
    assert reader.read().states["t", 1].source_next == 20
    topic.values = {state_key("topic", "t"): b"{}"}
    assert reader.read().states == {}


def test_connections_that_failed_are_not_used_again(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = StateReader("target:1", "move")
    monkeypatch.setattr(reader, "_cluster", Mock())
    topic.read.side_effect = UpstreamError("closed", "gone")
    with pytest.raises(UpstreamError):
        reader.read()
    reader._cluster.invalidate.assert_called_once_with()  # type: ignore[attr-defined]
