"""Kafka clusters that an operator makes in Kubernetes: Strimzi's `Kafka` and `KafkaNodePool`, and CFK's `Kafka`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from kproxy.advice.lint.model import Setup
from kproxy.advice.lint.source import Place
from kproxy.advice.lint.tree import Tree
from kproxy.advice.lint.value import Value

STRIMZI = "Strimzi"
CFK = "CFK"


@dataclass(frozen=True, slots=True)
class OperatorListener:
    """One listener as the operator's user writes it. What is not written is None."""

    name: str
    place: Place
    name_value: Value | None
    port: Value | None
    type: Value | None
    tls: Value | None
    authentication: Value | None
    bootstrap_host: Value | None
    hosts: tuple[Value, ...]
    """The hosts and advertised hosts of single brokers."""
    advertised: tuple[Value, ...]
    domain: Value | None = None

    @property
    def has_tls(self) -> bool:
        return self.tls is not None and self.tls.text.lower() == "true"

    @property
    def kind(self) -> str:
        return self.type.text if self.type is not None else ""


@dataclass(slots=True)
class Cluster:
    """One resource that makes a Kafka cluster."""

    operator: str
    name: str
    place: Place
    api: Value | None
    listeners: list[OperatorListener]
    config: dict[str, Value]
    replicas: int | None = None
    zookeeper: Place | None = None
    brokers: list[str] = field(default_factory=list)


def read(tree: Tree, roots: list[yaml.Node], setup: Setup) -> None:
    """Add the clusters of one file."""
    pools: dict[str, int] = {}
    for root in roots:
        if tree.text(root, "kind") == "KafkaNodePool":
            name = tree.text(root, "metadata", "labels", "strimzi.io/cluster") or ""
            roles = [item.value for item in tree.items(tree.get(root, "spec", "roles"))]
            count = tree.text(root, "spec", "replicas") or ""
            if "broker" in roles and count.isdigit():
                pools[name] = pools.get(name, 0) + int(count)
    found = False
    for root in roots:
        api, kind = tree.text(root, "apiVersion") or "", tree.text(root, "kind")
        if kind == "Kafka" and api.startswith("kafka.strimzi.io/"):
            setup.clusters.append(_strimzi(tree, root, pools))
        elif kind == "Kafka" and api.startswith("platform.confluent.io/"):
            setup.clusters.append(_cfk(tree, root))
        else:
            continue
        found = True
    if not found:
        setup.not_checked(f"{tree.source.name}: it has no Kafka of Strimzi or CFK")


def _strimzi(tree: Tree, root: yaml.Node, pools: dict[str, int]) -> Cluster:
    kafka = tree.get(root, "spec", "kafka")
    name = tree.text(root, "metadata", "name") or "kafka"
    listeners = [_strimzi_listener(tree, item) for item in tree.items(tree.get(kafka, "listeners"))]
    zookeeper = tree.mapping(tree.get(root, "spec")).get("zookeeper")
    count = tree.text(kafka, "replicas") or ""
    replicas = pools.get(name, int(count) if count.isdigit() else None)
    at = tree.mapping(kafka).get("listeners") or tree.mapping(root).get("kind")
    return Cluster(
        operator=STRIMZI,
        name=name,
        place=tree.place(at[0] if at else root),
        api=_value(tree, root, "apiVersion"),
        listeners=listeners,
        config={key: tree.value(node, word) for key, (word, node) in tree.mapping(tree.get(kafka, "config")).items()},
        replicas=replicas,
        zookeeper=tree.place(zookeeper[0]) if zookeeper else None,
    )


def _strimzi_listener(tree: Tree, item: yaml.Node) -> OperatorListener:
    brokers = tree.items(tree.get(item, "configuration", "brokers"))
    hosts = [_value(tree, broker, "host") for broker in brokers]
    advertised = [_value(tree, broker, "advertisedHost") for broker in brokers]
    return OperatorListener(
        name=tree.text(item, "name") or "",
        place=tree.place(item),
        name_value=_value(tree, item, "name"),
        port=_value(tree, item, "port"),
        type=_value(tree, item, "type"),
        tls=_value(tree, item, "tls"),
        authentication=_value(tree, item, "authentication", "type"),
        bootstrap_host=_value(tree, item, "configuration", "bootstrap", "host"),
        hosts=tuple(one for one in hosts if one is not None),
        advertised=tuple(one for one in advertised if one is not None),
    )


def _cfk(tree: Tree, root: yaml.Node) -> Cluster:
    spec = tree.get(root, "spec")
    count = tree.text(spec, "replicas") or ""
    overrides = tree.items(tree.get(spec, "configOverrides", "server"))
    pairs = [pair for pair in (tree.pair(item) for item in overrides) if pair is not None]
    at = tree.mapping(root).get("spec")
    return Cluster(
        operator=CFK,
        name=tree.text(root, "metadata", "name") or "kafka",
        place=tree.place(at[0] if at else root),
        api=_value(tree, root, "apiVersion"),
        listeners=list(_cfk_listeners(tree, tree.get(spec, "listeners"))),
        config={pair.key: pair for pair in pairs},
        replicas=int(count) if count.isdigit() else None,
    )


def _cfk_listeners(tree: Tree, node: yaml.Node | None) -> Iterator[OperatorListener]:
    for name, (key, value) in tree.mapping(node).items():
        if name == "custom":
            for item in tree.items(value):
                yield _cfk_listener(tree, tree.text(item, "name") or "", tree.place(item), item)
        else:
            yield _cfk_listener(tree, name, tree.place(key), value)


def _cfk_listener(tree: Tree, name: str, place: Place, node: yaml.Node) -> OperatorListener:
    access = tree.get(node, "externalAccess")
    kind = tree.text(access, "type") or ""
    part = kind[:1].lower() + kind[1:]
    domain = _value(tree, access, part, "domain")
    host = _value(tree, access, part, "host")
    return OperatorListener(
        name=name,
        place=place,
        name_value=_value(tree, node, "name"),
        port=_value(tree, node, "port"),
        type=_value(tree, access, "type"),
        tls=_value(tree, node, "tls", "enabled"),
        authentication=_value(tree, node, "authentication", "type"),
        bootstrap_host=host,
        hosts=(),
        advertised=tuple(one for one in (domain, host) if one is not None),
        domain=domain,
    )


def _value(tree: Tree, node: yaml.Node | None, *path: str) -> Value | None:
    """The scalar at the end of these keys, as a value."""
    parent = tree.get(node, *path[:-1])
    pair = tree.mapping(parent).get(path[-1])
    if pair is None or not isinstance(pair[1], yaml.ScalarNode):
        return None
    return tree.value(pair[1], pair[0])
