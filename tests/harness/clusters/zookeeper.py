"""A cluster of a version of Kafka that needs ZooKeeper, or that uses it for features that KRaft lacks."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.base.watchdog import Watchdog
from kproxy.dev.devcluster import CLIENT, DEFAULT_ADVERTISED, INTERNAL, ListenerSpec
from kproxy.dev.devcluster.node import NodeProcess
from kproxy.dev.devcluster.properties import NodeListener
from kproxy.dev.devcluster.readiness import live_brokers
from kproxy.dev.devcluster.tools import Programs
from kproxy.net.freeports import HOST, free_ports

_HEAP = "192m"
_START_S = 240
_POLL_S = 0.1


@contextmanager
def with_zookeeper(
    version: str, node_ids: Sequence[int], properties: Mapping[str, str] | None = None, heap: str = _HEAP
) -> Iterator[ZooKeeperCluster]:
    """Start brokers with these ids. The properties override the cluster's. Raises UpstreamError on failure."""
    programs = Programs.of(version)
    directory = Path(tempfile.mkdtemp(prefix="kproxy-zookeeper-"))
    watchdog = Watchdog()
    watchdog.remove(directory)
    cluster = ZooKeeperCluster(directory, programs, watchdog, node_ids, properties or {}, heap)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)
        watchdog.close()


class ZooKeeperCluster:
    """Brokers of a version that needs ZooKeeper, and one ZooKeeper; listeners as DevCluster's brokers have them."""

    def __init__(
        self, directory: Path, programs: Programs, watchdog: Watchdog, node_ids: Sequence[int],
        properties: Mapping[str, str], heap: str,
    ) -> None:  # fmt: skip
        self._programs, self._watchdog = programs, watchdog
        self._more, self._heap = properties, heap
        self.zookeeper = ""
        """The address of ZooKeeper, once it has started."""
        self._zookeeper = NodeProcess(0, directory / "zookeeper")
        self._brokers = [NodeProcess(node_id, directory / f"node-{node_id}") for node_id in node_ids]

    @property
    def programs(self) -> Programs:
        """Kafka's programs of this version."""
        return self._programs

    @property
    def bootstrap(self) -> str:
        """The real addresses of the client listeners."""
        return ",".join(str(address) for address in self.dial.values())

    @property
    def direct_bootstrap(self) -> str:
        """The inter-broker listeners, which advertise their real addresses."""
        return ",".join(str(node.bound(INTERNAL)) for node in self._brokers)

    @property
    def dial(self) -> dict[int, Address]:
        """The real addresses of client listeners by node id."""
        return {node.id: node.bound(CLIENT) for node in self._brokers}

    @property
    def advertised(self) -> dict[int, Address]:
        """The advertised addresses of client listeners by node id."""
        return {node.id: node.listeners[CLIENT].advertised for node in self._brokers}

    def start(self) -> None:
        """Start all nodes; try again with other ports if another process has taken one."""
        for attempt in range(5):
            self._configure()
            main = "org.apache.zookeeper.server.ZooKeeperServerMain"
            self._zookeeper.start(self._programs, _HEAP, self._watchdog, main)
            for broker in self._brokers:
                broker.start(self._programs, self._heap, self._watchdog)
            try:
                return self._wait_ready()
            except UpstreamError:
                if attempt == 4 or not any(node.could_not_bind for node in (self._zookeeper, *self._brokers)):
                    raise
                self.stop()

    def stop(self) -> None:
        """End the brokers, then ZooKeeper, which they need to end cleanly."""
        for nodes in (self._brokers, [self._zookeeper]):
            for node in nodes:
                node.terminate()
            until = time.monotonic() + 15
            for node in nodes:
                if not node.wait(max(0.0, until - time.monotonic()), self._watchdog):
                    node.kill()
                    node.wait(30, self._watchdog)

    def _configure(self) -> None:
        zookeeper_port, *ports = free_ports(1 + 2 * len(self._brokers))
        self.zookeeper = f"{HOST}:{zookeeper_port}"
        self._zookeeper.write(
            {
                "dataDir": str(self._zookeeper.data),
                "clientPort": str(zookeeper_port),
                "clientPortAddress": HOST,
                "maxClientCnxns": "0",
                "admin.enableServer": "false",
            }
        )
        specs = (ListenerSpec(INTERNAL), ListenerSpec(CLIENT, DEFAULT_ADVERTISED))
        for broker in self._brokers:
            broker.listeners = {}
            for spec in specs:
                port = ports.pop()
                said = spec.advertise(broker.id, port)
                broker.listeners[spec.name] = NodeListener(spec.name, Address(HOST, port), said)
            broker.write({**_properties(broker, self.zookeeper, len(self._brokers)), **self._more})

    def _wait_ready(self) -> None:
        wanted = {node.id for node in self._brokers}
        until = time.monotonic() + _START_S
        while not all(_knows(broker, wanted) for broker in self._brokers):
            for node in (self._zookeeper, *self._brokers):
                if node.exit_code is not None:
                    raise UpstreamError("other", node.complaint())
            if time.monotonic() > until:
                raise UpstreamError("timeout", f"the brokers are not ready after {_START_S} s")
            time.sleep(_POLL_S)


def _knows(broker: NodeProcess, wanted: set[int]) -> bool:
    try:
        return all(live_brokers(broker.bound(name)).keys() >= wanted for name in (INTERNAL, CLIENT))
    except OSError:
        return False


def _properties(broker: NodeProcess, zookeeper: str, brokers: int) -> dict[str, str]:
    factor, in_sync = str(min(3, brokers)), "2" if brokers >= 3 else "1"
    listeners = broker.listeners.values()
    return {
        "broker.id": str(broker.id),
        # Its default, 1000, would make node 1001 look like one that a broker chose for itself.
        "reserved.broker.max.id": "100000",
        "zookeeper.connect": zookeeper,
        # ZooKeeper starts at the same time, and on a busy machine takes longer than the 18 s of the default.
        "zookeeper.connection.timeout.ms": str(_START_S * 1000),
        "listeners": ",".join(f"{one.name}://{one.bound}" for one in listeners),
        "advertised.listeners": ",".join(f"{one.name}://{one.advertised}" for one in listeners),
        "listener.security.protocol.map": ",".join(f"{one.name}:PLAINTEXT" for one in listeners),
        "inter.broker.listener.name": INTERNAL,
        "log.dirs": str(broker.data),
        "num.partitions": "3",
        "default.replication.factor": factor,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": factor,
        "offsets.topic.num.partitions": "10",
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "10",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
        "log.index.size.max.bytes": str(1 << 20),
    }
