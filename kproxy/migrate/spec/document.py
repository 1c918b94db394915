"""Reads the YAML file of a migration: both clusters, topics, groups, limits, the switch. Reports all mistakes.

`source` and `target` take every option of a cluster in `kproxy run`, and the wing `config` reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from kproxy.base.diagnostic import Diagnostic
from kproxy.base.errors import ConfigError
from kproxy.base.printable import escaped
from kproxy.base.yamltree import entries, is_null, line_of
from kproxy.config.declarations import settings_of
from kproxy.config.hop import mask
from kproxy.config.kinds import ValueKind
from kproxy.config.loader import validate_layer
from kproxy.config.options import cluster_settings
from kproxy.config.sources import Layer
from kproxy.config.values import quote
from kproxy.config.yamlfile import YamlReader
from kproxy.migrate.spec.declarations import KEYS, NamedSectionsKind, PairsKind, SectionKind
from kproxy.migrate.spec.migration import SIDES, SOURCE, TARGET, Migration
from kproxy.migrate.spec.schemas_section import RegistrySection
from kproxy.migrate.spec.switch_section import KproxySelection

_EXAMPLE = "{bootstrap-servers: HOST:PORT}, and every other option of a cluster in 'kproxy run'"


def read_migration(path: str | os.PathLike[str]) -> Migration:
    """Read the file of a migration. Raises ConfigError with one line for every mistake."""
    file, layer = Path(path), Layer(nested=True)
    document = _DocumentReader(YamlReader(str(file), layer, "kproxy migrate schema"))
    root = document.reading.root(file)
    if not isinstance(root, yaml.MappingNode):
        if not layer.problems:
            problem = "is empty" if root is None else "is not a mapping"
            document.problem(root, "", f"{problem}; allowed: source: {_EXAMPLE}; target: the same")
        raise ConfigError(*_lines(layer.problems))
    values = document.values(root)
    if problems := validate_layer(layer, file):
        raise ConfigError(*_lines(problems))
    migration = Migration(**values)
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
    """Reads the YAML tree as `Migration` is declared, and adds mistakes to the problems of the reading."""

    def __init__(self, reading: YamlReader) -> None:
        self.reading = reading
        self.problem = reading.problem

    def values(self, root: yaml.MappingNode) -> dict[str, Any]:
        """Return the options of the file, by the names of the fields of `Migration`."""
        nodes = dict(self._nodes(root, "", (*SIDES, *settings_of(Migration))))
        clusters = {side: self._cluster(side, nodes.pop(side, None)) for side in SIDES}
        return {**clusters, **self._fields(Migration, nodes, "")}

    def _cluster(self, side: str, node: yaml.Node | None) -> dict[str, Any]:
        layer, index = self.reading.layer, len(self.reading.layer.clusters)
        if node is None or is_null(node):
            self.problem(node, side, f"is missing; allowed: {side}: {_EXAMPLE}")
            layer.clusters.append({"bootstrap-servers": ["missing.invalid:1"]})
        else:
            self.reading.cluster(node)
        values = layer.clusters[index]
        given = {key: _absolute_path(key, value) for key, value in deepcopy(values).items()}
        values.setdefault("name", side)
        # Others than any that the file may have: the real ones are judged later.
        values.setdefault("listen", f"127.0.0.1:{65000 + 250 * index}")
        values.setdefault("node-ports", f"{65001 + 250 * index}-{65200 + 250 * index}")
        return given

    def _nodes(self, node: yaml.MappingNode, prefix: str, known: Iterable[str]) -> Iterator[tuple[str, yaml.Node]]:
        return ((key.value, value) for key, value in self.reading.pairs(node, None, tuple(known), prefix))

    def _section(self, owner: type[Any], node: yaml.MappingNode, path: str) -> Any:
        """Return the section as an object of its class; None if a required key is missing or wrong."""
        nodes = dict(self._nodes(node, f"{path}.", settings_of(owner)))
        values = self._fields(owner, nodes, f"{path}.")
        required = [setting for setting in settings_of(owner).values() if setting.required]
        for setting in required:
            if setting.key not in nodes:
                self.problem(node, f"{path}.{setting.key}", f"is missing; allowed: {setting.kind.allowed}")
        if not all(setting.name in values for setting in required):
            return None
        return self._checked(owner(**values), node, path)

    def _checked(self, section: Any, node: yaml.Node, path: str) -> Any:
        """Return the section; report what its keys contradict."""
        if isinstance(section, RegistrySection) and (problem := section.problem()):
            self.problem(node, path, problem)
        return section

    def _fields(self, owner: type[Any], nodes: dict[str, yaml.Node], prefix: str) -> dict[str, Any]:
        settings = settings_of(owner)
        values = {
            settings[key].name: self._value(settings[key].kind, settings[key].repeatable, node, prefix + key)
            for key, node in nodes.items()
        }
        return {name: value for name, value in values.items() if value is not None}

    def _value(self, kind: Any, repeatable: bool, node: yaml.Node, path: str) -> Any:
        """Return the value of a key; None if it has none, or a wrong one."""
        if isinstance(kind, ValueKind):
            return self._list(kind, node, path) if repeatable else self._scalar(kind, node, path)
        if isinstance(kind, SectionKind) and kind.owner is KproxySelection:
            return self._kproxies(kind, node, path)
        if isinstance(kind, SectionKind) and kind.main_key and isinstance(node, yaml.ScalarNode):
            value = self._scalar(settings_of(kind.owner)[kind.main_key].kind, node, path)
            return None if value is None else self._checked(kind.owner(**{kind.main_key: value}), node, path)
        if isinstance(kind, SectionKind) and is_null(node):
            return None
        if not isinstance(node, yaml.MappingNode):
            self.problem(node, path, f"is not a mapping; allowed: {KEYS}")
            return None
        if isinstance(kind, NamedSectionsKind):
            return self._named_sections(kind, node, path)
        return self._section(kind.owner, node, path) if isinstance(kind, SectionKind) else self._pairs(kind, node, path)

    def _named_sections(self, kind: NamedSectionsKind, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        sections: dict[str, Any] = {}
        for key, value, own in entries(node):
            name = self._scalar(kind.name, key, path)
            if name is None:
                continue
            if not isinstance(value, yaml.MappingNode):
                allowed = ", ".join(settings_of(kind.owner))
                self.problem(value, f"{path}.{name}", f"is not a mapping; allowed: {allowed}")
            elif name not in sections:
                sections[name] = self._section(kind.owner, value, f"{path}.{name}")
            elif own:
                self.problem(key, path, f"{quote(name)} is given twice")
        return sections

    def _scalar(self, kind: ValueKind[Any], node: yaml.Node, path: str) -> Any:
        if problem := self.reading.no_value(node):
            self.problem(node, path, f"{problem}; allowed: {kind.allowed}")
            return None
        try:
            return kind.parse(node.value)
        except ValueError as error:
            self.problem(node, path, str(error))
            return None

    def _list(self, kind: ValueKind[Any], node: yaml.Node, path: str) -> tuple[Any, ...] | None:
        if isinstance(node, yaml.MappingNode) or is_null(node):
            self._scalar(kind, node, path)
            return None
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        values = [self._scalar(kind, item, path) for item in items]
        return tuple(value for value in values if value is not None)

    def _pairs(self, kind: PairsKind, node: yaml.MappingNode, path: str) -> dict[str, str]:
        pairs: dict[str, str] = {}
        keys: dict[str, yaml.Node] = {}
        for key, value, own in entries(node):
            if not isinstance(key, yaml.ScalarNode) or not isinstance(value, yaml.ScalarNode) or is_null(value):
                self.problem(key, path, f"has a key or a value that is no text; allowed: {KEYS}")
            elif key.value in keys:
                if own:
                    text = f"{quote(key.value)} is given twice, first on line {line_of(keys[key.value])}"
                    self.problem(key, path, text)
            else:
                keys[key.value] = key
                try:
                    pairs.update([kind.parse(key.value, value.value)])
                except ValueError as error:
                    self.problem(key, path, str(error))
        if path == "topics.rename":
            self._check_renames(pairs, keys)
        return pairs

    def _check_renames(self, renames: dict[str, str], keys: dict[str, yaml.Node]) -> None:
        """Report two topics that are renamed to the same name.

        Globs can only be checked when the topics are known: `Migration.name_clashes`.
        """
        by_name: dict[str, str] = {}
        for topic, name in renames.items():
            if name in by_name:
                text = f"{by_name[name]} and {topic} would both become {name}; allowed: a name of its own for each"
                self.problem(keys[topic], "topics.rename", text)
            by_name.setdefault(name, topic)

    def _kproxies(self, kind: SectionKind, node: yaml.Node, path: str) -> KproxySelection | None:
        """Read a list of addresses, or a mapping that tells how to find the kproxies."""
        settings = settings_of(KproxySelection)
        mistakes = len(self.reading.layer.problems)
        if not isinstance(node, yaml.MappingNode):
            addresses = self._list(settings["addresses"].kind, node, path) or ()
            twice = {text for text in addresses if addresses.count(text) > 1}
            if twice or not (addresses or len(self.reading.layer.problems) > mistakes):
                problem = f"{min(twice)} is given twice" if twice else f"is empty; allowed: {kind.allowed}"
                self.problem(node, path, problem)
            return KproxySelection(addresses) if len(self.reading.layer.problems) == mistakes else None
        known = [key for key in settings if key != "addresses"]
        nodes = dict(self._nodes(node, f"{path}.", known))
        values = self._fields(KproxySelection, nodes, f"{path}.")
        if ("dns" in nodes) == ("kubernetes" in nodes) or ("dns" in nodes and len(nodes) > 1):
            problem = f"has {', '.join(nodes)}" if nodes else "is empty"
            more = ", ".join(key for key in known if key not in ("dns", "kubernetes"))
            self.problem(node, path, f"{problem}; allowed: {kind.allowed}, and with kubernetes: {more}")
        return KproxySelection(**values) if len(self.reading.layer.problems) == mistakes else None


def _absolute_path(key: str, value: Any) -> Any:
    """Return file options as absolute paths: the proxy that reads them has another working directory."""
    setting = cluster_settings()[key]
    if Path not in setting.kind.native or not isinstance(value, str) or not value.strip():
        return value
    return os.path.abspath(Path(value).expanduser())
