"""Finding out about a cluster: which one it is, who is in it, how each node is reached.

At start every bootstrap server is asked at once: they must all be of one cluster, and each may turn out to be one of
the nodes. Then each node is tried. Nodes that cannot be reached, and those that become known later, are tried in the
background.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import time
from typing import Any

from kproxy.base.address import Address
from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.base.repeats import about
from kproxy.client.sasl.mechanism import LoginRefused
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.proxy.cluster.encryption import warn_about_tls
from kproxy.proxy.cluster.identity import BrokerIdentity, LoginRequired
from kproxy.proxy.cluster.listeners import BOUND_AT_ONCE
from kproxy.proxy.cluster.nodedialer import NodeDialer
from kproxy.proxy.cluster.reachability import BootstrapAnswer, NodeReachability, Proof
from kproxy.proxy.cluster.topology import NodeKey, Topology

log = logging.getLogger(__name__)

# Between two rounds of asking the bootstrap servers, in seconds: doubled each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
# How long the other bootstrap servers may take once one has answered, in seconds. Those that are slower are judged when
# they are dialled.
_OTHERS_MAY_TAKE = 1.0
# Between two rounds of trying nodes that could not be reached, in seconds: doubled each time.
_TRY_AGAIN, _TRY_AGAIN_AT_MOST = 1.0, 15.0
# Reasons why a node cannot be reached although connections are accepted.
_OTHERS = frozenset({"wrong-cluster", "wrong-node", "unknown-node"})
# Connections that are tried at the same time.
_AT_ONCE = 32

Learn = Callable[[Endpoints], Iterator[None]]
"""Takes in nodes. Each has its listener when the steps have been taken. Raises WireError."""


class _Conflict(UpstreamError):
    """The bootstrap servers are not of one cluster."""

    def __init__(self, text: str) -> None:
        super().__init__("wrong-cluster", text)


class Explorer:
    """Explores one cluster along its `reach`; `learn` takes in the nodes that are found."""

    def __init__(self, config: ClusterConfig, topology: Topology, reach: NodeDialer, learn: Learn) -> None:
        self._config = config
        self._topology = topology
        self._reach = reach
        self._learn = learn
        self._stirred = asyncio.Event()
        self.nodes_known = asyncio.Event()

    def reconfigure(self, config: ClusterConfig) -> None:
        """Explore so the next time."""
        self._config = config

    def stir(self) -> None:
        """There are nodes that have not been looked at, or cannot be reached any more."""
        if self._topology.nodes:
            self.nodes_known.set()
        self._stirred.set()

    async def explore(self) -> None:
        """Ask for the nodes until a bootstrap server answers, and look for a way to each."""
        warn_about_tls(self._config)
        pause = _FIRST_PAUSE
        try:
            while not await self._one_round():
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            if not self._topology.nodes:
                log.info(
                    "cluster %s: the brokers list their nodes for authenticated clients only; kproxy learns the nodes,"
                    " and checks which broker it has reached, when a client has logged in",
                    self._config.title,
                )
                self._note(searched=True)
                await self.nodes_known.wait()
            await self._try(list(self._topology.nodes))
            for unused in self._reach.routes.unused_maps():
                log.warning("--map %s matches no node of cluster %s", unused, self._config.title)
        finally:
            self._note(settled=True, searched=True)

    async def ask_once(self) -> None:
        """Ask the bootstrap servers once, for somebody who does not wait for brokers that are not there. Raises
        UpstreamError if they tell nothing."""
        found = await self._ask_all()
        await self._settle(found)
        for error in found.values():
            if isinstance(error, LoginRequired) and not self._topology.nodes:
                raise error
        self._note(settled=True, answered=True, searched=True, problem=None)

    def failed(self, problem: str) -> None:
        """What was explored is not to be relied on."""
        self._note(answered=False, problem=problem)

    def _note(self, **changes: Any) -> None:
        before = self._reach.known.explored
        after = replace(before, **changes)
        self._reach.note(replace(after, since=None if after.problem is None else before.since or time()))

    async def watch(self) -> None:
        """Try nodes that have not been looked at, and those that could not be reached, for ever."""
        now, known, pause = asyncio.get_running_loop().time, self._reach.known, _TRY_AGAIN
        again_at = 0.0
        while True:
            self._stirred.clear()
            lost = self._lost()
            new = [key for key in lost if known.reached(key).problem is None]
            if new:
                await self._try(new)
                continue
            if lost and now() >= again_at > 0:
                before = [known.reached(key) for key in lost]
                await self._try(lost)
                for key, former in zip(lost, before, strict=True):
                    self._say_again(key, former)
                pause = min(pause * 2, _TRY_AGAIN_AT_MOST)
                again_at = now() + pause
                continue
            if not lost:
                pause, again_at = _TRY_AGAIN, 0.0
            elif not again_at:
                again_at = now() + pause
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(again_at - now() if lost else None):
                    await self._stirred.wait()

    def _say_again(self, key: NodeKey, before: NodeReachability) -> None:
        """Say that a node can be reached that could not, but no more than is known: where only clients have
        credentials, a connection shows that something listens there, and not that it is the node."""
        now = self._reach.known.reached(key)
        if now.problem is not None or now.route is None:
            return
        what = about(self._config.title, key)
        if now.proof is not Proof.UNCHECKED:
            log.info("%s can be reached again: %s", key, now.route.dial, extra=what)
        elif before.reason not in _OTHERS:  # that somebody listens there is nothing new
            text = "%s: %s accepts connections again; which broker it is, kproxy asks when a client has logged in"
            log.info(text, key, now.route.dial, extra=what)

    def _lost(self) -> list[NodeKey]:
        """Nodes that are there, as far as is known, and have not been reached."""
        known = self._reach.known
        return [
            key
            for key, node in self._topology.nodes.items()
            if node.absent_since is None and (known.reached(key).problem or known.reached(key).route is None)
        ]

    async def _try(self, keys: list[NodeKey]) -> None:
        left = iter(keys)

        async def some() -> None:
            for key in left:
                if key in self._topology.nodes:
                    await self._reach.try_node(key)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(_AT_ONCE, len(keys))):
                tasks.create_task(some())

    # The bootstrap servers

    async def _one_round(self) -> bool:
        """Ask every bootstrap server; whether the cluster is known then."""
        found = await self._ask_all()
        try:
            await self._settle(found)
        except KproxyError as error:
            if self._reach.known.explored.problem != str(error):
                log.warning("cluster %s: %s; trying on", self._config.title, error)
            self._note(
                settled=True,
                problem=str(error),
                conflict=str(error) if isinstance(error, _Conflict) else None,
                login_refused=any(isinstance(one, LoginRefused) for one in found.values()),
                reasons=frozenset(one.reason for one in found.values() if isinstance(one, UpstreamError)),
                lasting=all(isinstance(one, UpstreamError) and one.lasting for one in found.values()),
            )
            return False
        for server, answer in found.items():
            if isinstance(answer, KproxyError) and not isinstance(answer, LoginRequired):
                log.info("cluster %s: kproxy skips bootstrap server %s: %s", self._config.title, server, answer)
        known = self._reach.known
        if known.said_by is not None:
            log.info(
                "cluster %s: its id is %s, according to %s (with --cluster-id, kproxy serves no other cluster)",
                self._config.title, known.cluster_id, known.said_by,
            )  # fmt: skip
        self._note(
            settled=True, answered=True, problem=None, conflict=None, login_refused=False, reasons=frozenset(),
            lasting=False,
        )  # fmt: skip
        return True

    async def _settle(self, found: dict[Address, BrokerIdentity | KproxyError]) -> None:
        """Take in what the bootstrap servers have answered. Raises KproxyError."""
        answers = {server: one for server, one in found.items() if isinstance(one, BrokerIdentity)}
        clusters: dict[str, Address] = {}
        for server, identity in answers.items():
            if identity.cluster_id is not None:
                clusters.setdefault(identity.cluster_id, server)
        if len(clusters) > 1:
            named = ", ".join(f"{server} (cluster id {cluster_id})" for cluster_id, server in clusters.items())
            raise _Conflict(
                f"the bootstrap servers belong to different clusters: {named}; list those of one cluster only"
            )
        if not answers:
            if any(isinstance(one, LoginRequired) for one in found.values()):
                return
            errors = list(dict.fromkeys(str(one) for one in found.values()))
            raise UpstreamError("other", f"no bootstrap server answers: {'; '.join(errors)}")
        for cluster_id, server in clusters.items():
            if self._reach.claim(cluster_id, server) != cluster_id:
                raise _Conflict(self._reach.known.another(server, cluster_id))
        first = True
        for server, identity in answers.items():
            self._reach.meetings.note_identity(server, identity)
            log.debug("cluster %s: %s is %s", self._config.title, server, identity.key or "a node of it")
            if first:
                first = False
                self._reach.note(BootstrapAnswer(self._config.bootstrap_servers.index(server)))
                for number, _ in enumerate(self._learn(Endpoints(identity.members.nodes, complete=True)), 1):
                    if number % BOUND_AT_ONCE == 0:
                        await asyncio.sleep(0)  # sessions go on meanwhile

    async def _ask_all(self) -> dict[Address, BrokerIdentity | KproxyError]:
        """Whom each bootstrap server turns out to be, in their order."""
        servers = dict.fromkeys(self._config.bootstrap_servers)
        limit = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            asked = {server: tasks.create_task(self._ask(server, limit)) for server in servers}
            left = set(asked.values())
            seconds: float | None = None
            while left:
                done, left = await asyncio.wait(left, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                if any(isinstance(task.result(), BrokerIdentity) for task in done):
                    seconds = _OTHERS_MAY_TAKE
            for task in left:
                task.cancel()
        late = UpstreamError("timeout", "no answer yet")
        return {server: late if task.cancelled() else task.result() for server, task in asked.items()}

    async def _ask(self, server: Address, limit: asyncio.Semaphore) -> BrokerIdentity | KproxyError:
        async with limit:
            try:
                return await self._reach.meetings.meet_bootstrap(server)
            except KproxyError as error:
                return error
