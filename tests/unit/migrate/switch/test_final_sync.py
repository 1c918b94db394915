"""Where a log ends: not before the markers of the last transaction are there."""

from __future__ import annotations

import time
from collections.abc import Collection

import pytest

from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.switch.final_sync import FinalSyncError, read_settled_ends

WHERE = ("t", 0)


class Slow(ClusterClient):
    """A cluster that writes the marker of a transaction some questions after it has acknowledged its end."""

    def __init__(self, after: int) -> None:
        super().__init__("a:1")
        self.left = after

    def list_offsets(
        self, partitions: Collection[TopicPartition], which: int, *, committed: bool = True
    ) -> dict[TopicPartition, int]:
        self.left -= 1
        return {WHERE: 12 if committed and self.left > 0 else 20} if WHERE in partitions else {}


def ends(cluster: Slow, seconds: float, *more: TopicPartition) -> dict[TopicPartition, int]:
    return read_settled_ends(cluster, [WHERE, *more], time.monotonic() + seconds, "on the source")


def test_the_end_is_that_behind_the_marker() -> None:
    assert ends(Slow(5), 30) == {WHERE: 20}


def test_a_transaction_that_does_not_end() -> None:
    with pytest.raises(FinalSyncError, match="partition 0 of t on the source has an open transaction: kafka-trans"):
        ends(Slow(10**9), 0)


def test_a_partition_without_a_leader() -> None:
    with pytest.raises(FinalSyncError, match="no broker at a:1 returned offsets for u-3"):
        ends(Slow(0), 0, ("u", 3))
