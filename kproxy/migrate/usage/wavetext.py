"""The waves as a picture for a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from kproxy.base.format import abbreviate, format_count
from kproxy.base.printable import escaped
from kproxy.migrate.usage.waves import Edge, Kind, Node, Step, Wave


def draw_waves(waves: Iterable[Wave]) -> RenderableType:
    """Return a picture of the waves: their steps, and in each the clients with what they use."""
    return Group(*(_wave_tree(number, wave) for number, wave in enumerate(waves, start=1)))


def _wave_tree(number: int, wave: Wave) -> Tree:
    counts = ", ".join(
        format_count(len(wave.names(kind)), word)
        for kind, word in ((Kind.CLIENT, "client"), (Kind.GROUP, "group"), (Kind.TOPIC, "topic"))
        if wave.names(kind)
    )
    tree = Tree(Text(f"wave {number}: {counts}", style="bold"), guide_style="dim")
    edges: defaultdict[Node, list[Edge]] = defaultdict(list)
    for edge in wave.edges:
        edges[edge.first].append(edge)
    if len(wave.steps) > 1:
        tree.add(Text("readers first: the copy brings them what later steps write", style="dim"))
    for place, step in enumerate(wave.steps, start=1):
        branch = tree if len(wave.steps) == 1 else tree.add(Text(f"step {place}"))
        if step.why:
            branch.add(Text(escaped(f"together: {step.why}"), style="yellow"))
        for line in _step_lines(step, edges):
            branch.add(Text(escaped(line)))
    return tree


def _step_lines(step: Step, edges: defaultdict[Node, list[Edge]]) -> Iterator[str]:
    for node in step.nodes:
        words = [
            f"{verb} {abbreviate(names)}"
            for verb, names in (
                ("reads", [edge.second.name for edge in edges[node] if edge.reads]),
                ("writes", [edge.second.name for edge in edges[node] if _writes(edge)]),
                ("group", [edge.second.name for edge in edges[node] if edge.second.kind is Kind.GROUP]),
                (
                    "transactional id",
                    [edge.second.name for edge in edges[node] if edge.second.kind is Kind.TRANSACTION],
                ),
            )
            if names
        ]
        if words or node.kind in (Kind.CLIENT, Kind.TOPIC):
            yield f"{node}{': ' if words else ''}{'; '.join(words)}"


def _writes(edge: Edge) -> bool:
    return edge.second.kind is Kind.TOPIC and not edge.reads
