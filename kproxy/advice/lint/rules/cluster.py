"""Rules for several brokers together: which brokers form one cluster, their ids, voters and replicas."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice.lint.container import Platform
from kproxy.advice.lint.endpoint import HostKind, host_kind
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.table import combine, finding
from kproxy.advice.lint.source import Edit
from kproxy.advice.lint.value import ConfigValue, LineLayout
from kproxy.base.diagnostic import Severity

_VOTERS = "controller.quorum.voters"
# Usual variables for the name of a pod.
_POD_NAME = re.compile(r"\$\{(\w*POD_?NAME|HOSTNAME)\}")
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
        groups = [group for group in groups if group not in joined]
        brokers = [*(member for _, members in joined for member in members), broker]
        groups.append((marks.union(*(others for others, _ in joined)), brokers))
    return [brokers for _, brokers in groups]


def _cluster_marks(broker: BrokerConfig) -> set[tuple[object, ...]]:
    """Return the marks that two brokers of one cluster have in common."""
    source, container = id(broker.location.source), broker.container
    marks: set[tuple[object, ...]] = {(source, broker.name)}
    scope = source if container is not None else 0
    for _, address in broker.voters:
        is_own = (
            host_kind(address.rpartition(":")[0]) is HostKind.LOOPBACK and container and not container.uses_host_network
        )
        marks.add(("voter", scope, broker.name if is_own else "", address.lower()))
    for name in ("zookeeper.connect", "controller.quorum.bootstrap.servers"):
        servers, _, root = broker.get(name).partition("/")
        marks |= {(name, scope, part.strip().lower(), root) for part in servers.split(",") if part.strip()}
    if "CLUSTER_ID" in broker.environment:
        marks.add(("id", scope, broker.environment["CLUSTER_ID"].text))
    return marks


def check(setup: Setup) -> Iterator[LintDiagnostic]:
    for group in group_by_cluster(setup):
        yield from check_ids(group)
        yield from check_quorum(group)
        yield from check_cluster_ids(group)
        yield from check_addresses(group)
        yield from check_replicas(group, setup)
        for broker in group:
            yield from check_number(broker)
            yield from check_two_ids(broker)
            yield from check_copies(broker)
            if len(group) == 1:
                yield from check_voters_of_one(broker)


def check_number(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    for key in ("node.id", "broker.id"):
        value = broker.settings.get(key)
        if (
            value is not None
            and value.is_known
            and value.text.strip()
            and not re.fullmatch(r"-?\d+", value.text.strip())
        ):
            number = re.search(r"\d+$", value.text.strip())
            text = f"{value.key} is '{value.text}', which is no number"
            line = broker.line(key, number[0] if number and broker.copies == 1 else "<number>")
            yield finding("node-id-number", value, broker, text, None, line)


def check_two_ids(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    node, old = broker.settings.get("node.id"), broker.settings.get("broker.id")
    if node is None or old is None or not node.is_known or not old.is_known or node.text.strip() == old.text.strip():
        return
    text = f"{node.key} is {node.text}, but {old.key} is {old.text}"
    edits = old.remove() if broker.roles else None
    yield finding("node-id-differs", old, broker, text, edits, f"(without {old.key})")


def check_copies(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Check what each of several nodes made from the same settings needs for itself."""
    if broker.copies < 2:
        return
    value = broker.settings.get("node.id") or broker.settings.get("broker.id")
    if value is not None and value.text.strip().isdecimal():
        text = f"each of the {broker.copies} replicas has id {value.text}"
        yield finding("duplicate-node-id", value, broker, text, None, "(from the number in the pod's name)")
    for endpoint in broker.client_endpoints:
        in_pod = broker.container is not None and broker.container.platform is Platform.KUBERNETES
        if in_pod and endpoint.value is not None and _POD_NAME.fullmatch(endpoint.host):
            text = f"{endpoint.name} advertises the name of the pod alone, which no other pod can resolve"
            line = f"{endpoint.name}://{endpoint.host.replace('${', '$(').replace('}', ')')}"
            line = f"{line}.<headless Service>:{endpoint.port_text}"
            yield finding("pod-name-advertised", endpoint.value, broker, text, None, line)
        known = endpoint.kind in (HostKind.NAME, HostKind.IP, HostKind.LOOPBACK) and endpoint.port is not None
        if known and endpoint.value is not None:
            text = f"each of the {broker.copies} replicas advertises the same address, {endpoint.host}:{endpoint.port}"
            line = endpoint.with_host("<its own host>")
            yield finding("same-address-twice", endpoint.value, broker, text, None, line)


def check_voters_of_one(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Check the voters of a broker whose other nodes are not in the files."""
    value = broker.settings.get(_VOTERS)
    nodes: dict[str, list[str]] = {}
    for node, address in broker.voters:
        nodes.setdefault(address.lower(), []).append(node)
    shared = [(address, ids) for address, ids in nodes.items() if len(ids) > 1 and "{" not in address]
    if value is None or len(broker.voters) < 2:
        return
    for address, ids in shared[:1]:
        text = f"the voters {', '.join(ids[:-1])} and {ids[-1]} have one address, {address}"
        yield finding("voter-address", value, broker, text, None, broker.line(_VOTERS, _example_voters(broker)))
    yield from _check_pods(broker, value)
    is_machine = broker.family is ImageFamily.PROPERTIES and broker.layout is LineLayout.PROPERTY
    on_host = broker.container is not None and broker.container.uses_host_network
    hosts = {host_kind(address.rpartition(":")[0]) for address in nodes}
    if not shared and hosts == {HostKind.LOOPBACK} and not is_machine and not on_host:
        text = f"the {len(broker.voters)} voters are all at {broker.voters[0][1].rpartition(':')[0]}"
        why = "In a container, localhost is the container itself: it finds no other controller there."
        line = broker.line(_VOTERS, _example_voters(broker))
        yield finding("voter-address", value, broker, text, None, line, why=why)


def _check_pods(broker: BrokerConfig, value: ConfigValue) -> Iterator[LintDiagnostic]:
    """Check that voters that are pods of a StatefulSet have the name of its headless Service."""
    container = broker.container
    if container is None or container.platform is not Platform.KUBERNETES or broker.copies < 2:
        return
    pod = re.compile(rf"{re.escape(container.name.partition('/')[0])}-\d+")
    hosts = [address.rpartition(":")[0] for _, address in broker.voters]
    bare = [host for host in hosts if pod.fullmatch(host) and host not in container.linked_services]
    if bare:
        text = f"{bare[0]} is the name of a pod alone, which other pods cannot resolve"
        why = "A pod of a StatefulSet has the name POD.SERVICE, with its headless Service."
        line = broker.line(_VOTERS, re.sub(rf"@({pod.pattern}):", r"@\1.<headless Service>:", value.text))
        yield finding("voter-address", value, broker, text, None, line, severity=Severity.WARNING, why=why)


def _example_voters(broker: BrokerConfig) -> str:
    return ",".join(f"{node}@<host of {node}>:{address.rpartition(':')[2]}" for node, address in broker.voters[:5])


def check_ids(group: list[BrokerConfig]) -> Iterator[LintDiagnostic]:
    first: dict[str, BrokerConfig] = {}
    taken = {broker.node_id for broker in group}
    for broker in group:
        if not broker.node_id.isdigit() or (broker.node_id == "0" and not broker.settings):
            continue
        before = first.setdefault(broker.node_id, broker)
        if before is broker:
            continue
        value = broker.settings.get("node.id") or broker.settings.get("broker.id")
        own = next((node for node, address in broker.voters if address.split(":")[0] in broker.container_names), None)
        free = next(node for node in (own, *map(str, range(1, 9999))) if node is not None and node not in taken)
        text = f"{broker.name} has id {broker.node_id}, and so has {before.name}"
        edits = value.replace(free) if value is not None else None
        taken.add(free)
        line = broker.line("node.id", free)
        yield finding("duplicate-node-id", value or broker.location, broker, text, edits, line)


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
        for text, old, new in _wrong_voter(reference, node, address, group):
            edits = _change_all_voters(group, reference, index, old, new)
            yield finding("voter-address", reference.settings[_VOTERS], reference, text, edits)


def _wrong_voter(
    reference: BrokerConfig, node: str, address: str, group: list[BrokerConfig]
) -> Iterator[tuple[str, str, str]]:
    """Check that the node with this id listens for controllers at this address.

    Yields what is wrong, and which part of the voter must be replaced by what.
    """
    host, _, port = address.rpartition(":")
    controller = next((member for member in group if member.node_id == node and member.is_controller), None)
    if controller is None:
        named = next((member for member in group if host in member.container_names), None)
        if named is None or named.copies > 1 or not named.is_controller or not named.node_id.isdigit():
            return
        is_unique = sum(member.node_id == named.node_id for member in group) == 1
        if is_unique and (len(reference.voters) > 1 or named is not reference):  # else voter-missing reports it
            yield f"voter {node} is at {host}, but {host} is node {named.node_id}", f"{node}@", f"{named.node_id}@"
        return
    if controller.container is not None and not controller.container.uses_host_network:
        own_names = controller.container_names
        others = {name for member in group for name in member.container_names} - own_names
        is_loopback = host_kind(host) is HostKind.LOOPBACK and len(group) > 1
        # In Compose, a name without a dot is one of the same file, and this node does not have that name.
        in_compose = len(group) > 1 and controller.container.platform is Platform.COMPOSE
        is_unknown = in_compose and host not in own_names and "." not in host
        if is_loopback or (host_kind(host) is HostKind.NAME and (host in others or is_unknown)):
            text = f"voter {node} is at {host}, but node {node} is {' or '.join(sorted(own_names))}"
            yield text, f"@{host}:", f"@{controller.container.name}:"
    listening = [endpoint for endpoint in controller.listeners if endpoint.name in controller.controller_names]
    if listening and port.isdigit() and all(endpoint.port not in (None, int(port)) for endpoint in listening):
        text = f"voter {node} is at port {port}, but {listening[0].name} has port {listening[0].port}"
        yield text, f":{port}", f":{listening[0].port}"


def _change_all_voters(
    group: list[BrokerConfig], reference: BrokerConfig, index: int, old: str, new: str
) -> list[Edit] | None:
    """Make the same change in the voters of all nodes, because these must be equal."""
    equal = [broker for broker in group if broker.get(_VOTERS) == reference.get(_VOTERS)]
    values = {id(broker.settings[_VOTERS]): broker.settings[_VOTERS] for broker in equal}
    edits = combine(*(value.change_entry(index, old, new) for value in values.values()))
    return None if edits is None else list(dict.fromkeys(edits))


def check_cluster_ids(group: list[BrokerConfig]) -> Iterator[LintDiagnostic]:
    values = [(broker, broker.environment.get("CLUSTER_ID")) for broker in group if broker.container]
    ids = [(broker, value) for broker, value in values if value is not None and value.is_known]
    texts = [value.text for _, value in ids]
    majority = max(texts, key=texts.count, default="")
    for broker, value in ids:
        if value.text != majority:
            text = f"{broker.name} has another CLUSTER_ID than {ids[texts.index(majority)][0].name}"
            yield finding("cluster-id-differs", value, broker, text, value.replace(majority))


def check_addresses(group: list[BrokerConfig]) -> Iterator[LintDiagnostic]:
    first: dict[tuple[str, int], BrokerConfig] = {}
    for broker in group:
        for endpoint in broker.client_endpoints:
            nowhere = endpoint.kind in (HostKind.UNKNOWN, HostKind.EMPTY, HostKind.WILDCARD)
            if endpoint.port is None or nowhere or endpoint.value is None:
                continue
            in_container = broker.container is not None and not broker.container.uses_host_network
            published = broker.published(broker.listener(endpoint.name))
            if endpoint.kind is HostKind.LOOPBACK and in_container and not published:
                continue  # each container has a localhost of its own
            before = first.setdefault((endpoint.host.lower(), endpoint.port), broker)
            if before is not broker:
                # Advertise the port at which this broker is published, if it differs.
                ports = (port.host_port for port in published if port.host_port not in (None, endpoint.port))
                port = next(ports, None)
                edits = endpoint.value.change_entry(endpoint.index, f":{endpoint.port}", f":{port}") if port else None
                text = f"{broker.name} and {before.name} both advertise {endpoint.host}:{endpoint.port}"
                line = endpoint.with_host("<its own host>")
                yield finding("same-address-twice", endpoint.value, broker, text, edits, line)


def _is_part(group: list[BrokerConfig], setup: Setup) -> bool:
    """Check whether the ZooKeeper or a voter of these brokers is in no file: then brokers may be elsewhere too."""
    names = {name.lower() for container in setup.containers for name in container.names}
    for broker in group:
        servers = [
            part.strip() for part in broker.get("zookeeper.connect").partition("/")[0].split(",") if part.strip()
        ]
        for address in (*servers, *(address for _, address in broker.voters)):
            host = address.lower().rpartition(":")[0] or address.lower()
            if host_kind(host) is HostKind.NAME and host not in names and host.partition(".")[0] not in names:
                return True
    return False


def check_replicas(group: list[BrokerConfig], setup: Setup) -> Iterator[LintDiagnostic]:
    """Check replication factors, where one Compose file has all brokers of the cluster."""
    brokers = [broker for broker in group if broker.is_broker]
    if not brokers or any(broker.container is None for broker in brokers):
        return
    if all(broker.container and broker.container.platform is Platform.COMPOSE for broker in brokers) and _is_part(
        group, setup
    ):
        return
    count = sum(broker.copies for broker in brokers)
    there = "but there is 1 broker" if count == 1 else f"but there are {count} brokers"
    for broker in brokers:
        for key in (*_FACTORS, *_OTHER_FACTORS):
            value = broker.settings.get(key)
            if value is not None and value.text.isdigit() and int(value.text) > count:
                text = f"{key} is {value.text}, {there}"
                yield finding("replication-factor", value, broker, text, value.replace(str(count)))
        has_defaults = broker.family in (ImageFamily.APACHE, ImageFamily.CONFLUENT) and broker.settings
        for key in _FACTORS if has_defaults and broker.complete and count < 3 else ():
            if key not in broker.settings:
                neighbours = _settings_from_last(broker)
                edits = broker.set_or_add(key, str(count), *neighbours)
                severity = Severity.WARNING if key == _FACTORS[0] else Severity.NOTE
                location, line = broker.first_setting(*neighbours), broker.line(key, str(count))
                text = f"{key} is 3 by default, {there}"
                yield finding("replication-factor", location, broker, text, edits, line, severity=severity)


def _settings_from_last(broker: BrokerConfig) -> list[str]:
    """Return the settings by their location, the last first: new lines go after them."""
    plain = [key for key in broker.settings if not re.search(r"jaas|password|secret", key)]
    return sorted(plain, key=lambda key: broker.settings[key].start, reverse=True)
