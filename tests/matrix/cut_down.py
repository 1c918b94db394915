"""An older kproxy: as tests.harness.programs.watched, with a table that lacks what the newest brokers have.

No broker newer than kproxy's table can be had. To a table that is cut down, today's newest broker is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kproxy.protocol.wire.api import APIS, ApiKey
from tests.harness.programs.watched import watch

# API key → the newest version that this kproxy knows. As of Kafka 3.6, roughly: before KIP-951 and transactions v2.
NEWEST = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 15,
    ApiKey.METADATA: 11,
    ApiKey.FIND_COORDINATOR: 3,  # one key for each request
    ApiKey.API_VERSIONS: 3,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.DESCRIBE_CLUSTER: 0,
}
# It has never heard of these: KIP-848 groups, telemetry, DescribeTopicPartitions, everything newer.
UNKNOWN = range(68, 100)


def cut_down() -> None:
    """Lower the table; before anything has read it."""
    for key, newest in NEWEST.items():
        APIS[key].newest = newest
    for key in UNKNOWN:
        APIS.pop(key, None)


if __name__ == "__main__":
    cut_down()
    watch(Path(sys.argv[1]), [name.encode() for name in sys.argv[2].split(",")])
    sys.argv = ["kproxy", *sys.argv[4:]]
    from kproxy.cli import main

    main()
