"""A worker: the sessions that the main process gives it.

What there must be one of (nodes, their ports, routes, the log) the main process has. A worker knows a copy of it, and
asks when a response says something that is not in the copy.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pickle
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, WireError
from kproxy.base.repeats import what_about
from kproxy.config import ClusterConfig, Config
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.proxy.cluster.encryption import Ends
from kproxy.proxy.cluster.own import OwnAddresses
from kproxy.proxy.cluster.reach import Reach
from kproxy.proxy.cluster.tasks import Supervised
from kproxy.proxy.cluster.told import Told
from kproxy.proxy.cluster.topology import NodeKey, Topology
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.loop import RelayLoop
from kproxy.proxy.relay.selector import RelaySelector
from kproxy.proxy.workers import messages
from kproxy.proxy.workers.batch import Batch
from kproxy.proxy.workers.copies import FrameBatch
from kproxy.proxy.workers.here import Here, Reconfigured

log = logging.getLogger(__name__)

# How long the main process may take to hear and to answer, in seconds. It does nothing that takes long.
_PATIENCE = 10.0
# Packets taken in one go, so that a flood of clients does not keep the loop from everything else.
_AT_ONCE = 64
_LARGEST_PACKET = 4096


def work(calls: socket.socket, packets: socket.socket) -> None:
    """Be a worker until the main process is gone."""
    main = MainProcess(calls)
    try:
        configured = main.ask(messages.Configuration())
    except TimeoutError:
        os._exit(1)
    # Of what libraries say, the main process leaves out what it would of its own.
    level = configured.config.log_level.upper()
    logging.basicConfig(handlers=[_ToMain(main)], level=level, format="%(message)s", force=True)
    selector = RelaySelector()
    with asyncio.Runner(loop_factory=lambda: RelayLoop(selector)) as runner:
        runner.run(Worker(configured, main, packets, selector).run())


class MainProcess:
    """The main process as a worker calls it. What cannot be said to it ends the worker: it is gone, or stuck."""

    def __init__(self, calls: socket.socket) -> None:
        self._socket = calls
        self._socket.settimeout(_PATIENCE)
        self._asked = 0
        self._heard = bytearray()

    def tell(self, message: object) -> None:
        try:
            self._socket.sendall(messages.framed(message))
        except OSError:
            os._exit(1)

    def ask(self, question: object) -> Any:
        """The answer; the whole worker waits for it. Raises TimeoutError."""
        self._asked += 1
        self.tell(messages.Asked(self._asked, question))
        while True:
            number, answer = self._hear()
            if number == self._asked:  # else nobody waits for it any more
                return answer

    def _hear(self) -> Any:
        need = messages.SIZE.size
        while len(self._heard) < need or len(self._heard) < need + messages.SIZE.unpack_from(self._heard)[0]:
            try:
                data = self._socket.recv(65536)
            except ConnectionError:  # it has gone with something of this worker unread
                data = b""
            if not data:
                os._exit(0)
            self._heard += data
        end = need + messages.SIZE.unpack_from(self._heard)[0]
        message = pickle.loads(memoryview(self._heard)[need:end])
        del self._heard[:end]
        return message


class _ToMain(logging.Handler):
    """One log, one stream: the main process writes it."""

    def __init__(self, main: MainProcess) -> None:
        super().__init__()
        self._main = main

    def emit(self, record: logging.LogRecord) -> None:
        what = (str(record.msg), *what_about(record)) if what_about(record) else ()
        self._main.tell(messages.Logged(record.name, record.levelno, self.format(record), what))


class _Visit:
    """A client that the main process has let in."""

    def __init__(self, number: int, peer: Address, main: MainProcess) -> None:
        self._number = number
        self.peer = peer
        self._main = main

    def wants(self, key: NodeKey) -> None:
        self._main.tell(messages.Wanted(self._number, key))

    def waits(self, give_way: Callable[[], None] | None) -> None:
        """Workers have places of their own."""

    def over(self) -> None:
        self._main.tell(messages.Ended(self._number))


class Cluster:
    """A cluster as a worker knows it."""

    def __init__(
        self,
        config: ClusterConfig,
        main: MainProcess,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        own: OwnAddresses,
    ) -> None:
        self._own = own
        self._metrics = metrics
        self._name = config.name
        self._sni = config.sni
        self._main = main
        self._topology = Topology(0, 0)  # the main process gives out the ports
        self._told = Told()
        self._reach = Reach(
            config, self._topology, metrics, tasks, own.leads_here,
            lambda fact: main.tell(messages.Noted(config.name, fact)), self._claim,
        )  # fmt: skip
        self.dial = self._reach.dial
        self.reconfigure = self._reach.reconfigure
        self.end = self._reach.end
        self.look()

    def look(self) -> None:
        """Take over what the main process knows."""
        try:
            self._adopt(self._main.ask(messages.Look(self._name)))
        except TimeoutError:
            log.error("the main process has not answered within %g s", _PATIENCE)

    def _adopt(self, view: messages.View) -> None:
        forgotten = not self._topology.nodes.keys() <= view.nodes.keys()
        self._topology.take_over(view.nodes)
        if forgotten:
            self._metrics.keep_only(self._name, {key.label for key in view.nodes})
        self._own.take_over(view.bound)
        self._reach.adopt(view.known)

    def localise(self, host: str, endpoints: Endpoints) -> Sequence[Address]:
        """The local addresses of endpoints. Raises WireError."""
        told = self._told.recall(host, endpoints, self._topology.edition)
        if told is not None:
            return told
        sni = self._sni
        if self._topology.knows(endpoints):
            nodes = self._topology.nodes
            found = [nodes[NodeKey(e.kind, e.node_id)] for e in endpoints.nodes]
            local = tuple(Address(host if sni is None else sni.name(one.key.label), one.port) for one in found)
            if all(address.port for address in local):  # else the main process may have a port by now, or refuses
                self._told.note(host, endpoints, self._topology.edition, local)
                return local
        try:
            answer = self._main.ask(messages.Localise(self._name, host, endpoints))
        except TimeoutError:
            raise WireError("not-localised", f"no local addresses for new nodes within {_PATIENCE:g} s") from None
        if isinstance(answer, messages.NotLocalised):
            raise WireError(answer.reason, answer.text)
        self._adopt(answer.view)
        return tuple(answer.addresses)

    async def knows(self, key: NodeKey) -> bool:
        """Whether any metadata named the node. This is known when the bootstrap servers have been asked."""
        await self._reach.settled.wait()
        if key not in self._topology.nodes:
            self.look()  # another process may have learned of it
        return key in self._topology.nodes

    def _claim(self, cluster_id: str, said_by: Address) -> str:
        try:
            self.look()  # another worker may have settled it
            known = self._reach.known.cluster_id
            return known or str(self._main.ask(messages.Claim(self._name, cluster_id, said_by)))
        except TimeoutError:
            return ""  # which is no cluster's: whoever is there is not taken for the right one


class Worker:
    """The sessions of this worker, on one event loop."""

    def __init__(
        self, configured: messages.Configured, main: MainProcess, packets: socket.socket, selector: RelaySelector
    ) -> None:
        self._main = main
        self._packets = packets
        self._packets.setblocking(False)
        self._configured = configured
        self._selector = selector
        self._metrics = Metrics()
        self._own = OwnAddresses()
        self._clusters: dict[str, Cluster] = {}
        self._holds: dict[int, str | None] = {}
        self._batch: Batch | None = None  # while somebody looks on

    async def run(self) -> None:
        """Until the main process is gone: then the whole process ends at once."""
        async with Supervised("a session") as tasks:
            self._here = Here(self._selector, self._metrics, tasks)
            self._tasks = tasks
            self._frames = FrameBatch(self._main, self._here.emit_frame)
            for config in self._configured.config.clusters:
                self._add(config)
            asyncio.get_running_loop().add_reader(self._packets.fileno(), self._receive)
            gc.freeze()
            self._main.tell(messages.Started(os.getpid()))
            await asyncio.Event().wait()

    def _add(self, config: ClusterConfig) -> None:
        cluster = self._clusters[config.name] = Cluster(config, self._main, self._metrics, self._tasks, self._own)
        self._here.make_room(config, cluster.dial, cluster.localise, cluster.knows)

    def _receive(self) -> None:  # noqa: C901  # one branch for each message
        for _ in range(_AT_ONCE):
            try:
                data, fds, _, _ = socket.recv_fds(self._packets, _LARGEST_PACKET, 1)
            except (BlockingIOError, InterruptedError):
                return
            if not data:
                os._exit(0)
            match pickle.loads(data):
                case messages.Take() as take:
                    self._take(take, fds)
                case messages.Changed(name):
                    if name in self._clusters:  # else it is to hear of it, or served no more
                        self._clusters[name].look()
                case messages.Count():
                    self._main.tell(self._metrics.numbers())
                case messages.Show():
                    self._main.tell(messages.Sessions(tuple(self._here.shown())))
                case messages.Watch(on):
                    self._watch(on)
                case messages.Capture(on):
                    self._frames.switch(on)
                case messages.Ping():
                    self._main.tell(messages.Pong())
                case messages.Drain():
                    self._here.begin_drain()
                case messages.Holds(clusters):
                    self._hold(clusters)
                case messages.Reconfigure():
                    self._reconfigure()

    def _reconfigure(self) -> None:
        """Do as the main process is configured now."""
        try:
            new = self._main.ask(messages.Configuration())
        except TimeoutError:
            log.error("the main process has not answered within %g s", _PATIENCE)
            return
        draining = 0
        if new.edition != self._configured.edition:
            before = {config.name: config for config in self._configured.config.clusters}
            self._configured = new
            logging.getLogger().setLevel(new.config.log_level.upper())
            after = {config.name: config for config in new.config.clusters}
            removed = before.keys() - after.keys()
            draining = self._here.remove(new.config, list(removed))
            for name in removed:
                self._clusters.pop(name).end(new.config.drain_timeout)
            changed = [one for name, one in after.items() if name in before and one != before[name]]
            taken = [self._take_over(one, new.config) for one in changed]
            draining += self._here.change(new.config, [one for one in taken if one is not None])
            for name in after.keys() - before.keys():
                self._add(after[name])
        self._main.tell(messages.Reconfigured(new.edition, draining))

    def _take_over(self, config: ClusterConfig, process: Config) -> Reconfigured | None:
        try:
            ends = Ends.of(config)
        except ConfigError as error:  # the main process has read them a moment ago
            log.error("cluster %s: %s; worker %d goes on with the former files", config.name, error, os.getpid())
            return None
        concerns = self._clusters[config.name].reconfigure(config, ends.brokers, process.drain_timeout)
        return Reconfigured(config, ends.clients, concerns)

    def _watch(self, on: bool) -> None:
        if on == (self._batch is not None):
            return
        if on:
            self._batch = Batch(self._main)
            self._here.emit(self._batch.add)
        else:
            self._here.emit(None)
            if self._batch is not None:
                self._batch.end()
            self._batch = None

    def _hold(self, clusters: dict[int, str | None]) -> None:
        for number in clusters.keys() - self._holds.keys():
            self._here.begin_hold(clusters[number]).add_done_callback(partial(self._settled, number))
        for number in self._holds.keys() - clusters.keys():
            self._here.release(self._holds[number])
        self._holds = clusters

    def _settled(self, number: int, over: asyncio.Future[list[None]]) -> None:
        if not over.cancelled():
            self._main.tell(messages.Settled(number))

    def _take(self, take: messages.Take, fds: list[int]) -> None:
        visit = _Visit(take.number, take.peer, self._main)
        if not fds:
            log.error("too many open files: kproxy refused a connection; raise the limit (ulimit -n)")
            visit.over()
            return
        client = socket.socket(fileno=fds[0])
        client.setblocking(False)
        self._here.carry(take.cluster, client, take.key, take.host, visit)
