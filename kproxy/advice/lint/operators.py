"""Kafka clusters that a Kubernetes operator creates: Strimzi's `Kafka` and `KafkaNodePool`, and CFK's `Kafka`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from kproxy.advice.lint.model import Setup
from kproxy.advice.lint.source import SourceLocation
from kproxy.advice.lint.tree import YamlTree
from kproxy.advice.lint.value import ConfigValue

STRIMZI = "Strimzi"
CFK = "CFK"


@dataclass(frozen=True, slots=True)
class OperatorListener:
    """One listener as the operator's user writes it. A missing field is None."""

    name: str
    location: SourceLocation
    name_value: ConfigValue | None
    port: ConfigValue | None
    type: ConfigValue | None
    tls: ConfigValue | None
    authentication: ConfigValue | None
    bootstrap_host: ConfigValue | None
    hosts: tuple[ConfigValue, ...]
    """The hosts of single brokers."""
    advertised: tuple[ConfigValue, ...]
    """The advertised hosts of single brokers."""
    domain: ConfigValue | None = None

    @property
    def has_tls(self) -> bool:
        return self.tls is not None and self.tls.text.lower() == "true"

    @property
    def kind(self) -> str:
        return self.type.text if self.type is not None else ""


@dataclass(slots=True)
class OperatorCluster:
    """One resource that creates a Kafka cluster."""

    operator: str
    name: str
    location: SourceLocation
    api: ConfigValue | None
    listeners: list[OperatorListener]
    config: dict[str, ConfigValue]
    replicas: int | None = None
    zookeeper: SourceLocation | None = None
    brokers: list[str] = field(default_factory=list)


def add_clusters(tree: YamlTree, roots: list[yaml.Node], setup: Setup) -> None:
    """Add the clusters of one file to the setup."""
    pools: dict[str, int] = {}
    for root in roots:
        if tree.text(root, "kind") == "KafkaNodePool":
            name = tree.text(root, "metadata", "labels", "strimzi.io/cluster") or ""
            roles = [item.value for item in tree.items(tree.get(root, "spec", "roles"))]
            count = tree.text(root, "spec", "replicas") or ""
            if "broker" in roles and count.isdigit():
                pools[name] = pools.get(name, 0) + int(count)
    has_cluster = False
    for root in roots:
        api, kind = tree.text(root, "apiVersion") or "", tree.text(root, "kind")
        if kind == "Kafka" and api.startswith("kafka.strimzi.io/"):
            setup.clusters.append(_strimzi_cluster(tree, root, pools))
        elif kind == "Kafka" and api.startswith("platform.confluent.io/"):
            setup.clusters.append(_cfk_cluster(tree, root))
        else:
            continue
        has_cluster = True
    if not has_cluster:
        setup.add_unchecked(f"{tree.source.name}: it has no Kafka of Strimzi or CFK")


def _strimzi_cluster(tree: YamlTree, root: yaml.Node, pools: dict[str, int]) -> OperatorCluster:
    kafka = tree.get(root, "spec", "kafka")
    name = tree.text(root, "metadata", "name") or "kafka"
    listeners = [_strimzi_listener(tree, item) for item in tree.items(tree.get(kafka, "listeners"))]
    zookeeper = tree.mapping(tree.get(root, "spec")).get("zookeeper")
    count = tree.text(kafka, "replicas") or ""
    replicas = pools.get(name, int(count) if count.isdigit() else None)
    at = tree.mapping(kafka).get("listeners") or tree.mapping(root).get("kind")
    return OperatorCluster(
        operator=STRIMZI,
        name=name,
        location=tree.location(at[0] if at else root),
        api=_scalar(tree, root, "apiVersion"),
        listeners=listeners,
        config={key: tree.value(node, word) for key, (word, node) in tree.mapping(tree.get(kafka, "config")).items()},
        replicas=replicas,
        zookeeper=tree.location(zookeeper[0]) if zookeeper else None,
    )


def _strimzi_listener(tree: YamlTree, item: yaml.Node) -> OperatorListener:
    brokers = tree.items(tree.get(item, "configuration", "brokers"))
    hosts = [_scalar(tree, broker, "host") for broker in brokers]
    advertised = [_scalar(tree, broker, "advertisedHost") for broker in brokers]
    return OperatorListener(
        name=tree.text(item, "name") or "",
        location=tree.location(item),
        name_value=_scalar(tree, item, "name"),
        port=_scalar(tree, item, "port"),
        type=_scalar(tree, item, "type"),
        tls=_scalar(tree, item, "tls"),
        authentication=_scalar(tree, item, "authentication", "type"),
        bootstrap_host=_scalar(tree, item, "configuration", "bootstrap", "host"),
        hosts=tuple(value for value in hosts if value is not None),
        advertised=tuple(value for value in advertised if value is not None),
    )


def _cfk_cluster(tree: YamlTree, root: yaml.Node) -> OperatorCluster:
    spec = tree.get(root, "spec")
    count = tree.text(spec, "replicas") or ""
    overrides = tree.items(tree.get(spec, "configOverrides", "server"))
    pairs = [pair for pair in (tree.pair(item) for item in overrides) if pair is not None]
    at = tree.mapping(root).get("spec")
    return OperatorCluster(
        operator=CFK,
        name=tree.text(root, "metadata", "name") or "kafka",
        location=tree.location(at[0] if at else root),
        api=_scalar(tree, root, "apiVersion"),
        listeners=list(_cfk_listeners(tree, tree.get(spec, "listeners"))),
        config={pair.key: pair for pair in pairs},
        replicas=int(count) if count.isdigit() else None,
    )


def _cfk_listeners(tree: YamlTree, node: yaml.Node | None) -> Iterator[OperatorListener]:
    for name, (key, value) in tree.mapping(node).items():
        if name == "custom":
            for item in tree.items(value):
                yield _cfk_listener(tree, tree.text(item, "name") or "", tree.location(item), item)
        else:
            yield _cfk_listener(tree, name, tree.location(key), value)


def _cfk_listener(tree: YamlTree, name: str, location: SourceLocation, node: yaml.Node) -> OperatorListener:
    access = tree.get(node, "externalAccess")
    kind = tree.text(access, "type") or ""
    part = kind[:1].lower() + kind[1:]
    domain = _scalar(tree, access, part, "domain")
    host = _scalar(tree, access, part, "host")
    return OperatorListener(
        name=name,
        location=location,
        name_value=_scalar(tree, node, "name"),
        port=_scalar(tree, node, "port"),
        type=_scalar(tree, access, "type"),
        tls=_scalar(tree, node, "tls", "enabled"),
        authentication=_scalar(tree, node, "authentication", "type"),
        bootstrap_host=host,
        hosts=(),
        advertised=tuple(value for value in (domain, host) if value is not None),
        domain=domain,
    )


def _scalar(tree: YamlTree, node: yaml.Node | None, *path: str) -> ConfigValue | None:
    """Return the scalar at the end of this path of keys."""
    parent = tree.get(node, *path[:-1])
    pair = tree.mapping(parent).get(path[-1])
    if pair is None or not isinstance(pair[1], yaml.ScalarNode):
        return None
    return tree.value(pair[1], pair[0])
