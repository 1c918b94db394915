"""Kafka clusters that a Kubernetes operator creates: Strimzi's `Kafka` and `KafkaNodePool`, and CFK's `Kafka`."""

from __future__ import annotations

from dataclasses import dataclass, field

from kproxy.advice.lint.model import Setup
from kproxy.advice.lint.source import SourceLocation
from kproxy.advice.lint.tree import YamlNode
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


def add_clusters(file: str, roots: list[YamlNode], setup: Setup, *, is_required: bool) -> None:
    """Add the clusters of one file to the setup. `is_required`: the file has nothing else that kproxy knows."""
    pools: dict[str, int] = {}
    for root in roots:
        if root["kind"].text == "KafkaNodePool":
            name, count = root["metadata"]["labels"]["strimzi.io/cluster"].text, root["spec"]["replicas"].text
            if "broker" in [item.text for item in root["spec"]["roles"].items] and count.isdigit():
                pools[name] = pools.get(name, 0) + int(count)
    clusters = []
    for root in roots:
        operator = root["apiVersion"].text.partition("/")[0] if root["kind"].text == "Kafka" else ""
        if operator == "kafka.strimzi.io":
            clusters.append(_strimzi_cluster(root, pools))
        elif operator == "platform.confluent.io":
            clusters.append(_cfk_cluster(root))
    setup.clusters += clusters
    if not clusters and is_required:
        setup.add_unchecked(f"{file}: it has no workload, and no Kafka of Strimzi or CFK")


def _strimzi_cluster(root: YamlNode, pools: dict[str, int]) -> OperatorCluster:
    kafka, zookeeper = root["spec"]["kafka"], root["spec"]["zookeeper"]
    name, count = root["metadata"]["name"].text or "kafka", kafka["replicas"].text
    return OperatorCluster(
        operator=STRIMZI,
        name=name,
        location=(kafka["listeners"] or root["kind"]).location,
        api=root["apiVersion"].scalar(),
        listeners=[_strimzi_listener(item) for item in kafka["listeners"].items],
        config={key: node.value() for key, node in kafka["config"].mapping.items()},
        replicas=pools.get(name, int(count) if count.isdigit() else None),
        zookeeper=zookeeper.location if zookeeper else None,
    )


def _strimzi_listener(item: YamlNode) -> OperatorListener:
    brokers = item["configuration"]["brokers"].items
    return OperatorListener(
        name=item["name"].text,
        location=item.location,
        name_value=item["name"].scalar(),
        port=item["port"].scalar(),
        type=item["type"].scalar(),
        tls=item["tls"].scalar(),
        authentication=item["authentication"]["type"].scalar(),
        bootstrap_host=item["configuration"]["bootstrap"]["host"].scalar(),
        hosts=tuple(broker["host"].value() for broker in brokers if broker["host"].is_scalar),
        advertised=tuple(broker["advertisedHost"].value() for broker in brokers if broker["advertisedHost"].is_scalar),
    )


def _cfk_cluster(root: YamlNode) -> OperatorCluster:
    spec = root["spec"]
    count = spec["replicas"].text
    pairs = [pair for item in spec["configOverrides"]["server"].items if (pair := item.pair()) is not None]
    listeners = []
    for name, node in spec["listeners"].mapping.items():
        if name == "custom":
            listeners += [_cfk_listener(item["name"].text, item) for item in node.items]
        else:
            listeners.append(_cfk_listener(name, node))
    return OperatorCluster(
        operator=CFK,
        name=root["metadata"]["name"].text or "kafka",
        location=(spec or root).location,
        api=root["apiVersion"].scalar(),
        listeners=listeners,
        config={pair.key: pair for pair in pairs},
        replicas=int(count) if count.isdigit() else None,
    )


def _cfk_listener(name: str, node: YamlNode) -> OperatorListener:
    access = node["externalAccess"]
    kind = access["type"].text
    part = access[kind[:1].lower() + kind[1:]]
    domain, host = part["domain"].scalar(), part["host"].scalar()
    return OperatorListener(
        name=name,
        location=node.location,
        name_value=node["name"].scalar(),
        port=node["port"].scalar(),
        type=access["type"].scalar(),
        tls=node["tls"]["enabled"].scalar(),
        authentication=node["authentication"]["type"].scalar(),
        bootstrap_host=host,
        hosts=(),
        advertised=tuple(value for value in (domain, host) if value is not None),
        domain=domain,
    )
