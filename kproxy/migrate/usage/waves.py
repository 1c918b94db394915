"""The sets of clients, groups, transactional ids and topics that may move separately. Pure.

Whatever is connected by an edge belongs to one wave: a client and the topics that it writes and reads, its groups and
transactional ids; a group and the topics of its positions; a transactional id and what its transactions have.

Within a wave, some may still move one after the other. The copy carries records from the source to the target, so a
topic may be read on the target while it is written on the source, and not the other way round; and a topic has one side
on which it is written. So a wave has steps: what is in one step moves together, and readers move before writers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from graphlib import TopologicalSorter
from typing import Any, TypeVar

from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.replies import ADMIN, GROUPS, READS, TRANSACTIONS, WRITES, RecordedClient
from kproxy.migrate.usage.sourcestate import OWN_PREFIX

N = TypeVar("N")

# The names that Kafka Streams gives to the clients of an application: APPLICATION-UUID-StreamThread-1-consumer,
# APPLICATION-UUID-admin.
_STREAMS_CLIENT = re.compile(
    r"(?P<app>.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(-StreamThread-\d+-.+|-admin|-global-consumer|-StateUpdater.*)"
)


class Kind(StrEnum):
    """The kind of a node."""

    CLIENT = "client"
    GROUP = "group"
    TRANSACTION = "transactional id"
    TOPIC = "topic"
    APPLICATION = "Streams application"


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A client (all sessions with one user and client id), a group, a transactional id, a topic, an application."""

    kind: Kind
    name: str
    user: str = ""

    def __str__(self) -> str:
        user = f" of user {self.user}" if self.user else ""
        return f"{self.kind} {self.name or '(no client id)'}{user}"


@dataclass(frozen=True, slots=True)
class Edge:
    """Why two nodes belong together."""

    first: Node
    second: Node
    evidence: str
    reads: bool = False
    """The first reads the second, a topic: it may move before the topic's writers."""


@dataclass(frozen=True, slots=True)
class Step:
    """What moves together, and why it does not fall apart."""

    nodes: tuple[Node, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Wave:
    """What is connected, the edges, and the steps in the order in which they may move."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    steps: tuple[Step, ...]

    def names(self, kind: Kind) -> list[str]:
        """Return the names of its nodes of this kind."""
        return [node.name for node in self.nodes if node.kind is kind]


def find_edges(usage: ObservedUsage) -> list[Edge]:
    """Return the edges that were observed, and those that the source knows; each pair of nodes once in each way."""
    edges: dict[tuple[Node, Node, bool], Edge] = {}
    of_clients = (edge for client in usage.clients for edge in _client_edges(client))
    for edge in (*of_clients, *_source_edges(usage)):
        edges.setdefault((edge.first, edge.second, edge.reads), edge)
    return list(edges.values())


def _source_edges(usage: ObservedUsage) -> Iterable[Edge]:
    if usage.source is None:
        return
    users: defaultdict[str, set[str]] = defaultdict(set)
    for client in usage.clients:
        users[client.client_id].add(client.named_user)
    for name, group in usage.source.groups.items():
        node = Node(Kind.GROUP, name)
        for topic in group.topics:
            yield Edge(node, Node(Kind.TOPIC, topic), "the source has positions of the group there", True)
        for member in group.members:
            for user in sorted(users.get(member, {""})):
                yield Edge(Node(Kind.CLIENT, member, user), node, "the source lists it as a member")
    for name, transaction in usage.source.transactions.items():
        if name.startswith(OWN_PREFIX):
            continue
        node = Node(Kind.TRANSACTION, name)
        for topic in transaction.topics:
            yield Edge(node, Node(Kind.TOPIC, topic), f"its producer id {transaction.producer_id} is in the log")
        for group_name in transaction.groups:
            yield Edge(node, Node(Kind.GROUP, group_name), "its transactions have committed positions of the group")


def _client_edges(client: RecordedClient) -> Iterable[Edge]:
    node = Node(Kind.CLIENT, client.client_id, client.named_user)
    where = f"seen at {client.address}"
    for use, name in client.uses:
        if use == WRITES:
            yield Edge(node, Node(Kind.TOPIC, name), f"it writes the topic ({where})")
        elif use == READS:
            yield Edge(node, Node(Kind.TOPIC, name), f"it reads the topic ({where})", True)
        elif use == GROUPS:
            yield Edge(node, Node(Kind.GROUP, name), f"it uses the group ({where})")
        elif use == TRANSACTIONS:
            yield Edge(node, Node(Kind.TRANSACTION, name), f"it uses the transactional id ({where})")
    for transaction, use, name in client.transactions:
        other = Node(Kind.TOPIC if use == WRITES else Kind.GROUP, name)
        yield Edge(Node(Kind.TRANSACTION, transaction), other, "both are in its transactions")
    if (match := _STREAMS_CLIENT.fullmatch(client.client_id)) is not None:
        application = Node(Kind.APPLICATION, match["app"])
        yield Edge(node, application, "its client id is one of Kafka Streams")
        yield Edge(application, Node(Kind.GROUP, match["app"]), "the application id is the group of Kafka Streams")


def find_waves(usage: ObservedUsage) -> list[Wave]:
    """Return the waves, the largest last: a small one is the better rehearsal."""
    edges = find_edges(usage)
    nodes = {node for edge in edges for node in (edge.first, edge.second)}
    nodes |= {Node(Kind.CLIENT, client.client_id, client.named_user) for client in usage.clients if _uses_data(client)}
    outgoing = _outgoing(edges)
    waves = []
    for component in _components(nodes, ((edge.first, edge.second) for edge in edges)):
        members = tuple(sorted(component))
        within = tuple(edge for node in members for edge in outgoing.get(node, ()))
        waves.append(Wave(members, within, _steps(component, within)))
    return sorted(waves, key=lambda wave: (len(wave.nodes), wave.nodes))


def _outgoing(edges: Iterable[Edge]) -> Mapping[Node, list[Edge]]:
    """Return the edges by their first node."""
    outgoing: defaultdict[Node, list[Edge]] = defaultdict(list)
    for edge in edges:
        outgoing[edge.first].append(edge)
    return outgoing


def _uses_data(client: RecordedClient) -> bool:
    return any(use != ADMIN for use, _ in client.uses)


def _components(nodes: Iterable[N], pairs: Iterable[tuple[N, N]]) -> list[set[N]]:
    """Return the connected components."""
    of: dict[N, set[N]] = {node: {node} for node in nodes}
    for first, second in pairs:
        small, large = sorted((of[first], of[second]), key=len)
        if small is not large:
            large |= small
            for node in small:
                of[node] = large
    return list({id(component): component for component in of.values()}.values())


def _steps(component: set[Node], edges: Iterable[Edge]) -> tuple[Step, ...]:
    """Return what must move together, in order: readers of a topic before its writers."""
    edges = list(edges)
    bound = _components(component, ((edge.first, edge.second) for edge in edges if not edge.reads))
    number = {node: index for index, unit in enumerate(bound) for node in unit}
    before: defaultdict[int, set[int]] = defaultdict(set)  # by unit, those that move before it
    for edge in edges:
        if edge.reads and number[edge.first] != number[edge.second]:
            before[number[edge.second]].add(number[edge.first])
    merged = _strong_components(range(len(bound)), before)
    of = {unit: index for index, units in enumerate(merged) for unit in units}
    order = {
        index: {of[earlier] for unit in units for earlier in before[unit]} - {index}
        for index, units in enumerate(merged)
    }
    steps, outgoing = list[Step](), _outgoing(edges)
    for index in TopologicalSorter(order).static_order():
        nodes = tuple(sorted(node for unit in merged[index] for node in bound[unit]))
        clients = [node for node in nodes if node.kind is Kind.CLIENT]
        why = "" if len(clients) < 2 else _why_together(nodes, outgoing, in_circle=len(merged[index]) > 1)
        steps.append(Step(nodes, why))
    return tuple(_with_lone_topics_joined(steps))


def _with_lone_topics_joined(steps: list[Step]) -> list[Step]:
    """Return the steps with topics and groups that no client of their step uses in the last step."""
    with_clients, alone = list[Step](), list[Node]()
    for step in steps:
        if any(node.kind is Kind.CLIENT for node in step.nodes):
            with_clients.append(step)
        else:
            alone += step.nodes
    if not with_clients or not alone:
        return steps
    last = with_clients[-1]
    return [*with_clients[:-1], Step(tuple(sorted((*last.nodes, *alone))), last.why)]


def _why_together(nodes: Sequence[Node], outgoing: Mapping[Node, list[Edge]], *, in_circle: bool) -> str:
    if in_circle:
        return "each reads what another writes, in a circle: no order lets readers move before writers"
    users: defaultdict[Node, set[Node]] = defaultdict(set)
    within = set(nodes)
    for client in nodes:
        for edge in outgoing.get(client, ()) if client.kind is Kind.CLIENT else ():
            if not edge.reads and edge.second in within:
                users[edge.second].add(client)
    shared = sorted(node for node, clients in users.items() if len(clients) > 1)
    words = {Kind.TOPIC: "write", Kind.GROUP: "are in", Kind.TRANSACTION: "use", Kind.APPLICATION: "are of"}
    return "; ".join(f"{len(users[node])} clients {words[node.kind]} {node}" for node in shared[:3])


def _strong_components(nodes: Iterable[int], before: Mapping[int, set[int]]) -> list[list[int]]:
    """Return the sets of nodes of which each comes before each other (Tarjan 1972, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    place: dict[int, int] = {}  # in the stack, of those that are there
    result: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(sorted(before.get(root, ()))))]
        index[root] = low[root] = len(index)
        place[root] = len(stack)
        stack.append(root)
        while work:
            node, others = work[-1]
            other = next(others, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    result.append(stack[place[node] :])
                    del stack[place[node] :]
                    for member in result[-1]:
                        del place[member]
            elif other not in index:
                index[other] = low[other] = len(index)
                place[other] = len(stack)
                stack.append(other)
                work.append((other, iter(sorted(before.get(other, ())))))
            elif other in place:
                low[node] = min(low[node], index[other])
    return result


def waves_to_json(waves: Iterable[Wave]) -> list[dict[str, Any]]:
    """Return the waves as JSON values."""
    return [
        {
            "clients": [{"client_id": node.name, "user": node.user} for node in wave.nodes if node.kind is Kind.CLIENT],
            "groups": wave.names(Kind.GROUP),
            "transactional_ids": wave.names(Kind.TRANSACTION),
            "topics": wave.names(Kind.TOPIC),
            "steps": [{"together": [str(node) for node in step.nodes], "why": step.why} for step in wave.steps],
            "edges": [
                {"from": str(edge.first), "to": str(edge.second), "evidence": edge.evidence, "reads": edge.reads}
                for edge in wave.edges
            ],
        }
        for wave in waves
    ]
