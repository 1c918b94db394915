"""A filter for isolation.level=read_committed: drops markers, and the batches of aborted transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop

from kproxy.protocol.records.header import ABORT, Batch


def filter_committed(batches: Iterable[Batch], aborted: Iterable[tuple[int, int]] | None) -> Iterator[Batch]:
    """Return the batches that a read_committed consumer sees, of one partition in one Fetch response (KIP-98).

    `aborted` has the response's aborted transactions, (producer id, first offset) of each; None is as good as none.
    """
    waiting = [(first_offset, producer_id) for producer_id, first_offset in aborted or ()]
    heapify(waiting)
    aborted_producers: set[int] = set()
    for batch in batches:
        if batch.producer_id >= 0:
            last_offset = batch.last_offset
            while waiting and waiting[0][0] <= last_offset:
                aborted_producers.add(heappop(waiting)[1])
            if batch.is_control:
                if batch.control == ABORT:
                    aborted_producers.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in aborted_producers:
                continue
        if not batch.is_control:
            yield batch
