"""The connections that a switch of a wave, or its way back, would cut. Pure.

A connection has one side: a client of the wave sees the topics of the other cluster only. So whatever the wave is
connected to must be on the same side. The connections are those of `kproxy.migrate.usage.waves`, with their evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic, Severity
from kproxy.base.format import abbreviate
from kproxy.base.printable import one_line
from kproxy.migrate.spec.migration import Migration, WaveSelection
from kproxy.migrate.usage.coverage import coverage_findings
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.waves import Edge, Kind, Node, find_edges
from kproxy.proxy.switching.parts import MAX_CLIENT_ID, Part

_NOT_OBSERVED = (
    "what clients use was not observed, so a client that would need both sides is not known: run kproxy migrate observe"
    " FILE --for 1h, in a time in which all that matters runs"
)


def shown_client_id(client_id: str) -> str:
    """Return the client id as kproxies show and compare it."""
    return one_line(client_id, MAX_CLIENT_ID)


@dataclass(frozen=True, slots=True)
class WaveMembers:
    """The content of a wave: clients by their ids as kproxies show them, groups by name and globs, topics by globs."""

    name: str
    clients: Part
    groups: Collection[str]
    globs: WaveSelection
    """The globs of its topics and groups."""

    def has(self, node: Node) -> bool:
        """Return True if a client, a group, a Streams application or a topic is of the wave."""
        if node.kind is Kind.CLIENT:
            return self.clients.has(shown_client_id(node.name))
        if node.kind is Kind.TOPIC:
            return self.globs.selects_topic(node.name)
        # The group of a Streams application has its name.
        return node.name in self.groups or self.globs.selects_group(node.name)


@dataclass(frozen=True, slots=True)
class WaveBoundary:
    """The sides after a wave has moved."""

    wave: WaveMembers
    others: Collection[WaveMembers] = ()
    """Other topics that are on the target, and stay there."""
    to_target: bool = True
    """False: the wave moves back to the source."""
    allow_split_readers: bool = False
    """True if clients that stay may miss what the wave writes from then on."""

    def is_apart(self, node: Node) -> bool:
        """Return True if the wave and this node are on different sides then."""
        if self.wave.has(node):
            return False
        return any(other.has(node) for other in self.others) is not self.to_target

    @property
    def place(self) -> str:
        """The side on which what is not together with the wave stays."""
        return "source" if self.to_target else "target"


def check_boundary(boundary: WaveBoundary, usage: ObservedUsage | None) -> Iterator[Diagnostic]:
    """Yield what the wave is connected to and would be separated from, each with its evidence."""
    subject = f"wave {boundary.wave.name}"
    if usage is None:
        yield Diagnostic(ERROR if boundary.to_target else WARNING, subject, _NOT_OBSERVED)
        return
    yield from coverage_findings(usage)
    for edge in find_edges(usage):
        yield from _check_edge(boundary, edge, usage, subject)
    yield from _check_transactions(boundary, usage, subject)


def _check_edge(boundary: WaveBoundary, edge: Edge, usage: ObservedUsage, subject: str) -> Iterator[Diagnostic]:
    first, second = edge.first, edge.second
    if Kind.TRANSACTION in (first.kind, second.kind):
        return  # `_check_transactions`; its client has edges of its own
    is_first_inside, is_second_inside = boundary.wave.has(first), boundary.wave.has(second)
    if is_first_inside is is_second_inside:
        return
    outside = second if is_first_inside else first
    if not boundary.is_apart(outside) or _is_gone(usage, outside):
        return
    severity, hint = _judge(boundary, edge, usage, reader_moves=is_first_inside)
    connection = f"{first} is connected to it" if is_first_inside else f"is connected to {second}"
    text = f"{outside} stays on the {boundary.place}, and {connection}: {edge.evidence}; {hint}"
    yield Diagnostic(severity, subject, text)


def _judge(boundary: WaveBoundary, edge: Edge, usage: ObservedUsage, *, reader_moves: bool) -> tuple[Severity, str]:
    """Return the severity of a cut edge, and what to do."""
    together = f"put both into wave {boundary.wave.name}, or into none"
    if not edge.reads:
        return ERROR, together
    if edge.first.kind is Kind.GROUP and not _has_members(usage, edge.first.name):
        return WARNING, f"the group has no members now; if it is still used, {together}"
    if not boundary.to_target:
        return WARNING, "the reader and the writers will be on different sides: it gets nothing new from then on"
    if reader_moves:
        return ERROR, f"it would get only what the copy brings, as long as that runs: {together}"
    if boundary.allow_split_readers:
        return NOTE, "it gets nothing that the wave writes from then on, which --allow-split-readers allows"
    return ERROR, (
        f"it would get nothing that the wave writes from then on: {together}; or add --allow-split-readers, if it does"
        " not need these records"
    )


def _is_gone(usage: ObservedUsage, node: Node) -> bool:
    """Return True for a group that was used, and that the source does not know any more."""
    return node.kind is Kind.GROUP and usage.source is not None and node.name not in usage.source.groups


def _has_members(usage: ObservedUsage, group: str) -> bool:
    source = usage.source
    return source is not None and group in source.groups and bool(source.groups[group].members)


def _check_transactions(boundary: WaveBoundary, usage: ObservedUsage, subject: str) -> Iterator[Diagnostic]:
    """Yield transactional ids whose transactions have something of both sides."""
    for name, nodes in _transactions(usage).items():
        inside = [node for node in nodes if boundary.wave.has(node)]
        apart = [node for node in nodes if boundary.is_apart(node)]
        if inside and apart:
            text = (
                f"{Node(Kind.TRANSACTION, name)} has {abbreviate(list(map(str, apart)))}, which would stay on the"
                f" {boundary.place}, with {abbreviate(list(map(str, inside)))}: a transaction is on one side; put all"
                f" of it into wave {boundary.wave.name}, or into none"
            )
            yield Diagnostic(ERROR, subject, text)


def _transactions(usage: ObservedUsage) -> Mapping[str, list[Node]]:
    """Return what the transactions of each id have."""
    nodes: dict[str, dict[Node, None]] = {}
    for edge in find_edges(usage):
        if edge.first.kind is Kind.TRANSACTION:
            nodes.setdefault(edge.first.name, {})[edge.second] = None
    return {name: list(of_transaction) for name, of_transaction in nodes.items()}


def check_shared_topics(migration: Migration, wave: str, topics: Iterable[str]) -> Iterator[Diagnostic]:
    """Yield topics of a wave that the file puts into another wave too."""
    selected = sorted(topic for topic in topics if migration.waves[wave].selects_topic(topic))
    for name, other in migration.waves.items():
        if name != wave and (shared := [topic for topic in selected if other.selects_topic(topic)]):
            text = f"{abbreviate(shared)}: topics are in wave {name} too; allowed: one of them"
            yield Diagnostic(ERROR, f"wave {wave}", text)
