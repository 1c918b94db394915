"""YAML as a tree of nodes with locations. Aliases are not expanded: an alias is the node that it refers to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import yaml

from kproxy.advice.lint.source import SourceFile, SourceLocation
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle
from kproxy.base import yamltree
from kproxy.base.yamltree import MERGE_TAG, YamlError, entries, is_null

_COMMENT = re.compile(r"^ *//.*", re.MULTILINE)
# Aliases may repeat a node without end.
_MOST_VISITS, _LONGEST_LIST = 20_000, 1000
_STYLES = {None: ValueStyle.PLAIN, "": ValueStyle.PLAIN, "'": ValueStyle.SINGLE, '"': ValueStyle.DOUBLE}


class MalformedError(Exception):
    """A text that is not YAML, or is too large or too deep for a configuration; `str()` says why."""

    def __init__(self, location: SourceLocation, text: str) -> None:
        self.location = location
        super().__init__(text)


def parse_documents(source: SourceFile, *, is_json: bool = False) -> list[yaml.Node]:
    """Parse the documents of a file, of YAML or of JSON. Raises MalformedError."""
    if source.encoding != "utf-8":
        bad = next(index for index, char in enumerate(source.text) if ord(char) > 127)
        raise MalformedError(SourceLocation(source, bad), "the file is not UTF-8 text")
    try:
        # YAML allows no tab where JSON does, and .NET allows lines of comments.
        text = (
            _COMMENT.sub(lambda match: " " * len(match[0]), source.text.replace("\t", " ")) if is_json else source.text
        )
        return yamltree.parse(text)
    except YamlError as error:
        raise MalformedError(SourceLocation(source, error.index), f"the file {error}") from None


def parse_block(node: YamlNode) -> list[YamlNode]:
    """Parse the YAML inside of a block, with its locations in the whole file. Nothing if it is not YAML."""
    if not node.is_literal():
        return []
    start, end = node.block()
    # What is before keeps its length, so that each index stays the same.
    text = re.sub(r"[^\n]", " ", node.source.text[:start]) + node.source.text[start:end]
    try:
        return [YamlNode(node.source, root) for root in yamltree.parse(text)]
    except YamlError:
        return []


def flatten(root: YamlNode, read: Callable[[str], str] = str) -> tuple[dict[str, ConfigValue], bool]:
    """Return the scalars of a tree by keys with dots, and whether these are all.

    A list of scalars is one value with commas. The numbers of other lists are parts of the keys.
    """
    values: dict[str, ConfigValue] = {}
    waiting: list[tuple[str, YamlNode]] = [("", root)]
    visits = 0
    while waiting and visits < _MOST_VISITS:
        visits += 1
        key, node = waiting.pop()
        value = node.joined(read)
        if value is not None:
            values[key] = value
        else:
            children = [(str(number), item) for number, item in enumerate(node.items)] or list(node.mapping.items())
            waiting += [(f"{key}.{name}" if key else name, child) for name, child in reversed(children)]
    return values, not waiting


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

    def joined(self, read: Callable[[str], str] = str) -> ConfigValue | None:
        """Return a scalar, or a list of scalars with commas between them, as a value; None for any other node."""
        if self.is_scalar:
            return self.value(read)
        items = self.items[:_LONGEST_LIST]
        if not items or not all(item.is_scalar for item in items):
            return None
        return replace(self.value(), text=read(",".join(item.text for item in items)))

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

    def is_literal(self) -> bool:
        """Check whether the node is a block of lines (`|`), whose text is in the file as the program reads it."""
        return isinstance(self.node, yaml.ScalarNode) and self.node.style == "|"

    def block(self) -> tuple[int, int]:
        """Return the start and the end of the lines of a block."""
        assert self.node is not None
        return self.source.next_line(self.node.start_mark.index), self.node.end_mark.index

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
