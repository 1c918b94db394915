"""Sums up what passes, for the page: by node, by API, by client, by consumer group. What it keeps is bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from kproxy.client.ask import contents
from kproxy.proxy.status.model import SessionStatus
from kproxy.proxy.watch.lines import ObservedExchange
from kproxy.proxy.watch.rates import LastError, Rates

K = TypeVar("K")
V = TypeVar("V")

# Rows that are kept of each kind; what passes beyond them is counted with its node only.
_MAX_KEPT = {"api": 4_000, "client": 3_000, "group": 1_000}
# How long a client or a group is shown that nothing is heard of, in seconds.
_FORGET = 60.0
# Times that are kept of each kind of event, and nodes of one group's clients.
_TIMES, _MEMBERS = 200, 100
# Metadata responses that are read in one second.
_READ = 5
# Partitions that one client is said to lack.
_MAX_UNUSABLE = 3


class ClientKey(NamedTuple):
    """Whoever connects from this address (without the port) and calls itself so. The names are the client's own."""

    cluster: str
    address: str
    client_id: str
    software: str


@dataclass(slots=True)
class ClientActivity:
    """What a client does. Times are Unix times: `asked` when it asked for metadata, `refused` when a login was refused,
    `heard` when it was last heard. `nodes` it has been seen at. `told`: of the last metadata, some advertised addresses
    and what the client was told instead, empty if it was told no node. `lacking`: partitions and topics that it cannot
    use, as the last metadata that was looked at say, and why."""

    rates: Rates = field(default_factory=Rates)
    asked: deque[float] = field(default_factory=lambda: deque(maxlen=_TIMES))
    refused: deque[float] = field(default_factory=lambda: deque(maxlen=_TIMES))
    nodes: set[str] = field(default_factory=set)
    metadata: tuple[int, bytes] | None = None
    told: Mapping[str, str] = field(default_factory=dict)
    lacking: tuple[tuple[str, int], ...] = ()
    heard: float = 0.0


@dataclass(slots=True)
class GroupActivity:
    """A consumer group. `members`: address and port of each client that has spoken for it, and its client id; `node`
    where it did last."""

    members: dict[str, str] = field(default_factory=dict)
    node: str = ""
    heard: float = 0.0


class Tally:
    """Counts from when it is made on. It is a listener of the feed."""

    def __init__(self, now: float) -> None:
        self._at = now
        self.nodes: dict[tuple[str, str], Rates] = {}
        self.apis: dict[tuple[str, str, str], Rates] = {}
        self.clients: dict[ClientKey, ClientActivity] = {}
        self.groups: dict[tuple[str, str], GroupActivity] = {}
        """Exchanges of the last second that could not be counted."""

    def offer(self, observed: ObservedExchange) -> None:
        """Something has passed."""
        where, exchange = observed.where, observed.exchange
        api = exchange.api
        sizes = exchange.request_size, exchange.response_size, exchange.seconds
        node = self.nodes.get((where.cluster, where.node))
        if node is None:
            node = self.nodes[where.cluster, where.node] = Rates()
        counted = [node]
        by_api = _get_or_add(self.apis, (where.cluster, where.node, api), Rates, "api")
        if by_api is not None:
            counted.append(by_api)
        client = ClientKey(where.cluster, _host(where.client), exchange.client_id, exchange.software)
        doing = _get_or_add(self.clients, client, ClientActivity, "client")
        if doing is not None:
            counted.append(doing.rates)
            doing.heard = observed.time
            doing.nodes.add(where.node)
            if api == "Metadata":
                doing.asked.append(observed.time)
                doing.told = dict(exchange.rewritten) or doing.told
                if exchange.metadata:
                    doing.metadata = exchange.version, exchange.metadata
            elif api == "SaslAuthenticate" and exchange.error:
                doing.refused.append(observed.time)
        for rates in counted:
            rates.add(*sizes)
        if exchange.error:
            error = LastError(api, exchange.error, observed.time)
            for rates in counted:
                rates.add_error(error)
        if exchange.group:
            self._note_group(observed)

    def _note_group(self, observed: ObservedExchange) -> None:
        where, exchange = observed.where, observed.exchange
        group = _get_or_add(self.groups, (where.cluster, exchange.group), GroupActivity, "group")
        if group is None:
            return
        group.node, group.heard = where.node, observed.time
        if exchange.api == "LeaveGroup":
            group.members.pop(where.client, None)
        elif where.client in group.members or len(group.members) < _MEMBERS:
            group.members[where.client] = exchange.client_id

    def second(self, now: float, sessions: Iterable[SessionStatus]) -> None:
        """About a second is over, and these sessions are open; forget who has gone."""
        elapsed, self._at = now - self._at, now
        for node in [node for node, rates in self.nodes.items() if not rates.second(elapsed, now)]:
            del self.nodes[node]
        for api in [api for api, rates in self.apis.items() if not rates.second(elapsed, now)]:
            del self.apis[api]
        there, open_now = set(), set()
        for session in sessions:
            open_now.add(session.client)
            there.add(ClientKey(session.cluster, _host(session.client), session.client_id, session.software))
        for client in there:
            doing = _get_or_add(self.clients, client, ClientActivity, "client")
            if doing is not None:
                doing.heard = now
        for client, doing in list(self.clients.items()):
            doing.rates.second(elapsed, now)
            if now - doing.heard > _FORGET:
                del self.clients[client]
        for key, group in list(self.groups.items()):
            group.members = {member: name for member, name in group.members.items() if member in open_now}
            if not group.members and now - group.heard > _FORGET:
                del self.groups[key]
        self._read_metadata()

    def _read_metadata(self) -> None:
        unread = [doing for doing in self.clients.values() if doing.metadata is not None]
        for doing in unread[:_READ]:
            assert doing.metadata is not None
            told = contents.parse_metadata(*doing.metadata)
            doing.metadata = None
            if told is not None:
                doing.lacking = tuple(_unusable(told))[:_MAX_UNUSABLE]


def _unusable(told: contents.ClusterContents) -> Iterable[tuple[str, int]]:
    """What a client cannot use, and Kafka's code for it."""
    for topic in told.topics:
        if topic.error:
            yield topic.name, topic.error
        for partition in topic.partitions:
            if partition.is_leaderless:
                yield f"{topic.name}-{partition.index}", partition.error or 5


def _get_or_add(rows: dict[K, V], key: K, make: type[V], kind: str) -> V | None:
    """The row, made if there is room for one more."""
    found = rows.get(key)
    if found is None and len(rows) < _MAX_KEPT[kind]:
        found = rows[key] = make()
    return found


def _host(client: str) -> str:
    """The address without the port, which differs with each connection."""
    return client.rpartition(":")[0] or client
