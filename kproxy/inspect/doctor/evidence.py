"""The results of an examination. Values only: `diagnosis` interprets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kproxy.base.address import Address
from kproxy.client.ask.contents import ClusterContents
from kproxy.client.ask.questions import Versions
from kproxy.client.ask.settings import BrokerSettings
from kproxy.client.ask.usage import GroupDescription
from kproxy.inspect.doctor.client_versions import ClientVersion
from kproxy.proxy.cluster.identity import BrokerIdentity
from kproxy.proxy.cluster.topology import NodeKey


class StepVerdict(StrEnum):
    """The result of one step."""

    OK = "ok"
    FAILED = "failed"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class ExaminationStep:
    """One step of the examination of `target`: its kind, its result, its duration, and details in words.

    `address` is the address that is contacted; "" if it is a question on a connection that there is already.
    """

    kind: str
    target: str
    verdict: StepVerdict
    seconds: float
    text: str
    address: str = ""


class PortProtocol(StrEnum):
    """The protocol of a port."""

    KAFKA = "Kafka (plaintext)"
    KAFKA_TLS = "Kafka (TLS)"
    TLS = "TLS"
    HTTP = "HTTP"
    SSH = "SSH"
    SOCKS = "SOCKS"
    PROXY = "Kafka behind the PROXY protocol"
    OTHER = "something that is not Kafka"
    NOTHING = "nothing"
    CLOSED = "nothing: the server closes the connection"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of a server, trusted or not."""

    names: tuple[str, ...]
    issuer: str
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True)
class Contact:
    """The result of contacting one address, as a client would that expects a node there."""

    address: Address
    """The address that was dialled."""
    expected: NodeKey | None
    """The node that should answer; None for a bootstrap server."""
    advertised: Address | None = None
    """The address that a client would dial: what a node advertises, or a bootstrap server that a map replaces."""
    steps: tuple[ExaminationStep, ...] = ()
    resolved: tuple[str, ...] = ()
    """The IP addresses of the name; empty if it was not resolved here."""
    reason: str = ""
    """Why the contact failed, in a word (`UpstreamError`); "" if it did not."""
    problem: str = ""
    """Why the contact failed; "" if it did not."""
    via_failed: bool = False
    """A hop failed, not the address."""
    refused: bool = False
    protocol: PortProtocol = PortProtocol.UNKNOWN
    certificate: Certificate | None = None
    versions: Versions | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    wants_login: bool = False
    mechanisms: tuple[str, ...] | None = None
    identity: BrokerIdentity | None = None
    """None if no broker answered, or if it did not return its identity."""
    others: tuple[NodeKey, ...] = ()
    """Nodes of that cluster that answered at the same address when it was asked again."""
    other_clusters: tuple[str, ...] = ()
    """The ids of other clusters that answered there."""

    @property
    def name(self) -> Address:
        """The address by which a client knows it, whose host the certificate must name."""
        return self.advertised or self.address

    @property
    def answered(self) -> bool:
        """True if a Kafka broker has answered."""
        return self.versions is not None

    @property
    def cluster_id(self) -> str | None:
        return None if self.identity is None else self.identity.cluster_id

    @property
    def is_right(self) -> bool:
        """True if a client can use the address, as far as was checked."""
        if self.reason or self.wants_login or self.others or self.other_clusters:
            return False
        return self.expected is None or self.identity is None or self.identity.key in (None, self.expected)


@dataclass(frozen=True, slots=True)
class BrokerListener:
    """One listener in the settings of a broker. `bind` and `advertised` are None if no setting has them."""

    name: str
    protocol: str
    bind: str | None
    advertised: Address | None


@dataclass(frozen=True, slots=True)
class OtherListener:
    """Another listener of the answering broker: contacts with its address, and with the brokers' addresses there."""

    contact: Contact
    nodes: tuple[Contact, ...] = ()

    @property
    def works(self) -> bool:
        """True if a client that uses this listener reaches every broker."""
        return self.contact.is_right and bool(self.nodes) and all(contact.is_right for contact in self.nodes)


@dataclass(frozen=True, slots=True)
class NeighbourKproxy:
    """A kproxy on this machine: the examined port is one of its own."""

    admin: str
    """Its admin endpoint."""
    bootstrap_servers: tuple[str, ...]
    """The bootstrap servers to which it connects."""
    via: tuple[str, ...] = ()
    """Its hops."""


@dataclass(frozen=True, slots=True)
class ClientIntent:
    """What the user's client is going to do, as far as the user names it."""

    topic: str | None = None
    group: str | None = None
    acks: int | None = None
    """The acknowledgements that a producer wants: 0, 1, or -1 for those of all replicas in sync."""
    client: ClientVersion | None = None

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations on the topic that the client needs; both if it is not known whether it reads or writes."""
        reads, writes = self.group is not None, self.acks is not None
        return tuple(name for name, is_meant in (("Read", reads), ("Write", writes)) if is_meant or reads == writes)


@dataclass(frozen=True, slots=True)
class RefusingKproxy:
    """A kproxy on this machine that refuses the Kafka cluster which answers at its bootstrap servers."""

    admin: str
    problem: str
    """Its own words: both cluster ids, and what to do."""


@dataclass(frozen=True, slots=True)
class EndedRoute:
    """An address, such as a port-forward, through which the kproxy on this machine no longer reaches a node."""

    admin: str
    """The admin endpoint of that kproxy."""
    node: NodeKey
    address: str
    since: float
    """The Unix time since when it does not lead to the node."""
    problem: str
    """Why not, in the words of that kproxy; it names the node that answers there now."""


@dataclass(frozen=True, slots=True)
class Examination:
    """All results for one cluster."""

    bootstrap: tuple[Contact, ...]
    nodes: tuple[Contact, ...] = ()
    """Contacts with the advertised (or mapped) addresses."""
    answering: Contact | None = None
    """The bootstrap server whose metadata has these nodes."""
    contents: ClusterContents | None = None
    """None if the topics were not asked for."""
    settings: Mapping[str, str] | None = None
    """The settings of the answering node; None if the user may not see them."""
    broker_settings: Mapping[NodeKey, BrokerSettings] = field(default_factory=dict)
    """The settings of each broker that returns them."""
    working_addresses: Mapping[NodeKey, Address] = field(default_factory=dict)
    """An address of each broker that works from this machine, as far as one was found; empty if all advertised
    addresses are right."""
    other_listeners: tuple[OtherListener, ...] = ()
    """Other listeners of the answering broker."""
    coordinator: tuple[int, int] | None = None
    """Kafka's error code and the node id of the group's coordinator; None if no broker was asked for it."""
    descriptions: Mapping[NodeKey, GroupDescription] = field(default_factory=dict)
    """The group, as each broker that was asked describes it."""
    reads: Mapping[int, int] = field(default_factory=dict)
    """Kafka's error code of a read at the end of a partition of the topic, for the partitions that were tried."""
    min_in_sync: int | None = None
    """`min.insync.replicas` of the topic; None if no broker was asked, or if this user may not see it."""
    intent: ClientIntent = ClientIntent()
    tls: bool = False
    login: str | None = None
    """The mechanism with which kproxy logs in, as `user`."""
    user: str | None = None
    certificate_given: bool = False
    """kproxy has a client certificate."""
    via: tuple[str, ...] = ()
    mapped: bool = False
    kproxy_options: tuple[str, ...] = ()
    """The options that only kproxy has."""
    neighbour: NeighbourKproxy | None = None
    """The kproxy that answered in place of the brokers, as it says itself."""
    refusing_kproxy: RefusingKproxy | None = None
    """The kproxy at these addresses, or with these bootstrap servers, if it refuses the cluster."""
    ended_routes: tuple[EndedRoute, ...] = ()
    """Those of the kproxy on this machine that serves this cluster."""
    direct_contacts: tuple[Contact, ...] = ()
    """Contacts with the same addresses without `kproxy_options`, as a client makes them; empty if there are no such
    options, or if no broker was reached with them."""
    exec_words: tuple[str, ...] = ()
    """The words before a command that needs kproxy to connect; none if it does not."""
    not_checked: tuple[str, ...] = ()
    """The checks that were left out, and why."""

    @property
    def dialler(self) -> str:
        """The machine that connects to the brokers and resolves their names, for messages."""
        return f"the last hop, {self.via[-1]}," if self.via else "this machine"

    def contact_with_answering(self, contacts: Sequence[Contact]) -> Contact:
        """Return the contact with the answering node, whose `settings` are known; else the first."""
        key = (
            self.answering.identity.key if self.answering is not None and self.answering.identity is not None else None
        )
        return next((contact for contact in contacts if contact.expected == key), contacts[0])
