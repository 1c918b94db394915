"""A kproxy process that switches clients from one Kafka cluster to another, with all steps but without Spark.

The switch holds, ends open transactions, copies, translates positions, flips, commits and releases.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.offsets.groupsync import GroupResult
from kproxy.migrate.switch.transactions import end_transactions, open_transactions
from tests.harness.clients.going import Going
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.carried import carry_all, carry_topics
from tests.harness.migration.switched import Switched
from tests.harness.topics import read_topic

_SECONDS = 20.0
# So that the copies of the first records are many transactions: each leaves a marker, and other offsets.
_SMALL = 4096


@dataclass
class Led:
    """`ended`: transactional ids whose transactions a switch has ended; `groups`: the result for each group."""

    sides: TwoSides
    kproxy: Switched
    logs: Path
    clients: ExitStack = field(default_factory=ExitStack)
    ended: list[str] = field(default_factory=list)
    groups: list[GroupResult] = field(default_factory=list)

    def start(self, client: Going) -> Going:
        """Start kproxy; it runs until the end of the test."""
        return self.clients.enter_context(client)

    def copy(self, prefix: str) -> None:
        """Copy the topics with such names before the switch, so that offsets differ on green."""
        carry_topics(self.sides, prefix, size=_SMALL)

    def switch(self, prefix: str) -> None:
        """Switch all clients to green, with the topics and the groups that have such names."""
        self.copy(prefix)
        self.kproxy.hold()
        self.end_transactions()
        self.groups = carry_all(self.sides, prefix)
        self.kproxy.must("flip")
        self.kproxy.must("commit")
        self.kproxy.must("release")

    def end_transactions(self) -> None:
        until = time.monotonic() + _SECONDS
        with Admin(self.sides.source) as admin:
            ids = [one.id for one in open_transactions(admin, until) or ()]
        assert not end_transactions(self.sides.source, ids, until)
        self.ended += ids

    def on_green(self, topic: str, partitions: int) -> list[list[str]]:
        """Return the committed records of each partition on green."""
        found: list[list[str]] = [[] for _ in range(partitions)]
        for message in read_topic(self.sides.target, topic, partitions, **{"isolation.level": "read_committed"}):
            partition, value = message.partition(), message.value()
            assert partition is not None
            found[partition].append((value or b"").decode())
        return found
