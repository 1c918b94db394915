"""YAML as a tree of nodes with locations. Aliases are not expanded: an alias is the node that it refers to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import yaml

from kproxy.advice.lint.source import SourceFile, SourceLocation
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle
from kproxy.base import yamltree
from kproxy.base.yamltree import MERGE_TAG, YamlError, entries, is_null, line_of

_STYLES = {None: ValueStyle.PLAIN, "": ValueStyle.PLAIN, "'": ValueStyle.SINGLE, '"': ValueStyle.DOUBLE}


class MalformedError(Exception):
    """A text that is not YAML, or is too large or too deep for a configuration; `str()` says why."""

    def __init__(self, location: SourceLocation, text: str) -> None:
        self.location = location
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class DuplicateKey:
    """A key that stands twice in one mapping."""

    location: SourceLocation
    key: str
    first_line: int


def parse_documents(source: SourceFile) -> list[yaml.Node]:
    """Parse the documents of a file. Raises MalformedError."""
    if source.encoding != "utf-8":
        bad = next(index for index, char in enumerate(source.text) if ord(char) > 127)
        raise MalformedError(SourceLocation(source, bad), "the file is not UTF-8 text")
    try:
        return yamltree.parse(source.text)
    except YamlError as error:
        raise MalformedError(SourceLocation(source, error.index), f"the file {error}") from None


class YamlTree:
    """Access to the nodes of one file."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.duplicates: list[DuplicateKey] = []
        self._mappings: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}

    def mapping(self, node: yaml.Node | None) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the keys of a mapping, each with its key node and value node.

        Merged keys (`<<: *other`) count where the mapping has no such key of its own. Any other node has no keys.
        """
        if not isinstance(node, yaml.MappingNode):
            return {}
        if id(node) not in self._mappings:
            self._mappings[id(node)] = self._read_mapping(node)
        return self._mappings[id(node)]

    def _read_mapping(self, node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value, own in entries(node):
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE_TAG:
                continue
            if own and key.value in pairs:
                duplicate = DuplicateKey(self.location(key), key.value, line_of(pairs[key.value][0]))
                self.duplicates.append(duplicate)
            pairs.setdefault(key.value, (key, value))
        return pairs

    def get(self, node: yaml.Node | None, *path: str) -> yaml.Node | None:
        """Return the node at the end of this path of keys."""
        for word in path:
            pair = self.mapping(node).get(word)
            if pair is None:
                return None
            node = pair[1]
        return node

    def text(self, node: yaml.Node | None, *path: str) -> str | None:
        scalar = self.get(node, *path)
        return scalar.value if isinstance(scalar, yaml.ScalarNode) else None

    def items(self, node: yaml.Node | None) -> list[yaml.Node]:
        """Return the items of a sequence; any other node has none."""
        return list(node.value) if isinstance(node, yaml.SequenceNode) else []

    def location(self, node: yaml.Node) -> SourceLocation:
        return SourceLocation(self.source, node.start_mark.index)

    def value(self, node: yaml.Node, key: yaml.Node | None = None, read: Callable[[str], str] = str) -> ConfigValue:
        """Return a scalar as a value; `read` converts the written text to the text that the program reads."""
        layout = LineLayout.BARE if key is None else LineLayout.MAPPING
        word, key_start, key_end = "", -1, -1
        if isinstance(key, yaml.ScalarNode):
            word, (key_start, key_end) = key.value, self._text_span(key)
        if not isinstance(node, yaml.ScalarNode):
            start = node.start_mark.index
            return ConfigValue("", self.source, start, start, ValueStyle.FIXED, layout, word, key_start, key_end)
        start, end = self._text_span(node)
        empty = is_null(node)
        form = ValueStyle.FIXED if empty else _STYLES.get(node.style, ValueStyle.FIXED)
        return ConfigValue(
            read("" if empty else node.value), self.source, start, end, form, layout, word, key_start, key_end
        )

    def pair(self, node: yaml.Node, read: Callable[[str], str] = str) -> ConfigValue | None:
        """Return the value of a scalar KEY=VALUE, an item of a list."""
        if not isinstance(node, yaml.ScalarNode):
            return None
        key, sign, text = node.value.partition("=")
        start, end = self._text_span(node)
        raw = self.source.text[start:end]
        at = raw.find("=")
        form = _STYLES.get(node.style, ValueStyle.FIXED)
        if at < 0 or not sign:
            return ConfigValue("", self.source, end, end, ValueStyle.FIXED, LineLayout.ITEM, key, start, end)
        return ConfigValue(read(text), self.source, start + at + 1, end, form, LineLayout.ITEM, key, start, start + at)

    def _text_span(self, node: yaml.ScalarNode) -> tuple[int, int]:
        """Return the start and end of a scalar's text, without anchor, tag and quotes."""
        start, end = node.start_mark.index, node.end_mark.index
        raw = self.source.text[start:end]
        match = re.match(r"(?:[&!]\S*\s+)*", raw)
        assert match is not None
        start += match.end()
        if node.style in ("'", '"') and end - start >= 2:
            return start + 1, end - 1
        return start, start + len(self.source.text[start:end].rstrip())

    def mappings(self, node: yaml.Node) -> Iterator[yaml.MappingNode]:
        """Yield all mappings below a node, each once."""
        visited: set[int] = set()
        waiting = [node]
        while waiting:
            current = waiting.pop()
            if id(current) in visited:
                continue
            visited.add(id(current))
            if isinstance(current, yaml.MappingNode):
                yield current
                waiting += [part for pair in current.value for part in pair]
            elif isinstance(current, yaml.SequenceNode):
                waiting += current.value
