"""Whom an upstream address leads to: which cluster, and which of its nodes.

An address that accepts a connection is not yet the node. So kproxy asks on each upstream connection, before a request
of the client goes along it: one round trip, in which both questions go. A memory of what an address has answered was
tried, valid only while another connection to it stood. It is not enough: a connection that waits in the queue of a
forwarder or load balancer is led to wherever that leads when its turn comes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from time import monotonic

from kproxy.base.errors import UpstreamError
from kproxy.client.ask import questions
from kproxy.client.ask.channel import Channel
from kproxy.client.ask.questions import ClusterNodes, Question, TopicPartition, UnreadableResponse, Versions
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.proxy.cluster.reachability import Proof
from kproxy.proxy.cluster.topology import NodeKey, Topology
from kproxy.proxy.switching.logins import LoginMode

log = logging.getLogger(__name__)

# A question that no broker has ever answered, and on which one has hung up so often, is left out for so many seconds:
# some that are no Kafka do that. A connection that breaks at that moment looks the same.
_HUNG_UP, _LEFT_OUT = 2, 300.0
# That brokers answer after a login only is believed for so long, in seconds: one that is being stopped looks the same.
_WANTS_LOGIN = 300.0
# Partitions that a node leads are looked up again after so many seconds.
_LEADERS_HOLD = 300.0


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Who has answered, as a member of which nodes. `key` is None if nothing tells which of them it is."""

    members: ClusterNodes
    key: NodeKey | None
    proof: Proof | None

    @property
    def cluster_id(self) -> str | None:
        return self.members.cluster_id


class LoginRequired(UpstreamError):
    """The broker tells nothing before a login. The connection is closed."""

    def __init__(self) -> None:
        super().__init__("closed", "the broker tells only authenticated clients which node it is")


class ClosedOnOptionalRequest(UpstreamError):
    """The broker has closed the connection on a question that it need not have answered. It may be asked without."""


class BrokerIdentifier:
    """Who answers at the addresses of one cluster."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._versions: Versions | None = None
        self._tells_its_id = False  # a broker has named its own id when it was asked for another's
        self._hung_up: Counter[Proof] = Counter()  # how often, in a row
        self._answered: set[Proof] = set()  # questions that a broker has answered
        self._left_out_until: dict[Proof, float] = {}
        self._leaders: dict[int, tuple[TopicPartition, ...]] = {}
        self._leaders_at = 0.0
        self._answers_all = False  # a broker has answered without a login
        self._has_wanted_login = False
        self._wants_login_until = 0.0

    @property
    def login(self) -> LoginMode:
        """Who must log in to the brokers, if kproxy does not, as far as they have shown it."""
        if self._answers_all:
            return LoginMode.NOBODY
        return LoginMode.CLIENTS if self._has_wanted_login else LoginMode.UNKNOWN

    @property
    def wants_login(self) -> bool:
        """Whether brokers answer after a login only, as far as is known: there is no use in asking before."""
        return monotonic() < self._wants_login_until

    async def ask(
        self,
        ask: Channel,
        supposed: NodeKey | None = None,
        names: Sequence[str] = (),
        *,
        logged_in: bool = False,
        versions: Versions | None = None,
    ) -> BrokerIdentity:
        """Ask who is there. `supposed`: the node that it should be, or was. `names`: those in its certificate, if that
        was verified. `logged_in`: somebody has logged in on this connection. `versions`: what the broker has said on
        this connection, which before a login it says once.

        Raises WantsLogin, HungUp, another UpstreamError, or WireError.
        """
        if versions is None:
            versions = self._versions
            if versions is None or not (logged_in or self._answers_all):
                versions = await questions.ask_versions(ask)
        # A broker that tells its id when it is asked for another's need not be asked for one that nobody has, which it
        # would log as an error.
        suppose = supposed.node_id if supposed is not None and self._tells_its_id else questions.UNUSED_NODE_ID
        # In one round trip, where that can be. The broker answers in order: if it hangs up before the first answer, it
        # was not the second question's fault.
        who = questions.nodes_question(versions)
        which = questions.node_id_question(versions, suppose) if self._may_ask(Proof.OWN_WORD) else None
        who.send(ask)
        if which is not None:
            which.send(ask)
        members = await self._members(who, ask, logged_in)
        node_id = None
        if which is not None:
            node_id = await self._optional(Proof.OWN_WORD, which.answer(ask))
        self._versions = versions
        if node_id is not None:
            self._tells_its_id = self._tells_its_id or suppose != node_id
            return BrokerIdentity(members, NodeKey(members.kind, node_id), Proof.OWN_WORD)
        key, proof = self._inferred(members, names)
        if key is None and members.kind is NodeKind.BROKER:
            key, proof = await self._from_duties(ask, versions)
        return BrokerIdentity(members, key, proof)

    async def _members(self, who: Question[ClusterNodes], ask: Channel, logged_in: bool) -> ClusterNodes:
        try:
            members = await who.answer(ask)
        except UpstreamError as error:
            if error.reason == "closed" and not (logged_in or self._answers_all):
                self._has_wanted_login = True
                self._wants_login_until = monotonic() + _WANTS_LOGIN
                raise LoginRequired from None
            raise
        if not logged_in:
            self._answers_all = True
        return members

    def _inferred(self, members: ClusterNodes, names: Sequence[str]) -> tuple[NodeKey | None, Proof | None]:
        """Which node it is by what is known already: the names in its certificate, the number of brokers."""
        by_name = self._by_name(members, names)
        if by_name is not None:
            return by_name, Proof.CERTIFICATE
        ids = {endpoint.node_id for endpoint in members.nodes}
        if len(ids) == 1 and ids.issuperset(key.node_id for key in self._topology.nodes if key.kind is members.kind):
            return NodeKey(members.kind, ids.pop()), Proof.ONLY_BROKER
        return None, None

    async def _from_duties(self, ask: Channel, versions: Versions) -> tuple[NodeKey | None, Proof | None]:
        """Which broker it is by what only one can do."""
        duties = (
            (Proof.LEADER, self._leader),
            (Proof.COORDINATOR, questions.ask_coordinator),
        )
        for proof, duty in duties:
            node_id = await self._optional(proof, duty(ask, versions)) if self._may_ask(proof) else None
            if node_id is not None:
                return NodeKey(NodeKind.BROKER, node_id), proof
        return None, None

    def _may_ask(self, name: Proof) -> bool:
        """Whether brokers do not hang up on this question, as far as is known."""
        return monotonic() >= self._left_out_until.get(name, 0.0)

    async def _optional(self, name: Proof, asking: Awaitable[int | None]) -> int | None:
        """The answer to a question that a broker need not answer. Raises HungUp."""
        try:
            answer = await asking
        except UpstreamError as error:
            if error.reason == "closed":
                self._note_hung_up(name)
                raise ClosedOnOptionalRequest(error.reason, str(error)) from None
            raise
        except UnreadableResponse:
            self._answered.add(name)
            return None
        self._answered.add(name)
        return answer

    def _note_hung_up(self, name: Proof) -> None:
        if name in self._answered:
            return
        self._hung_up[name] += 1
        if self._hung_up[name] >= _HUNG_UP:
            self._hung_up[name] = 0
            self._left_out_until[name] = monotonic() + _LEFT_OUT

    def _by_name(self, members: ClusterNodes, names: Sequence[str]) -> NodeKey | None:
        """The one node whose advertised host is among the certificate's names."""
        if not names:
            return None
        spelled = {name.lower().removesuffix(".") for name in names}
        hosts = [(endpoint.advertised.host.lower().removesuffix("."), endpoint.node_id) for endpoint in members.nodes]
        found = [node_id for host, node_id in hosts if host in spelled]
        # A name with a wildcard is no node's, and says that the certificate is for several.
        if len(found) != 1 or any(name.startswith("*.") for name in spelled):
            return None
        return NodeKey(members.kind, found[0])

    async def _leader(self, ask: Channel, versions: Versions) -> int | None:
        """The node whose partitions the broker answers for, and nobody else's."""
        for fresh in (False, True):
            if fresh or not self._leaders or monotonic() - self._leaders_at > _LEADERS_HOLD:
                self._leaders, self._leaders_at = await questions.ask_leaders(ask, versions), monotonic()
            if not self._leaders:
                return None
            leader_of = {partition: node for node, led in self._leaders.items() for partition in led}
            answers = await questions.ask_leadership(ask, versions, leader_of)
            led = {leader_of[partition] for partition, error in answers.items() if error == questions.NONE}
            not_led = {leader_of[partition] for partition, error in answers.items() if error == questions.NOT_LEADER}
            if len(led) == 1 and led.isdisjoint(not_led):  # else leaders have moved meanwhile
                return led.pop()
            if not led and not fresh and not not_led:
                return None  # this user may not see them any more
        return None
