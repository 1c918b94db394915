"""The identity of what listens at an upstream address: its cluster, and which node of the cluster it is.

An address that accepts a connection need not be the node. So kproxy asks on each upstream connection, before it sends a
request of the client: one round trip, with both questions. A memory of what an address has answered was tried, valid
only while another connection to it stood. It is not enough: a connection that waits in the queue of a forwarder or load
balancer goes wherever that leads when its turn comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, WireError
from kproxy.client.ask import questions
from kproxy.client.ask.channel import Channel
from kproxy.client.ask.question import Question, UnreadableResponse
from kproxy.client.ask.questions import ClusterNodes, NotAController, TopicPartition, Versions
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.protocol.rewrite.versionsrequest import VersionsRequest
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.proxy.cluster.nodecheck import NodeCheck, Verdict
from kproxy.proxy.cluster.reachability import Proof
from kproxy.proxy.cluster.topology import NodeKey, Topology
from kproxy.proxy.switching.logins import LoginMode

log = logging.getLogger(__name__)

T = TypeVar("T")

# If no broker has ever answered a question, and one has closed the connection on it _CLOSES_UNTIL_OMITTED times,
# kproxy omits it for _OMITTED_FOR seconds: some servers that are no Kafka do that. A connection that breaks at that
# moment looks the same.
_CLOSES_UNTIL_OMITTED, _OMITTED_FOR = 2, 300.0
# For this many seconds kproxy assumes that brokers answer only after a login: a broker that stops looks the same.
_LOGIN_REQUIRED_FOR = 300.0
# After this many seconds, kproxy asks again which partitions a node leads.
_LEADERS_VALID_FOR = 300.0


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The broker that has answered: the members of its cluster, and which of them it is."""

    members: ClusterNodes
    key: NodeKey | None
    """The node; None if no answer shows which one it is."""
    proof: Proof | None
    refused: bool = False
    """True if it refuses to be any node that its cluster has told kproxy about, and to be the expected one."""

    @property
    def cluster_id(self) -> str | None:
        """The id of its cluster; None if the broker does not send one."""
        return self.members.cluster_id

    @property
    def is_controller(self) -> bool:
        """True if it is a KRaft controller, which serves no client of topics."""
        return self.members.kind is NodeKind.CONTROLLER


class LoginRequired(UpstreamError):
    """The broker answers only after a login. The connection is closed."""

    def __init__(self) -> None:
        super().__init__("closed", "the broker identifies itself only to authenticated clients")


class ClosedOnOptionalRequest(UpstreamError):
    """The connection is of no use after a request that the broker need not have answered as kproxy expected.

    It closed the connection, or is of another kind than the node that was there before. On another connection, kproxy
    asks otherwise.
    """


class BrokerIdentifier:
    """The questions that identify the brokers of one cluster, and what kproxy knows about asking them."""

    def __init__(self, topology: Topology) -> None:
        self.check = NodeCheck()
        self._topology = topology
        self._versions: dict[NodeKind, Versions] = {}  # of the last node of each kind: controllers serve others
        self._reports_own_id = False  # a broker has named its own id when it was asked for another's
        self._closes: Counter[Proof] = Counter()  # how often, in a row
        self._answered: set[Proof] = set()  # questions that a broker has answered
        self._omitted_until: dict[Proof, float] = {}
        self._leaders: dict[int, tuple[TopicPartition, ...]] = {}
        self._leaders_at = 0.0
        self._answers_without_login = False  # a broker has answered without a login
        self._has_required_login = False
        self._login_required_until = 0.0

    @property
    def login(self) -> LoginMode:
        """The party that must log in to the brokers, if kproxy does not, as far as the brokers have shown it."""
        if self._answers_without_login:
            return LoginMode.NONE
        return LoginMode.CLIENTS if self._has_required_login else LoginMode.UNKNOWN

    @property
    def requires_login(self) -> bool:
        """True if brokers answer only after a login, as far as is known: asking earlier is of no use."""
        return monotonic() < self._login_required_until

    async def identify(
        self,
        channel: Channel,
        expected: NodeKey | None = None,
        names: Sequence[str] = (),
        *,
        logged_in: bool = False,
        versions: Versions | None = None,
        address: Address | None = None,
        finds: bool = True,
    ) -> BrokerIdentity:
        """Ask for the cluster and the node.

        `expected`: the node that it should be, or was. `names`: those in its certificate, if that was verified.
        `logged_in`: a login has succeeded on this connection. `versions`: the ApiVersions answer of the broker on this
        connection, which it sends only once before a login. `address`: the address that was dialled, of which kproxy
        remembers whether it offers `nodecheck`. `finds`: ask by that which node it is. Raises LoginRequired,
        ClosedOnOptionalRequest, another UpstreamError, or WireError.
        """
        known = None
        if versions is None and (logged_in or self._answers_without_login):
            known = self._versions.get(NodeKind.BROKER if expected is None else expected.kind)
        if known is None:
            versions = versions or await questions.ask_versions(channel)
            self.check.note_versions(address, versions)
        else:
            versions = known
        # A broker that returns its id when it is asked for another's need not be asked for one that no broker has:
        # it would log that as an error.
        assumed_id = expected.node_id if expected is not None and self._reports_own_id else questions.UNUSED_NODE_ID
        id_question = questions.node_id_question(versions, assumed_id) if self._may_ask(Proof.OWN_WORD) else None
        asks_id_later = finds and self.check.may_ask(address)
        members, node_id = await self._members(
            channel, address, versions, logged_in, None if asks_id_later else id_question
        )
        self._versions[members.kind] = versions
        verdict, confirmed_id = Verdict.UNKNOWN, None
        if finds and members.kind is NodeKind.BROKER:  # a controller confirms any node
            verdict, confirmed_id = await self._find(channel, address, members, expected)
        if confirmed_id is not None:
            return BrokerIdentity(members, NodeKey(members.kind, confirmed_id), Proof.CONFIRMED)
        if asks_id_later and id_question is not None:
            node_id = await self._optional(Proof.OWN_WORD, id_question.ask(channel))
        if node_id is not None:
            self._reports_own_id = self._reports_own_id or assumed_id != node_id
            return BrokerIdentity(members, NodeKey(members.kind, node_id), Proof.OWN_WORD)
        key, proof = self._infer(members, names)
        if key is None and members.kind is NodeKind.BROKER:
            key, proof = await self._from_roles(channel, versions)
        return BrokerIdentity(members, key, proof, refused=verdict is Verdict.REFUSED)

    async def _find(
        self, channel: Channel, address: Address | None, members: ClusterNodes, expected: NodeKey | None
    ) -> tuple[Verdict, int | None]:
        """Find out which of the members of its cluster the broker is, if it offers that."""
        if members.cluster_id is None or not self.check.may_ask(address):
            return Verdict.UNKNOWN, None
        ids = {} if expected is None or expected.kind is not members.kind else {expected.node_id: None}
        ids.update((endpoint.node_id, None) for endpoint in members.nodes)
        return await self._check(address, self.check.find(channel, address, members.cluster_id, list(ids)))

    def may_confirm(self, address: Address, *, logged_in: bool) -> bool:
        """Check whether the broker at an address can prove with one answer which node it is.

        Before a login that it requires, it cannot.
        """
        return (logged_in or self._answers_without_login) and self.check.may_confirm(address)

    async def confirm(
        self, channel: Channel, address: Address, cluster_id: str, node_id: int, request: VersionsRequest | None
    ) -> tuple[Verdict, bytes]:
        """Ask whether the broker at an address is this node, as `NodeCheck.confirm`.

        Raises ClosedOnOptionalRequest if the connection cannot be used any more.
        """
        return await self._check(address, self.check.confirm(channel, address, cluster_id, node_id, request))

    async def _check(self, address: Address | None, asking: Awaitable[T]) -> T:
        try:
            answer = await asking
        except asyncio.CancelledError:
            self.check.note_interrupted(address)
            raise
        except (UpstreamError, WireError) as error:
            self.check.note_failure(address, str(error), at_once=isinstance(error, WireError))
            raise ClosedOnOptionalRequest(error.reason, str(error)) from None
        self.check.note_answered(address)
        return answer

    async def _members(
        self,
        channel: Channel,
        address: Address | None,
        versions: Versions,
        logged_in: bool,
        id_question: Question[int | None] | None,
    ) -> tuple[ClusterNodes, int | None]:
        """Return the nodes of the cluster, and the id of this one if the answer to `id_question` reveals it.

        All is asked in one round trip. The broker answers in order: if it hangs up before the first answer, it was not
        the second question's fault.
        """
        asks_versions = address is not None and self.check.newest(address) is None
        if asks_versions:
            questions.VERSIONS_QUESTION.send(channel)
        members_question = questions.nodes_question(versions)
        members_question.send(channel)
        if id_question is not None:
            id_question.send(channel)
        if asks_versions:
            self.check.note_versions(address, await questions.VERSIONS_QUESTION.read_answer(channel))
        members = await self._read_members(members_question, channel, logged_in)
        if id_question is None:
            return members, None
        return members, await self._optional(Proof.OWN_WORD, id_question.read_answer(channel))

    async def _read_members(
        self, members_question: Question[ClusterNodes], channel: Channel, logged_in: bool
    ) -> ClusterNodes:
        try:
            members = await members_question.read_answer(channel)
        except NotAController as error:
            self._versions.pop(NodeKind.CONTROLLER, None)
            raise ClosedOnOptionalRequest(error.reason, str(error)) from None
        except UpstreamError as error:
            if error.reason == "closed" and not (logged_in or self._answers_without_login):
                self._has_required_login = True
                self._login_required_until = monotonic() + _LOGIN_REQUIRED_FOR
                raise LoginRequired from None
            raise
        if not logged_in:
            self._answers_without_login = True
        return members

    def _infer(self, members: ClusterNodes, names: Sequence[str]) -> tuple[NodeKey | None, Proof | None]:
        """Infer the node from what is already known: the names in its certificate, the number of brokers."""
        by_name = self._by_name(members, names)
        if by_name is not None:
            return by_name, Proof.CERTIFICATE
        ids = {endpoint.node_id for endpoint in members.nodes}
        if len(ids) == 1 and ids.issuperset(key.node_id for key in self._topology.nodes if key.kind is members.kind):
            return NodeKey(members.kind, ids.pop()), Proof.ONLY_BROKER
        return None, None

    async def _from_roles(self, channel: Channel, versions: Versions) -> tuple[NodeKey | None, Proof | None]:
        """Infer the broker from what only one broker can do."""
        roles = (
            (Proof.LEADER, self._leader),
            (Proof.COORDINATOR, questions.ask_coordinator),
        )
        for proof, ask_role in roles:
            node_id = await self._optional(proof, ask_role(channel, versions)) if self._may_ask(proof) else None
            if node_id is not None:
                return NodeKey(NodeKind.BROKER, node_id), proof
        return None, None

    def _may_ask(self, name: Proof) -> bool:
        """Check whether brokers answer this question instead of closing the connection, as far as is known."""
        return monotonic() >= self._omitted_until.get(name, 0.0)

    async def _optional(self, name: Proof, asking: Awaitable[T | None]) -> T | None:
        """Return the answer to a question that a broker need not answer. Raises ClosedOnOptionalRequest."""
        try:
            answer = await asking
        except UpstreamError as error:
            if error.reason == "closed":
                self._note_close(name)
                raise ClosedOnOptionalRequest(error.reason, str(error)) from None
            raise
        except UnreadableResponse:
            self._answered.add(name)
            return None
        self._answered.add(name)
        return answer

    def _note_close(self, name: Proof) -> None:
        if name in self._answered:
            return
        self._closes[name] += 1
        if self._closes[name] >= _CLOSES_UNTIL_OMITTED:
            self._closes[name] = 0
            self._omitted_until[name] = monotonic() + _OMITTED_FOR

    def _by_name(self, members: ClusterNodes, names: Sequence[str]) -> NodeKey | None:
        """Return the only node whose advertised host is among the certificate's names."""
        if not names:
            return None
        certificate_names = {name.lower().removesuffix(".") for name in names}
        hosts = [(endpoint.advertised.host.lower().removesuffix("."), endpoint.node_id) for endpoint in members.nodes]
        node_ids = [node_id for host, node_id in hosts if host in certificate_names]
        # A name with a wildcard is no node's, and says that the certificate is for several.
        if len(node_ids) != 1 or any(name.startswith("*.") for name in certificate_names):
            return None
        return NodeKey(members.kind, node_ids[0])

    async def _leader(self, channel: Channel, versions: Versions) -> int | None:
        """Return the only node for whose partitions the broker answers as the leader."""
        for refresh in (False, True):
            if refresh or not self._leaders or monotonic() - self._leaders_at > _LEADERS_VALID_FOR:
                self._leaders, self._leaders_at = await questions.ask_leaders(channel, versions), monotonic()
            if not self._leaders:
                return None
            leader_of = {partition: node for node, led_ids in self._leaders.items() for partition in led_ids}
            answers = await questions.ask_leadership(channel, versions, leader_of)
            led_ids = {leader_of[partition] for partition, error in answers.items() if error == ErrorCode.NONE}
            not_led_ids = {
                leader_of[partition]
                for partition, error in answers.items()
                if error == ErrorCode.NOT_LEADER_OR_FOLLOWER
            }
            if len(led_ids) == 1 and led_ids.isdisjoint(not_led_ids):  # else leaders have moved meanwhile
                return led_ids.pop()
            if not led_ids and not refresh and not not_led_ids:
                return None  # this user may not see them any more
        return None
