"""The exploration of a cluster: its id, its nodes, and the route of each node.

At start, kproxy asks every bootstrap server at once: they must all belong to one cluster, and each may turn out to be
one of the nodes. Then kproxy tries each node. It tries nodes that cannot be reached, and those that become known later,
in the background. While a broker is absent from the metadata, kproxy asks for the metadata itself: once the other
brokers lead its partitions, clients have what they need, and ask again only after minutes.
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
from kproxy.base.messages.start import (
    CONTROLLER_ANSWERS,
    CONTROLLERS_ONLY,
    MAP_UNUSED,
    NO_BOOTSTRAP_SERVER,
    NODES_AFTER_LOGIN,
)
from kproxy.base.repeats import about
from kproxy.client.sasl.mechanism import LoginRefused
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoints, NodeKind
from kproxy.proxy.cluster.encryption import warn_about_tls
from kproxy.proxy.cluster.identity import BrokerIdentity, LoginRequired
from kproxy.proxy.cluster.listeners import BOUND_AT_ONCE
from kproxy.proxy.cluster.newcluster import mixed_text
from kproxy.proxy.cluster.nodedialer import NodeDialer
from kproxy.proxy.cluster.reachability import (
    BootstrapAnswer,
    ExplorationState,
    NodeReachability,
    OtherCluster,
    Proof,
)
from kproxy.proxy.cluster.topology import NodeKey, Topology

log = logging.getLogger(__name__)

# Between two rounds of asking the bootstrap servers, in seconds: doubled each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
# How long the other bootstrap servers may take once one has answered, in seconds. Slower ones are verified when
# kproxy dials them.
_OTHERS_MAY_TAKE = 1.0
# Between two rounds of trying nodes that could not be reached, in seconds: doubled each time.
_TRY_AGAIN, _TRY_AGAIN_AT_MOST = 1.0, 15.0
# Reasons why a node cannot be reached although connections are accepted.
_WRONG_PEER_REASONS = frozenset({"wrong-cluster", "wrong-node", "unknown-node"})
# Connections that are tried at the same time.
_AT_ONCE = 32

Learn = Callable[[Endpoints], Iterator[None]]
"""Takes in nodes. Each has its listener when all steps of the iterator are done. Raises WireError."""


class _Conflict(UpstreamError):
    """The bootstrap servers belong to different clusters, or to another one than the served one, `replaced_by`."""

    def __init__(self, text: str, replaced_by: str | None = None) -> None:
        self.replaced_by = replaced_by
        super().__init__("wrong-cluster", text)


class Explorer:
    """The explorer of one upstream. `learn` takes in the nodes that it finds."""

    def __init__(self, config: ClusterConfig, topology: Topology, dialer: NodeDialer, learn: Learn) -> None:
        self.config = config
        self._topology = topology
        self._dialer = dialer
        self._learn = learn
        self._changed = asyncio.Event()
        self.nodes_known = asyncio.Event()

    def notify_change(self) -> None:
        """Wake the background task: there are nodes that it has not tried, or nodes that can no longer be reached."""
        if self._topology.nodes:
            self.nodes_known.set()
        self._changed.set()

    async def explore(self) -> None:
        """Ask for the nodes until a bootstrap server answers, and try to reach each."""
        warn_about_tls(self.config)
        pause = _FIRST_PAUSE
        try:
            while not await self._ask_for_cluster():
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            if not self._topology.nodes:
                log.info(NODES_AFTER_LOGIN(cluster=self.config.title))
                self.note(searched=True)
                await self.nodes_known.wait()
            await self._try_nodes(list(self._topology.nodes))
            for unused in self._dialer.unused_maps():
                log.warning(MAP_UNUSED(address=unused, cluster=self.config.title))
        finally:
            self.note(bootstrap_asked=True, searched=True)

    async def explore_once(self) -> None:
        """Ask the bootstrap servers once, without waiting for brokers. Raises UpstreamError if none lists the nodes."""
        answers = await self.ask_bootstrap_servers()
        await self._take_in(answers)
        for error in answers.values():
            if isinstance(error, LoginRequired) and not self._topology.nodes:
                raise error
        self.note(bootstrap_asked=True, answered=True, searched=True, problem=None)

    def failed(self, problem: str) -> None:
        """Mark the result of the exploration as unusable."""
        self.note(answered=False, problem=problem)

    def note(self, **changes: Any) -> None:
        """Note changes of the exploration's state, fields of `ExplorationState`."""
        before = self._dialer.reachability.exploration
        after = replace(before, **changes)
        self._dialer.note(replace(after, since=None if after.problem is None else before.since or time()))

    async def retry_nodes(self) -> None:
        """Try new nodes, those that could not be reached, and absent ones, for as long as kproxy runs."""
        now, reachability, pause = asyncio.get_running_loop().time, self._dialer.reachability, _TRY_AGAIN
        again_at = 0.0
        while True:
            self._changed.clear()
            unreached = self._unreached()
            new = [key for key in unreached if reachability.of_node(key).problem is None]
            if new:
                await self._try_nodes(new)
                continue
            absent = not self._dialer.verifier.verifies_in_session and any(
                node.absent_since is not None and key.kind is NodeKind.BROKER
                for key, node in self._topology.nodes.items()
            )
            if (unreached or absent) and now() >= again_at > 0:
                if absent:
                    await self._look_for_absent_nodes()
                before = [reachability.of_node(key) for key in unreached]
                await self._try_nodes(unreached)
                for key, former in zip(unreached, before, strict=True):
                    self._log_reachable_again(key, former)
                pause = min(pause * 2, _TRY_AGAIN_AT_MOST)
                again_at = now() + pause
                continue
            if not (unreached or absent):
                pause, again_at = _TRY_AGAIN, 0.0
            elif not again_at:
                again_at = now() + pause
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(again_at - now() if again_at else None):
                    await self._changed.wait()

    async def _look_for_absent_nodes(self) -> None:
        """Ask the bootstrap servers which nodes there are, and take in the first answer."""
        answers = await self.ask_bootstrap_servers(others_may_take=0.0)
        with contextlib.suppress(KproxyError):  # the next client or the next round asks again
            await self._take_in(answers)

    def _log_reachable_again(self, key: NodeKey, before: NodeReachability) -> None:
        """Log that a node can be reached again, but no more than kproxy knows.

        Where only clients have credentials, a connection proves that something listens there, not that it is the node.
        """
        now = self._dialer.reachability.of_node(key)
        if now.problem is not None or now.route is None:
            return
        topic = about(self.config.title, key)
        if now.proof is not Proof.UNCHECKED:
            log.info("%s can be reached again: %s", key, now.route.dial, extra=topic)
        elif before.reason not in _WRONG_PEER_REASONS:  # it was known already that something listens there
            text = "%s: %s accepts connections again; which broker it is, kproxy asks when a client has logged in"
            log.info(text, key, now.route.dial, extra=topic)

    def _unreached(self) -> list[NodeKey]:
        """Return the present nodes that have not been reached."""
        reachability = self._dialer.reachability
        return [
            key
            for key, node in self._topology.nodes.items()
            if node.absent_since is None
            and (reachability.of_node(key).problem or reachability.of_node(key).route is None)
        ]

    async def reach_present_nodes(self) -> list[NodeKey]:
        """Try all present nodes; return those that were reached."""
        present = [key for key, node in self._topology.nodes.items() if node.absent_since is None]
        await self._try_nodes(present)
        return [key for key in present if self._dialer.reachability.of_node(key).problem is None]

    async def _try_nodes(self, keys: list[NodeKey]) -> None:
        remaining = iter(keys)

        async def try_remaining() -> None:
            for key in remaining:
                if key in self._topology.nodes:
                    await self._dialer.try_node(key)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(_AT_ONCE, len(keys))):
                tasks.create_task(try_remaining())

    # The bootstrap servers

    async def _ask_for_cluster(self) -> bool:
        """Ask every bootstrap server; return whether the cluster is known then."""
        answers = await self.ask_bootstrap_servers()
        try:
            await self._take_in(answers)
        except KproxyError as error:
            if self._dialer.reachability.exploration.problem != str(error):
                log.warning("cluster %s: %s; trying again", self.config.title, error)
            self.note(
                bootstrap_asked=True,
                problem=str(error),
                conflict=str(error) if isinstance(error, _Conflict) else None,
                replaced_by=error.replaced_by if isinstance(error, _Conflict) else None,
                login_refused=any(isinstance(answer, LoginRefused) for answer in answers.values()),
                reasons=frozenset(answer.reason for answer in answers.values() if isinstance(answer, UpstreamError)),
                lasting=all(isinstance(answer, UpstreamError) and answer.lasting for answer in answers.values()),
            )
            return False
        for server, answer in answers.items():
            if isinstance(answer, KproxyError) and not isinstance(answer, LoginRequired):
                log.info("cluster %s: kproxy skips bootstrap server %s: %s", self.config.title, server, answer)
        reachability = self._dialer.reachability
        if reachability.reported_by is not None:
            log.info(
                "cluster %s: its id is %s, according to %s (with --cluster-id, kproxy serves no other cluster)",
                self.config.title,
                reachability.cluster_id,
                reachability.reported_by,
            )
        if self._topology.nodes and not self._topology.has_brokers:
            log.warning(CONTROLLERS_ONLY(cluster=self.config.title))
        searched = reachability.exploration.searched
        self._dialer.note(ExplorationState(bootstrap_asked=True, answered=True, searched=searched, problem=None))
        return True

    async def _take_in(self, outcomes: dict[Address, BrokerIdentity | KproxyError]) -> None:
        """Take in the answers of the bootstrap servers. Raises KproxyError."""
        answers = {server: outcome for server, outcome in outcomes.items() if isinstance(outcome, BrokerIdentity)}
        clusters: dict[str, Address] = {}
        for server, identity in answers.items():
            if identity.cluster_id is not None:
                clusters.setdefault(identity.cluster_id, server)
        if len(clusters) > 1:
            raise _Conflict(mixed_text(clusters))
        if not answers:
            if any(isinstance(outcome, LoginRequired) for outcome in outcomes.values()):
                return
            errors = list(dict.fromkeys(str(outcome) for outcome in outcomes.values()))
            raise UpstreamError(*NO_BOOTSTRAP_SERVER.with_reason(errors="; ".join(errors)))
        for cluster_id, server in clusters.items():
            if self._dialer.claim_cluster_id(cluster_id, server) != cluster_id:
                self._dialer.note(OtherCluster(server, cluster_id))
                raise _Conflict(self._dialer.reachability.other_cluster_text(server, cluster_id), cluster_id)
        first = True
        for server, identity in answers.items():
            self._dialer.verifier.note_identity(self._dialer.routes.of_server(server).dial, identity)
            log.debug("cluster %s: %s is %s", self.config.title, server, identity.key or "a node of it")
            if first:
                first = False
                self._dialer.note(BootstrapAnswer(self.config.bootstrap_servers.index(server)))
                for number, _ in enumerate(self._learn(Endpoints(identity.members.nodes, complete=True)), 1):
                    if number % BOUND_AT_ONCE == 0:
                        await asyncio.sleep(0)  # sessions continue meanwhile

    async def ask_bootstrap_servers(
        self, others_may_take: float = _OTHERS_MAY_TAKE
    ) -> dict[Address, BrokerIdentity | KproxyError]:
        """Ask which node each bootstrap server is; return the answers in their order.

        Once a broker has answered, kproxy waits at most `others_may_take` seconds for the next. If the cluster has
        brokers, a controller's answer is an error.
        """
        servers = dict.fromkeys(self.config.bootstrap_servers)
        limit = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            tasks_by_server = {server: tasks.create_task(self._ask(server, limit)) for server in servers}
            pending = set(tasks_by_server.values())
            seconds: float | None = None
            while pending:
                done, pending = await asyncio.wait(pending, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                if any(_is_broker(task.result()) for task in done):
                    seconds = others_may_take
            for task in pending:
                task.cancel()
        late = UpstreamError("timeout", "no answer yet")
        answers = {server: late if task.cancelled() else task.result() for server, task in tasks_by_server.items()}
        if self._topology.has_brokers or any(map(_is_broker, answers.values())):
            for server, answer in answers.items():
                if isinstance(answer, BrokerIdentity) and answer.is_controller:
                    answers[server] = UpstreamError(*CONTROLLER_ANSWERS.with_reason(address=server))
        return answers

    async def _ask(self, server: Address, limit: asyncio.Semaphore) -> BrokerIdentity | KproxyError:
        async with limit:
            try:
                dial = self._dialer.routes.of_server(server).dial
                return await self._dialer.verifier.identify_bootstrap(dial, server.host)
            except KproxyError as error:
                return error


def _is_broker(answer: BrokerIdentity | KproxyError) -> bool:
    return isinstance(answer, BrokerIdentity) and not answer.is_controller
