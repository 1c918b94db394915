"""Asks a cluster for its contents. One bootstrap server that answers is enough for brokers and topics.

Groups, and a broker's own listeners, only that broker knows. So for these, each broker is asked that can be reached,
along the same routes as `kproxy run` would take; kproxy verifies that it is that broker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from typing import TypeVar

from kproxy.base.errors import KproxyError, UpstreamError, WireError
from kproxy.client.ask import contents, questions
from kproxy.client.ask.channel import ConnectionChannel, ResponseTooLarge
from kproxy.client.ask.contents import ClusterContents, Group
from kproxy.client.ask.questions import UNUSED_NODE_ID, Versions
from kproxy.client.ask.settings import LISTENER_SETTINGS, settings_question
from kproxy.config import ClusterConfig
from kproxy.inspect.listing.snapshot import BrokerDetails, ListingOptions, Snapshot
from kproxy.net.dial.stream import Stream
from kproxy.protocol.rewrite.endpoints import Endpoints, NodeKind
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.proxy.cluster.explorer import Explorer
from kproxy.proxy.cluster.identity import LoginRequired
from kproxy.proxy.cluster.nodedialer import NodeDialer
from kproxy.proxy.cluster.topology import LocalPorts, NodeKey, Topology
from kproxy.proxy.metrics import Metrics

T = TypeVar("T")

# How long a broker may take for one answer, in seconds: all topics of a large cluster are many.
_ANSWER = 30.0
# Brokers that are asked at the same time.
_AT_ONCE = 32


class NeedsLogin(UpstreamError):
    """The brokers return nothing before a login, and there are no credentials."""

    def __init__(self) -> None:
        super().__init__("sasl", "the brokers answer after a login only: log in with --sasl")


async def gather(config: ClusterConfig, options: ListingOptions) -> Snapshot:
    """Ask the cluster.

    Raises KproxyError.
    """
    async with asyncio.TaskGroup() as tasks:
        try:
            return await _Gatherer(config, options, tasks).run()
        except KproxyError as error:
            failure = error  # raised here, it would come out in a group
    raise failure


class _Gatherer:
    def __init__(self, config: ClusterConfig, options: ListingOptions, tasks: asyncio.TaskGroup) -> None:
        self._servers = config.bootstrap_servers
        self._wanted = options
        self._topology = Topology(LocalPorts(1, 65535))  # nothing listens: ports have no meaning here
        self._dialer = NodeDialer(config, self._topology, Metrics(), tasks, lambda _: False)
        self._explorer = Explorer(config, self._topology, self._dialer, self._learn)

    def _learn(self, endpoints: Endpoints) -> Iterator[None]:
        self._topology.learn(endpoints, 0.0)
        return iter(())

    async def run(self) -> Snapshot:
        try:
            try:
                await self._explorer.explore_once()
            except LoginRequired:
                raise NeedsLogin from None
            async with self._connected(None) as (server, ask):
                return await self._ask(server, ask)
        finally:
            await self._dialer.close()

    async def _ask(self, server: str, ask: ConnectionChannel) -> Snapshot:
        versions = await _with_time_limit(questions.ask_versions(ask))
        wanted = self._wanted
        names = wanted.names if contents.can_ask_for_one_topic(versions) else None
        cluster_contents = await self._contents(ask, versions, names)
        leader = contents.quorum_leader_question(versions)
        controller = cluster_contents.controller_id if cluster_contents.controller_id >= 0 else None
        if leader is not None:  # any broker takes what is meant for the controller, and calls itself that
            controller = await self._optional(leader.ask(ask))
        shown = tuple(topic for topic in cluster_contents.topics if wanted.shows(topic))
        return Snapshot(
            server=server,
            cluster_id=cluster_contents.cluster_id,
            kraft=leader is not None,
            controller=controller,
            brokers=cluster_contents.brokers,
            topics=shown,
            hidden=0 if wanted.topics else len(cluster_contents.topics) - len(shown),
            details=await self._details(cluster_contents, ask, versions),
        )

    async def _contents(self, ask: ConnectionChannel, versions: Versions, names: list[str] | None) -> ClusterContents:
        try:
            return await _with_time_limit(contents.contents_question(versions, names).ask(ask))
        except ResponseTooLarge as error:
            what = "all topics" if names is None else "these topics"
            raise WireError(error.reason, f"{what}: {error}: name fewer topics with --topic NAME") from None

    async def _optional(self, asking: Awaitable[T]) -> T | None:
        """Return an answer; None if it fails, because the other answers are useful without it."""
        try:
            return await _with_time_limit(asking)
        except KproxyError:
            return None

    # What only each broker knows

    async def _details(
        self, cluster_contents: ClusterContents, ask: ConnectionChannel, versions: Versions
    ) -> dict[int, BrokerDetails]:
        """Return the details of brokers: of the one that answered, or, if each must be asked, of each."""
        wanted = self._wanted
        if wanted.groups or wanted.listeners:
            return await self._details_of_each(cluster_contents)
        node_id = await self._own_id(ask, versions, cluster_contents) if wanted.own_listeners else None
        if node_id is None:
            return {}
        try:
            return {node_id: BrokerDetails(*await self._settings(node_id, ask, versions))}
        except KproxyError as error:
            return {node_id: BrokerDetails(settings_problem=str(error))}

    async def _own_id(
        self, ask: ConnectionChannel, versions: Versions, cluster_contents: ClusterContents
    ) -> int | None:
        """Return the node id of the broker that answers."""
        if len(cluster_contents.brokers) == 1:
            return cluster_contents.brokers[0].id
        question = questions.node_id_question(versions, UNUSED_NODE_ID)
        return None if question is None else await self._optional(question.ask(ask))

    async def _details_of_each(self, cluster_contents: ClusterContents) -> dict[int, BrokerDetails]:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def ask_broker(node_id: int) -> BrokerDetails:
            async with limit:
                try:
                    async with self._connected(NodeKey(NodeKind.BROKER, node_id)) as (_, ask):
                        return await self._broker_details(node_id, ask)
                except KproxyError as error:
                    return BrokerDetails(problem=str(error))

        async with asyncio.TaskGroup() as tasks:
            asked = {broker.id: tasks.create_task(ask_broker(broker.id)) for broker in cluster_contents.brokers}
        return {node_id: task.result() for node_id, task in asked.items()}

    async def _broker_details(self, node_id: int, ask: ConnectionChannel) -> BrokerDetails:
        versions = await _with_time_limit(questions.ask_versions(ask))
        groups, groups_problem = await self._groups(ask, versions) if self._wanted.groups else ((), None)
        settings, problem = await self._settings(node_id, ask, versions) if self._wanted.listeners else ({}, None)
        return BrokerDetails(settings, problem, groups, groups_problem)

    async def _settings(
        self, node_id: int, ask: ConnectionChannel, versions: Versions
    ) -> tuple[Mapping[str, str | None], str | None]:
        question = settings_question(versions, node_id, LISTENER_SETTINGS)
        if question is None:
            return {}, "the broker is too old to tell"
        settings = await _with_time_limit(question.ask(ask))
        return settings.values, None if settings.error == ErrorCode.NONE else contents.error_text(settings.error)

    async def _groups(self, ask: ConnectionChannel, versions: Versions) -> tuple[Sequence[Group], str | None]:
        question = contents.groups_question(versions)
        if question is None:
            return (), "the broker knows of no groups"
        listed = await _with_time_limit(question.ask(ask))
        return listed.groups, None if listed.error == ErrorCode.NONE else contents.error_text(listed.error)

    @contextlib.asynccontextmanager
    async def _connected(self, key: NodeKey | None) -> AsyncIterator[tuple[str, ConnectionChannel]]:
        """Open a connection to a broker, or, for None, to a bootstrap server; yield its address, too.

        Raises UpstreamError.
        """
        upstream = await self._dialer.dial(key)
        with upstream.sock:
            if upstream.verify is not None:
                raise NeedsLogin
            yield (
                str(self._servers[self._dialer.reachability.bootstrap_index]),
                ConnectionChannel(Stream(upstream.sock)),
            )


async def _with_time_limit(asking: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(_ANSWER):
            return await asking
    except TimeoutError:
        raise UpstreamError("timeout", f"no answer within {_ANSWER:g} s") from None
