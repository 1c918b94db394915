"""Where it all happens: a cluster, another one whose brokers have the same ids and names, and the lines to them.

Every node has one line with two ports of this run. The *front* stays for ever: it is what kproxy has as a bootstrap
server. The *side* is the port that the node advertises, with a name that resolves nowhere; another one when it moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

from kproxy.base.address import Address
from kproxy.dev.devcluster import DevCluster
from kproxy.net.freeports import HOST
from tests.harness.clients.flow import JavaFlow, create_topic
from tests.harness.process import wait_until
from tests.soak.arrivals import Server
from tests.soak.ports import Ports
from tests.soak.records import Account, Audit
from tests.soak.switch import Line, Switch

DOMAIN = "cluster.internal"
"""A part of every advertised name; no client may ever see it."""

_READ_SECONDS = 60
_OWNERS = ("the own", "the other cluster's")


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
        self.arrivals = switch.arrivals
        self.lines: dict[int, Line] = {}
        self.topics: list[tuple[str, int]] = []
        for node, address in here.dial.items():
            line = self.lines[node] = switch.line(address)
            line.listen(self._fronts[node])
            line.listen(self._sides[node])
        for cluster in (here, there):
            name = f"{_OWNERS[cluster is there]} controller"
            self.arrivals.register(self.controller(cluster), Server(name, -1, cluster is here, controller=True))
            for node in cluster.node_ids:
                self._register(cluster, node)

    def _register(self, cluster: DevCluster, node: int) -> None:
        """Note where a broker listens."""
        is_other = cluster is self.there
        server = Server(f"{_OWNERS[is_other]} broker {node}", node, not is_other)
        self.arrivals.register(cluster.dial[node], server)

    @staticmethod
    def controller(cluster: DevCluster) -> Address:
        """Return where the controller of a cluster listens."""
        return Address.parse(cluster.controller_bootstrap)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._fronts.values())

    def front(self, node: int) -> str:
        return f"{HOST}:{self._fronts[node]}"

    def create_topic(self, name: str, partitions: int, node: int | None = None) -> None:
        """Create a topic in both clusters, so that in the other one a write would succeed too.

        With `node`, this broker alone has it, in the other cluster too if that has such a broker.
        """
        self.topics.append((name, partitions))
        for cluster in (self.here, self.there):
            alone = [[node]] * partitions if node is not None and node in cluster.node_ids else None
            create_topic(cluster.direct_bootstrap, name, partitions, alone)

    # What happens to a node

    def restart(self, node: int, *, moved: bool = False, renamed: bool = False) -> str:
        """Start a broker again, at another port or under another name if so; what it then advertises."""
        before = self.here.advertised[node]
        port = self._ports.one() if moved else before.port
        host = f"moved-{next(self._names)}-{{id}}.{DOMAIN}" if renamed else before.host
        if moved:
            self.lines[node].listen(port)
        self.here.restart(node, new_port=moved, advertised=f"{host}:{port}" if moved or renamed else None)
        self._register(self.here, node)
        self.lines[node].move(self.here.dial[node])
        if moved:
            self.lines[node].leave(self._sides[node])
            self._sides[node] = port
        if (moved or renamed) and node in self.there.node_ids:
            # The other one of this id has the same name again: it is what must be told apart by more than its name.
            with self._asking_there:
                self.there.restart(node, advertised=f"{host}:{port}")
                self._register(self.there, node)
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

    def audit(self, account: Account) -> list[str]:
        """Compare the log with what was sent and acknowledged; return what differs."""
        if account.acknowledged != account.sent:
            return [f"{account.topic}: {account.acknowledged} acknowledged of {account.sent}"]
        audit = Audit(account)
        for row in self.read(account.topic, len(account.partitions)):
            audit.add(*row)
        return audit.problems()

    def check_java(self, java: JavaFlow, topic: str, partitions: int) -> None:
        """Check that its consumer has read what is in the log; that each number is there once, it has checked itself.

        Raises AssertionError.
        """
        log = {(p, offset): int(value or b"") for p, offset, _, value in self.read(topic, partitions)}
        read = {(p, offset): number for p, seen in java.log.seen.items() for offset, number in seen.items()}
        assert log == read, (
            f"java: {len(log)} records in the log, {len(read)} read, {len(log.items() ^ read.items())} differ"
        )


@contextmanager
def site(brokers: Sequence[int], twins: Sequence[int], properties: Mapping[str, str] | None = None) -> Iterator[Site]:
    """A cluster of these brokers, and another one of `twins`, which are some of them again."""
    with ExitStack() as held:
        ports = held.enter_context(Ports())
        ten = ports.ten()
        advertised = f"kafka-{{id}}.{DOMAIN}:{ten}{{id}}"
        clusters = [DevCluster(nodes, advertised=advertised, properties=properties) for nodes in (brokers, twins)]
        for cluster in clusters:
            held.callback(cluster.stop)
        with ThreadPoolExecutor(2) as pool:
            here, there = pool.map(lambda cluster: cluster.start(), clusters)
        switch = held.enter_context(Switch())
        yield Site(here, there, switch, ports, ten)
