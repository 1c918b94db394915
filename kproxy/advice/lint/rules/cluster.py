"""Rules for several brokers together: which of them are one cluster, their ids, voters and replicas."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, host_kind
from kproxy.advice.lint.findings import LintFinding, Severity
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.listeners import line_of, set_or_add
from kproxy.advice.lint.rules.table import combine, new_finding
from kproxy.advice.lint.source import Edit

_VOTERS = "controller.quorum.voters"
_FACTORS = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
_OTHER_FACTORS = (
    "transaction.state.log.min.isr", "default.replication.factor", "share.coordinator.state.topic.replication.factor",
    "confluent.license.topic.replication.factor", "confluent.metrics.reporter.topic.replicas",
)  # fmt: skip


def clusters(setup: Setup) -> list[list[BrokerConfig]]:
    """The brokers by cluster: those that name a controller or a ZooKeeper in common, or the same CLUSTER_ID."""
    groups: list[tuple[set[tuple[object, ...]], list[BrokerConfig]]] = []
    for broker in setup.brokers:
        marks = _marks(broker)
        joined = [group for group in groups if group[0] & marks]
        merged = (marks.union(*(group[0] for group in joined)), [b for group in joined for b in group[1]] + [broker])
        groups = [group for group in groups if group not in joined] + [merged]
    return [brokers for _, brokers in groups]


def _marks(broker: BrokerConfig) -> set[tuple[object, ...]]:
    """What two brokers of one cluster have in common."""
    source = id(broker.location.source)
    marks: set[tuple[object, ...]] = {(source, broker.name)}
    scope = source if broker.service is not None else 0
    for _, address in broker.voters:
        host = address.rpartition(":")[0]
        own = (
            broker.name
            if host_kind(host) is HostKind.LOOPBACK and broker.service and not broker.service.uses_host_network
            else ""
        )
        marks.add(("voter", scope, own, address.lower()))
    for name in ("zookeeper.connect", "controller.quorum.bootstrap.servers"):
        text = broker.get(name)
        root = text.partition("/")[2]
        for part in text.partition("/")[0].split(","):
            if part.strip():
                marks.add((name, scope, part.strip().lower(), root))
    if broker.service is not None and "CLUSTER_ID" in broker.service.environment:
        marks.add(("id", scope, broker.service.environment["CLUSTER_ID"].text))
    return marks


def check(setup: Setup) -> Iterator[LintFinding]:
    for group in clusters(setup):
        yield from ids(group)
        yield from quorum(group)
        yield from cluster_ids(group)
        yield from addresses(group)
        yield from replicas(group, setup)


def ids(group: list[BrokerConfig]) -> Iterator[LintFinding]:
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
        own = [
            node for node, address in broker.voters if broker.service and address.split(":")[0] in broker.service.names
        ]
        free = own[0] if own and own[0] not in taken else next(str(n) for n in range(1, 9999) if str(n) not in taken)
        text = f"{broker.name} has id {broker.node_id}, and so has {first[broker.node_id].name}"
        edits = value.replace(free) if value is not None else None
        taken.add(free)
        yield new_finding(
            "duplicate-node-id", value or broker.location, broker.name, text, edits, line_of(broker, "node.id", free)
        )


def quorum(group: list[BrokerConfig]) -> Iterator[LintFinding]:
    kraft = [broker for broker in group if _VOTERS in broker.settings and broker.settings[_VOTERS].is_known]
    if not kraft:
        return
    texts = [",".join(sorted(f"{node}@{address}" for node, address in broker.voters)) for broker in kraft]
    usual = max(texts, key=texts.count)
    model = kraft[texts.index(usual)]
    for broker, text in zip(kraft, texts, strict=True):
        if text != usual:
            value = broker.settings[_VOTERS]
            said = f"{broker.name} has other voters than {model.name}"
            yield new_finding("quorum-differs", value, broker.name, said, value.replace(model.get(_VOTERS)))
    for index, (node, address) in enumerate(model.voters):
        yield from _voter(model, index, node, address, group)


def _voter(
    model: BrokerConfig, index: int, node: str, address: str, group: list[BrokerConfig]
) -> Iterator[LintFinding]:
    """Whether the node with this id listens for controllers at this address."""
    value = model.settings[_VOTERS]
    host, _, port = address.rpartition(":")
    controller = next((one for one in group if one.node_id == node and one.is_controller), None)
    if controller is None:
        named = next((one for one in group if one.service is not None and host in one.service.names), None)
        twice = named is not None and sum(one.node_id == named.node_id for one in group) > 1
        if named is not None and not twice and named.is_controller and named.node_id.isdigit():
            text = f"voter {node} is at {host}, but {host} is node {named.node_id}"
            if len(model.voters) > 1 or named is not model:  # else voter-missing says it
                edits = _everywhere(group, model, index, f"{node}@", f"{named.node_id}@")
                yield new_finding("voter-address", value, model.name, text, edits)
        return
    if controller.service is not None and not controller.service.uses_host_network:
        usable = controller.service.names
        alone = len(group) == 1 and host_kind(host) is HostKind.LOOPBACK
        if (host_kind(host) is HostKind.LOOPBACK and not alone) or (
            host_kind(host) is HostKind.NAME and host in _others(group, controller)
        ):
            edits = _everywhere(group, model, index, f"@{host}:", f"@{controller.service.name}:")
            text = f"voter {node} is at {host}, but node {node} is {' or '.join(sorted(usable))}"
            yield new_finding("voter-address", value, model.name, text, edits)
    listening = [one for one in controller.listeners if one.name in controller.controller_names]
    if listening and port.isdigit() and all(one.port not in (None, int(port)) for one in listening):
        edits = _everywhere(group, model, index, f":{port}", f":{listening[0].port}")
        text = f"voter {node} is at port {port}, but {listening[0].name} has port {listening[0].port}"
        yield new_finding("voter-address", value, model.name, text, edits)


def _everywhere(group: list[BrokerConfig], model: BrokerConfig, index: int, old: str, new: str) -> list[Edit] | None:
    """The same change in the voters of all nodes, which must stay the same."""
    values = {
        id(one.settings[_VOTERS]): one.settings[_VOTERS] for one in group if one.get(_VOTERS) == model.get(_VOTERS)
    }
    edits = combine(*(value.change_entry(index, old, new) for value in values.values()))
    return None if edits is None else list(dict.fromkeys(edits))


def _others(group: list[BrokerConfig], controller: BrokerConfig) -> set[str]:
    own = controller.service.names if controller.service else frozenset()
    return {name for one in group if one.service is not None for name in one.service.names} - own


def cluster_ids(group: list[BrokerConfig]) -> Iterator[LintFinding]:
    given = [
        (b, b.service.environment["CLUSTER_ID"]) for b in group if b.service and "CLUSTER_ID" in b.service.environment
    ]
    given = [(broker, value) for broker, value in given if value.is_known]
    if not given:
        return
    texts = [value.text for _, value in given]
    usual = max(texts, key=texts.count)
    for broker, value in given:
        if value.text != usual:
            text = f"{broker.name} has another CLUSTER_ID than {given[texts.index(usual)][0].name}"
            yield new_finding("cluster-id-differs", value, broker.name, text, value.replace(usual))


def addresses(group: list[BrokerConfig]) -> Iterator[LintFinding]:
    first: dict[tuple[str, int], tuple[BrokerConfig, ListenerEndpoint]] = {}
    for broker in group:
        for one in broker.client_endpoints:
            if (
                one.port is None
                or one.kind in (HostKind.UNKNOWN, HostKind.EMPTY, HostKind.WILDCARD)
                or one.value is None
            ):
                continue
            listener = broker.listener(one.name)
            if one.kind is HostKind.LOOPBACK and not _on_the_host(broker, listener):
                continue  # each container has a localhost of its own
            address = (one.host.lower(), one.port)
            before = first.setdefault(address, (broker, one))
            if before[0] is not broker:
                edits = _own_port(broker, one)
                text = f"{broker.name} and {before[0].name} both advertise {one.host}:{one.port}"
                yield new_finding(
                    "same-address-twice", one.value, broker.name, text, edits, one.with_host("<its own host>")
                )


def _on_the_host(broker: BrokerConfig, listener: ListenerEndpoint | None) -> bool:
    """Whether this listener is at an address of the machine, and not only of a container."""
    if broker.service is None or broker.service.uses_host_network:
        return True
    return listener is not None and any(port.container_port == listener.port for port in broker.service.published_ports)


def _own_port(broker: BrokerConfig, one: ListenerEndpoint) -> list[Edit] | None:
    """The port at which this broker is published, if that is another one."""
    listener = broker.listener(one.name)
    if broker.service is None or listener is None or one.value is None:
        return None
    for port in broker.service.published_ports:
        if port.container_port == listener.port and port.host_port not in (None, one.port):
            return one.value.change_entry(one.index, f":{one.port}", f":{port.host_port}")
    return None


def replicas(group: list[BrokerConfig], setup: Setup) -> Iterator[LintFinding]:
    """How many brokers there will be is known where one Compose file has them all."""
    brokers = [broker for broker in group if broker.is_broker]
    if not brokers or any(broker.service is None for broker in brokers):
        return
    count = sum(broker.service.count for broker in brokers if broker.service)
    for broker in brokers:
        for key in (*_FACTORS, *_OTHER_FACTORS):
            value = broker.settings.get(key)
            if value is not None and value.text.isdigit() and int(value.text) > count:
                text = f"{key} is {value.text}, but there {'is 1 broker' if count == 1 else f'are {count} brokers'}"
                yield new_finding("replication-factor", value, broker.name, text, value.replace(str(count)))
        usual = broker.family in (ImageFamily.APACHE, ImageFamily.CONFLUENT) and broker.settings and broker.complete
        missing = [key for key in _FACTORS if key not in broker.settings]
        if usual and count < 3 and missing:
            for key in missing:
                at = _last_setting(broker)
                edits = set_or_add(broker, key, str(count), *at)
                text = f"{key} is 3 by default, but there {'is 1 broker' if count == 1 else f'are {count} brokers'}"
                severity = Severity.WARNING if key == _FACTORS[0] else Severity.NOTE
                where = broker.settings[at[0]] if at else broker.location
                line = line_of(broker, key, str(count))
                yield new_finding("replication-factor", where, broker.name, text, edits, line, severity=severity)


def _last_setting(broker: BrokerConfig) -> list[str]:
    """The settings, those that stand last first: new lines go after them."""
    plain = [key for key in broker.settings if not re.search(r"jaas|password|secret", key)]
    return sorted(plain, key=lambda key: broker.settings[key].start, reverse=True)
