"""Kafka nodes on one host, each started from its own file that a test may change, as administrators do.

The brokers advertise names that only this host can resolve, and use the same listener among themselves.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO

from kproxy.base.address import Address
from kproxy.dev.devcluster import DEFAULT_VERSION, Programs
from kproxy.dev.devcluster import properties as props
from kproxy.dev.devcluster.jars import cache_directory, exclusive_lock
from kproxy.dev.devcluster.node import NodeProcess
from kproxy.dev.devcluster.readiness import live_brokers
from kproxy.dev.devcluster.storage import format_storage
from tests.harness.network import Host, Network
from tests.harness.process import wait_until

CONTROLLER = 9
_SMALL = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
    "log.index.size.max.bytes": str(1 << 20),
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "initial.broker.registration.timeout.ms": "240000",
}


class FromFiles:
    """`count` brokers, 1 to N, at 10.8.0.1N:9092.

    `combined`: each is a controller too; else node 9 is the controller. Combined nodes use Kafka's defaults where
    possible. `more` goes into every file; if it moves the listener without TLS, readiness is checked at `asked`.
    """

    def __init__(
        self,
        network: Network,
        directory: Path,
        count: int,
        *,
        combined: bool,
        more: Mapping[str, str] | None = None,
        asked: int = 9092,
    ) -> None:
        self.brokers = list(range(1, count + 1))
        self.controllers = self.brokers if combined else [CONTROLLER]
        addresses = {node: f"10.8.0.1{node}" for node in sorted({*self.brokers, *self.controllers})}
        names = {f"kafka-{node}.farm.example": address for node, address in addresses.items()}
        self.host: Host = network.host("farm", *(f"{one}/24" for one in addresses.values()), names=names)
        self.programs = Programs.of(DEFAULT_VERSION)
        self.addresses = {node: Address(addresses[node], asked) for node in self.brokers}
        self.files = {node: {**self._file(node, addresses, combined), **(more or {})} for node in addresses}
        self._nodes = {node: NodeProcess(node, directory / f"node-{node}") for node in addresses}
        self._processes: dict[int, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}
        self.cluster_id = props.new_uuid()
        for node, one in self._nodes.items():
            file = {**self.files[node], "log.dirs": str(one.data)}
            self.files[node] = file
            if node in self.controllers:
                format_storage(self.programs, one, file, self.cluster_id)
            else:
                one.write(file)
                (one.data / "meta.properties").write_text(props.render(props.meta_properties(self.cluster_id, node)))

    def _file(self, node: int, addresses: Mapping[int, str], combined: bool) -> dict[str, str]:
        factor = str(min(3, len(self.brokers)))
        common = {
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{one}@{addresses[one]}:9093" for one in self.controllers),
            "controller.listener.names": "CONTROLLER",
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.min.isr": "1",
            **_SMALL,
        }
        own, controllers = f"PLAINTEXT://{addresses[node]}:9092", f"CONTROLLER://{addresses[node]}:9093"
        advertised = f"PLAINTEXT://kafka-{node}.farm.example:9092"
        if combined:
            return {
                "process.roles": "broker,controller", "listeners": f"{own},{controllers}",
                "advertised.listeners": advertised, **common,
            }  # fmt: skip
        mapped = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
        if node == CONTROLLER:
            return {"process.roles": "controller", "listeners": controllers, **common, **mapped}
        return {
            "process.roles": "broker", "listeners": own, "advertised.listeners": advertised, **common, **mapped,
            "inter.broker.listener.name": "PLAINTEXT",
        }  # fmt: skip

    def __enter__(self) -> FromFiles:
        try:
            for node in self.files:
                self.start(node)
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for process, log in self._processes.values():
            process.kill()
            process.wait()
            log.close()
        self.host.close()

    def start(self, node: int) -> None:
        """Start a node from its file."""
        path = self.write(node)
        log = self._nodes[node].log.open("ab")
        command = self.programs.command("kafka.Kafka", str(path), heap="128m", log_level="info")
        self._processes[node] = self.host.start(*command, log=log), log

    def write(self, node: int) -> Path:
        """Write the file of a node."""
        return self._nodes[node].write(self.files[node])

    def restart(self, node: int, file: Mapping[str, str]) -> None:
        """End a node, and start it again from this file. Fails if the node does not start."""
        process, log = self._processes.pop(node)
        process.terminate()
        process.wait(60)
        log.close()
        self.files[node] = dict(file)
        self.start(node)
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until each broker lists all of them."""

        def ready() -> bool:
            for node, (process, _) in self._processes.items():
                assert process.poll() is None, f"node {node} ended: {self._nodes[node].complaint()}"
            try:
                return all(
                    set(self.brokers) <= self.host.call(live_brokers, address).keys()
                    for address in self.addresses.values()
                )
            except OSError:
                return False

        wait_until(ready, "all brokers know all brokers")


class FromVariables(FromFiles):
    """One combined node, whose `files` has the variables of its container in place of a file's settings.

    `kafka.docker.KafkaDockerWrapper` makes its file of them, as in Apache's image. The data directory is that of
    Confluent's image or, with `default_data`, the one that Kafka and Apache's image have by default, in the mount
    namespace of the host.
    """

    DATA = "/var/lib/kafka/data"
    DEFAULT_DATA = Path("/tmp/kraft-combined-logs")

    def __init__(self, network: Network, directory: Path, *, default_data: bool = False) -> None:
        super().__init__(network, directory, 1, combined=True)
        self._directory = directory
        data, self._held = self.files[1]["log.dirs"], ExitStack()
        if default_data:
            # Removing a directory ends what another run has mounted there.
            self._held.enter_context(exclusive_lock(cache_directory() / "default-data.lock", None))
            if not self.DEFAULT_DATA.exists():
                self.DEFAULT_DATA.mkdir()
                self._held.callback(self.DEFAULT_DATA.rmdir)
            place = str(self.DEFAULT_DATA)
        else:
            place = self.DATA
            self.host.sh(f"mount -t tmpfs none /var/lib && mkdir -p {place}")
        self.host.sh(f"mount --bind {data} {place}")
        self.files[1] = {variable(key): value for key, value in {**self.files[1], "log.dirs": place}.items()}

    def close(self) -> None:
        super().close()
        self._held.close()

    def write(self, node: int) -> Path:
        defaults, mounted, final = (self._directory / name for name in ("default", "mounted", "final"))
        for path in (defaults, mounted, final):
            path.mkdir(exist_ok=True)
        for name in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):  # the image has them
            (defaults / name).touch()
        options = [f"--{name.name}-configs-dir={name}" for name in (defaults, mounted, final)]
        setup = self.programs.command("kafka.docker.KafkaDockerWrapper", "setup", *options)
        done = self.host.run(*setup, env={**self.files[node], "CLUSTER_ID": self.cluster_id})
        # The image's script goes on likewise.
        assert done.returncode == 0 or "already formatted" in done.stdout + done.stderr, done.stdout + done.stderr
        return final / "server.properties"


def variable(key: str) -> str:
    """Return the variable of a setting, as Kafka's documentation of its image says."""
    return "KAFKA_" + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()
