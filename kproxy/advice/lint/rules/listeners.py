"""Rules for the listeners of one broker, in a container or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, host_kind, parse_endpoints
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import PROTOCOLS, BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules import hosts
from kproxy.advice.lint.rules.table import combine, finding
from kproxy.advice.lint.source import Edit
from kproxy.advice.lint.value import ConfigValue
from kproxy.base.diagnostic import Severity

_MAP = "listener.security.protocol.map"
_PLACEHOLDER = "<host that clients reach>"
_REMOVED_SETTINGS = ("advertised.host.name", "advertised.port", "host.name", "port")


def check(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    yield from check_syntax(broker)
    yield from check_wildcard(broker, setup)
    unknown = list(check_names(broker))
    yield from unknown
    if not unknown:  # else a name was probably misspelt
        yield from check_unadvertised_listeners(broker, setup)
    yield from check_protocols(broker)
    yield from check_ports(broker)
    yield from check_bound(broker)
    if broker.is_broker and (broker.complete or "inter.broker.listener.name" in broker.settings):
        yield from check_inter_broker(broker)
    yield from check_removed_settings(broker)
    yield from hosts.check_broker(broker, setup)
    yield from hosts.check_machine(broker)
    yield from hosts.check_zookeeper(broker, setup)


def check_syntax(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    for key in ("listeners", "advertised.listeners"):
        value = broker.settings.get(key)
        if value is None:
            continue
        for index, entry in parse_endpoints(value)[1]:
            name, edits = entry.partition(":")[0] or "PLAINTEXT", None
            text = f"'{entry}' is no listener"
            if entry.count(":") == 2 and ":/" in entry and "://" not in entry:
                edits = value.replace_entry(index, f"{name}://{entry.partition('/')[2].strip('/')}")
            elif (
                entry[0] in "\"'" and (bare := value.text.strip("\"' ")) != value.text and not parse_endpoints(bare)[1]
            ):
                edits, text = value.replace(bare), f"{text}: the quotes are a part of the value"
            elif parts := re.fullmatch(r"([^:/\s]+):(\d{1,5})", entry):
                name = _likely_name(broker, index)
                edits = value.replace_entry(index, f"{name}://{parts[1]}:{parts[2]}")
            line = broker.line(key, f"{name}://HOST:PORT")
            yield finding("listener-syntax", value, broker, text, edits, line)


def _likely_name(broker: BrokerConfig, index: int) -> str:
    """Return the listener that an address without a name is for."""
    names = [endpoint.name for endpoint in broker.for_clients(broker.listeners)]
    return names[index] if index < len(names) else "PLAINTEXT"


def check_wildcard(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    setting, listeners = broker.settings.get("advertised.listeners"), broker.settings.get("listeners")
    host = broker.settings.get("advertised.host.name") if broker.takes_advertised_host else None
    if setting is None and host is not None and host_kind(host.text) is HostKind.WILDCARD:
        edits = host.replace("localhost") if broker.container is not None else None
        text, line = f"advertised.host.name is {host.text}", broker.line("advertised.host.name", _PLACEHOLDER)
        yield finding("advertised-wildcard", host, broker, text, edits, line)
    if setting is None:
        if listeners is not None and "advertised.listeners" not in broker.defaults:
            yield from _check_unadvertised(broker, setup, listeners)
        elif listeners is not None and broker.family is ImageFamily.REDPANDA and broker.container is None:
            yield from _check_redpanda(broker, listeners)
        return
    for endpoint in broker.advertised:
        if endpoint.kind is HostKind.WILDCARD:
            edits, line = _replace_wildcard(broker, setup, endpoint, setting)
            text = f"{endpoint.name} advertises {endpoint.host}"
            yield finding("advertised-wildcard", setting, broker, text, edits, line)


def _replace_wildcard(
    broker: BrokerConfig, setup: Setup, endpoint: ListenerEndpoint, setting: ConfigValue
) -> tuple[list[Edit] | None, str]:
    """Return edits that replace a wildcard by a host; without a known host, None and the suggested line."""
    listener = broker.listener(endpoint.name)
    if broker.copies > 1:
        listener = None  # no host is the right one for all of them
    host = setup.advertise if broker.copies == 1 else ""
    if not host and listener is not None and listener.kind in (HostKind.IP, HostKind.NAME, HostKind.LOOPBACK):
        host = listener.host
    if not host and broker.container is not None and broker.copies == 1:
        host = "localhost" if broker.published(listener) else broker.container.name
    if host:
        return setting.replace_entry(endpoint.index, endpoint.with_host(host)), ""
    entries = [*setting.entries]
    entries[endpoint.index] = endpoint.with_host(_PLACEHOLDER)
    line = setting.line_beside(setting.key, ",".join(entries))
    return None, line or broker.line("advertised.listeners", entries[endpoint.index])


def _check_unadvertised(broker: BrokerConfig, setup: Setup, listeners: ConfigValue) -> Iterator[LintDiagnostic]:
    """Check `listeners` where advertised.listeners is missing: the broker then advertises these."""
    wild = [endpoint for endpoint in broker.advertised if endpoint.kind is HostKind.WILDCARD]
    is_empty = any(endpoint.kind is HostKind.EMPTY for endpoint in broker.advertised)
    if not broker.is_broker or not (wild or is_empty):
        return
    host = setup.advertise or (broker.container.name if broker.container and wild else "")
    entries = ",".join(endpoint.with_host(host or _PLACEHOLDER) for endpoint in broker.advertised)
    pair = (broker.variable_for("advertised.listeners"), entries)
    line = listeners.line_beside(*pair) or ""
    if wild:
        edits = listeners.insert_after([pair]) if host else None
        text = f"{wild[0].name} listens on {wild[0].host} and is not advertised otherwise"
        yield finding("advertised-wildcard", listeners, broker, text, edits, line)
    elif not hosts.published_without_name(broker):
        text = "advertised.listeners is missing, and listeners has no host"
        yield finding("canonical-host-name", listeners, broker, text, None, line)


def _check_redpanda(broker: BrokerConfig, listeners: ConfigValue) -> Iterator[LintDiagnostic]:
    """Report a redpanda.yaml that listens on all addresses, and names none to advertise."""
    wild = next((endpoint for endpoint in broker.listeners if endpoint.kind is HostKind.WILDCARD), None)
    if wild is not None:
        text = f"{wild.name} listens on {wild.host}, and advertised_kafka_api is missing"
        why = "Redpanda then advertises this address, or another one that `rpk redpanda start` chooses."
        line, note = broker.line("advertised.listeners", wild.with_host(_PLACEHOLDER)), Severity.NOTE
        yield finding("advertised-wildcard", listeners, broker, text, None, line, severity=note, why=why)


def check_names(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    setting, listeners = broker.settings.get("advertised.listeners"), broker.settings.get("listeners")
    names = [endpoint.name for endpoint in broker.listeners]
    if setting is None or not names or (listeners is None and not broker.complete):
        return
    free = [other for other in broker.for_clients(broker.listeners) if broker.advertised_endpoint(other.name) is None]
    for endpoint in broker.for_clients(broker.advertised):  # the rules for controllers report theirs
        if endpoint.name in names:
            continue
        meant = [other.name for other in free if other.port == endpoint.port]
        if len(meant) != 1:
            meant = [other.name for other in free]
        is_port_free = endpoint.port is not None and all(other.port != endpoint.port for other in broker.listeners)
        if len(meant) == 1:
            edits = setting.change_entry(endpoint.index, endpoint.text.partition("://")[0], meant[0])
        elif listeners is not None and is_port_free:
            edits = listeners.add_entry(f"{endpoint.name}://:{endpoint.port}")
        else:
            edits = setting.remove_entry(endpoint.index)
        is_redpanda = broker.family is ImageFamily.REDPANDA
        own, has = (_written_name(endpoint), "kafka_api") if is_redpanda else (endpoint.name, "listeners")
        others = ", ".join(map(_written_name, broker.listeners) if is_redpanda else names)
        text = f"{own} is advertised, but {has} has only {others}"
        line = broker.line(setting.key, ",".join(other.text for other in broker.advertised if other is not endpoint))
        if is_redpanda:
            line = f"kafka_api: [..., {{name: {own}, address: 0.0.0.0, port: {endpoint.port_text}}}]"
        yield finding("advertised-unknown-listener", setting, broker, text, edits, line)


def check_bound(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Report a listener on localhost that advertises another machine's name, outside of containers."""
    if broker.container is not None:
        return
    for advertised in broker.client_endpoints:
        listener = broker.listener(advertised.name)
        if advertised.kind not in (HostKind.IP, HostKind.NAME) or listener is None or listener.value is None:
            continue
        if listener.kind is HostKind.LOOPBACK:
            edits = listener.value.change_entry(listener.index, f"//{listener.host}:", "//0.0.0.0:")
            text = f"{listener.name} listens on {listener.host} only, and advertises {advertised.host}"
            why = "A listener on localhost accepts no connection from another machine."
            warning, line = Severity.WARNING, "0.0.0.0 instead"
            yield finding("bound-to-loopback", listener.value, broker, text, edits, line, severity=warning, why=why)


def _written_name(endpoint: ListenerEndpoint) -> str:
    return endpoint.text.partition("://")[0]


def check_unadvertised_listeners(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    """Report the listeners for clients that advertised.listeners does not have, though it has others."""
    setting, listeners = broker.settings.get("advertised.listeners"), broker.settings.get("listeners")
    if setting is None or listeners is None or not broker.is_broker:
        return
    if not broker.controller_names and "zookeeper.connect" not in broker.settings:
        return  # one of them may be the controllers'
    if len(broker.advertised) != len(setting.entries) or len(broker.listeners) != len(listeners.entries):
        return  # a variable may be the missing entry
    for endpoint in broker.for_clients(broker.listeners):
        if broker.advertised_endpoint(endpoint.name) is not None:
            continue
        host, port = setup.advertise if broker.copies == 1 else "", endpoint.port
        if not host and broker.container is not None and broker.copies == 1:
            published = [mapping.host_port for mapping in broker.published(endpoint) if mapping.host_port]
            host, port = ("localhost", published[0]) if published else (broker.container.name, port)
        entry = f"{endpoint.name}://{host or _PLACEHOLDER}:{port or 'PORT'}"
        text = f"listeners has {endpoint.name}, and advertised.listeners has not"
        line = setting.line_beside(setting.key, f"{setting.text},{entry}") or broker.line(setting.key, entry)
        edits = setting.add_entry(entry) if host and port else None
        yield finding("listener-not-advertised", setting, broker, text, edits, line)


def check_protocols(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    setting, protocol_map = broker.settings.get(_MAP), broker.protocol_map
    for index, entry in enumerate(setting.entries[:100]) if setting is not None else ():
        name, sign, protocol = (part.strip() for part in entry.partition(":"))
        if setting is not None and "{" not in entry and not (sign and protocol.upper() in PROTOCOLS):
            text = f"'{entry}' has no protocol that Kafka knows"
            edits = setting.replace_entry(index, f"{name}:{_likely_protocol(protocol or name)}")
            yield finding("protocol-unknown", setting, broker, text, edits)
    if (setting is not None and not setting.is_known) or ("listeners" not in broker.settings and not broker.complete):
        return
    used = [endpoint.name for endpoint in broker.listeners] + (broker.controller_names if broker.roles else [])
    names = list(dict.fromkeys(used))
    needed = [f"{name}:{_likely_protocol(name)}" for name in names if name not in protocol_map]
    if not needed:
        return
    beside = ("listeners", "advertised.listeners", "controller.listener.names")
    if setting is not None:
        edits = setting.add_entry(",".join(needed))
    else:
        pairs = ",".join(f"{name}:{protocol_map.get(name) or _likely_protocol(name)}" for name in names)
        edits = broker.set_or_add(_MAP, pairs, *beside)
    missing = ", ".join(pair.rpartition(":")[0] for pair in needed)
    text = f"listener.security.protocol.map has no protocol for {missing}"
    location, line = broker.first_setting(_MAP, *beside), broker.line(_MAP, ",".join(needed))
    yield finding("protocol-map-missing", location, broker, text, edits, line)


def _likely_protocol(text: str) -> str:
    """Guess the protocol from a listener's name; PLAINTEXT if the name names none."""
    word = text.upper()
    sasl, tls = "SASL" in word, "SSL" in word or "TLS" in word
    return ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")


def check_ports(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    setting = broker.settings.get("advertised.listeners" if broker.listeners_derived else "listeners")
    if setting is None:
        return
    taken = {endpoint.port for endpoint in broker.listeners}
    for first, second in combinations(broker.listeners, 2):
        if _is_dual_stack_pair(first, second):
            continue
        if first.name == second.name:
            text = f"listeners has {first.name} twice"
            yield finding("duplicate-listener-name", setting, broker, text, setting.remove_entry(second.index))
        elif first.port and first.port == second.port:
            advertised = broker.advertised_endpoint(second.name)
            port = advertised.port if advertised is not None and advertised.port not in taken else None
            port = port or next(number for number in range(first.port + 1, 65536) if number not in taken)
            edits = setting.change_entry(second.index, f":{second.port}", f":{port}")
            value = advertised.value if advertised is not None and advertised.port == second.port else None
            if advertised is not None and value is not None and value is not setting:
                edits = combine(edits, value.change_entry(advertised.index, f":{second.port}", f":{port}"))
            text = f"{first.name} and {second.name} both have port {first.port}"
            yield finding("duplicate-port", setting, broker, text, edits)


def _is_dual_stack_pair(first: ListenerEndpoint, second: ListenerEndpoint) -> bool:
    """Check whether these are the IPv4 and the IPv6 address of one port."""
    hosts = {first.host.strip("[]"), second.host.strip("[]")}
    is_mixed = (":" in first.host) != (":" in second.host) and HostKind.IP in (first.kind, second.kind)
    return is_mixed or hosts in ({"0.0.0.0", "::"}, {"127.0.0.1", "::1"})


def check_inter_broker(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    name, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    name_setting, protocol_setting = broker.settings.get(name), broker.settings.get(protocol)
    if name_setting is not None and protocol_setting is not None:
        text = f"{name} and {protocol} are both set"
        yield finding("inter-broker-twice", protocol_setting, broker, text, protocol_setting.remove())
    choices = [endpoint for endpoint in broker.client_endpoints if broker.listener(endpoint.name)]
    names = [endpoint.name for endpoint in choices]
    if not choices or broker.inter_broker in names or "{" in broker.inter_broker:
        return
    best = min(choices, key=lambda endpoint: _inter_broker_rank(broker, endpoint)).name
    if name_setting is not None:
        text = f"{name} is {name_setting.text}, but advertised.listeners has {', '.join(names)}"
        yield finding("inter-broker-unknown", name_setting, broker, text, name_setting.replace(best))
    elif protocol_setting is not None:
        text = f"{protocol} is {protocol_setting.text}, and no listener is called so"
        edits = combine(protocol_setting.rename_key(broker.variable_for(name)), protocol_setting.replace(best))
        yield finding("inter-broker-unknown", protocol_setting, broker, text, edits)
    else:
        edits = broker.set_or_add(name, best, _MAP, "advertised.listeners", "listeners")
        location = broker.first_setting("advertised.listeners", "listeners")
        text = f"{name} is missing, and no listener is called PLAINTEXT"
        yield finding("inter-broker-missing", location, broker, text, edits, broker.line(name, best))


def _inter_broker_rank(broker: BrokerConfig, endpoint: ListenerEndpoint) -> tuple[bool, bool]:
    """Return how bad a listener is for brokers: localhost is worst, and in a container one for other machines."""
    is_outside = broker.container is not None and endpoint.host not in broker.container_names
    return (endpoint.kind is HostKind.LOOPBACK, is_outside)


def check_removed_settings(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    old = [broker.settings[key] for key in _REMOVED_SETTINGS if key in broker.settings]
    if broker.version is not None and broker.version < (3, 0):
        return
    if broker.family in (ImageFamily.WURSTMEISTER, ImageFamily.CONFLUENT):
        return  # wurstmeister's still have them; Confluent's image refuses them, and the rules for images report it
    host = broker.get("advertised.host.name") or broker.get("host.name")
    port = broker.get("advertised.port") or broker.get("port") or "9092"
    key = "advertised.listeners"
    is_missing = key not in broker.settings
    for index, value in enumerate(old):
        edits = value.remove()
        if index == 0 and is_missing and host:
            others = [other for other in broker.for_clients(broker.listeners) if other.name != "PLAINTEXT"]
            entries = ",".join([f"PLAINTEXT://{host}:{port}", *(other.with_host(host) for other in others)])
            edits = combine(value.rename_key(broker.variable_for(key)), value.replace(entries))
        elif index and is_missing and not host:
            edits = None
        text, line = f"Kafka has no setting {value.key} any more", f"{key}=PLAINTEXT://HOST:{port}"
        severity = Severity.ERROR if value.key.startswith("advertised") and is_missing else None
        yield finding("removed-setting", value, broker, text, edits, line, severity=severity)
