"""Sums up exchanges for the page: by node, by API, by client, by consumer group. Its memory is bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from kproxy.base.printable import one_line
from kproxy.client.ask import contents
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.proxy.status.model import SessionStatus
from kproxy.proxy.watch.feed import ObservedExchange
from kproxy.proxy.watch.rates import LastError, Rates

K = TypeVar("K")
V = TypeVar("V")

# Rows that are kept of each kind; other exchanges are counted with their node only.
_MAX_KEPT = {"api": 4_000, "client": 3_000, "group": 1_000}
# How long a client or a group is shown after its last request, in seconds.
_FORGET = 60.0
# Times that are kept of each kind of event, and nodes of one group's clients.
_TIMES, _MEMBERS = 200, 100
# Metadata responses that are read in one second.
_READ = 5
# What a client that is newer than its broker gets before it asks again in an older version (KIP-511): no error.
_NEGOTIATION = ApiKey.API_VERSIONS, ErrorCode.UNSUPPORTED_VERSION
# Unusable partitions that are kept of one client, characters of their names (Kafka's own limit), and APIs.
_MAX_UNUSABLE, _LONGEST_NAME, _MAX_APIS = 3, 249, 24


class ClientKey(NamedTuple):
    """A client, as kproxy distinguishes clients: by address (without the port) and by its own words."""

    cluster: str
    address: str
    client_id: str
    software: str

    @property
    def label(self) -> str:
        """The client's name in a finding."""
        return f"{self.client_id or 'a client without an id'} at {self.address}"


@dataclass(slots=True)
class ApiUse:
    """The requests of one client with one API. Times are Unix times."""

    requests: int = 0
    last: float = 0.0
    """When the last one came."""
    errors: int = 0
    """Responses with an error code other than 0."""
    last_error: LastError | None = None


@dataclass(slots=True)
class ClientActivity:
    """The activity of one client. Times are Unix times."""

    rates: Rates = field(default_factory=Rates)
    first_seen: float = 0.0
    apis: dict[str, ApiUse] = field(default_factory=dict)
    """What it has asked, by API: the first APIs that it used."""
    metadata_times: deque[float] = field(default_factory=lambda: deque(maxlen=_TIMES))
    """When the client asked for metadata."""
    refusal_times: deque[float] = field(default_factory=lambda: deque(maxlen=_TIMES))
    """When a login was refused."""
    nodes: set[str] = field(default_factory=set)
    """The nodes to which it has sent requests."""
    metadata: tuple[int, bytes] | None = None
    """The version and bytes of the last Metadata response, until it is read."""
    rewritten: Mapping[str, str] = field(default_factory=dict)
    """Advertised addresses of the last metadata, with the local addresses that the client got; empty if it got none."""
    unusable: tuple[tuple[str, int], ...] = ()
    """Partitions and topics that the client cannot use, by the last metadata that was read, and Kafka's error codes."""
    last_seen: float = 0.0

    def note(self, observed: ObservedExchange) -> None:
        """Take in an exchange of the client."""
        exchange, api, at = observed.exchange, observed.exchange.api, observed.time
        self.note_presence(at)
        self.nodes.add(observed.labels.node)
        if api in self.apis or len(self.apis) < _MAX_APIS:
            use = self.apis.setdefault(api, ApiUse())
            use.requests, use.last = use.requests + 1, at
        if api == "Metadata":
            self.metadata_times.append(at)
            self.rewritten = dict(exchange.rewritten) or self.rewritten
            if exchange.metadata:
                self.metadata = exchange.version, exchange.metadata
        elif api == "SaslAuthenticate" and exchange.error:
            self.refusal_times.append(at)

    def note_presence(self, now: float) -> None:
        """Note that the client has sent a request, or has a session."""
        self.first_seen = self.first_seen or now
        self.last_seen = now

    def note_error(self, error: LastError) -> None:
        """Note that a response to the client had an error code."""
        self.rates.add_error(error)
        if (use := self.apis.get(error.api)) is not None:
            use.errors, use.last_error = use.errors + 1, error


@dataclass(slots=True)
class GroupActivity:
    """The activity of one consumer group."""

    members: dict[str, str] = field(default_factory=dict)
    """The client id of each client that has sent requests for the group, by the client's address and port."""
    node: str = ""
    """The node to which a client last sent a request for the group."""
    last_seen: float = 0.0


class Tally:
    """Rates since the tally was made. It is a listener of the feed."""

    def __init__(self, now: float) -> None:
        self._at = now
        self.nodes: dict[tuple[str, str], Rates] = {}
        self.apis: dict[tuple[str, str, str], Rates] = {}
        self.clients: dict[ClientKey, ClientActivity] = {}
        self.groups: dict[tuple[str, str], GroupActivity] = {}

    def offer(self, observed: ObservedExchange) -> None:
        """Count an exchange."""
        labels, exchange = observed.labels, observed.exchange
        api = exchange.api
        sizes = exchange.request_size, exchange.response_size, exchange.seconds
        node = self.nodes.get((labels.cluster, labels.node))
        if node is None:
            node = self.nodes[labels.cluster, labels.node] = Rates()
        counted = [node]
        by_api = _get_or_add(self.apis, (labels.cluster, labels.node, api), Rates, "api")
        if by_api is not None:
            counted.append(by_api)
        client = ClientKey(labels.cluster, _host(labels.client), exchange.client_id, exchange.software)
        activity = _get_or_add(self.clients, client, ClientActivity, "client")
        if activity is not None:
            activity.note(observed)
            activity.rates.add(*sizes)
        for rates in counted:
            rates.add(*sizes)
        if exchange.error and (exchange.key, exchange.error) != _NEGOTIATION:
            error = LastError(api, exchange.error, observed.time)
            for rates in counted:
                rates.add_error(error)
            if activity is not None:
                activity.note_error(error)
        if exchange.group:
            self._note_group(observed)

    def _note_group(self, observed: ObservedExchange) -> None:
        labels, exchange = observed.labels, observed.exchange
        group = _get_or_add(self.groups, (labels.cluster, exchange.group), GroupActivity, "group")
        if group is None:
            return
        group.node, group.last_seen = labels.node, observed.time
        if exchange.api == "LeaveGroup":
            group.members.pop(labels.client, None)
        elif labels.client in group.members or len(group.members) < _MEMBERS:
            group.members[labels.client] = exchange.client_id

    def tick(self, now: float, sessions: Iterable[SessionStatus]) -> None:
        """Close a period of about one second, with these open sessions; forget clients and groups that have gone."""
        elapsed, self._at = now - self._at, now
        for node in [node for node, rates in self.nodes.items() if not rates.tick(elapsed, now)]:
            del self.nodes[node]
        for api in [api for api, rates in self.apis.items() if not rates.tick(elapsed, now)]:
            del self.apis[api]
        clients_now, open_now = set(), set()
        for session in sessions:
            open_now.add(session.client)
            clients_now.add(ClientKey(session.cluster, _host(session.client), session.client_id, session.software))
        for client in clients_now:
            activity = _get_or_add(self.clients, client, ClientActivity, "client")
            if activity is not None:
                activity.note_presence(now)
        for client, activity in list(self.clients.items()):
            activity.rates.tick(elapsed, now)
            if now - activity.last_seen > _FORGET:
                del self.clients[client]
        for key, group in list(self.groups.items()):
            group.members = {member: name for member, name in group.members.items() if member in open_now}
            if not group.members and now - group.last_seen > _FORGET:
                del self.groups[key]
        self._read_metadata()

    def _read_metadata(self) -> None:
        unread = [activity for activity in self.clients.values() if activity.metadata is not None]
        for activity in unread[:_READ]:
            assert activity.metadata is not None
            metadata = contents.parse_metadata(*activity.metadata)
            activity.metadata = None
            if metadata is not None:
                activity.unusable = tuple(_unusable(metadata))[:_MAX_UNUSABLE]


def _unusable(metadata: contents.ClusterContents) -> Iterable[tuple[str, int]]:
    """Yield the topics and partitions that a client cannot use, and Kafka's error code."""
    for topic in metadata.topics:
        if topic.error:
            yield one_line(topic.name, _LONGEST_NAME), topic.error
        for partition in topic.partitions:
            if partition.is_leaderless:
                name = f"{one_line(topic.name, _LONGEST_NAME)}-{partition.index}"
                yield name, partition.error or ErrorCode.LEADER_NOT_AVAILABLE.value


def _get_or_add(rows: dict[K, V], key: K, make: type[V], kind: str) -> V | None:
    """Return the row of this key, added if there is room for one more."""
    row = rows.get(key)
    if row is None and len(rows) < _MAX_KEPT[kind]:
        row = rows[key] = make()
    return row


def _host(client: str) -> str:
    """Return the address without the port, which differs with each connection."""
    return client.rpartition(":")[0] or client
