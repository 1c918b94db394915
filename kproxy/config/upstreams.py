"""`upstreams` and `active` of a cluster in the YAML file: the Kafka clusters to which one cluster can lead.

Each upstream becomes an entry in the layer, with the cluster's name and the options that the upstreams share.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from kproxy.base.yamltree import line_of
from kproxy.config.options import cluster_settings, upstream_settings
from kproxy.config.sources import UPSTREAMS
from kproxy.config.values import quote

if TYPE_CHECKING:
    from kproxy.config.yamlfile import KeyNodes, YamlReader

ACTIVE = "active"
# A switch goes from one upstream to another, so a third has no purpose.
_MOST = 2
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_NAMES = f"one or two, each with a name (a-z, 0-9, -) and {'bootstrap-servers'}"


def expand(reading: YamlReader, nodes: KeyNodes, index: int, path: str) -> None:
    """Add the upstreams of the cluster at `index` to the layer, each with the options beside `upstreams`.

    `path` is the path of the cluster, with a dot at its end unless it is the file itself.
    """
    layer = reading.layer
    key, node = nodes.pop(UPSTREAMS)
    active = nodes.pop(ACTIVE, None)
    for word in [word for word in nodes if word in upstream_settings()]:
        text = f"stands beside {UPSTREAMS} (line {line_of(key)})"
        reading.problem(nodes.pop(word)[0], path + word, f"{text}; allowed: move it into each upstream")
    mappings = _named(reading, key, node, path)
    chosen = _active(reading, key, active, list(mappings), path)
    settings = cluster_settings()
    for word, (word_key, value) in nodes.items():
        reading.setting(settings[word], index, path, word_key, value)
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
        layer.origins["clusters", at] = reading.origin(mapping)
        layer.paths[at] = f"{path}{UPSTREAMS}.{name}"
        for own, value in reading.pairs(mapping, ("clusters", at), upstream_settings()):
            reading.setting(settings[own.value], at, layer.paths[at] + ".", own, value)


def _named(reading: YamlReader, key: yaml.Node, node: yaml.Node, path: str) -> dict[str, yaml.MappingNode]:
    place = path + UPSTREAMS
    if not isinstance(node, yaml.MappingNode) or not node.value:
        reading.problem(key, place, f"is not a mapping of upstreams; allowed: {_NAMES}")
        return {}
    named: dict[str, yaml.MappingNode] = {}
    for name, mapping in node.value:
        word = name.value if isinstance(name, yaml.ScalarNode) else ""
        if not _NAME.fullmatch(word):
            reading.problem(name, place, f"{quote(word)} is no name of an upstream; allowed: {_NAMES}")
        elif word in named:
            reading.problem(name, f"{place}.{word}", "is given twice; allowed: once")
        elif not isinstance(mapping, yaml.MappingNode):
            reading.problem(name, f"{place}.{word}", f"is not an upstream; allowed: {', '.join(upstream_settings())}")
        else:
            named[word] = mapping
    if len(named) > _MOST:
        reading.problem(key, place, f"has {len(named)} upstreams; allowed: {_NAMES}")
        named = dict(list(named.items())[:_MOST])
    return named


def _active(
    reading: YamlReader, key: yaml.Node, pair: tuple[yaml.Node, yaml.Node] | None, names: list[str], path: str
) -> str:
    """Return the name of the active upstream; the first one if the file names none that exists."""
    first = names[0] if names else ""
    if pair is None:
        if len(names) > 1:
            reading.problem(key, path + ACTIVE, f"is missing; allowed: {' or '.join(names)}")
        return first
    word = pair[1].value if isinstance(pair[1], yaml.ScalarNode) else ""
    if word not in names:
        if names:
            reading.problem(pair[0], path + ACTIVE, f"{quote(word)} is no upstream; allowed: {' or '.join(names)}")
        return first
    return word
