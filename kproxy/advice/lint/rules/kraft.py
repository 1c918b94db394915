"""Rules for KRaft: roles, the controllers' listener, the voters, and settings left over from ZooKeeper."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, host_kind
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.lint.value import ConfigValue
from kproxy.base.diagnostic import Severity

_NAMES = "controller.listener.names"
_VOTERS = "controller.quorum.voters"
_VOTER = re.compile(r"-?\d+@[^@\s]+:\d{1,5}(:.+)?")
_ZOOKEEPER_SETTINGS = (
    "zookeeper.connect",
    "zookeeper.session.timeout.ms",
    "zookeeper.connection.timeout.ms",
    "zookeeper.set.acl",
    "zookeeper.max.in.flight.requests",
    "zookeeper.ssl.client.enable",
    "zookeeper.clientCnxnSocket",
    "broker.id.generation.enable",
    "reserved.broker.max.id",
    "control.plane.listener.name",
)
# The first version without ZooKeeper of the images that once had it.
_LOST_ZOOKEEPER = {ImageFamily.CONFLUENT: "Confluent Platform 8.0", ImageFamily.BITNAMI: "Kafka 4.0"}
# Kafka 4 has removed these settings.
_REMOVED_IN_4 = ("inter.broker.protocol.version", "log.message.format.version", "delegation.token.master.key")


def check(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    yield from check_zookeeper_settings(broker)
    since = _LOST_ZOOKEEPER.get(broker.family) if broker.version is None else None
    if since and not broker.roles and "zookeeper.connect" in broker.settings:
        text = f"whether its image is old enough to have a ZooKeeper mode: since {since}, it has none"
        setup.add_unchecked(f"{broker.name}: {text}")
    if not broker.roles:
        return
    yield from check_roles(broker)
    yield from check_required_settings(broker, setup)
    yield from check_controller_listeners(broker)
    yield from check_voters(broker)
    yield from check_wildcard_in_3_9_0(broker)


def check_zookeeper_settings(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    migrating = broker.get("zookeeper.metadata.migration.enable").lower() == "true"
    if (broker.roles or broker.kraft_only) and not (migrating and not broker.kraft_only):
        why = f"process.roles is {broker.get('process.roles')}" if broker.roles else "this image has no ZooKeeper mode"
        keys = [key for key in (*_ZOOKEEPER_SETTINGS, "zookeeper.metadata.migration.enable") if key in broker.settings]
        for index, key in enumerate(keys):
            value = broker.settings[key]
            # A broker without roles needs more than the removal of a line.
            edits = value.remove() if broker.roles else None
            line = broker.line("process.roles", "broker,controller") if index == 0 else ()
            severity = None if key == "zookeeper.connect" else Severity.WARNING
            text = f"{value.key} is a setting for ZooKeeper, but {why}"
            yield finding("zookeeper-on-kraft", value, broker, text, edits, line, severity=severity)
    if broker.version is not None and broker.version >= (4, 0):
        for value in (broker.settings[key] for key in _REMOVED_IN_4 if key in broker.settings):
            text = f"Kafka 4 has no setting {value.key}"
            yield finding("zookeeper-on-kraft", value, broker, text, value.remove(), severity=Severity.WARNING)


def check_roles(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    value = broker.settings.get("process.roles")
    wrong = [role for role in broker.roles if role not in ("broker", "controller") and "{" not in role]
    if wrong and value is not None:
        likely = [role.lower() for role in broker.roles if role.lower() in ("broker", "controller")]
        edits = value.replace(",".join(likely)) if len(likely) == len(broker.roles) else None
        line = broker.line("process.roles", "broker,controller")
        yield finding("process-roles", value, broker, f"process.roles has '{wrong[0]}'", edits, line)


def check_required_settings(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    if not broker.complete:
        return
    setting = broker.first_setting("process.roles")
    if not broker.node_id:
        own_ids = [node for node, address in broker.voters if _host_of(address) in broker.container_names]
        only = broker.voters[0][0] if len(broker.voters) == 1 and broker.is_controller else ""
        node = own_ids[0] if own_ids else only
        edits = broker.set_or_add("node.id", node, "process.roles") if node else None
        text = f"{broker.variable_for('node.id')} is missing"
        yield finding("node-id-missing", setting, broker, text, edits, broker.line("node.id", "1"))
    if not broker.get(_VOTERS) and not broker.get("controller.quorum.bootstrap.servers"):
        controller = next((endpoint for endpoint in broker.listeners if endpoint.name in broker.controller_names), None)
        host = (broker.container.name if broker.container else "localhost") if broker.is_controller else ""
        voter = f"{broker.node_id or 1}@{host or 'HOST'}:{controller.port_text if controller is not None else '9093'}"
        is_sure = host and controller is not None and broker.node_id and broker.is_broker
        others = {other.get(_VOTERS) for other in setup.brokers if other.container and other.get(_VOTERS)}
        if not broker.is_controller and broker.container and len(others) == 1:
            voter, is_sure = others.pop(), True
        edits = broker.set_or_add(_VOTERS, voter, "process.roles") if is_sure else None
        text = f"neither {_VOTERS} nor controller.quorum.bootstrap.servers is set"
        yield finding("quorum-missing", setting, broker, text, edits, broker.line(_VOTERS, voter))
    if not broker.controller_names:
        name = _likely_controller(broker)
        edits = broker.set_or_add(_NAMES, name, "listeners", "process.roles")
        text = f"{broker.variable_for(_NAMES)} is missing"
        yield finding("controller-names-missing", setting, broker, text, edits, broker.line(_NAMES, name))


def _host_of(address: str) -> str:
    return address.rpartition(":")[0]


def _likely_controller(broker: BrokerConfig) -> str:
    ports = {address.rpartition(":")[2] for _, address in broker.voters}
    is_advertised = "advertised.listeners" in broker.settings
    advertised = {endpoint.name for endpoint in broker.advertised} if is_advertised else set()
    for endpoint in broker.listeners:
        is_hidden = advertised and endpoint.name not in advertised
        if endpoint.port_text in ports or "CONTROLLER" in endpoint.name or is_hidden:
            return endpoint.name
    return next((name for name in broker.protocol_map if "CONTROLLER" in name), "CONTROLLER")


def check_controller_listeners(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    names, value = broker.controller_names, broker.settings.get("listeners")
    if not names or any("{" in name for name in names):
        return
    listening = [endpoint for endpoint in broker.listeners if endpoint.name in names]
    if broker.is_controller and not listening:
        yield from _missing_controller_listener(broker, names[0])
    if value is not None and not broker.is_controller:
        for endpoint in listening:
            text = f"{endpoint.name} is in listeners, but the node is no controller"
            yield finding("controller-on-broker", value, broker, text, value.remove_entry(endpoint.index))
    if value is not None and broker.is_controller and not broker.is_broker and listening:
        for endpoint in broker.for_clients(broker.listeners):
            text = f"{endpoint.name} is in listeners, but the node is no broker"
            yield finding("broker-listener-on-controller", value, broker, text, value.remove_entry(endpoint.index))
    yield from _check_advertised(broker, names, listening)


def _missing_controller_listener(broker: BrokerConfig, name: str) -> Iterator[LintDiagnostic]:
    value = broker.settings.get("listeners")
    if broker.family is ImageFamily.BITNAMI and value is None:
        return  # the rules for images report it
    port = next((address.rpartition(":")[2] for node, address in broker.voters if node == broker.node_id), "9093")
    at_port = (endpoint for endpoint in broker.listeners if endpoint.port_text == port)
    candidate = next((endpoint for endpoint in at_port if not broker.advertised_endpoint(endpoint.name)), None)
    entry = f"{name}://:{port}"
    beside = ("advertised.listeners", _NAMES, "process.roles")
    location = broker.first_setting("listeners", *beside)
    if candidate is not None and value is not None and "advertised.listeners" in broker.settings:
        names = broker.settings.get(_NAMES)
        location, edits = names or value, names.replace(candidate.name) if names is not None else None
    elif value is not None:
        edits = value.add_entry(entry)
    else:
        entries = [*(f"{endpoint.name}://:{endpoint.port_text}" for endpoint in broker.listeners), entry]
        edits = broker.set_or_add("listeners", ",".join(entries), *beside)
    text = f"{name} is in {_NAMES}, but not in listeners"
    yield finding("controller-listener-missing", location, broker, text, edits, broker.line("listeners", entry))


def _check_advertised(
    broker: BrokerConfig, names: list[str], listening: list[ListenerEndpoint]
) -> Iterator[LintDiagnostic]:
    """Report advertised controller listeners before Kafka 3.9; later brokers ignore them."""
    value, old = broker.settings.get("advertised.listeners"), broker.version is not None
    if value is None or (broker.version is not None and broker.version >= (3, 9)):
        return
    # With voters by address, the controllers' advertised listeners have no use. A file of variables shows no image.
    shows_no_version = broker.family is ImageFamily.OTHER or (broker.container is None and bool(broker.environment))
    is_useless = shows_no_version and _VOTERS in broker.settings
    if broker.is_controller and not (listening and (old or is_useless)):
        return  # without a listener, _missing_controller_listener reports it
    for endpoint in broker.advertised:
        if endpoint.name in names:
            edits = value.remove_entry(endpoint.index)
            if edits is None and not broker.is_broker:
                edits = value.remove()
            text = f"the controllers' listener {endpoint.name} is in advertised.listeners"
            severity = None if old else Severity.WARNING
            yield finding("controller-advertised", value, broker, text, edits, severity=severity)


def check_wildcard_in_3_9_0(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Report a wildcard controller listener, which Kafka 3.9.0 alone takes for an advertised address."""
    value = broker.settings.get("listeners")
    reference = broker.container.image.text if broker.container and broker.container.image else ""
    tag = ":7.9.0" if broker.family is ImageFamily.CONFLUENT else ":3.9.0"
    if value is None or tag not in reference:
        return
    for endpoint in broker.listeners:
        is_advertised = broker.advertised_endpoint(endpoint.name) is not None
        if endpoint.name in broker.controller_names and endpoint.host == "0.0.0.0" and not is_advertised:
            text = f"{endpoint.name} listens on 0.0.0.0, and the image is {reference}"
            why = "Kafka 3.9.0 takes this for an advertised address and does not start (KAFKA-18281)."
            edits = value.change_entry(endpoint.index, "//0.0.0.0:", "//:")
            yield finding("advertised-wildcard", value, broker, text, edits, why=why)


def check_voters(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    value, own = broker.settings.get(_VOTERS), broker.node_id
    wrong = next((entry for entry in value.entries if not _VOTER.fullmatch(entry)), "") if value is not None else ""
    if value is not None and wrong and value.is_known:
        why = "A voter is ID@HOST:PORT. The node does not start."
        line = broker.line(_VOTERS, "1@HOST:9093,...")
        yield finding("voter-address", value, broker, f"'{wrong}' is no voter", None, line, why=why)
        return
    ids = [node for node, _ in broker.voters]
    if value is None or not ids or not own.isdigit() or any("{" in node for node in ids):
        return
    if broker.is_controller and own not in ids:
        edits = value.change_entry(0, f"{ids[0]}@", f"{own}@") if len(ids) == 1 else None
        text = f"node {own} is a controller, but the voters are {', '.join(ids)}"
        address = broker.voters[0][1] if len(ids) == 1 else "HOST:PORT"
        yield finding(
            "voter-missing", value, broker, text, edits, broker.line(_VOTERS, f"{value.text},{own}@{address}")
        )
    if broker.container is None and broker.copies == 1:
        yield from _check_loopback_voters(broker, value)
    if not broker.is_controller and own in ids:
        text = f"node {own} is only a broker, but a voter has this id"
        free = str(max(int(node) for node in ids if node.isdigit()) + 1)
        location = broker.settings.get("node.id", value)
        yield finding("voter-broker", location, broker, text, None, broker.line("node.id", free))


def _check_loopback_voters(broker: BrokerConfig, value: ConfigValue) -> Iterator[LintDiagnostic]:
    """Report voters that are this machine itself, beside others on other machines: all nodes need the same list."""
    hosts = [host_kind(_host_of(address)) for _, address in broker.voters]
    if HostKind.NAME not in hosts and HostKind.IP not in hosts:
        return
    for (node, address), kind in zip(broker.voters, hosts, strict=True):
        if kind is HostKind.LOOPBACK:
            own_machine = f"{_host_of(address)}, each node's own machine"
            text = f"voter {node} is at {own_machine}, beside voters on other machines"
            line = f"{node}@HOST:{address.rpartition(':')[2]}"
            severity = Severity.WARNING if node == broker.node_id else None  # it works for this node itself
            yield finding("voter-address", value, broker, text, None, line, severity=severity)
