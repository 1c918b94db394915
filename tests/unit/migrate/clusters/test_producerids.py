"""From which producer id on none of the source's can be met."""

from __future__ import annotations

import pytest

from kproxy.migrate.clusters.producerids import ProducerIdUsage


@pytest.mark.parametrize(
    ("known", "floor"),
    [
        (ProducerIdUsage(None, None, 1), 0),
        (ProducerIdUsage(41, None, 3), 42),
        (ProducerIdUsage(None, 10, 1), 2011),  # the broker may have two blocks of 1000 more
        (ProducerIdUsage(5, 10, 3), 6011),
        (ProducerIdUsage(100_000, 10, 3), 100_001),  # records that were copied from yet another cluster
    ],
)
def test_floor(known: ProducerIdUsage, floor: int) -> None:
    assert known.floor == floor
