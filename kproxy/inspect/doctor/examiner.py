"""The examination of one cluster: its bootstrap servers, its metadata, and every address that it advertises.

All addresses are contacted at the same time, so that a cluster of many brokers behind a firewall costs one time limit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from kproxy.base.address import Address
from kproxy.base.errors import KproxyError
from kproxy.client.ask import contents as cluster_contents
from kproxy.client.ask import questions
from kproxy.client.ask.contents import ClusterContents
from kproxy.client.ask.questions import Question
from kproxy.client.ask.settings import BrokerSettings, settings_question
from kproxy.config import ClusterConfig
from kproxy.inspect.doctor.broker_addresses import find_broker_addresses
from kproxy.inspect.doctor.client_versions import ClientVersion
from kproxy.inspect.doctor.contact import ContactMaker, OnStep
from kproxy.inspect.doctor.evidence import Contact, Examination, ExaminationStep, OtherListener, StepVerdict
from kproxy.inspect.doctor.listeners import listeners_of
from kproxy.net.dial.routes import Routes
from kproxy.protocol.rewrite.endpoints import Endpoint, NodeKind
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.proxy.cluster.identity import BrokerIdentity
from kproxy.proxy.cluster.topology import NodeKey

if TYPE_CHECKING:
    from kproxy.client.ask.channel import ConnectionChannel
    from kproxy.client.ask.questions import Versions

T = TypeVar("T")

# Addresses that are contacted at the same time.
_AT_ONCE = 64
# Addresses of the broker's other listeners that are tried.
_ELSEWHERE = 8


@dataclass(frozen=True, slots=True)
class ExtraChecks:
    """Checks that the user asks for: of a topic, of a group, of the client in use."""

    topic: str | None = None
    group: str | None = None
    client: ClientVersion | None = None


@dataclass(slots=True)
class _ClusterQuestions:
    """The questions to the first bootstrap server that answers, on its own connection."""

    topic: str | None
    group: str | None
    seconds: float  # that each answer may take
    on_step: OnStep
    answering: BrokerIdentity | None = None
    contents: ClusterContents | None = None
    settings: Mapping[str, str] | None = None
    broker_settings: dict[tuple[str | None, NodeKey], BrokerSettings] = field(default_factory=dict)
    coordinator: tuple[int, int] | None = None
    not_checked: list[str] = field(default_factory=list)

    async def ask(self, ask: ConnectionChannel, versions: Versions, identity: BrokerIdentity) -> None:
        """Ask them. Never raises an error of the broker: missing answers are noted."""
        if self.answering is not None or identity.members.kind is not NodeKind.BROKER:
            await self.note_settings(ask, versions, identity)
            return
        self.answering = identity
        self.contents = await self._step(
            "topics", "all topics", ask, cluster_contents.contents_question(versions, operations=self.topic is not None)
        )
        if self.contents is None:
            return
        if identity.key is not None:
            asking = settings_question(versions, identity.key.node_id)
            answer = await self._step("settings", str(identity.key), ask, asking)
            if answer is not None and answer.error == ErrorCode.NONE:
                self.broker_settings[identity.cluster_id, identity.key] = answer
                self.settings = {name: value for name, value in answer.values.items() if value}
            else:
                self.not_checked.append(
                    "the broker's other listeners: this user may not see them (DescribeConfigs on the cluster)"
                )
        if all(topic.name != questions.GROUPS_TOPIC for topic in self.contents.topics):
            self.not_checked.append(
                f"a group's coordinator: the topic {questions.GROUPS_TOPIC} does not exist yet or is not visible"
                " to this user, and the question could make the broker create it"
            )
            return
        group = self.group or "kproxy-doctor"
        self.coordinator = await self._step("coordinator", group, ask, questions.coordinator_question(versions, group))

    async def note_settings(self, ask: ConnectionChannel, versions: Versions, identity: BrokerIdentity) -> None:
        """Note the settings of one more broker, if it returns them; this is no step of the examination."""
        key = identity.key
        if key is None or key.kind is not NodeKind.BROKER or (identity.cluster_id, key) in self.broker_settings:
            return
        question = settings_question(versions, key.node_id)
        with contextlib.suppress(KproxyError, TimeoutError):
            async with asyncio.timeout(self.seconds):
                answer = None if question is None else await question.ask(ask)
            if answer is not None and answer.error == ErrorCode.NONE:
                self.broker_settings[identity.cluster_id, key] = answer

    async def _step(self, kind: str, target: str, ask: ConnectionChannel, question: Question[T] | None) -> T | None:
        if question is None:
            return None
        began = perf_counter()
        try:
            async with asyncio.timeout(self.seconds):
                answer = await question.ask(ask)
        except (KproxyError, TimeoutError) as failed:
            error = failed if isinstance(failed, KproxyError) else f"no answer within {self.seconds:g} s"
            self.on_step(ExaminationStep(kind, target, StepVerdict.FAILED, perf_counter() - began, str(error)))
            self.not_checked.append(f"{kind}: {error}")
            return None
        self.on_step(ExaminationStep(kind, target, StepVerdict.OK, perf_counter() - began, ""))
        return answer


async def examine(
    config: ClusterConfig,
    contacts: ContactMaker,
    on_step: OnStep,
    extra_checks: ExtraChecks,
    of_nodes: ContactMaker | None = None,
) -> Examination:
    """Examine the cluster of this configuration. Raises no error of the network.

    With `of_nodes`, that one contacts the nodes.
    """
    of_nodes = of_nodes or contacts
    questions = _ClusterQuestions(extra_checks.topic, extra_checks.group, config.connect_timeout, on_step)
    limit = asyncio.Semaphore(_AT_ONCE)
    servers = list(dict.fromkeys(config.bootstrap_servers))

    async def bootstrap(server: Address) -> Contact:
        async with limit:
            return await contacts.contact(server, then=questions.ask)

    examination = Examination(
        bootstrap=tuple(await asyncio.gather(*[bootstrap(server) for server in servers])),
        topic=extra_checks.topic,
        group=extra_checks.group,
        client=extra_checks.client,
        tls=config.tls,
        login=config.sasl,
        user=config.sasl_username,
        certificate_given=config.tls_cert is not None,
        via=tuple(str(hop) for hop in config.via),
        mapped=bool(config.map),
    )
    answered = [contact for contact in examination.bootstrap if contact.identity is not None]
    asked = next(
        (contact for contact in answered if contact.identity is questions.answering), answered[0] if answered else None
    )
    examination = replace(
        examination,
        answering=asked,
        contents=questions.contents,
        settings=questions.settings,
        coordinator=questions.coordinator,
        not_checked=tuple(questions.not_checked),
    )
    if asked is None or asked.identity is None:
        return replace(examination, not_checked=_why_not_checked(examination))
    nodes = _nodes(examination.bootstrap, asked.identity)
    routes = Routes(config.map)

    async def node(endpoint: Endpoint) -> Contact:
        key = NodeKey(endpoint.kind, endpoint.node_id)
        dialled = routes.candidates(key.label, endpoint.advertised)[0].dial
        same = next((contact for contact in examination.bootstrap if contact.address == dialled), None)
        if same is not None:  # it was contacted already: kproxy does not log in twice
            return replace(same, expected=key, advertised=endpoint.advertised)
        async with limit:
            return await of_nodes.contact(dialled, key, endpoint.advertised, questions.note_settings)

    contacts_of_nodes = tuple(await asyncio.gather(*[node(endpoint) for endpoint in nodes]))
    examination = replace(
        examination, nodes=contacts_of_nodes, broker_settings=_broker_settings(questions, asked.cluster_id)
    )
    if all(contact.is_right for contact in contacts_of_nodes):
        return examination
    working_addresses = await find_broker_addresses(examination, contacts, questions.note_settings)
    examination = replace(
        examination, working_addresses=working_addresses, broker_settings=_broker_settings(questions, asked.cluster_id)
    )

    async def other(address: Address) -> OtherListener:
        async with limit:
            contact = await contacts.contact(address, asked.identity.key if asked.identity else None, address)
        if not contact.is_right or contact.identity is None:
            return OtherListener(contact)
        return OtherListener(
            contact, tuple(await asyncio.gather(*[node(contact) for contact in contact.identity.members.nodes]))
        )

    tried = await asyncio.gather(*[other(address) for address in _other_addresses(examination)])
    return replace(examination, other_listeners=tuple(tried))


def _nodes(bootstrap: Sequence[Contact], identity: BrokerIdentity) -> list[Endpoint]:
    """Return the nodes of the cluster of the answering server, as any bootstrap server of it names them."""
    endpoints: dict[tuple[NodeKind, int], Endpoint] = {}
    for contact in bootstrap:
        if contact.identity is not None and contact.identity.cluster_id == identity.cluster_id:
            for endpoint in contact.identity.members.nodes:
                endpoints.setdefault((endpoint.kind, endpoint.node_id), endpoint)
    return [endpoints[key] for key in sorted(endpoints, key=lambda key: (key[0].value, key[1]))]


def _broker_settings(questions: _ClusterQuestions, cluster_id: str | None) -> Mapping[NodeKey, BrokerSettings]:
    return {key: settings for (cluster, key), settings in questions.broker_settings.items() if cluster == cluster_id}


def _other_addresses(examination: Examination) -> list[Address]:
    """Return the addresses that the answering broker advertises for its other listeners."""
    if examination.settings is None:
        return []
    contacted = {contact.address for contact in (*examination.bootstrap, *examination.nodes)}
    advertised = [
        listener.advertised for listener in listeners_of(examination.settings) if listener.advertised is not None
    ]
    return [address for address in dict.fromkeys(advertised) if address not in contacted][:_ELSEWHERE]


def _why_not_checked(examination: Examination) -> tuple[str, ...]:
    why = "no bootstrap server returned the addresses of the brokers"
    if any(contact.wants_login for contact in examination.bootstrap):
        why = "the brokers return their addresses to authenticated clients only: give the login (--sasl …)"
    return (*examination.not_checked, f"the advertised addresses: {why}")
