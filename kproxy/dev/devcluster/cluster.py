"""The cluster: its nodes, their ports and names, and what a test does to them."""

from __future__ import annotations

import atexit
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.dev.devcluster import properties as props
from kproxy.dev.devcluster.archive import make_archive
from kproxy.dev.devcluster.fleet import ClusterSpec, NodeFleet, ProcessExit, find_broker
from kproxy.dev.devcluster.jars import DEFAULT_VERSION, Progress
from kproxy.dev.devcluster.node import NodeProcess
from kproxy.dev.devcluster.properties import CLIENT, CONTROLLER, INTERNAL, ListenerSpec
from kproxy.dev.devcluster.readiness import live_brokers
from kproxy.dev.devcluster.tools import Programs
from kproxy.net.blocking import can_connect

DEFAULT_ADVERTISED = "kafka-{id}.cluster.internal:9092"

_POLL_S = 0.05


class DevCluster:
    """A KRaft cluster of JVM processes on 127.0.0.1; see the package's docstring for an example.

    Every broker has two listeners. Clients reach CLIENT at `dial[node]`, but it is advertised under a name that
    resolves nowhere. Brokers talk to each other over INTERNAL, which is advertised truthfully. One more process is the
    controller, so any broker can be killed without losing the quorum.
    """

    def __init__(
        self,
        brokers: int | Sequence[int] = 3,
        *,
        version: str = DEFAULT_VERSION,
        advertised: str = DEFAULT_ADVERTISED,
        client_protocol: str = "PLAINTEXT",
        client_bound: str = "127.0.0.1:{port}",
        extra_listeners: Sequence[ListenerSpec] = (),
        controller_id: int = 3000,
        controller_advertised: str = "127.0.0.1:{port}",
        properties: Mapping[str, str] | None = None,
        controller_properties: Mapping[str, str] | None = None,
        heap: str = "256m",
        directory: Path | None = None,
        keep: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Describe the cluster; no process starts yet.

        `brokers` is a number (node ids 1 to N) or the node ids. `advertised` and `controller_advertised` are templates
        for HOST:PORT with `{id}` and `{port}`; `client_bound` is the template of the bound addresses of client
        listeners, if not free ports of 127.0.0.1. `properties` go to every broker and override the cluster's own. With
        `keep` the directory stays after `stop()`. `progress` receives a few words on what the cluster waits for. Raises
        ConfigError for invalid arguments.
        """
        self._ids = props.check_node_ids(brokers, controller_id)
        props.check_listener_names(extra_listeners)
        client = ListenerSpec(CLIENT, advertised, client_protocol, client_bound)
        self._plan = ClusterSpec(
            brokers=len(self._ids),
            listeners=(ListenerSpec(INTERNAL), client, *extra_listeners),
            controller_id=controller_id,
            controller=ListenerSpec(CONTROLLER, controller_advertised),
            properties=dict(properties or {}),
            controller_properties=dict(controller_properties or {}),
            heap=heap,
        )
        self._version = version
        self._parent = directory
        self._keep = keep
        self._progress = progress or (lambda _: None)
        self._running: NodeFleet | None = None

    # Starting and stopping the cluster

    def start(self, timeout: float = 120) -> DevCluster:
        """Start every process and wait until all brokers are ready.

        Raises ConfigError (no Java, no Maven, bad properties) or UpstreamError (a broker that ends or is not
        ready in `timeout` seconds); nothing is left running then.
        """
        if self._running is not None:
            raise RuntimeError("the cluster is already started")
        programs = Programs.of(self._version, self._progress)
        make_archive(programs, self._progress)
        atexit.register(self.stop)
        try:
            self._running = NodeFleet(self._plan, programs, self._parent, self._keep)
            self._progress("formatting the controller's storage")
            self._running.start_controller()
            for node in self._ids:
                self._running.add_broker(node, {})
            self.wait_ready(timeout)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, timeout: float = 10) -> None:
        """End every process, cleanly if they do so within `timeout` seconds, and remove the directory.

        Once stopped it stays so; stopping again does nothing.
        """
        atexit.unregister(self.stop)
        if self._running is not None:
            fleet, self._running = self._running, None
            fleet.close(timeout)

    def __enter__(self) -> DevCluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        # What a clean end writes would be removed at once.
        self.stop(timeout=10 if self._keep else 0)

    # Addresses and directories

    @property
    def started(self) -> bool:
        """True if there is anything to stop."""
        return self._running is not None

    @property
    def node_ids(self) -> list[int]:
        """The brokers' node ids, in the order of their creation, those that are down included."""
        return list(self._fleet.brokers)

    @property
    def running(self) -> list[int]:
        """The node ids of the brokers whose process runs."""
        return [node.id for node in self._fleet.brokers.values() if node.running]

    @property
    def dial(self) -> dict[int, Address]:
        """The bound address of each node's client listener."""
        return self.listener(CLIENT)

    @property
    def advertised(self) -> dict[int, Address]:
        """The advertised address of each node's client listener."""
        return {node.id: node.listeners[CLIENT].advertised for node in self._fleet.brokers.values()}

    def listener(self, name: str) -> dict[int, Address]:
        """Return the bound address of a listener of each node: CLIENT, INTERNAL or an extra one."""
        return {node.id: node.bound(name) for node in self._fleet.brokers.values()}

    @property
    def bootstrap(self) -> str:
        """The bound addresses of the brokers' client listeners: `127.0.0.1:p1,127.0.0.1:p2,…`."""
        return ",".join(str(address) for address in self.dial.values())

    @property
    def direct_bootstrap(self) -> str:
        """The inter-broker listeners: advertised truthfully, so any client works with them directly."""
        return ",".join(str(address) for address in self.listener(INTERNAL).values())

    @property
    def controller_bootstrap(self) -> str:
        """The controller's listener, for tools with `--bootstrap-controller`."""
        return str(self._fleet.controller.bound(CONTROLLER))

    @property
    def cluster_id(self) -> str:
        """Kafka's id of this cluster, another one for each start."""
        return self._plan.cluster_id

    @property
    def directory(self) -> Path:
        """The directory of the nodes' directories, `node-ID`, with configuration, data and `kafka.log`."""
        return self._fleet.directory

    @property
    def pids(self) -> dict[int, int]:
        """The process id of each running process by node id, the controller's included."""
        return {node.id: pid for node in self._fleet.nodes if (pid := node.pid) is not None}

    def collect_exits(self) -> Sequence[ProcessExit]:
        """Return the processes that have ended by themselves since the last call; the others continue."""
        return self._fleet.collect_exits()

    # Changing brokers

    def kill(self, node: int) -> None:
        """Kill a broker with SIGKILL. The others count it as alive until its session ends: `wait_fenced`."""
        self._fleet.kill(find_broker(self._fleet, node))

    def stop_broker(self, node: int, timeout: float = 30) -> None:
        """Stop a broker cleanly, with leadership handed over; SIGKILL after `timeout` seconds."""
        self._fleet.end([find_broker(self._fleet, node)], timeout)

    def restart(
        self, node: int, *, new_port: bool = False, advertised: str | None = None, timeout: float = 120
    ) -> None:
        """Restart a broker, cleanly if it runs, and wait until all brokers are ready.

        `new_port` moves its client listener to another port. `advertised` is a new template for the client listener's
        advertised address, kept for later restarts. A broker that was up a moment ago can come back only when its
        session with the controller has ended, four seconds after its last heartbeat; `timeout` counts from then.
        """
        broker = find_broker(self._fleet, node)
        self._fleet.end([broker], 30)
        self._fleet.move(broker, new_port, advertised)
        self._fleet.start(broker)
        self.wait_ready(timeout + props.session_seconds(self._plan.properties, self._plan.controller_properties))

    def add(self, node: int, *, properties: Mapping[str, str] | None = None, timeout: float = 120) -> None:
        """Start one more broker, with its own properties if given, and wait until all brokers are ready."""
        props.check_node_ids([*self._fleet.brokers, node], self._plan.controller_id)
        self._fleet.add_broker(node, dict(properties or {}))
        self.wait_ready(timeout)

    def remove(self, node: int) -> None:
        """Stop a broker cleanly and delete its data. Partitions that it had stay assigned to its id."""
        self.stop_broker(node)
        self._fleet.drop_broker(find_broker(self._fleet, node))

    # Waiting

    def wait_ready(self, timeout: float = 120) -> None:
        """Wait until every running broker knows every running broker as alive and accepts connections.

        Raises UpstreamError when that takes more than `timeout` seconds, or as soon as a broker ends.
        """
        fleet = self._fleet
        brokers = [node for node in fleet.brokers.values() if node.started]
        wanted = {node.id for node in brokers}
        attempts: dict[int, int] = {}

        def ready() -> bool:
            for node in (fleet.controller, *brokers):
                if node.exit_code is not None:
                    fleet.revive(node, attempts)
            up = [node for node in brokers if _is_ready(node, wanted)]
            self._progress(f"starting brokers: {len(up)} of {len(brokers)} ready")
            return len(up) == len(brokers)

        _wait(ready, timeout, "the brokers are not ready")

    def wait_fenced(self, node: int, timeout: float = 120) -> None:
        """Wait until no running broker lists this one any more, because its session has ended."""

        def fenced() -> bool:
            up = [broker for broker in self._fleet.brokers.values() if broker.running]
            try:
                return all(node not in live_brokers(broker.bound(INTERNAL)) for broker in up)
            except OSError:
                return False

        _wait(fenced, timeout, f"broker {node} is still listed as alive")

    # Kafka's own programs

    @property
    def programs(self) -> Programs:
        """Kafka's programs of this version; `programs.command(…)` is a command line for your own Popen."""
        return self._fleet.programs

    def tool(
        self, main: str, *args: str, input: str | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's tools, by its script's name (`kafka-topics`) or its class; see `Programs.run`."""
        return self.programs.run(main, *args, input=input, timeout=timeout)

    @property
    def _fleet(self) -> NodeFleet:
        if self._running is None:
            raise RuntimeError("the cluster is not started")
        return self._running


def _is_ready(node: NodeProcess, wanted: set[int]) -> bool:
    try:
        if not wanted <= live_brokers(node.bound(INTERNAL)).keys():
            return False
    except OSError:
        return False
    return all(can_connect(listener.bound.host, listener.bound.port, 1) for listener in node.listeners.values())


def _wait(reached: Callable[[], bool], timeout: float, what: str) -> None:
    until = time.monotonic() + timeout
    while not reached():
        if time.monotonic() > until:
            raise UpstreamError("timeout", f"{what} after {timeout:.0f} s")
        time.sleep(_POLL_S)
