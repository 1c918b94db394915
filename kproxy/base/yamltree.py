"""The text of a YAML file as PyYAML's nodes, which know their lines, and scalars that are still the text of the file.

So `name: no` and `listen: 1:30` are not converted. libyaml parses: a megabyte takes it a second, and PyYAML's own
parser half a minute. The size and the depth are bounded before anything recurses. Aliases are not expanded: an alias is
the node that it refers to.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml

_DEEPEST = 60
_NESTED = f"is nested more than {_DEEPEST} deep"
# libyaml's error since 0.2.6 at its own limit, 1000. It reads ahead, so it may fail before `_bounded_events` is at 60.
_TOO_DEEP = "exceeded maximum nesting depth"
_MOST_NODES = 200_000
_MOST_MERGES = 1000  # each mapping may have all others merged into it
# PyYAML's own parser says better what is wrong; after so many characters it would take too long.
_MOST_REPARSED = 200_000
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # without libyaml where its wheel has none
MERGE_TAG = "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """A text that is not YAML, or is too large or too deep for a configuration. `str()` begins with "is"."""

    def __init__(self, text: str, index: int, line: int) -> None:
        super().__init__(text)
        self.index = index
        """The index of the character at which it is wrong."""
        self.line = line
        """The number of its line, from 1; 0 if it is unknown."""


def parse(text: str, *, single: bool = False) -> list[yaml.Node]:
    """Return the roots of all documents, or of a `single` one. Raises YamlError."""
    try:
        deque(_bounded_events(text, _MOST_NODES), 0)
        return [root for root in _composed(text, single) if root is not None]
    except yaml.YAMLError as error:
        raise _explained(text, error) from None


def _composed(text: str, single: bool) -> Sequence[yaml.Node | None]:
    try:
        return [yaml.compose(text, Loader=_Loader)] if single else list(yaml.compose_all(text, Loader=_Loader))
    except yaml.composer.ComposerError as error:
        if "duplicate anchor" not in str(error.context):
            raise
    composer = _EventComposer(_bounded_events(text, _MOST_NODES))
    return [composer.get_single_node()] if single else composer.roots()


class _EventComposer(yaml.composer.Composer, yaml.resolver.Resolver):
    """Makes nodes of events as PyYAML does, but allows an anchor twice.

    An alias then means the last node before it that has the anchor (YAML 1.2, section 3.2.2.2). PyYAML refuses it.
    """

    def __init__(self, given: Iterator[yaml.Event]) -> None:
        yaml.composer.Composer.__init__(self)
        yaml.resolver.Resolver.__init__(self)
        self.waiting = deque(given)

    def roots(self) -> list[yaml.Node | None]:
        self.get_event()  # the start of the stream
        roots = []
        while not self.check_event(yaml.StreamEndEvent):
            roots.append(self.compose_document())
        return roots

    def check_event(self, *kinds: type[yaml.Event]) -> bool:
        return bool(self.waiting) and (not kinds or isinstance(self.waiting[0], kinds))

    def peek_event(self) -> yaml.Event:
        return self.waiting[0]

    def get_event(self) -> yaml.Event:
        return self.waiting.popleft()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if not isinstance(event, yaml.AliasEvent):
            self.anchors.pop(getattr(event, "anchor", None), None)
        return super().compose_node(parent, index)


def events(text: str, most: int) -> Iterator[yaml.Event]:
    """Yield the events of a text, at most `most`, for files that are too large for nodes. Raises YamlError."""
    try:
        yield from _bounded_events(text, most)
    except yaml.YAMLError as error:
        raise _explained(text, error) from None


def _bounded_events(text: str, most: int) -> Iterator[yaml.Event]:
    depth = merges = 0
    for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        merges += isinstance(event, yaml.ScalarEvent) and event.value == "<<"
        if depth > _DEEPEST or number > most or merges > _MOST_MERGES:
            what = _NESTED if depth > _DEEPEST else "is too large for a configuration"
            mark = event.start_mark
            raise YamlError(what, *((mark.index, mark.line + 1) if mark else (0, 0)))
        yield event


def _explained(text: str, error: yaml.YAMLError) -> YamlError:
    if not isinstance(error, yaml.MarkedYAMLError):
        bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
        index = bad.start() if bad else 0
        return YamlError("is not YAML: it has a character that is not text", index, text.count("\n", 0, index) + 1)
    if error.problem != _TOO_DEEP and _mark(error)[0] < _MOST_REPARSED:
        try:
            deque(yaml.parse(text, Loader=yaml.SafeLoader), 0)
        except yaml.MarkedYAMLError as clearer:
            error = clearer
    index, line = _mark(error)
    index = min(index, len(text))
    if error.problem == _TOO_DEEP:
        return YamlError(_NESTED, index, line)
    reason = " ".join(": ".join(part for part in (error.context, error.problem) if part).split())
    return YamlError(f"is not YAML: {reason}{_hint(reason, text.splitlines()[max(line - 2, 0) : line])}", index, line)


def _mark(error: yaml.MarkedYAMLError) -> tuple[int, int]:
    mark = error.problem_mark or error.context_mark
    return (mark.index, mark.line + 1) if mark else (0, 0)


def _hint(reason: str, around: list[str]) -> str:
    """Return what to do about the usual mistakes; `around` is the line and the one before it."""
    lines = " ".join(around)
    if re.search(r"[:-]\s+\[[0-9a-fA-F:]*::?[0-9a-fA-F:]*\]:", lines):
        return "; put an address that starts with [ in quotes"
    if "an alias" in reason and re.search(r"([:-]\s+|[\[,]\s*)\*", lines):
        return "; put a value that starts with * in quotes"
    return "; indent with spaces, not with tabs" if "\t" in lines else ""


class YamlEntry(NamedTuple):
    """One key of a mapping and its value."""

    key: yaml.Node
    value: yaml.Node
    own: bool
    """False if the mapping has it from another one (`<<: *other`)."""


def entries(node: yaml.MappingNode) -> Iterator[YamlEntry]:
    """Yield the entries of a mapping: first its own, which win, then those of mappings that it merges.

    The key of what is merged and is not a mapping has `MERGE_TAG`.
    """
    waiting: list[yaml.Node] = [node]
    visited = set()
    while waiting:
        current = waiting.pop()
        if id(current) in visited:
            continue
        visited.add(id(current))
        merged: list[yaml.Node] = []
        for key, value in current.value:
            if key.tag != MERGE_TAG:
                yield YamlEntry(key, value, current is node)
                continue
            others = value.value if isinstance(value, yaml.SequenceNode) else [value]
            merged += (other for other in others if isinstance(other, yaml.MappingNode))
            yield from (YamlEntry(key, other, False) for other in others if not isinstance(other, yaml.MappingNode))
        waiting += reversed(merged)


def is_null(node: yaml.Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null"


def line_of(node: yaml.Node) -> int:
    """Return the number of a node's line, from 1."""
    return int(node.start_mark.line) + 1


def kind_of(node: yaml.Node) -> str:
    """Return what a node is, in words for a person."""
    if isinstance(node, yaml.CollectionNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
    return "no value" if is_null(node) else "text"


def as_values(node: yaml.Node, known: dict[int, Any] | None = None) -> Any:
    """Return a tree as dicts, lists, and the text of scalars; null is "".

    Each node is converted once: an alias is the same object.
    """
    known = {} if known is None else known
    if id(node) not in known:
        if isinstance(node, yaml.MappingNode):
            mapping: dict[str, Any] = {}
            known[id(node)] = mapping
            for key, value, _ in entries(node):
                if isinstance(key, yaml.ScalarNode):
                    mapping.setdefault(key.value, as_values(value, known))
        elif isinstance(node, yaml.SequenceNode):
            items: list[Any] = []
            known[id(node)] = items
            items += [as_values(item, known) for item in node.value]
        else:
            known[id(node)] = "" if is_null(node) else node.value
    return known[id(node)]
