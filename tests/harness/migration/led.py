"""A kproxy process that switches clients from one Kafka cluster to another, with all steps but without Spark.

The switch holds, ends open transactions, copies, translates positions, flips, commits and releases.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.groups import read_occupied_groups
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.offsets.groupsync import GroupResult
from kproxy.migrate.switch.transactions import end_transactions, open_transactions
from tests.harness.clients.going import Going
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.carried import carry_all, carry_topics, positions
from tests.harness.migration.switched import GREEN, Switched
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

    def switch(self, prefix: str, switch: str = "x", to: str = GREEN) -> Led:
        """Switch all clients, with the topics and the groups that have such names; return what leads back."""
        self.copy(prefix)
        self.kproxy.hold(switch, to)
        self.end_transactions()
        self.groups = carry_all(self.sides, prefix)
        self.kproxy.must("flip", switch)
        return self.release(switch)

    def release(self, switch: str) -> Led:
        """Commit and release; return what leads back: it copies what clients write from here on."""
        sides = self.sides
        with ClusterClient(sides.target) as target:
            begins = target.list_offsets(sorted(sides.state()), requests.LATEST)
        self.kproxy.must("commit", switch)
        self.kproxy.must("release", switch)
        back = TwoSides(sides.target, sides.source, [*reversed(sides.clusters)], begins=begins)
        return replace(self, sides=back, ended=[], groups=[])

    def may_be_carried(self, group: str, partitions: int = 1) -> bool:
        """Check whether the copy knows the group's positions, of so many partitions at least, and the group has no
        member in the other cluster."""
        here = {(each.topic, each.partition): each.offset for each in positions(self.sides.source, group)}
        if len(here) < partitions or any(offset < self.sides.begins.get(place, 1) for place, offset in here.items()):
            return False
        with Admin(self.sides.target) as admin:
            return not read_occupied_groups(admin, group.__eq__)

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
