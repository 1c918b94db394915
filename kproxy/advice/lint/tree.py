"""YAML as a tree of nodes with locations. Aliases are not expanded: an alias is the node that it refers to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property

import yaml

from kproxy.advice.lint.source import SourceFile, SourceLocation
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle
from kproxy.base import yamltree
from kproxy.base.yamltree import MERGE_TAG, YamlError, entries, is_null

_STYLES = {None: ValueStyle.PLAIN, "": ValueStyle.PLAIN, "'": ValueStyle.SINGLE, '"': ValueStyle.DOUBLE}


class MalformedError(Exception):
    """A text that is not YAML, or is too large or too deep for a configuration; `str()` says why."""

    def __init__(self, location: SourceLocation, text: str) -> None:
        self.location = location
        super().__init__(text)


def parse_documents(source: SourceFile) -> list[yaml.Node]:
    """Parse the documents of a file. Raises MalformedError."""
    if source.encoding != "utf-8":
        bad = next(index for index, char in enumerate(source.text) if ord(char) > 127)
        raise MalformedError(SourceLocation(source, bad), "the file is not UTF-8 text")
    try:
        return yamltree.parse(source.text)
    except YamlError as error:
        raise MalformedError(SourceLocation(source, error.index), f"the file {error}") from None


class YamlNode:
    """A node of a file, with its key in a mapping. A missing one is false, and has no keys, no items and no text."""

    def __init__(self, source: SourceFile, node: yaml.Node | None, key: yaml.Node | None = None) -> None:
        self.source = source
        self.node = node
        self.key = key

    def __bool__(self) -> bool:
        return self.node is not None

    def __getitem__(self, name: str) -> YamlNode:
        return self.mapping.get(name) or YamlNode(self.source, None)

    @cached_property
    def mapping(self) -> dict[str, YamlNode]:
        """The values by their keys.

        Merged keys (`<<: *other`) count where the mapping has no such key of its own.
        """
        values: dict[str, YamlNode] = {}
        for key, value, _ in entries(self.node) if isinstance(self.node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG:
                values.setdefault(key.value, YamlNode(self.source, value, key))
        return values

    @property
    def items(self) -> list[YamlNode]:
        """The items of a sequence."""
        nodes = self.node.value if isinstance(self.node, yaml.SequenceNode) else ()
        return [YamlNode(self.source, node) for node in nodes]

    @property
    def key_text(self) -> str:
        return self.key.value if isinstance(self.key, yaml.ScalarNode) else ""

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.node, yaml.ScalarNode)

    @property
    def text(self) -> str:
        """The text of a scalar."""
        return self.node.value if isinstance(self.node, yaml.ScalarNode) else ""

    @property
    def location(self) -> SourceLocation:
        """The location of the key; without one, that of the node."""
        node = self.key or self.node
        return SourceLocation(self.source, 0 if node is None else node.start_mark.index)

    def value(self, read: Callable[[str], str] = str) -> ConfigValue:
        """Return the node as a value; `read` converts the written text to the text that the program reads."""
        assert self.node is not None
        layout = LineLayout.BARE if self.key is None else LineLayout.MAPPING
        key_start, key_end = self._text_span(self.key) if isinstance(self.key, yaml.ScalarNode) else (-1, -1)
        start = end = self.node.start_mark.index
        text, style = "", ValueStyle.FIXED
        if isinstance(self.node, yaml.ScalarNode):
            start, end = self._text_span(self.node)
            if not is_null(self.node):
                text, style = self.node.value, _STYLES.get(self.node.style, ValueStyle.FIXED)
        return ConfigValue(read(text), self.source, start, end, style, layout, self.key_text, key_start, key_end)

    def scalar(self) -> ConfigValue | None:
        return self.value() if self.is_scalar else None

    def pair(self, read: Callable[[str], str] = str) -> ConfigValue | None:
        """Return the value of a scalar KEY=VALUE, an item of a list."""
        if not isinstance(self.node, yaml.ScalarNode):
            return None
        key, sign, text = self.node.value.partition("=")
        start, end = self._text_span(self.node)
        at = self.source.text[start:end].find("=")
        style = _STYLES.get(self.node.style, ValueStyle.FIXED)
        if at < 0 or not sign:
            return ConfigValue("", self.source, end, end, ValueStyle.FIXED, LineLayout.ITEM, key, start, end)
        sign_at = start + at
        return ConfigValue(read(text), self.source, sign_at + 1, end, style, LineLayout.ITEM, key, start, sign_at)

    def _text_span(self, node: yaml.ScalarNode) -> tuple[int, int]:
        """Return the start and end of a scalar's text, without anchor, tag and quotes."""
        start, end = node.start_mark.index, node.end_mark.index
        match = re.match(r"(?:[&!]\S*\s+)*", self.source.text[start:end])
        assert match is not None
        start += match.end()
        if node.style in ("'", '"') and end - start >= 2:
            return start + 1, end - 1
        return start, start + len(self.source.text[start:end].rstrip())


def duplicate_keys(root: YamlNode) -> Iterator[tuple[YamlNode, YamlNode]]:
    """Yield each value whose key stands twice in one mapping, after the first value of that key."""
    visited: set[int] = set()
    waiting = [root.node]
    while waiting:
        node = waiting.pop()
        if id(node) in visited or not isinstance(node, yaml.CollectionNode):
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
            continue
        first: dict[str, YamlNode] = {}
        for key, value in node.value:
            waiting += (key, value)
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG:
                other = YamlNode(root.source, value, key)
                if (before := first.setdefault(key.value, other)) is not other:
                    yield before, other
