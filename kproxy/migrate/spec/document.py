"""Reads the YAML file of a migration: both clusters, topics, groups, limits, the switch. Reports all mistakes.

`source` and `target` take every option of a cluster in `kproxy run`, and the wing `config` reads them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from kproxy.base.diagnostic import Diagnostic
from kproxy.base.errors import ConfigError
from kproxy.base.printable import escaped
from kproxy.config import kinds
from kproxy.config.hop import mask
from kproxy.config.loader import validate_layer
from kproxy.config.options import cluster_settings
from kproxy.config.sources import Layer, closest, suggestion
from kproxy.config.values import quote
from kproxy.config.yamlfile import YamlReader
from kproxy.migrate.copier.state import state_topic_name
from kproxy.migrate.spec import switch_section
from kproxy.migrate.spec.migration import (
    INTERNAL_TOPICS,
    SIDES,
    SOURCE,
    TARGET,
    CopyLimits,
    GroupSelection,
    Migration,
    TopicSelection,
)

T = TypeVar("T")

__all__ = ["Migration", "read_migration"]

_TOPIC = "[A-Za-z0-9._-]"
_LONGEST_TOPIC = 249
_TOP = ("name", *SIDES, "topics", "groups", "limits", "acls", "quotas", "switch")
_EXAMPLE = "{bootstrap-servers: HOST:PORT}, and every other option of a cluster in 'kproxy run'"


def read_migration(path: str | os.PathLike[str]) -> Migration:
    """Read the file of a migration. Raises ConfigError with one line for every mistake."""
    file, layer = Path(path), Layer(nested=True)
    document = _DocumentReader(YamlReader(str(file), layer))
    root = document.reading.root(file)
    if not isinstance(root, yaml.MappingNode):
        if not layer.problems:
            problem = "is empty" if root is None else "is not a mapping"
            document.reading.problem(root, "", f"{problem}; allowed: source: {_EXAMPLE}; target: the same")
        raise ConfigError(*_lines(layer.problems))
    values = document.values(root)
    if problems := validate_layer(layer, file):
        raise ConfigError(*_lines(problems))
    migration = Migration(document.clusters[SOURCE], document.clusters[TARGET], **values)
    _check_as_kproxy_config(migration, file)
    return migration


def _check_as_kproxy_config(migration: Migration, file: Path) -> None:
    """Check both clusters with the addresses that they get in kproxy's configuration. Raises ConfigError."""
    from kproxy.spark.configuration import build_host_config  # looks at it as `attach` does

    try:
        build_host_config(migration.kproxy_config())
    except ConfigError as error:
        raise ConfigError(*(f"{file}: {_with_side_names(line)}" for line in error.problems)) from None


def _lines(problems: Iterable[Diagnostic]) -> Iterator[str]:
    for problem in problems:
        yield escaped(mask(str(replace(problem, subject=_with_side_names(problem.subject)))))


def _with_side_names(text: str) -> str:
    """Replace the indexes of clusters by the names that the file uses."""
    return text.replace("clusters[0]", SOURCE).replace("clusters[1]", TARGET)


class _DocumentReader:
    """Reads the YAML tree, and adds mistakes to the problems of the reading."""

    def __init__(self, reading: YamlReader) -> None:
        self.reading = reading
        self.clusters: dict[str, dict[str, Any]] = {}

    def values(self, root: yaml.MappingNode) -> dict[str, Any]:
        """Return the options of the file except the clusters."""
        nodes = {key.value: value for key, value in self.pairs(root, "", _TOP)}
        for side in SIDES:
            self._cluster(side, nodes.pop(side, None))
        values: dict[str, Any] = {}
        sections: Mapping[str, Callable[[yaml.MappingNode], object]] = {
            "topics": self._topics,
            "groups": self._groups,
            "limits": self._limits,
            "switch": lambda section: switch_section.read_switch_section(self, section),
        }
        for word, node in nodes.items():
            if word not in sections:
                kind = kinds.NAME if word == "name" else kinds.BOOLEAN
                self._put(values, word, self.scalar(node, word, kind.parse, kind.allowed))
            elif isinstance(node, yaml.MappingNode):
                values[word] = sections[word](node)
            elif not _is_null(node):
                self.problem(node, word, "is not a mapping; allowed: KEY: VALUE lines")
        return values

    def _cluster(self, side: str, node: yaml.Node | None) -> None:
        layer, index = self.reading.layer, len(self.reading.layer.clusters)
        if node is None or _is_null(node):
            self.problem(node, side, f"is missing; allowed: {side}: {_EXAMPLE}")
            layer.clusters.append({"bootstrap-servers": ["missing.invalid:1"]})
        else:
            self.reading.cluster(node)
        values = layer.clusters[index]
        self.clusters[side] = {key: _absolute_path(key, value) for key, value in deepcopy(values).items()}
        values.setdefault("name", side)
        # Others than any that the file may have: the real ones are judged later.
        values.setdefault("listen", f"127.0.0.1:{65000 + 250 * index}")
        values.setdefault("node-ports", f"{65001 + 250 * index}-{65200 + 250 * index}")

    def _topics(self, node: yaml.MappingNode) -> TopicSelection:
        values: dict[str, Any] = {}
        globs = ("include", "exclude", "allow-offset-gaps")
        for key, value in self.pairs(node, "topics.", (*globs, "rename", "replication", "configs")):
            path = f"topics.{key.value}"
            if key.value in globs:
                self._put(
                    values,
                    key.value.replace("-", "_"),
                    self._globs(value, path, rf"({_TOPIC}|[*?!\[\]])+", "a topic or a glob"),
                )
            elif key.value == "replication":
                kind = kinds.count(1, 32767)
                self._put(values, "replication", self.scalar(value, path, kind.parse, kind.allowed))
            else:
                read = _parse_rename if key.value == "rename" else _parse_config
                values[key.value] = dict(self._mapping(value, path, read))
                if key.value == "rename":
                    self._renames(value, values["rename"])
        return TopicSelection(**values)

    def _groups(self, node: yaml.MappingNode) -> GroupSelection:
        values: dict[str, Any] = {}
        for key, value in self.pairs(node, "groups.", ("include", "exclude", "as-end")):
            globs = self._globs(value, f"groups.{key.value}", r".+", "a group or a glob")
            self._put(values, key.value.replace("-", "_"), globs)
        return GroupSelection(**values)

    def _limits(self, node: yaml.MappingNode) -> CopyLimits:
        count = kinds.count(1, 65536)
        parsers: dict[str, tuple[Callable[[str], Any], str]] = {
            "max-rate": (_parse_rate, _RATE),
            "slice-mb": (count.parse, count.allowed),
        }
        values: dict[str, Any] = {}
        for key, value in self.pairs(node, "limits.", parsers):
            parse, allowed = parsers[key.value]
            self._put(values, key.value.replace("-", "_"), self.scalar(value, f"limits.{key.value}", parse, allowed))
        return CopyLimits(**values)

    # Parts of the tree

    @staticmethod
    def _put(values: dict[str, Any], key: str, value: object) -> None:
        if value is not None:
            values[key] = value

    def problem(self, node: yaml.Node | None, path: str, text: str) -> None:
        self.reading.problem(node, path, text)

    def pairs(
        self, node: yaml.MappingNode, prefix: str, allowed: Iterable[str]
    ) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        """Yield the allowed keys and their values, each once."""
        lines: dict[str, int] = {}
        allowed = tuple(allowed)
        for key, value in node.value:
            word = key.value if isinstance(key, yaml.ScalarNode) else ""
            where = prefix + (word if re.fullmatch(r"[\w.-]{1,60}", word) else quote(word) if word else "a key")
            if not isinstance(key, yaml.ScalarNode) or word not in allowed:
                close = closest(word, allowed, word.strip().lower().replace("_", "-"))
                self.problem(key, where, "no such key; " + suggestion(close, allowed))
            elif word in lines:
                self.problem(key, where, f"is given twice, first on line {lines[word]}; allowed: once")
            else:
                lines[word] = key.start_mark.line + 1
                yield key, value

    def scalar(self, node: yaml.Node, path: str, parse: Callable[[str], T], allowed: str) -> T | None:
        if not isinstance(node, yaml.ScalarNode) or _is_null(node):
            problem = "has no value" if _is_null(node) else f"is a {_node_kind(node)}"
            self.problem(node, path, f"{problem}; allowed: {allowed}")
            return None
        try:
            return parse(node.value)
        except ValueError as error:
            self.problem(node, path, str(error))
            return None

    def _globs(self, node: yaml.Node, path: str, pattern: str, noun: str) -> tuple[str, ...] | None:
        def parse(text: str) -> str:
            if not re.fullmatch(pattern, text):
                raise ValueError(f"{quote(text)} is not {noun}; allowed: 'orders-*', [orders, 'payments-*']")
            return text

        if isinstance(node, yaml.MappingNode) or _is_null(node):
            self.problem(node, path, f"{'has no value' if _is_null(node) else 'is a mapping'}; allowed: [GLOB, …]")
            return None
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        texts = [self.scalar(item, path, parse, "[GLOB, …]") for item in items]
        return tuple(text for text in texts if text is not None)

    def _mapping(
        self, node: yaml.Node, path: str, parse: Callable[[str, str], tuple[str, str]]
    ) -> Iterator[tuple[str, str]]:
        if not isinstance(node, yaml.MappingNode):
            self.problem(node, path, "is not a mapping; allowed: KEY: VALUE lines")
            return
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not isinstance(value, yaml.ScalarNode) or _is_null(value):
                self.problem(key, path, "has a key or a value that is no text; allowed: KEY: VALUE lines")
            elif key.value in lines:
                self.problem(key, path, f"{quote(key.value)} is given twice, first on line {lines[key.value]}")
            else:
                lines[key.value] = key.start_mark.line + 1
                try:
                    yield parse(key.value, value.value)
                except ValueError as error:
                    self.problem(key, path, str(error))

    def _renames(self, node: yaml.Node, renames: Mapping[str, str]) -> None:
        """Report two topics that are renamed to the same name.

        Globs can only be checked when the topics are known: `Migration.name_clashes`.
        """
        lines = {key.value: key for key, _ in node.value} if isinstance(node, yaml.MappingNode) else {}
        by_name: dict[str, str] = {}
        for topic, name in renames.items():
            if name in by_name:
                text = f"{by_name[name]} and {topic} would both become {name}; allowed: a name of its own for each"
                self.problem(lines[topic], "topics.rename", text)
            by_name.setdefault(name, topic)


_RATE = "MB/s, a number above 0"


def _parse_rate(text: str) -> float:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text.strip()) or float(text) <= 0:
        raise ValueError(f"{quote(text)} is not a rate; allowed: {_RATE}")
    return float(text)


def _parse_rename(topic: str, name: str) -> tuple[str, str]:
    """Parse a line of `rename`. Raises ValueError."""
    for text in (topic, name):
        if not re.fullmatch(rf"{_TOPIC}*\*?{_TOPIC}*", text) or not text or text in (".", ".."):
            raise ValueError(f"{quote(text)} cannot be a topic; allowed: letters, digits, '.', '_', '-', and one *")
        if len(text) > _LONGEST_TOPIC:
            raise ValueError(f"{quote(text)} is too long for a topic; allowed: {_LONGEST_TOPIC} characters")
    if ("*" in topic) != ("*" in name):
        raise ValueError(f"{topic} and {name}: only one of them has a *; allowed: 'a-*': 'b-*', or names without *")
    if name in INTERNAL_TOPICS or name.startswith(state_topic_name("")):
        raise ValueError(f"{name} is a topic of Kafka's or of kproxy's own; allowed: another name")
    return topic, name


def _parse_config(key: str, value: str) -> tuple[str, str]:
    """Parse a line of `configs`. Raises ValueError."""
    if not re.fullmatch(r"[a-z0-9.]+", key):
        raise ValueError(f"{quote(key)} is not a configuration of a topic; allowed: such as min.insync.replicas")
    return key, value


def _absolute_path(key: str, value: Any) -> Any:
    """Return file options as absolute paths: the proxy that reads them has another working directory."""
    setting = cluster_settings()[key]
    if Path not in setting.kind.native or not isinstance(value, str) or not value.strip():
        return value
    return os.path.abspath(Path(value).expanduser())


def _is_null(node: yaml.Node | None) -> bool:
    return node is not None and node.tag == "tag:yaml.org,2002:null"


def _node_kind(node: yaml.Node) -> str:
    return "list" if isinstance(node, yaml.SequenceNode) else "mapping"
