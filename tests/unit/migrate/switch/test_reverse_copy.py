"""Where the way back begins: not before the markers of the last transaction are there."""

from __future__ import annotations

import time

import pytest

from kproxy.migrate.switch import reverse_copy
from kproxy.migrate.switch.final_sync import FinalSyncError

WHERE = ("t", 0)


class Slow:
    """A cluster that writes the marker of a transaction some questions after it has acknowledged its end."""

    def __init__(self, after: int) -> None:
        self.left = after

    def list_offsets(self, partitions: object, which: int, *, committed: bool = True) -> dict[tuple[str, int], int]:
        self.left -= 1
        return {WHERE: 12 if committed and self.left > 0 else 20}

    def invalidate(self) -> None: ...

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *_: object) -> None: ...


def test_the_end_is_that_behind_the_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reverse_copy, "ClusterClient", lambda _: Slow(5))
    assert reverse_copy.read_settled_ends("a:1", {WHERE: 0}, time.monotonic() + 30) == {WHERE: 20}


def test_a_transaction_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reverse_copy, "ClusterClient", lambda _: Slow(10**9))
    with pytest.raises(
        FinalSyncError, match="partition 0 of t, on the side to which clients are moved, has an open transaction"
    ):
        reverse_copy.read_settled_ends("a:1", {WHERE: 0}, time.monotonic())


def test_a_partition_without_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reverse_copy, "ClusterClient", lambda _: Slow(0))
    with pytest.raises(FinalSyncError, match="partition 3 of u"):
        reverse_copy.read_settled_ends("a:1", {WHERE: 0, ("u", 3): 0}, time.monotonic())
