"""Contacts one address as a client would: resolve, connect, TLS, login, and the identity of the broker."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.base.errors import KproxyError, UpstreamError, ViaError, WireError
from kproxy.base.messages.start import NO_BROKER_ANSWERS
from kproxy.client.ask import questions, settings
from kproxy.client.sasl.mechanism import LoginRefused
from kproxy.config import ClusterConfig
from kproxy.inspect.doctor import protocol_probe
from kproxy.inspect.doctor.evidence import Contact, ExaminationStep, PortProtocol, StepVerdict
from kproxy.net.dial import connector as dialling
from kproxy.net.dial.resolver import Resolver
from kproxy.proxy.cluster.identity import BrokerIdentifier, BrokerIdentity, ClosedOnOptionalRequest, LoginRequired
from kproxy.proxy.cluster.topology import LocalPorts, NodeKey, Topology
from kproxy.proxy.cluster.upstreamconnector import UpstreamConnection, UpstreamConnector

if TYPE_CHECKING:
    from kproxy.client.ask.channel import ConnectionChannel
    from kproxy.client.ask.questions import Versions

OnStep = Callable[[ExaminationStep], None]
FollowUp = Callable[["ConnectionChannel", "Versions", BrokerIdentity], Awaitable[None]]

# How often an address is asked again which node it is: a load balancer that mixes brokers answers differently.
_AGAIN = 3
# How often a question that a broker hangs up on is left out.
_HANG_UPS = 3
# Reasons for which it is worth while to listen to what the port speaks.
_WORTH_LISTENING = ("closed", "malformed", "timeout", "sasl", "other")
_SPOKEN = {
    "upstream-speaks-http": PortProtocol.HTTP,
    "upstream-speaks-ssh": PortProtocol.SSH,
    "upstream-speaks-socks": PortProtocol.SOCKS,
    "upstream-speaks-tls-alert": PortProtocol.TLS,
    "upstream-speaks-tls": PortProtocol.TLS,
}


@dataclass(slots=True)
class _StepLog:
    """The steps of contacting one address."""

    target: str
    on_step: OnStep
    steps: list[ExaminationStep] = field(default_factory=list)

    def dialled(self, step: dialling.DialStep) -> None:
        """Note a step of opening the connection."""
        verdict = StepVerdict.OK if step.problem is None else StepVerdict.FAILED
        text = (step.problem or "").removeprefix(f"{self.target}: ")
        self.note(step.kind.value, step.target, verdict, step.seconds, text)

    def note(self, kind: str, target: str, verdict: StepVerdict, seconds: float, text: str = "") -> None:
        step = ExaminationStep(kind, target, verdict, seconds, text, self.target)
        self.steps.append(step)
        self.on_step(step)

    @property
    def has_connected(self) -> bool:
        """True if the connection was opened: a time-out then means a silent server, not the network."""
        return any(step.kind == "connect" and step.verdict is StepVerdict.OK for step in self.steps)


class ContactMaker:
    """Contacts the addresses of one cluster, along the routes of its configuration."""

    def __init__(self, config: ClusterConfig, tasks: asyncio.TaskGroup, on_step: OnStep) -> None:
        """Prepare contacts.

        Raises ConfigError if a file of TLS cannot be used.
        """
        self._config = config
        self._seconds = config.connect_timeout
        self._opener = UpstreamConnector(config, tasks, lambda _: False)
        self._identifier = BrokerIdentifier(Topology(LocalPorts(1, 2)))
        self._resolver = Resolver()
        self._on_step = on_step
        self._in_turn: defaultdict[tuple[tuple[str, ...], int], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def close(self) -> None:
        """Close connections that are kept open for further contacts."""
        await self._opener.close()

    def quiet(self) -> ContactMaker:
        """Return a maker of contacts that are no steps of the examination."""
        maker = copy(self)
        maker._on_step = lambda step: None
        return maker

    @property
    def logs_in(self) -> bool:
        return self._opener.logs_in

    def forwarded(self, label: str, advertised: Address) -> Address | None:
        """Return the local address of a forward command for a node, as `Routes` asks for it; None if there is none."""
        return self._opener.forwards.dial_address(label, advertised)

    @property
    def verifies_names(self) -> bool:
        """True if only a server with a certificate for the expected host gets past the TLS handshake."""
        return self._config.tls and not self._config.tls_insecure and self._config.tls_server_name is None

    async def contact(
        self,
        dialled: Address,
        expected: NodeKey | None = None,
        name: Address | None = None,
        then: FollowUp | None = None,
    ) -> Contact:
        """Contact an address and return the result. Never raises an error of the network.

        `expected`: the node that should answer; `name`: the address that it advertises, if another one is dialled for
        it. `then` asks more on the same connection, so that kproxy need not log in twice.
        """
        notes = _StepLog(str(dialled), self._on_step)
        contact = Contact(dialled, expected, name, resolved=await self._resolved(dialled))
        host = (name or dialled).host
        try:
            for _ in range(1 if self.logs_in else _HANG_UPS):
                opened = await self._opener.open(dialled, host, notes.dialled)
                try:
                    contact = await self._identify(opened, contact, notes)
                    if then is not None and contact.identity is not None and contact.versions is not None:
                        await then(opened.channel, contact.versions, contact.identity)
                    break
                except ClosedOnOptionalRequest as error:  # it may be asked without that question
                    hung_up = error
                finally:
                    opened.sock.close()
            else:
                contact = replace(contact, reason=hung_up.reason, problem=str(hung_up))
        except KproxyError as error:
            contact = replace(
                contact,
                reason=error.reason if isinstance(error, UpstreamError | WireError) else "other",
                problem=str(error).removeprefix(f"{dialled}: "),
                via_failed=isinstance(error, ViaError),
                refused=isinstance(error, LoginRefused),
            )
        contact = await self._with_protocol(contact, host, notes)
        # Also where another node has answered: a load balancer that mixes them has turns.
        if contact.identity is not None and not contact.reason and not self.logs_in:
            contact = await self._with_other_answers(contact, host)
        return replace(contact, steps=tuple(notes.steps))

    async def _resolved(self, address: Address) -> tuple[str, ...]:
        if self._config.via:
            return ()  # the last hop resolves it
        try:
            async with asyncio.timeout(self._seconds):
                infos = await self._resolver.resolve(address)
        except (TimeoutError, UpstreamError):
            return ()
        return tuple(dict.fromkeys(str(info[4][0]) for info in infos))

    async def _identify(self, opened: UpstreamConnection, contact: Contact, notes: _StepLog) -> Contact:
        """Ask for the identity of the broker.

        Raises UpstreamError and WireError.
        """
        began = perf_counter()
        try:
            async with asyncio.timeout(self._seconds):
                versions = await questions.ask_versions(opened.channel)
                notes.note("versions", notes.target, StepVerdict.OK, perf_counter() - began)
                contact = replace(
                    contact,
                    versions=versions,
                    protocol=PortProtocol.KAFKA_TLS if self._config.tls else PortProtocol.KAFKA,
                )
                began = perf_counter()
                identity = await self._identifier.identify(
                    opened.channel,
                    contact.expected,
                    opened.names,
                    logged_in=self.logs_in,
                    versions=versions,
                    address=contact.address,
                )
                # Before a login, a broker would end the connection: it tells its versions once.
                asking = settings.features_question(versions)
                features = {} if asking is None else await asking.ask(opened.channel)
        except LoginRequired:
            notes.note(
                "metadata", notes.target, StepVerdict.FAILED, perf_counter() - began, "answers only after a login"
            )
            return replace(contact, wants_login=True, mechanisms=await self._mechanisms(contact))
        except TimeoutError:
            text = NO_BROKER_ANSWERS()
            notes.note("versions", notes.target, StepVerdict.FAILED, perf_counter() - began, text)
            raise UpstreamError("silent", text) from None
        except ClosedOnOptionalRequest:
            raise
        except KproxyError as error:
            kind = "metadata" if contact.answered else "versions"
            notes.note(kind, notes.target, StepVerdict.FAILED, perf_counter() - began, str(error))
            raise
        notes.note("metadata", notes.target, StepVerdict.OK, perf_counter() - began, _who(identity))
        return replace(contact, identity=identity, features=features)

    async def _mechanisms(self, contact: Contact) -> tuple[str, ...] | None:
        """Return the mechanisms of the listener, from a connection of its own: the broker closes it."""
        try:
            opened = await self._opener.open(contact.address, contact.name.host)
            with opened.sock:
                async with asyncio.timeout(self._seconds):
                    versions = await questions.ask_versions(opened.channel)
                    asking = settings.mechanisms_question(versions)
                    return None if asking is None else await asking.ask(opened.channel)
        except (KproxyError, TimeoutError):
            return None

    async def _with_protocol(self, contact: Contact, host: str, notes: _StepLog) -> Contact:
        """Return the contact with the protocol of the port, if it is unexpected, and with the certificate, if any."""
        protocol = _SPOKEN.get(contact.reason)
        if protocol is not None and protocol is not PortProtocol.TLS:
            return replace(contact, protocol=protocol)
        connect = partial(self._opener.connect, contact.address)
        failed_later = contact.reason == "silent" or (contact.reason in _WORTH_LISTENING and notes.has_connected)
        if (
            not contact.answered
            and not contact.via_failed
            and (protocol is PortProtocol.TLS or failed_later or contact.reason.startswith("tls"))
            and not contact.refused
        ):
            began = perf_counter()
            result = await protocol_probe.probe(connect, host, self._seconds)
            notes.note("spoken", notes.target, StepVerdict.NOTE, perf_counter() - began, result.protocol)
            return replace(contact, protocol=result.protocol, certificate=result.certificate)
        if self._config.tls and contact.answered:
            return replace(contact, certificate=await protocol_probe.certificate_of(connect, host, self._seconds))
        return contact

    async def _with_other_answers(self, contact: Contact, host: str) -> Contact:
        """Return the contact with further nodes and clusters that answer at the same address when asked again."""
        first = contact.identity
        assert first is not None
        nodes: dict[NodeKey, None] = {}
        clusters: dict[str, None] = {}
        # Not two at once where two names lead to one load balancer: each would always have its own turn.
        async with self._in_turn[contact.resolved, contact.address.port]:
            for _ in range(_AGAIN):
                identity = await self._ask_again(contact, host)
                if identity is None:
                    continue
                if None not in (identity.cluster_id, first.cluster_id) and identity.cluster_id != first.cluster_id:
                    clusters[str(identity.cluster_id)] = None
                elif identity.key is not None and first.key is not None and identity.key != first.key:
                    nodes[identity.key] = None
        return replace(contact, others=tuple(nodes), other_clusters=tuple(clusters))

    async def _ask_again(self, contact: Contact, host: str) -> BrokerIdentity | None:
        try:
            opened = await self._opener.open(contact.address, host)
            with opened.sock:
                async with asyncio.timeout(self._seconds):
                    return await self._identifier.identify(
                        opened.channel, contact.expected, opened.names, address=contact.address
                    )
        except (KproxyError, TimeoutError):
            return None


def _who(identity: BrokerIdentity) -> str:
    cluster = f"cluster {identity.cluster_id}" if identity.cluster_id else "a cluster without an id"
    if identity.key is None:
        return f"a node of {cluster}; which one, the broker does not tell this user"
    proof = f" ({identity.proof.value})" if identity.proof is not None else ""
    return f"{identity.key} of {cluster}{proof}"
