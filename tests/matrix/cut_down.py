"""An older kproxy: as tests.harness.programs.watched, with a table that lacks what the newest brokers have.

No broker newer than kproxy's table can be had. To a table that is cut down, today's newest broker is one.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from kproxy.protocol.wire.api import APIS
from tests.harness.programs.watched import watch

# API key → the newest version that this kproxy knows. As of Kafka 3.6, roughly: before KIP-951 and transactions v2.
NEWEST = {
    0: 9,  # Produce
    1: 15,  # Fetch
    3: 11,  # Metadata
    10: 3,  # FindCoordinator: one key for each request
    18: 3,  # ApiVersions
    22: 4,  # InitProducerId
    24: 3,  # AddPartitionsToTxn
    26: 3,  # EndTxn
    28: 3,  # TxnOffsetCommit
    60: 0,  # DescribeCluster
}
# It has never heard of these: KIP-848 groups, telemetry, DescribeTopicPartitions, everything newer.
UNKNOWN = range(68, 100)


def cut_down() -> None:
    """Lower the table; before anything has read it."""
    for key, newest in NEWEST.items():
        APIS[key] = dataclasses.replace(APIS[key], newest=newest)
    for key in UNKNOWN:
        APIS.pop(key, None)


if __name__ == "__main__":
    cut_down()
    watch(Path(sys.argv[1]), [name.encode() for name in sys.argv[2].split(",")])
    sys.argv = ["kproxy", *sys.argv[4:]]
    from kproxy.cli import main

    main()
