"""The nodes of one cluster on this machine: their directories, ports, configuration files and processes."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.base.watchdog import Watchdog
from kproxy.dev.devcluster import properties as props
from kproxy.dev.devcluster.node import NodeProcess
from kproxy.dev.devcluster.properties import CLIENT, CONTROLLER, ListenerSpec, NodeListener
from kproxy.dev.devcluster.storage import format_storage
from kproxy.dev.devcluster.tools import Programs
from kproxy.net.freeports import free_ports

_BIND_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The settings of a cluster: number of brokers, listeners of each, and properties that override the defaults."""

    brokers: int
    listeners: Sequence[ListenerSpec]
    controller_id: int
    controller: ListenerSpec
    properties: Mapping[str, str]
    controller_properties: Mapping[str, str]
    heap: str
    cluster_id: str = field(default_factory=props.new_uuid)


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """A process that ended by itself."""

    node: str
    code: int
    """Exit code, or minus N if signal N ended it."""
    last_line: str
    """The last line of its log."""

    def __str__(self) -> str:
        how = f"signal {-self.code}" if self.code < 0 else f"code {self.code}"
        return f"{self.node} ended with {how}: {self.last_line or 'it printed nothing'}"


class NodeFleet:
    """The directory of a cluster and every process in it, from the first start to `close()`."""

    def __init__(self, plan: ClusterSpec, programs: Programs, parent: Path | None, keep: bool) -> None:
        self._plan = plan
        self.programs = programs
        self._keep = keep
        self.brokers: dict[int, NodeProcess] = {}
        self._specs: dict[int, dict[str, ListenerSpec]] = {}
        self._properties: dict[int, Mapping[str, str]] = {}
        self._controller: NodeProcess | None = None
        self.directory = Path(tempfile.mkdtemp(prefix="kproxy-devcluster-", dir=parent))
        self._watchdog = Watchdog()
        if not keep:
            self._watchdog.remove(self.directory)

    @property
    def controller(self) -> NodeProcess:
        if self._controller is None:
            raise RuntimeError("the controller is not started")
        return self._controller

    @property
    def nodes(self) -> Iterator[NodeProcess]:
        """The controller, then the brokers."""
        if self._controller is not None:
            yield self._controller
        yield from self.brokers.values()

    def start_controller(self) -> None:
        """Format the controller's storage, and start it."""
        plan = self._plan
        node = NodeProcess(plan.controller_id, self.directory / f"node-{plan.controller_id}")
        self._controller = node
        self._bind(node, [plan.controller])
        format_storage(self.programs, node, self._controller_settings(), plan.cluster_id)
        self.start(node)

    def add_broker(self, node_id: int, properties: Mapping[str, str]) -> None:
        """Make a broker's directory and start it."""
        node = NodeProcess(node_id, self.directory / f"node-{node_id}")
        self.brokers[node_id] = node
        self._specs[node_id] = {spec.name: spec for spec in self._plan.listeners}
        self._properties[node_id] = properties
        self._bind(node, self._plan.listeners)
        meta = props.render(props.meta_properties(self._plan.cluster_id, node_id))
        (node.data / "meta.properties").write_text(meta)
        self._configure(node)
        self.start(node)

    def drop_broker(self, node: NodeProcess) -> None:
        """Forget a broker that is down, and its data."""
        del self.brokers[node.id], self._specs[node.id], self._properties[node.id]
        shutil.rmtree(node.directory, ignore_errors=True)

    def move(self, node: NodeProcess, new_port: bool, advertised: str | None) -> None:
        """Change a broker's client listener; the next start uses it."""
        specs, old = self._specs[node.id], node.listeners[CLIENT]
        if advertised is not None:
            specs[CLIENT] = replace(specs[CLIENT], advertised=advertised)
        port = free_ports(1, self._ports())[0] if new_port else old.bound.port
        node.listeners[CLIENT] = _listener(specs[CLIENT], node.id, port)
        self._configure(node)

    def start(self, node: NodeProcess) -> None:
        """Start the JVM and return at once."""
        node.start(self.programs, self._plan.heap, self._watchdog)

    def end(self, nodes: Sequence[NodeProcess], timeout: float) -> None:
        """End processes together: cleanly, or by SIGKILL after `timeout` seconds."""
        for node in nodes:
            node.terminate()
        until = time.monotonic() + timeout
        for node in nodes:
            if not node.wait(max(0.0, until - time.monotonic()), self._watchdog):
                self.kill(node)

    def kill(self, node: NodeProcess) -> None:
        """Kill a node with SIGKILL, and wait until it has ended."""
        node.kill()
        if not node.wait(30, self._watchdog):
            raise UpstreamError("other", f"Kafka node {node.id} (process {node.pid}) does not end")

    def revive(self, node: NodeProcess, attempts: dict[int, int]) -> None:
        """Restart a node that ended because another process took one of its ports, on other ports.

        Raises UpstreamError if it ended for another reason, or after too many `attempts`.
        """
        code = node.exit_code
        attempts[node.id] = attempts.get(node.id, 0) + 1
        if not node.could_not_bind or attempts[node.id] >= _BIND_ATTEMPTS:
            complaint = node.complaint()
            raise UpstreamError("other", f"Kafka node {node.id} ended with code {code}: {complaint}")
        if node is not self._controller:
            self._bind(node, list(self._specs[node.id].values()))
            self._configure(node)
            self.start(node)
            return
        self._bind(node, [self._plan.controller])
        node.write(self._controller_settings())
        self.start(node)
        for broker in self.brokers.values():  # they have the controller's old address
            running = broker.running
            self.kill(broker)
            self._configure(broker)
            if running:
                self.start(broker)

    def collect_exits(self) -> list[ProcessExit]:
        """Return the nodes that have ended although they should run, each once."""
        exits = []
        for node in self.nodes:
            if (code := node.exit_code) is not None:
                name = "the controller" if node is self._controller else f"broker {node.id}"
                exits.append(ProcessExit(name, code, node.complaint()))
                node.reap(self._watchdog)
        return exits

    def close(self, timeout: float) -> None:
        """End all processes, brokers first because their clean end needs the controller, and remove the directory."""
        try:
            self.end(list(self.brokers.values()), timeout)
            self.end([self._controller] if self._controller else [], timeout)
        finally:
            if not self._keep:
                shutil.rmtree(self.directory, ignore_errors=True)
            self._watchdog.close()

    def _bind(self, node: NodeProcess, specs: Sequence[ListenerSpec]) -> None:
        ports = free_ports(len(specs), self._ports())
        pairs = zip(specs, ports, strict=True)
        node.listeners = {spec.name: _listener(spec, node.id, port) for spec, port in pairs}

    def _ports(self) -> set[int]:
        return {listener.bound.port for node in self.nodes for listener in node.listeners.values()}

    def _controller_settings(self) -> dict[str, str]:
        plan, node = self._plan, self.controller
        return props.controller_properties(
            node.id,
            node.data,
            listener=node.listeners[CONTROLLER],
            brokers=plan.brokers,
            broker_extra=plan.properties,
            extra=plan.controller_properties,
        )

    def _configure(self, node: NodeProcess) -> None:
        properties = props.broker_properties(
            node.id,
            node.data,
            listeners=list(node.listeners.values()),
            controller=(self.controller.id, self.controller.listeners[CONTROLLER]),
            brokers=self._plan.brokers,
            extra={**self._plan.properties, **self._properties[node.id]},
        )
        node.write(properties)


def find_broker(fleet: NodeFleet, node: int) -> NodeProcess:
    """Return the broker with this node id. Raises ConfigError if there is none."""
    if node not in fleet.brokers:
        known = ", ".join(map(str, fleet.brokers)) or "none"
        raise ConfigError(f"there is no broker {node} in this cluster: its brokers are {known}")
    return fleet.brokers[node]


def _listener(spec: ListenerSpec, node: int, free_port: int) -> NodeListener:
    bound = spec.bind(node, free_port)
    return NodeListener(spec.name, bound, spec.advertise(node, bound.port), spec.protocol)
