"""What the `waves` of a migration's file cut: edges between what is in different waves. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kproxy.base.diagnostic import NOTE, WARNING, Diagnostic
from kproxy.migrate.spec.migration import WaveSelection
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.waves import Edge, Kind, Node, find_edges

_ALLOWED = "allowed: the same wave for both"


def check_waves(waves: Mapping[str, WaveSelection], usage: ObservedUsage | None) -> Iterator[Diagnostic]:
    """Yield the edges that waves cut, and what is in two waves; without an observation, that nothing is checked."""
    if not waves:
        return
    if usage is None:
        yield Diagnostic(NOTE, "waves", "are not checked: no observation was read; run 'kproxy migrate observe FILE'")
        return
    edges = find_edges(usage)
    for node in sorted({node for edge in edges for node in (edge.first, edge.second)}):
        names = [name for name, wave in waves.items() if _selects(wave, node)]
        if len(names) > 1:
            yield Diagnostic(WARNING, f"wave {names[0]}", f"{node} is in wave {names[1]} too; allowed: one of them")
    for edge in edges:
        yield from _check_edge(waves, edge)


def _check_edge(waves: Mapping[str, WaveSelection], edge: Edge) -> Iterator[Diagnostic]:
    first, second = _wave_of(waves, edge.first), _wave_of(waves, edge.second)
    if first == second or Kind.APPLICATION in (edge.first.kind, edge.second.kind):
        return
    if Kind.TRANSACTION in (edge.first.kind, edge.second.kind):
        return  # the file names none; its client has the edges
    place = f"is in wave {second}" if second else "is in no wave"
    why = f"{edge.first} is connected to {edge.second}, which {place}: {edge.evidence}"
    if edge.reads:
        hint = f"it may move before the writers of the topic, and not after them; {_ALLOWED}, or this order"
    else:
        hint = f"they cannot be separated; {_ALLOWED}"
    yield Diagnostic(WARNING, f"wave {first or second}", f"{why}; {hint}")


def _wave_of(waves: Mapping[str, WaveSelection], node: Node) -> str:
    return next((name for name, wave in waves.items() if _selects(wave, node)), "")


def _selects(wave: WaveSelection, node: Node) -> bool:
    selects = {Kind.CLIENT: wave.selects_client, Kind.GROUP: wave.selects_group, Kind.TOPIC: wave.selects_topic}
    return node.kind in selects and selects[node.kind](node.name)
