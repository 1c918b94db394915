"""Values of Helm charts of Kafka: Bitnami's chart, and Confluent's cp-helm-charts.

Sources: https://github.com/bitnami/charts/tree/main/bitnami/kafka,
https://github.com/confluentinc/cp-helm-charts/tree/master/charts/cp-kafka
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kproxy.advice.lint import images, properties
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.source import SourceLocation
from kproxy.advice.lint.tree import YamlNode
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle

_MOST_COPIES = 1000
_OF_CHART = ("externalAccess", "listeners", "extraEnvVars", "controller", "broker", "configurationOverrides")
_LISTENER_NAMES = {"client": "CLIENT", "controller": "CONTROLLER", "interbroker": "INTERNAL", "external": "EXTERNAL"}
_LISTENER_PORTS = {"client": "9092", "controller": "9093", "interbroker": "9094", "external": "9095"}
_ARITHMETIC = re.compile(r"\$\(\([^()]{0,200}\)\)")


@dataclass(frozen=True, slots=True)
class ExternalAccess:
    """The external access of one kind of nodes, in the values of Bitnami's chart."""

    name: str
    location: SourceLocation
    type: ConfigValue | None
    replicas: int | None
    has_discovery: bool
    has_rights: bool
    """True if the chart gives the discovery what it needs."""
    addresses: tuple[tuple[str, tuple[str, ...]], ...]
    """The lists of ports or addresses that are given."""
    domain: ConfigValue | None
    outside: tuple[ConfigValue, ...] = ()
    """The keys that stand beside externalAccess, where the chart reads something else or nothing."""


def add_brokers(root: YamlNode, setup: Setup) -> None:
    """Add the brokers and the external access of a file of values to the setup."""
    inner = root["kafka"]  # in a chart that has the chart of Kafka in it
    if inner.mapping and not any(root[key] for key in _OF_CHART):
        root = inner
    confluent = root["cp-kafka"] or root
    if confluent["configurationOverrides"] or confluent["customEnv"]:
        _add_confluent(confluent, setup)
        return
    _add_bitnami(root, setup)
    setup.external_access += _external_access(root)


def _number(node: YamlNode) -> int | None:
    return min(int(node.text), _MOST_COPIES) if node.text.isdecimal() else None


def _add_confluent(root: YamlNode, setup: Setup) -> None:
    overrides = root["configurationOverrides"].mapping
    settings = {
        key: node.value(lambda text: _ARITHMETIC.sub("${NUMBER}", text).strip())
        for key, node in overrides.items()
        if node.is_scalar
    }
    environment = {key: node.value() for key, node in root["customEnv"].mapping.items() if node.is_scalar}
    settings |= images.settings_of(ImageFamily.CONFLUENT, environment)
    _add(root, settings, {}, _number(root["brokers"]) or 1, setup)


def _add_bitnami(root: YamlNode, setup: Setup) -> None:
    environment = {value.key: value for value in _variables(root)}
    settings: dict[str, ConfigValue] = {}
    for node in (root, root["controller"], root["broker"]):
        for key in ("config", "extraConfig", "overrideConfiguration", "extraConfigYaml"):
            settings |= _configuration(node[key])
    listeners = root["listeners"]
    for name, node in (
        ("advertised.listeners", listeners["advertisedListeners"] or root["advertisedListeners"]),
        ("listener.security.protocol.map", listeners["securityProtocolMap"] or root["listenerSecurityProtocolMap"]),
        (
            "listeners",
            listeners["overrideListeners"] or (listeners if listeners.items else YamlNode(root.source, None)),
        ),
        ("inter.broker.listener.name", root["interBrokerListenerName"]),
        ("controller.quorum.voters", root["kraft"]["controllerQuorumVoters"]),
    ):
        if (value := node.joined()) is not None and value.text:
            settings[name] = value
    defaults = {}
    parts = {name: listeners[name] for name in _LISTENER_NAMES}
    if root["externalAccess"]["enabled"].text.lower() != "true" and not parts["external"]:
        del parts["external"]
    if any(node.mapping for node in parts.values()) and "listeners" not in settings:
        names = {part: node["name"].text or _LISTENER_NAMES[part] for part, node in parts.items()}
        ports = {part: node["containerPort"].text or _LISTENER_PORTS[part] for part, node in parts.items()}
        text = ",".join(f"{names[part]}://:{ports[part]}" for part in parts)
        settings["listeners"] = replace(listeners.value(), text=text, style=ValueStyle.FIXED)
        protocols = ",".join(
            f"{names[part]}:{node['protocol'].text or 'SASL_PLAINTEXT'}" for part, node in parts.items()
        )
        defaults = {
            "listener.security.protocol.map": protocols,
            "advertised.listeners": "",
            "inter.broker.listener.name": names["interbroker"],
            "controller.listener.names": names["controller"],
        }
    settings |= images.settings_of(ImageFamily.BITNAMI, environment)
    counts = [_number(node["replicaCount"]) or 0 for node in (root, root["controller"], root["broker"])]
    _add(root, settings, environment, max(*counts, 1), setup, defaults)


def _variables(root: YamlNode) -> Iterator[ConfigValue]:
    for node in (root, root["controller"], root["broker"]):
        for item in node["extraEnvVars"].items:
            key, value = item["name"], item["value"]
            if key.text and value.is_scalar:
                yield value.value().as_entry(key.value())


def _configuration(node: YamlNode) -> dict[str, ConfigValue]:
    """Return the settings of a block of properties, or of a mapping."""
    if node.is_literal():
        return properties.parse(node.source, *node.block()).values
    return {key: value.value() for key, value in node.mapping.items() if value.is_scalar}


def _add(
    root: YamlNode,
    settings: dict[str, ConfigValue],
    environment: dict[str, ConfigValue],
    copies: int,
    setup: Setup,
    defaults: Mapping[str, str] | None = None,
) -> None:
    where = min((value.location for value in settings.values()), key=lambda place: place.index, default=root.location)
    setup.add_unchecked(f"{root.source.name}: what the chart itself sets")
    setup.brokers.append(
        BrokerConfig(
            name=root.source.name,
            family=ImageFamily.BITNAMI if environment else ImageFamily.PROPERTIES,
            location=where,
            settings=settings,
            defaults=defaults or {},
            complete=False,
            environment=environment,
            layout=LineLayout.ENTRY if environment else LineLayout.MAPPING,
            copies=copies,
        )
    )


def _external_access(root: YamlNode) -> Iterator[ExternalAccess]:
    access = root["externalAccess"]
    if access["enabled"].text.lower() != "true":
        return
    discovery = any(
        node["enabled"].text.lower() == "true"
        for node in (access["autoDiscovery"], root["defaultInitContainers"]["autoDiscovery"])
    )
    services = {part: access[part]["service"] if part else access["service"] for part in ("controller", "broker", "")}
    if not any(services.values()):
        discovery_outside = root["autoDiscovery"]
        outside = [discovery_outside.value()] if discovery_outside else []
        if root["service"]["type"].text in ("NodePort", "LoadBalancer"):
            outside.append(root["service"].value())
        yield ExternalAccess(
            root.source.name, access.location, None, None, discovery, True, (), None, outside=tuple(outside)
        )
    for part, service in services.items():
        if not service:
            continue
        lists = ("nodePorts", "externalIPs", "loadBalancerIPs", "loadBalancerNames")
        yield ExternalAccess(
            name=root.source.name,
            location=service.location,
            type=service["type"].scalar(),
            replicas=_number(root[part]["replicaCount"]) if part else _number(root["replicaCount"]),
            has_discovery=discovery,
            has_rights=root["rbac"]["create"].text.lower() == "true",
            addresses=tuple(
                (key, tuple(item.text for item in service[key].items)) for key in lists if service[key].items
            ),
            domain=service["domain"].scalar(),
        )
