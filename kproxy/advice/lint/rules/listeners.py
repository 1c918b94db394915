"""Rules for the listeners of one broker, in a container or not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, parse_endpoints
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import PROTOCOLS, BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.table import combine, finding
from kproxy.advice.lint.source import Edit
from kproxy.advice.lint.value import ConfigValue
from kproxy.base.diagnostic import Severity

_PLACEHOLDER = "<host that clients reach>"
_REMOVED_SETTINGS = ("advertised.host.name", "advertised.port", "host.name", "port")


def check(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    yield from check_syntax(broker)
    yield from check_wildcard(broker, setup)
    yield from check_names(broker)
    yield from check_protocols(broker)
    yield from check_ports(broker)
    if broker.is_broker and (broker.complete or "inter.broker.listener.name" in broker.settings):
        yield from check_inter_broker(broker)
    yield from check_removed_settings(broker, setup)


def check_syntax(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    for key in ("listeners", "advertised.listeners"):
        value = broker.settings.get(key)
        for index, entry in parse_endpoints(value)[1] if value is not None else ():
            name = entry.partition(":")[0] or "PLAINTEXT"
            edits = None
            if value is not None and entry.count(":") == 2 and ":/" in entry and "://" not in entry:
                edits = value.replace_entry(index, f"{name}://{entry.partition('/')[2].strip('/')}")
            suggestion = broker.line(key, f"{name}://HOST:PORT")
            assert value is not None
            yield finding("listener-syntax", value, broker, f"'{entry}' is no listener", edits, suggestion)


def check_wildcard(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    setting = broker.settings.get("advertised.listeners")
    for endpoint in broker.advertised:
        if endpoint.kind is HostKind.WILDCARD and setting is not None:
            edits, suggestion = _replace_wildcard(broker, setup, endpoint, setting)
            text = f"{endpoint.name} advertises {endpoint.host}"
            yield finding("advertised-wildcard", setting, broker, text, edits, suggestion)
    listeners = broker.settings.get("listeners")
    if setting is None and listeners is not None and "advertised.listeners" not in broker.defaults:
        yield from _check_unadvertised(broker, setup, listeners)


def _replace_wildcard(
    broker: BrokerConfig, setup: Setup, endpoint: ListenerEndpoint, setting: ConfigValue
) -> tuple[list[Edit] | None, str]:
    """Return edits that replace a wildcard by a host; without a known host, None and the suggested line."""
    listener = broker.listener(endpoint.name)
    host = setup.advertise
    if not host and listener is not None and listener.kind in (HostKind.IP, HostKind.NAME, HostKind.LOOPBACK):
        host = listener.host
    if not host and broker.service is not None:
        outside = listener is not None and any(
            port.container_port == listener.port for port in broker.service.published_ports
        )
        host = "localhost" if outside else broker.service.name
    if host:
        return setting.replace_entry(endpoint.index, endpoint.with_host(host)), ""
    entries = [*setting.entries]
    entries[endpoint.index] = endpoint.with_host(_PLACEHOLDER)
    return None, setting.line_beside(setting.key, ",".join(entries)) or setting_line(
        broker, "advertised.listeners", entries[0]
    )


def _check_unadvertised(broker: BrokerConfig, setup: Setup, listeners: ConfigValue) -> Iterator[LintDiagnostic]:
    """Check `listeners` where advertised.listeners is missing: the broker then advertises these."""
    wild = [endpoint for endpoint in broker.advertised if endpoint.kind is HostKind.WILDCARD]
    if wild and broker.is_broker:
        host = setup.advertise or (broker.service.name if broker.service else "")
        text = ",".join(endpoint.with_host(host or _PLACEHOLDER) for endpoint in broker.advertised)
        pair = (broker.variable_for("advertised.listeners"), text)
        edits = listeners.insert_after([pair]) if host else None
        message = f"{wild[0].name} listens on {wild[0].host} and is not advertised otherwise"
        yield finding("advertised-wildcard", listeners, broker, message, edits, listeners.line_beside(*pair) or "")
    elif broker.is_broker and any(endpoint.kind is HostKind.EMPTY for endpoint in broker.advertised):
        text = ",".join(endpoint.with_host(setup.advertise or _PLACEHOLDER) for endpoint in broker.advertised)
        beside = listeners.line_beside(broker.variable_for("advertised.listeners"), text)
        message = "advertised.listeners is missing, and listeners has no host"
        yield finding("canonical-host-name", listeners, broker, message, None, beside or "")


def check_names(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    setting = broker.settings.get("advertised.listeners")
    known_names = [endpoint.name for endpoint in broker.listeners]
    if setting is None or not known_names or ("listeners" not in broker.settings and not broker.complete):
        return
    for endpoint in broker.advertised:
        if endpoint.name in known_names:
            continue
        if endpoint.name in broker.controller_names:
            continue  # the rules for controllers report it
        free_names = [
            name
            for name in known_names
            if broker.advertised_endpoint(name) is None and name not in broker.controller_names
        ]
        candidates = [other for other in broker.listeners if other.port == endpoint.port and other.name in free_names]
        edits = None
        listeners = broker.settings.get("listeners")
        meant = candidates[0].name if len(candidates) == 1 else free_names[0] if len(free_names) == 1 else ""
        if meant:
            edits = setting.change_entry(endpoint.index, _written_name(endpoint), meant)
        elif (
            listeners is not None
            and endpoint.port is not None
            and all(other.port != endpoint.port for other in broker.listeners)
        ):
            edits = listeners.add_entry(f"{endpoint.name}://:{endpoint.port}")
        else:
            edits = setting.remove_entry(endpoint.index)
        text = f"{endpoint.name} is advertised, but listeners has only {', '.join(known_names)}"
        yield finding("advertised-unknown-listener", setting, broker, text, edits, broker.line(setting.key, ""))


def _written_name(endpoint: ListenerEndpoint) -> str:
    return endpoint.text.partition("://")[0]


def check_protocols(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    setting = broker.settings.get("listener.security.protocol.map")
    protocol_map = broker.protocol_map
    for index, entry in enumerate(setting.entries[:100] if setting is not None else ()):
        name, sign, protocol = (part.strip() for part in entry.partition(":"))
        if "{" in entry or (sign and protocol.upper() in PROTOCOLS):
            continue
        assert setting is not None
        likely = _likely_protocol(protocol or name)
        text = f"'{entry}' has no protocol that Kafka knows"
        yield finding("protocol-unknown", setting, broker, text, setting.replace_entry(index, f"{name}:{likely}"))
    if (setting is not None and not setting.is_known) or ("listeners" not in broker.settings and not broker.complete):
        return
    used = [endpoint.name for endpoint in broker.listeners] + (broker.controller_names if broker.roles else [])
    missing = [name for name in dict.fromkeys(used) if name not in protocol_map]
    if not missing:
        return
    needed = [f"{name}:{_likely_protocol(name)}" for name in missing]
    if setting is not None:
        edits = setting.add_entry(",".join(needed))
        location: ConfigValue | None = setting
    else:
        names = list(dict.fromkeys(used))
        text = ",".join(f"{name}:{protocol_map.get(name) or _likely_protocol(name)}" for name in names)
        key = "listener.security.protocol.map"
        beside = ("listeners", "advertised.listeners", "controller.listener.names")
        edits = broker.set_or_add(key, text, *beside)
        location = next((broker.settings[key] for key in beside if key in broker.settings), None)
    text = f"listener.security.protocol.map has no protocol for {', '.join(missing)}"
    suggestion = broker.line("listener.security.protocol.map", ",".join(needed))
    yield finding("protocol-map-missing", location or broker.location, broker, text, edits, suggestion)


def _likely_protocol(text: str) -> str:
    """Guess the protocol from a listener's name; PLAINTEXT if the name names none."""
    word = text.upper()
    sasl, tls = "SASL" in word, "SSL" in word or "TLS" in word
    return ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")


def check_ports(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    setting = broker.settings.get("listeners")
    if setting is None:
        setting = broker.settings.get("advertised.listeners") if broker.listeners_derived else None
    if setting is None:
        return
    taken = {endpoint.port for endpoint in broker.listeners}
    for first, second in combinations(broker.listeners, 2):
        if _is_dual_stack_pair(first, second):
            continue
        if first.name == second.name:
            text = f"listeners has {first.name} twice"
            yield finding("duplicate-listener-name", setting, broker, text, setting.remove_entry(second.index))
        elif first.port is not None and first.port == second.port and first.port:
            advertised = broker.advertised_endpoint(second.name)
            port = advertised.port if advertised is not None and advertised.port not in taken else None
            port = port or next(number for number in range(first.port + 1, 65536) if number not in taken)
            edits = setting.change_entry(second.index, f":{second.port}", f":{port}")
            if (
                advertised is not None
                and advertised.port == second.port
                and advertised.value is not None
                and advertised.value is not setting
            ):
                edits = combine(edits, advertised.value.change_entry(advertised.index, f":{second.port}", f":{port}"))
            text = f"{first.name} and {second.name} both have port {first.port}"
            yield finding("duplicate-port", setting, broker, text, edits)


def _is_dual_stack_pair(first: ListenerEndpoint, second: ListenerEndpoint) -> bool:
    """Check whether these are the IPv4 and the IPv6 address of one port."""
    return ({":" in first.host, ":" in second.host} == {True, False} and HostKind.IP in (first.kind, second.kind)) or (
        {first.host.strip("[]"), second.host.strip("[]")} in ({"0.0.0.0", "::"}, {"127.0.0.1", "::1"})
    )


def check_inter_broker(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    name, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    name_setting, protocol_setting = broker.settings.get(name), broker.settings.get(protocol)
    if name_setting is not None and protocol_setting is not None:
        text = f"{name} and {protocol} are both set"
        yield finding("inter-broker-twice", protocol_setting, broker, text, protocol_setting.remove())
    choices = [endpoint.name for endpoint in broker.client_endpoints if broker.listener(endpoint.name)]
    if not choices or broker.inter_broker in choices or "{" in broker.inter_broker:
        return
    best = _best_inter_broker_listener(broker, choices)
    if name_setting is not None:
        text = f"{name} is {name_setting.text}, but advertised.listeners has {', '.join(choices)}"
        yield finding("inter-broker-unknown", name_setting, broker, text, name_setting.replace(best))
    elif protocol_setting is not None:
        text = f"{protocol} is {protocol_setting.text}, and no listener is called so"
        edits = combine(protocol_setting.rename_key(broker.variable_for(name)), protocol_setting.replace(best))
        yield finding("inter-broker-unknown", protocol_setting, broker, text, edits)
    else:
        edits = broker.set_or_add(name, best, "listener.security.protocol.map", "advertised.listeners", "listeners")
        keys = ("advertised.listeners", "listeners")
        location = next((broker.settings[key] for key in keys if key in broker.settings), broker.location)
        text = f"{name} is missing, and no listener is called PLAINTEXT"
        yield finding("inter-broker-missing", location, broker, text, edits, broker.line(name, best))


def _best_inter_broker_listener(broker: BrokerConfig, choices: list[str]) -> str:
    """Return the listener that is best for brokers: no localhost, and in a container not a published one."""
    inner_names = broker.service.names if broker.service else ()

    def rank(name: str) -> tuple[bool, bool]:
        endpoint = broker.advertised_endpoint(name)
        assert endpoint is not None
        return (endpoint.kind is HostKind.LOOPBACK, bool(inner_names) and endpoint.host not in inner_names)

    return min(choices, key=rank)


def check_removed_settings(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    old = [broker.settings[key] for key in _REMOVED_SETTINGS if key in broker.settings]
    if not old or (broker.version is not None and broker.version < (3, 0)) or broker.family is ImageFamily.WURSTMEISTER:
        return
    if broker.family is ImageFamily.CONFLUENT:
        return  # the image refuses it; the rules for images report it
    host = broker.get("advertised.host.name") or broker.get("host.name")
    port = broker.get("advertised.port") or broker.get("port") or "9092"
    key = "advertised.listeners"
    for index, value in enumerate(old):
        edits = value.remove()
        if index == 0 and key not in broker.settings and host:
            edits = combine(value.rename_key(broker.variable_for(key)), value.replace(f"PLAINTEXT://{host}:{port}"))
        elif index and key not in broker.settings and not host:
            edits = None
        text = f"Kafka has no setting {value.key} any more"
        severity = Severity.ERROR if value.key.startswith("advertised") and key not in broker.settings else None
        yield finding(
            "removed-setting", value, broker, text, edits, f"{key}=PLAINTEXT://HOST:{port}", severity=severity
        )
