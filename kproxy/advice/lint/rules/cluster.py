"""Rules for several brokers together: which brokers form one cluster, their ids, voters and replicas."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, host_kind
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.table import combine, finding
from kproxy.advice.lint.source import Edit
from kproxy.base.diagnostic import Severity

_VOTERS = "controller.quorum.voters"
_FACTORS = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
_OTHER_FACTORS = (
    "transaction.state.log.min.isr",
    "default.replication.factor",
    "share.coordinator.state.topic.replication.factor",
    "confluent.license.topic.replication.factor",
    "confluent.metrics.reporter.topic.replicas",
)


def group_by_cluster(setup: Setup) -> list[list[BrokerConfig]]:
    """Group the brokers that name a controller or a ZooKeeper in common, or the same CLUSTER_ID."""
    groups: list[tuple[set[tuple[object, ...]], list[BrokerConfig]]] = []
    for broker in setup.brokers:
        marks = _cluster_marks(broker)
        joined = [group for group in groups if group[0] & marks]
        merged = (
            marks.union(*(group[0] for group in joined)),
            [broker for group in joined for broker in group[1]] + [broker],
        )
        groups = [group for group in groups if group not in joined] + [merged]
    return [brokers for _, brokers in groups]


def _cluster_marks(broker: BrokerConfig) -> set[tuple[object, ...]]:
    """Return the marks that two brokers of one cluster have in common."""
    source = id(broker.location.source)
    marks: set[tuple[object, ...]] = {(source, broker.name)}
    scope = source if broker.service is not None else 0
    for _, address in broker.voters:
        host = address.rpartition(":")[0]
        own_name = (
            broker.name
            if host_kind(host) is HostKind.LOOPBACK and broker.service and not broker.service.uses_host_network
            else ""
        )
        marks.add(("voter", scope, own_name, address.lower()))
    for name in ("zookeeper.connect", "controller.quorum.bootstrap.servers"):
        text = broker.get(name)
        root = text.partition("/")[2]
        for part in text.partition("/")[0].split(","):
            if part.strip():
                marks.add((name, scope, part.strip().lower(), root))
    if broker.service is not None and "CLUSTER_ID" in broker.service.environment:
        marks.add(("id", scope, broker.service.environment["CLUSTER_ID"].text))
    return marks


def check(setup: Setup) -> Iterator[LintDiagnostic]:
    for group in group_by_cluster(setup):
        yield from check_ids(group)
        yield from check_quorum(group)
        yield from check_cluster_ids(group)
        yield from check_addresses(group)
        yield from check_replicas(group, setup)


def check_ids(group: list[BrokerConfig]) -> Iterator[LintDiagnostic]:
    first: dict[str, BrokerConfig] = {}
    taken = {broker.node_id for broker in group}
    for broker in group:
        if not broker.node_id.isdigit() or (broker.node_id == "0" and not broker.settings):
            continue
        if broker.node_id not in first:
            first[broker.node_id] = broker
            continue
        key = "node.id" if "node.id" in broker.settings else "broker.id"
        value = broker.settings.get(key)
        own_ids = [
            node for node, address in broker.voters if broker.service and address.split(":")[0] in broker.service.names
        ]
        free_id = (
            own_ids[0]
            if own_ids and own_ids[0] not in taken
            else next(str(number) for number in range(1, 9999) if str(number) not in taken)
        )
        text = f"{broker.name} has id {broker.node_id}, and so has {first[broker.node_id].name}"
        edits = value.replace(free_id) if value is not None else None
        taken.add(free_id)
        yield finding(
            "duplicate-node-id", value or broker.location, broker, text, edits, broker.line("node.id", free_id)
        )


def check_quorum(group: list[BrokerConfig]) -> Iterator[LintDiagnostic]:
    kraft = [broker for broker in group if _VOTERS in broker.settings and broker.settings[_VOTERS].is_known]
    if not kraft:
        return
    texts = [",".join(sorted(f"{node}@{address}" for node, address in broker.voters)) for broker in kraft]
    majority = max(texts, key=texts.count)
    reference = kraft[texts.index(majority)]
    for broker, text in zip(kraft, texts, strict=True):
        if text != majority:
            value = broker.settings[_VOTERS]
            message = f"{broker.name} has other voters than {reference.name}"
            yield finding("quorum-differs", value, broker, message, value.replace(reference.get(_VOTERS)))
    for index, (node, address) in enumerate(reference.voters):
        yield from _check_voter(reference, index, node, address, group)


def _check_voter(
    reference: BrokerConfig, index: int, node: str, address: str, group: list[BrokerConfig]
) -> Iterator[LintDiagnostic]:
    """Check that the node with this id listens for controllers at this address."""
    value = reference.settings[_VOTERS]
    host, _, port = address.rpartition(":")
    controller = next(
        (node_config for node_config in group if node_config.node_id == node and node_config.is_controller), None
    )
    if controller is None:
        named = next(
            (
                node_config
                for node_config in group
                if node_config.service is not None and host in node_config.service.names
            ),
            None,
        )
        is_duplicate = named is not None and sum(node_config.node_id == named.node_id for node_config in group) > 1
        if named is not None and not is_duplicate and named.is_controller and named.node_id.isdigit():
            text = f"voter {node} is at {host}, but {host} is node {named.node_id}"
            if len(reference.voters) > 1 or named is not reference:  # else voter-missing reports it
                edits = _change_all_voters(group, reference, index, f"{node}@", f"{named.node_id}@")
                yield finding("voter-address", value, reference, text, edits)
        return
    if controller.service is not None and not controller.service.uses_host_network:
        usable = controller.service.names
        alone = len(group) == 1 and host_kind(host) is HostKind.LOOPBACK
        if (host_kind(host) is HostKind.LOOPBACK and not alone) or (
            host_kind(host) is HostKind.NAME and host in _other_names(group, controller)
        ):
            edits = _change_all_voters(group, reference, index, f"@{host}:", f"@{controller.service.name}:")
            text = f"voter {node} is at {host}, but node {node} is {' or '.join(sorted(usable))}"
            yield finding("voter-address", value, reference, text, edits)
    listening = [endpoint for endpoint in controller.listeners if endpoint.name in controller.controller_names]
    if listening and port.isdigit() and all(endpoint.port not in (None, int(port)) for endpoint in listening):
        edits = _change_all_voters(group, reference, index, f":{port}", f":{listening[0].port}")
        text = f"voter {node} is at port {port}, but {listening[0].name} has port {listening[0].port}"
        yield finding("voter-address", value, reference, text, edits)


def _change_all_voters(
    group: list[BrokerConfig], reference: BrokerConfig, index: int, old: str, new: str
) -> list[Edit] | None:
    """Make the same change in the voters of all nodes, because these must be equal."""
    values = {
        id(node_config.settings[_VOTERS]): node_config.settings[_VOTERS]
        for node_config in group
        if node_config.get(_VOTERS) == reference.get(_VOTERS)
    }
    edits = combine(*(value.change_entry(index, old, new) for value in values.values()))
    return None if edits is None else list(dict.fromkeys(edits))


def _other_names(group: list[BrokerConfig], controller: BrokerConfig) -> set[str]:
    own_names = controller.service.names if controller.service else frozenset()
    return {
        name for node_config in group if node_config.service is not None for name in node_config.service.names
    } - own_names


def check_cluster_ids(group: list[BrokerConfig]) -> Iterator[LintDiagnostic]:
    cluster_id_values = [
        (broker, broker.service.environment["CLUSTER_ID"])
        for broker in group
        if broker.service and "CLUSTER_ID" in broker.service.environment
    ]
    cluster_id_values = [(broker, value) for broker, value in cluster_id_values if value.is_known]
    if not cluster_id_values:
        return
    texts = [value.text for _, value in cluster_id_values]
    majority = max(texts, key=texts.count)
    for broker, value in cluster_id_values:
        if value.text != majority:
            text = f"{broker.name} has another CLUSTER_ID than {cluster_id_values[texts.index(majority)][0].name}"
            yield finding("cluster-id-differs", value, broker, text, value.replace(majority))


def check_addresses(group: list[BrokerConfig]) -> Iterator[LintDiagnostic]:
    first: dict[tuple[str, int], tuple[BrokerConfig, ListenerEndpoint]] = {}
    for broker in group:
        for endpoint in broker.client_endpoints:
            if (
                endpoint.port is None
                or endpoint.kind in (HostKind.UNKNOWN, HostKind.EMPTY, HostKind.WILDCARD)
                or endpoint.value is None
            ):
                continue
            listener = broker.listener(endpoint.name)
            if endpoint.kind is HostKind.LOOPBACK and not _is_on_host(broker, listener):
                continue  # each container has a localhost of its own
            address = (endpoint.host.lower(), endpoint.port)
            before = first.setdefault(address, (broker, endpoint))
            if before[0] is not broker:
                edits = _use_published_port(broker, endpoint)
                text = f"{broker.name} and {before[0].name} both advertise {endpoint.host}:{endpoint.port}"
                yield finding(
                    "same-address-twice", endpoint.value, broker, text, edits, endpoint.with_host("<its own host>")
                )


def _is_on_host(broker: BrokerConfig, listener: ListenerEndpoint | None) -> bool:
    """Check whether this listener is at an address of the host, and not only of a container."""
    if broker.service is None or broker.service.uses_host_network:
        return True
    return listener is not None and any(port.container_port == listener.port for port in broker.service.published_ports)


def _use_published_port(broker: BrokerConfig, endpoint: ListenerEndpoint) -> list[Edit] | None:
    """Advertise the port at which this broker is published, if it differs."""
    listener = broker.listener(endpoint.name)
    if broker.service is None or listener is None or endpoint.value is None:
        return None
    for port in broker.service.published_ports:
        if port.container_port == listener.port and port.host_port not in (None, endpoint.port):
            return endpoint.value.change_entry(endpoint.index, f":{endpoint.port}", f":{port.host_port}")
    return None


def check_replicas(group: list[BrokerConfig], setup: Setup) -> Iterator[LintDiagnostic]:
    """Check replication factors, where one Compose file has all brokers of the cluster."""
    brokers = [broker for broker in group if broker.is_broker]
    if not brokers or any(broker.service is None for broker in brokers):
        return
    count = sum(broker.service.count for broker in brokers if broker.service)
    for broker in brokers:
        for key in (*_FACTORS, *_OTHER_FACTORS):
            value = broker.settings.get(key)
            if value is not None and value.text.isdigit() and int(value.text) > count:
                text = f"{key} is {value.text}, but there {'is 1 broker' if count == 1 else f'are {count} brokers'}"
                yield finding("replication-factor", value, broker, text, value.replace(str(count)))
        needs_factors = (
            broker.family in (ImageFamily.APACHE, ImageFamily.CONFLUENT) and broker.settings and broker.complete
        )
        missing = [key for key in _FACTORS if key not in broker.settings]
        if needs_factors and count < 3 and missing:
            for key in missing:
                neighbours = _settings_from_last(broker)
                edits = broker.set_or_add(key, str(count), *neighbours)
                text = f"{key} is 3 by default, but there {'is 1 broker' if count == 1 else f'are {count} brokers'}"
                severity = Severity.WARNING if key == _FACTORS[0] else Severity.NOTE
                where = broker.settings[neighbours[0]] if neighbours else broker.location
                line = broker.line(key, str(count))
                yield finding("replication-factor", where, broker, text, edits, line, severity=severity)


def _settings_from_last(broker: BrokerConfig) -> list[str]:
    """Return the settings by their location, the last first: new lines go after them."""
    plain = [key for key in broker.settings if not re.search(r"jaas|password|secret", key)]
    return sorted(plain, key=lambda key: broker.settings[key].start, reverse=True)
