"""Where it all happens: a cluster, another one whose brokers have the same ids and names, and the lines to them.

Every node has one line with two ports of this run. The *front* stays for ever: it is what kproxy has as a bootstrap
server. The *side* is the port that the node advertises, with a name that resolves nowhere; another one when it moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from threading import Lock
from time import monotonic

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    OffsetSpec,
)

from kproxy.dev.devcluster import DevCluster
from kproxy.net.freeports import HOST
from tests.harness.clients.flow import create_topic
from tests.harness.process import wait_until
from tests.soak.ports import Ports
from tests.soak.switch import Line, Switch

DOMAIN = "cluster.internal"
"""A part of every advertised name; no client may ever see it."""

_READ_SECONDS = 60


class Site:
    """`here` is the cluster that clients are to reach, `there` is the other one."""

    def __init__(self, here: DevCluster, there: DevCluster, switch: Switch, ports: Ports, ten: int) -> None:
        self.here = here
        self.there = there
        self._ports = ports
        self._asking_there = Lock()  # while a broker of the other cluster is started again it cannot answer
        self._names = count(1)
        self._sides = {node: ten * 10 + node for node in here.node_ids}
        self._fronts = {node: ports.one() for node in here.node_ids}
        self.lines: dict[int, Line] = {}
        self.topics: list[tuple[str, int]] = []
        for node, address in here.dial.items():
            line = self.lines[node] = switch.line(address)
            line.listen(self._fronts[node])
            line.listen(self._sides[node])

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._fronts.values())

    def front(self, node: int) -> str:
        return f"{HOST}:{self._fronts[node]}"

    def create_topic(self, name: str, partitions: int) -> None:
        """In both clusters, so that in the other one a write would succeed too."""
        self.topics.append((name, partitions))
        for cluster in (self.here, self.there):
            create_topic(cluster.direct_bootstrap, name, partitions)

    # What happens to a node

    def restart(self, node: int, *, moved: bool = False, renamed: bool = False) -> str:
        """Start a broker again, at another port or under another name if so; what it then advertises."""
        before = self.here.advertised[node]
        port = self._ports.one() if moved else before.port
        host = f"moved-{next(self._names)}-{{id}}.{DOMAIN}" if renamed else before.host
        if moved:
            self.lines[node].listen(port)
        self.here.restart(node, new_port=moved, advertised=f"{host}:{port}" if moved or renamed else None)
        self.lines[node].move(self.here.dial[node])
        if moved:
            self.lines[node].leave(self._sides[node])
            self._sides[node] = port
        if (moved or renamed) and node in self.there.node_ids:
            # The other one of this id has the same name again: it is what must be told apart by more than its name.
            with self._asking_there:
                self.there.restart(node, advertised=f"{host}:{port}")
        return str(self.here.advertised[node])

    def heal(self) -> None:
        """Every line leads home, and every broker runs."""
        for line in self.lines.values():
            line.refuse(False)
            line.hold(False)
            line.lead(None, reset=True)
        for cluster in (self.here, self.there):
            for node in set(cluster.node_ids) - set(cluster.running):
                cluster.restart(node)
            cluster.wait_ready()
        for node, line in self.lines.items():
            line.move(self.here.dial[node])

    # What is in the logs

    def strays(self) -> list[str]:
        """What the other cluster has that nobody may have brought there; empty if nothing."""
        with self._asking_there:
            ends, names = wait_until(self._look_there, "the other cluster says what it has", _READ_SECONDS)
        found = [f"{end} records of {where} are in the other cluster" for where, end in ends.items() if end]
        more = names - {name for name, _ in self.topics}
        return found + [f"the other cluster has a topic {name}, which a client caused" for name in sorted(more)]

    def _look_there(self) -> tuple[dict[str, int], set[str]] | None:
        """The end of each partition, and all topics; None if it cannot say, soon after a restart."""
        admin = AdminClient({"bootstrap.servers": self.there.direct_bootstrap, "log_level": 2})
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(name, number): latest for name, count in self.topics for number in range(count)}
        try:
            ends = {f"{w.topic}-{w.partition}": f.result(30).offset for w, f in admin.list_offsets(wanted).items()}
            # librdkafka gives OFFSET_INVALID (-1001) for the partitions of a broker that did not answer.
            return None if min(ends.values()) < 0 else (ends, set(admin.list_topics(timeout=30).topics))
        except KafkaException:
            return None

    def read(self, topic: str, partitions: int) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
        """Partition, offset, key and value of everything in a topic, read from the brokers themselves."""
        reader = Consumer(
            {
                "bootstrap.servers": self.here.direct_bootstrap,
                "group.id": "only-assigned",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "check.crcs": True,
            }
        )
        try:
            places = [TopicPartition(topic, number, 0) for number in range(partitions)]
            ends = {one.partition: reader.get_watermark_offsets(one, timeout=30)[1] for one in places}
            reader.assign(places)
            left = sum(ends.values())
            patience = monotonic() + _READ_SECONDS
            while left:
                messages = reader.consume(10_000, timeout=0.2)
                if messages:
                    patience = monotonic() + _READ_SECONDS
                elif monotonic() > patience:
                    raise AssertionError(f"{left} records of {topic} cannot be read from the brokers")
                for message in messages:
                    error, partition, offset = message.error(), message.partition(), message.offset()
                    if error is not None:
                        assert error.retriable(), error
                        continue
                    assert partition is not None
                    assert offset is not None
                    if offset < ends[partition]:
                        left -= 1
                        yield partition, offset, message.key(), message.value()
        finally:
            reader.close()


@contextmanager
def site(brokers: Sequence[int], twins: Sequence[int]) -> Iterator[Site]:
    """A cluster of these brokers, and another one of `twins`, which are some of them again."""
    with ExitStack() as held:
        ports = held.enter_context(Ports())
        ten = ports.ten()
        advertised = f"kafka-{{id}}.{DOMAIN}:{ten}{{id}}"
        clusters = [DevCluster(nodes, advertised=advertised) for nodes in (brokers, twins)]
        for cluster in clusters:
            held.callback(cluster.stop)
        with ThreadPoolExecutor(2) as pool:
            here, there = pool.map(lambda cluster: cluster.start(), clusters)
        switch = held.enter_context(Switch())
        yield Site(here, there, switch, ports, ten)
