"""The questions to brokers on the connections of an examination: topics, settings, and what the client is going to do.

A client that consumes finds its group's coordinator, and reads partitions from their leaders; so these are asked. A
client that produces writes. kproxy writes nothing: it compares rights and replicas with what the client needs, and
reports that it did not write.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from kproxy.base.errors import KproxyError
from kproxy.client.ask import contents as cluster_contents
from kproxy.client.ask import questions, usage
from kproxy.client.ask.contents import ClusterContents, Topic
from kproxy.client.ask.settings import BrokerSettings, settings_question
from kproxy.client.ask.usage import GroupDescription
from kproxy.inspect.doctor.contact import OnStep
from kproxy.inspect.doctor.evidence import ClientIntent, ExaminationStep, StepVerdict
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.proxy.cluster.identity import BrokerIdentity
from kproxy.proxy.cluster.topology import NodeKey

if TYPE_CHECKING:
    from kproxy.client.ask.channel import ConnectionChannel
    from kproxy.client.ask.question import Question
    from kproxy.client.ask.questions import Versions

T = TypeVar("T")
AskNode = Callable[[NodeKey | None, "ConnectionChannel", "Versions", BrokerIdentity], Awaitable[None]]
"""Asks more on a connection to the node that is expected there."""

_MIN_IN_SYNC = "min.insync.replicas"
_ALL = -1
# Partitions that are read from each leader, and the bytes of one read: the broker sends a whole batch all the same.
_PARTITIONS, _BYTES = 3, 1
# Without --group, the coordinator is that of this group.
_GROUP = "kproxy-doctor"


@dataclass(slots=True)
class ClusterQuestions:
    """The questions to the first bootstrap server that answers, and those to each broker, with their answers."""

    intent: ClientIntent
    seconds: float  # that each answer may take
    on_step: OnStep
    answering: BrokerIdentity | None = None
    contents: ClusterContents | None = None
    settings: Mapping[str, str] | None = None
    coordinator: tuple[int, int] | None = None
    min_in_sync: int | None = None
    not_checked: list[str] = field(default_factory=list)
    _asked_for_topics: asyncio.Event = field(default_factory=asyncio.Event)
    _of_nodes: dict[tuple[str | None, NodeKey], _NodeAnswers] = field(default_factory=dict)

    async def ask(
        self, expected: NodeKey | None, channel: ConnectionChannel, versions: Versions, identity: BrokerIdentity
    ) -> None:
        """Ask a node on a new connection. Never raises an error of the broker: missing answers are noted.

        The first broker is also asked about the cluster.
        """
        if identity.members.kind is not NodeKind.BROKER:
            return
        first = self.answering is None
        if first:
            self.answering = identity
            try:
                await self._ask_about_cluster(channel, versions, identity)
            finally:
                self._asked_for_topics.set()
            if self.contents is None:
                return  # no answer can be expected on this connection
        await self._asked_for_topics.wait()  # each of those questions has its limit
        key = identity.key or expected
        if key is not None:
            await self._ask_node(key, channel, versions, identity)

    def answers(self, cluster_id: str | None) -> Mapping[str, Any]:
        """Return the answers of each node of a cluster, by the names of the fields of an examination."""
        nodes = {key: node for (cluster, key), node in self._of_nodes.items() if cluster == cluster_id}
        return {
            "broker_settings": {key: node.settings for key, node in nodes.items() if node.settings is not None},
            "descriptions": {key: node.group for key, node in nodes.items() if node.group is not None},
            "not_checked": tuple(self.not_checked),
            "reads": {partition: code for node in nodes.values() for partition, code in node.reads.items()},
        }

    async def _ask_about_cluster(
        self, channel: ConnectionChannel, versions: Versions, identity: BrokerIdentity
    ) -> None:
        asking = cluster_contents.contents_question(versions, operations=self.intent.topic is not None)
        self.contents = await self._step("topics", "all topics", channel, asking)
        if self.contents is None:
            return
        if identity.key is not None:
            question = settings_question(versions, identity.key.node_id)
            answer = await self._step("settings", str(identity.key), channel, question)
            if answer is not None and answer.error == ErrorCode.NONE:
                self._node(identity.cluster_id, identity.key).settings = answer
                self.settings = {name: value for name, value in answer.values.items() if value}
            else:
                self.not_checked.append(
                    "the broker's other listeners: this user may not see them (DescribeConfigs on the cluster)"
                )
        if any(topic.name == questions.GROUPS_TOPIC for topic in self.contents.topics):
            group = self.intent.group or _GROUP
            question_of_group = questions.coordinator_question(versions, group)
            self.coordinator = await self._step("coordinator", group, channel, question_of_group)
        elif self.intent.group is None:
            self.not_checked.append(
                "a group's coordinator: with --group NAME, kproxy asks each broker for that group. (FindCoordinator"
                f" could create the topic {questions.GROUPS_TOPIC}, which this user does not see.)"
            )
        topic = self._topic
        if topic is not None and self.intent.acks == _ALL:
            of_topic = usage.topic_settings_question(versions, topic.name, [_MIN_IN_SYNC])
            settings = await self._step("replicas", topic.name, channel, of_topic)
            value = None if settings is None else settings.values.get(_MIN_IN_SYNC)
            self.min_in_sync = int(value) if value is not None and value.isdecimal() and len(value) < 10 else None

    async def _ask_node(
        self, key: NodeKey, channel: ConnectionChannel, versions: Versions, identity: BrokerIdentity
    ) -> None:
        """Ask a node for its settings, for the group, and for records; only what it has not answered before."""
        node = self._node(identity.cluster_id, key)
        if node.settings is None and identity.key is not None:
            settings = await self._quietly(channel, settings_question(versions, key.node_id))
            node.settings = settings if settings is not None and settings.error == ErrorCode.NONE else None
        if node.group is None and self.intent.group is not None:
            target = f"{self.intent.group} at {key}"
            node.group = await self._step("group", target, channel, usage.group_question(versions, self.intent.group))
        topic = self._topic
        if self.answering is None or identity.cluster_id != self.answering.cluster_id:
            return
        if topic is None or "Read" not in self.intent.operations:
            return
        partitions = [part.index for part in topic.partitions if part.leader == key.node_id]
        if partitions and not node.reads:
            reading = usage.read_at_end(channel, versions, topic.name, partitions[:_PARTITIONS], _BYTES)
            node.reads = await self._answer("read", f"{topic.name} at {key}", reading) or {}

    @property
    def _topic(self) -> Topic | None:
        """The topic that the client is going to use, if this user sees it."""
        topics = () if self.contents is None else self.contents.topics
        return next((topic for topic in topics if topic.name == self.intent.topic and not topic.error), None)

    def _node(self, cluster_id: str | None, key: NodeKey) -> _NodeAnswers:
        return self._of_nodes.setdefault((cluster_id, key), _NodeAnswers())

    async def _quietly(self, channel: ConnectionChannel, question: Question[T] | None) -> T | None:
        """Return an answer that is no step of the examination; None if there is none."""
        with contextlib.suppress(KproxyError, TimeoutError):
            async with asyncio.timeout(self.seconds):
                return None if question is None else await question.ask(channel)
        return None

    async def _step(self, kind: str, target: str, channel: ConnectionChannel, question: Question[T] | None) -> T | None:
        return None if question is None else await self._answer(kind, target, question.ask(channel))

    async def _answer(self, kind: str, target: str, asking: Awaitable[T]) -> T | None:
        began = perf_counter()
        try:
            async with asyncio.timeout(self.seconds):
                answer = await asking
        except (KproxyError, TimeoutError) as failed:
            error = failed if isinstance(failed, KproxyError) else f"no answer within {self.seconds:g} s"
            self.on_step(ExaminationStep(kind, target, StepVerdict.FAILED, perf_counter() - began, str(error)))
            about = kind if kind in ("topics", "settings") else f"{kind} {target}"
            self.not_checked.append(f"{about}: {error}")
            return None
        self.on_step(ExaminationStep(kind, target, StepVerdict.OK, perf_counter() - began, ""))
        return answer


@dataclass(slots=True)
class _NodeAnswers:
    """The answers of one node."""

    settings: BrokerSettings | None = None
    group: GroupDescription | None = None
    reads: Mapping[int, int] = field(default_factory=dict)
    """Kafka's error codes of reads, by partition."""
