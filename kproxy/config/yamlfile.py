"""The YAML file, with the line of each key and value.

`kproxy.base.yamltree` says why it works on nodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeAlias

import yaml

from kproxy.base.diagnostic import DiagnosticPlace
from kproxy.base.regularfile import reason_of
from kproxy.base.yamltree import MERGE_TAG, YamlError, entries, is_null, kind_of, line_of, parse
from kproxy.config.checks import OptionPath
from kproxy.config.declarations import Setting
from kproxy.config.options import cluster_settings, process_settings, upstream_settings
from kproxy.config.sources import REMOVED, UPSTREAMS, Layer, closest, mistake, setting_loc, suggestion
from kproxy.config.values import quote

# Maximum size of a configuration, so that a wrong path does not fill the memory.
MAX_BYTES = 1024 * 1024
_CLUSTERS, ACTIVE = "clusters", "active"
# A switch goes from one upstream to another, so a third has no purpose.
_MOST_UPSTREAMS = 2
_UPSTREAM = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_UPSTREAMS = "one or two, each with a name (a-z, 0-9, -) and bootstrap-servers"

KeyNodes: TypeAlias = dict[str, tuple[yaml.ScalarNode, yaml.Node]]
"""The keys of one mapping: each with its node and the node of its value."""


def read_file(path: Path) -> Layer:
    """Return the layer of a file. Mistakes are in `problems`; nothing is raised."""
    layer = Layer()
    reading = YamlReader(str(path), layer)
    root = reading.root(path)
    if isinstance(root, yaml.MappingNode):
        reading.top(root)
    else:
        layer.broken = True
        if not layer.problems:
            problem = "is empty" if root is None else "is not a mapping"
            reading.problem(root, "", f"{problem}; allowed: KEY: VALUE lines, see 'kproxy config schema'")
    return layer


class YamlReader:
    """One pass over one file. Rooms with files of their own, in which clusters are elsewhere, use it too."""

    def __init__(self, shown: str, layer: Layer, schema: str = "kproxy config schema") -> None:
        """Read nothing yet. `schema` is the command that prints which keys the file may have."""
        self.shown = shown
        self._schema = schema
        self.layer = layer
        self.reported: set[int] = set()

    def problem(self, node: yaml.Node | None, path: str, text: str) -> None:
        self.layer.problems.append(mistake(self.origin(node), path, text))

    def origin(self, node: yaml.Node | None) -> DiagnosticPlace:
        return DiagnosticPlace(self.shown, line_of(node) if node else 0)

    def root(self, path: Path) -> yaml.Node | None:
        """Return the root of the file; None if it is empty or cannot be read, with the reason in `problems`."""
        try:
            # Not Path.read_bytes: a device never ends. A pipe (`-c <(...)`) is fine.
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                self.problem(None, "", f"is larger than {MAX_BYTES // 1024} KiB; allowed: a configuration of kproxy")
                return None
            return next(iter(parse(data.decode("utf-8-sig"), single=True)), None)
        except OSError as error:
            self.problem(None, "", f"{reason_of(error)}; allowed: a readable YAML file")
        except UnicodeDecodeError as error:
            self.problem(None, "", f"is not UTF-8 text (byte {error.start + 1})")
        except YamlError as error:
            self.layer.problems.append(mistake(DiagnosticPlace(self.shown, error.line), "", str(error)))
        return None

    def top(self, root: yaml.MappingNode) -> None:
        clusters, process = cluster_settings(), process_settings()
        of_cluster = {*clusters, UPSTREAMS, ACTIVE}
        known = {*of_cluster, *process, _CLUSTERS}
        nodes = {key.value: (key, value) for key, value in self.pairs(root, (), known)}
        single = next((key for word, (key, _) in nodes.items() if word in of_cluster), None)
        if _CLUSTERS in nodes:
            key, value = nodes.pop(_CLUSTERS)
            self.layer.nested = True
            if single is not None:
                beside = f"{single.value} (line {line_of(single)})"
                text = f"cannot be combined with {beside}, a key of one cluster"
                self.problem(key, _CLUSTERS, f"{text}; allowed: move it into an entry of clusters")
                nodes = {word: pair for word, pair in nodes.items() if word not in of_cluster}
            self.clusters(key, value)
        elif single is not None:
            self.layer.origins["clusters", 0] = self.origin(single)
        for word in [word for word in nodes if word in process]:
            self.setting(process[word], 0, "", *nodes.pop(word))
        self.settings(nodes, 0, "")

    def clusters(self, key: yaml.Node, node: yaml.Node) -> None:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self.problem(key, _CLUSTERS, "is not a list of clusters; allowed: one '- name: …' for each")
            self.layer.broken = True
            return
        for item in node.value:
            self.cluster(item, upstreams=True)

    def cluster(self, item: yaml.Node, *, upstreams: bool = False) -> None:
        """Add one cluster, which may have several upstreams if `upstreams`."""
        settings, index = cluster_settings(), len(self.layer.clusters)
        path = f"{_CLUSTERS}[{self.layer.listed}]"
        self.layer.listed += 1
        self.layer.origins["clusters", index] = self.origin(item)
        self.layer.clusters.append({})
        self.layer.paths[index] = path
        if not isinstance(item, yaml.MappingNode):
            self.problem(item, path, f"is not a cluster; allowed: KEY: VALUE lines, see '{self._schema}'")
            self.layer.failed.add(("clusters", index))
            return
        known = {*settings, *([UPSTREAMS, ACTIVE] if upstreams else [])}
        pairs = self.pairs(item, ("clusters", index), known, path + ".")
        self.settings({key.value: (key, value) for key, value in pairs}, index, path + ".")

    def settings(self, nodes: KeyNodes, index: int, prefix: str) -> None:
        """Add the keys of one cluster."""
        if UPSTREAMS in nodes:
            self.upstreams(nodes, index, prefix)
            return
        if ACTIVE in nodes:
            text = f"says which of several {UPSTREAMS} is active, and there are none; allowed: with {UPSTREAMS}"
            self.problem(nodes.pop(ACTIVE)[0], prefix + ACTIVE, text)
        for word, (key, value) in nodes.items():
            self.setting(cluster_settings()[word], index, prefix, key, value)

    def upstreams(self, nodes: KeyNodes, index: int, path: str) -> None:
        """Add the upstreams of the cluster at `index`: each an entry in the layer, with the options that they share.

        `path` is the path of the cluster, with a dot at its end unless it is the file itself.
        """
        layer = self.layer
        key, node = nodes.pop(UPSTREAMS)
        active = nodes.pop(ACTIVE, None)
        for word in [word for word in nodes if word in upstream_settings()]:
            text = f"stands beside {UPSTREAMS} (line {line_of(key)})"
            self.problem(nodes.pop(word)[0], path + word, f"{text}; allowed: move it into each upstream")
        mappings = self._named(key, node, path)
        chosen = self._active(key, active, list(mappings), path)
        settings = cluster_settings()
        for word, (word_key, value) in nodes.items():
            self.setting(settings[word], index, path, word_key, value)
        beside = dict(layer.clusters[index]) if len(layer.clusters) > index else {}
        shared = {loc: origin for loc, origin in layer.origins.items() if loc[:2] == ("clusters", index)}
        failed = {loc for loc in layer.failed if loc[:2] == ("clusters", index)}
        if not mappings:
            layer.failed.add(("clusters", index))  # what is missing there has been said
        for number, (name, mapping) in enumerate(mappings.items()):
            at = index if not number else len(layer.clusters)
            while len(layer.clusters) <= at:
                layer.clusters.append({})
            layer.clusters[at].update(beside, upstream=name, active=name == chosen)
            if number:
                layer.origins.update({("clusters", at, *loc[2:]): origin for loc, origin in shared.items()})
                layer.failed.update(("clusters", at, *loc[2:]) for loc in failed)
            layer.origins["clusters", at] = self.origin(mapping)
            layer.paths[at] = f"{path}{UPSTREAMS}.{name}"
            for own, value in self.pairs(mapping, ("clusters", at), upstream_settings(), layer.paths[at] + "."):
                self.setting(settings[own.value], at, layer.paths[at] + ".", own, value)

    def _named(self, key: yaml.Node, node: yaml.Node, path: str) -> dict[str, yaml.MappingNode]:
        place = path + UPSTREAMS
        if not isinstance(node, yaml.MappingNode) or not node.value:
            self.problem(key, place, f"is not a mapping of upstreams; allowed: {_UPSTREAMS}")
            return {}
        named: dict[str, yaml.MappingNode] = {}
        for name, mapping in node.value:
            word = name.value if isinstance(name, yaml.ScalarNode) else ""
            if not _UPSTREAM.fullmatch(word):
                self.problem(name, place, f"{quote(word)} is no name of an upstream; allowed: {_UPSTREAMS}")
            elif word in named:
                self.problem(name, f"{place}.{word}", "is given twice; allowed: once")
            elif not isinstance(mapping, yaml.MappingNode):
                self.problem(
                    name, f"{place}.{word}", f"is not an upstream; allowed: KEY: VALUE lines, see '{self._schema}'"
                )
            else:
                named[word] = mapping
        if len(named) > _MOST_UPSTREAMS:
            self.problem(key, place, f"has {len(named)} upstreams; allowed: {_UPSTREAMS}")
            named = dict(list(named.items())[:_MOST_UPSTREAMS])
        return named

    def _active(self, key: yaml.Node, pair: tuple[yaml.Node, yaml.Node] | None, names: list[str], path: str) -> str:
        """Return the name of the active upstream; the first one if the file names none that exists."""
        first = names[0] if names else ""
        if pair is None:
            if len(names) > 1:
                self.problem(key, path + ACTIVE, f"is missing; allowed: {' or '.join(names)}")
            return first
        word = pair[1].value if isinstance(pair[1], yaml.ScalarNode) else ""
        if word not in names:
            if names:
                self.problem(pair[0], path + ACTIVE, f"{quote(word)} is no upstream; allowed: {' or '.join(names)}")
            return first
        return word

    def pairs(
        self, node: yaml.MappingNode, at: OptionPath | None, known: Collection[str], prefix: str = ""
    ) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        """Yield the known keys of a mapping and their values, merged ones (`<<: *other`) included.

        `at` is None outside the options of kproxy.
        """
        lines: dict[str, int] = {}
        for key, value, own in entries(node):
            if key.tag == MERGE_TAG:
                self.problem(value, "<<", "is not a mapping; allowed: *NAME of another cluster")
                continue
            word = key.value if isinstance(key, yaml.ScalarNode) else ""
            place = prefix + _shown(word)
            if word in lines:
                if own:
                    self.problem(key, place, f"is given twice, first on line {lines[word]}; allowed: once")
                continue
            lines[word] = line_of(key)
            if isinstance(key, yaml.ScalarNode) and word in known:
                yield key, value
            elif id(key) not in self.reported:  # a merged key may have been, where it stands
                self.reported.add(id(key))
                self.unknown(key, place, word, at, known)

    def unknown(self, key: yaml.Node, place: str, word: str, at: OptionPath | None, known: Collection[str]) -> None:
        if word in REMOVED and at == ():
            self.problem(key, place, REMOVED[word])
            return
        close = closest(word, known, word.strip().lower().replace("_", "-"))
        self.problem(key, place, "no such key; " + suggestion(word, close, known, self._schema))
        if close and at is not None:  # then the right key is not missing as well
            self.layer.failed.add((*(at or ("clusters", 0)), close))

    def setting(self, setting: Setting, cluster: int, prefix: str, key: yaml.Node, node: yaml.Node) -> None:
        """Store the value of one option, or report why it has none."""
        loc, path = setting_loc(setting, cluster), prefix + setting.key
        items = node.value if setting.repeatable and isinstance(node, yaml.SequenceNode) else [node]
        texts: list[object] = []
        for item in items:
            if setting.kind.nested and isinstance(item, yaml.MappingNode):
                for node_of_names, text in self.nested(setting, item, f"{path}[{len(texts)}]", loc):
                    self.layer.origins[*loc, len(texts)] = self.origin(node_of_names)
                    texts.append(text)
                continue
            wrong = self.no_value(item)
            if wrong:
                place = path if item is node else f"{path}[{len(texts)}]"
                self.problem(key if item is node else item, place, f"{wrong}; allowed: {setting.kind.allowed}")
                self.layer.failed.add(loc)
                continue
            # One by one, so that each part of `a:1, b:2` knows its own line.
            several = setting.repeatable and not setting.kind.has_commas
            for part in item.value.split(",") if several else [item.value]:
                if part.strip() or not setting.repeatable:
                    self.layer.origins[*loc, len(texts)] = self.origin(item)
                    texts.append(part.strip())
        if loc not in self.layer.failed:
            self.layer.put(setting, texts if setting.repeatable else texts[0], self.origin(key), cluster)

    def nested(
        self, setting: Setting, node: yaml.MappingNode, place: str, loc: OptionPath
    ) -> Iterator[tuple[yaml.Node, str]]:
        """Yield the words of a value that is a mapping of mappings, once for each inner key, with the node of it.

        Names under `users` stand before the words of the others.
        """
        users = ""
        for outer, inner in node.value:
            if getattr(outer, "value", None) == "users":
                items = inner.value if isinstance(inner, yaml.SequenceNode) else [inner]
                if not items or any(self.no_value(item) for item in items):
                    self.problem(outer, place, "has no users; allowed: users: NAME, or a list of names")
                    self.layer.failed.add(loc)
                else:
                    users = "".join(f"user={item.value} " for item in items)
        for outer, inner in node.value:
            if getattr(outer, "value", None) == "users":
                continue
            pairs = inner.value if isinstance(inner, yaml.MappingNode) else ()
            for key, names in pairs:
                items = names.value if isinstance(names, yaml.SequenceNode) else [names]
                words = [outer, key, *items]
                if items and not any(self.no_value(word) for word in words):
                    yield key, users + " ".join(word.value for word in words)
                    continue
                self.problem(key, place, f"has no names; allowed: {setting.kind.allowed}")
                self.layer.failed.add(loc)
            if not pairs:
                self.problem(outer, place, f"has no family; allowed: {setting.kind.allowed}")
                self.layer.failed.add(loc)

    def no_value(self, node: yaml.Node) -> str:
        """Return why a node is no text; "" if it is."""
        if not isinstance(node, yaml.ScalarNode):
            return f"is {kind_of(node)}"
        if is_null(node):
            return "has no value"
        return "" if node.tag.startswith("tag:yaml.org,2002:") else f"has the tag {quote(node.tag)}"


def _shown(word: str) -> str:
    if not word:
        return "a key that is no word"
    return word if re.fullmatch(r"[\w.-]{1,60}", word) else quote(word)
