"""What an examination has found out. Values only: `judge` says what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from kproxy.base.address import Address
from kproxy.client.ask.contents import ClusterContents
from kproxy.client.ask.questions import Versions
from kproxy.client.ask.settings import BrokerSettings
from kproxy.inspect.doctor.client_versions import ClientVersion
from kproxy.proxy.cluster.identity import BrokerIdentity
from kproxy.proxy.cluster.topology import NodeKey


class StepVerdict(Enum):
    """What came of one step."""

    OK = "ok"
    FAILED = "failed"
    NOTE = "note"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ExaminationStep:
    """One step of the examination towards `target`: its kind, what came of it, in how many seconds, and in words."""

    kind: str
    target: str
    verdict: StepVerdict
    seconds: float
    text: str


class PortProtocol(Enum):
    """What a port speaks."""

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
    """The certificate that a server showed, whether it is trusted or not."""

    names: tuple[str, ...]
    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True)
class Contact:
    """What came of contacting one address, as a client would that looks for `expected` there (None: a bootstrap
    server).

    `resolved`: the IP addresses of the name, empty if it was not resolved here. `reason` and `problem`: why it failed
    (`UpstreamError`), "" if it did not. `via_failed`: a hop failed, not the address. `identity` is None if nobody
    answered or told. `others`: nodes of that cluster that answered at the same address when it was asked again, and
    `other_clusters` the ids of clusters that did.
    """

    address: Address
    expected: NodeKey | None
    advertised: Address | None = None
    steps: tuple[ExaminationStep, ...] = ()
    resolved: tuple[str, ...] = ()
    reason: str = ""
    problem: str = ""
    via_failed: bool = False
    refused: bool = False
    spoken: PortProtocol = PortProtocol.UNKNOWN
    certificate: Certificate | None = None
    versions: Versions | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    wants_login: bool = False
    mechanisms: tuple[str, ...] | None = None
    identity: BrokerIdentity | None = None
    others: tuple[NodeKey, ...] = ()
    other_clusters: tuple[str, ...] = ()

    @property
    def answered(self) -> bool:
        """Whether a Kafka broker has answered."""
        return self.versions is not None

    @property
    def cluster_id(self) -> str | None:
        return None if self.identity is None else self.identity.cluster_id

    @property
    def is_right(self) -> bool:
        """Whether a client can use the address, as far as was seen."""
        if self.reason or self.wants_login or self.others or self.other_clusters:
            return False
        return self.expected is None or self.identity is None or self.identity.key in (None, self.expected)


@dataclass(frozen=True, slots=True)
class BrokerListener:
    """One listener of a broker as its settings have it. `bind` and `advertised` are None where a setting has none."""

    name: str
    protocol: str
    bind: str | None
    advertised: Address | None


@dataclass(frozen=True, slots=True)
class OtherListener:
    """Another listener of the broker that was asked: the contact with its advertised address, and with the addresses
    that it tells clients."""

    contact: Contact
    nodes: tuple[Contact, ...] = ()

    @property
    def works(self) -> bool:
        """Whether a client that uses this listener reaches every broker."""
        return self.contact.is_right and bool(self.nodes) and all(contact.is_right for contact in self.nodes)


@dataclass(frozen=True, slots=True)
class NeighbourKproxy:
    """A kproxy that runs on this machine: the port that was examined is one of its own. `admin`: its admin endpoint;
    `servers`: the bootstrap servers that it leads to, and `via` along which hops."""

    admin: str
    servers: tuple[str, ...]
    via: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Examination:
    """All that was found out about one cluster.

    `nodes` are the contacts with advertised (or mapped) addresses. `asked`: the bootstrap server that told them.
    `contents` is None if the topics were not asked for. `settings`: the settings of the node that was asked, None if
    the user may not see them. `told`: those of each broker that tells them. `here`: where this machine reaches each
    broker, as far as that was found; empty if all advertised addresses are right. `elsewhere`: other listeners of the
    broker that was asked. `coordinator`: Kafka's error code and node id, None if nobody was asked. `login`: the
    mechanism with which kproxy logs in, as `user`. `certificate_given`: kproxy has a client certificate. `client`: the
    one in use, if the user says so. `neighbour`: the kproxy that answered in the place of the brokers, as it says
    itself. `means`: the options that only kproxy can use. `direct`: contacts with the same addresses without them, as
    a client makes them; empty if there are none, or if no broker was reached with them. `through`: the words that a
    command needs before it to get there, none if it needs no kproxy. `not_checked`: what was left out, and why.
    """

    bootstrap: tuple[Contact, ...]
    nodes: tuple[Contact, ...] = ()
    asked: Contact | None = None
    contents: ClusterContents | None = None
    settings: Mapping[str, str] | None = None
    told: Mapping[NodeKey, BrokerSettings] = field(default_factory=dict)
    here: Mapping[NodeKey, Address] = field(default_factory=dict)
    elsewhere: tuple[OtherListener, ...] = ()
    coordinator: tuple[int, int] | None = None
    topic: str | None = None
    group: str | None = None
    tls: bool = False
    login: str | None = None
    user: str | None = None
    certificate_given: bool = False
    via: tuple[str, ...] = ()
    mapped: bool = False
    means: tuple[str, ...] = ()
    client: ClientVersion | None = None
    neighbour: NeighbourKproxy | None = None
    direct: tuple[Contact, ...] = ()
    through: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()

    @property
    def dialler(self) -> str:
        """The machine that connects to the brokers and resolves their names, for messages."""
        return f"the last hop, {self.via[-1]}," if self.via else "this machine"

    def of_asked(self, contacts: Sequence[Contact]) -> Contact:
        """Of these, the contact with the node that was asked, whose `settings` are known; else the first."""
        key = self.asked.identity.key if self.asked is not None and self.asked.identity is not None else None
        return next((contact for contact in contacts if contact.expected == key), contacts[0])
