"""Rules for the listeners of one broker, wherever it runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, parse_endpoints
from kproxy.advice.lint.findings import LintFinding, Severity
from kproxy.advice.lint.model import PROTOCOLS, BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.table import combine, new_finding
from kproxy.advice.lint.source import Edit
from kproxy.advice.lint.value import ConfigValue

_PLACEHOLDER = "<host that clients reach>"
_REMOVED = ("advertised.host.name", "advertised.port", "host.name", "port")


def line_of(broker: BrokerConfig, key: str, text: str) -> str:
    """The line for a setting where there is no line to copy the layout from."""
    if broker.family is ImageFamily.PROPERTIES:
        return f"{key}={text}"
    return f"{broker.variable_for(key)}: {text}"


def set_or_add(broker: BrokerConfig, key: str, text: str, *beside: str) -> list[Edit] | None:
    """Give a setting another value, or add it after one of the settings `beside`."""
    if key in broker.settings:
        return broker.settings[key].replace(text)
    for other in beside:
        if other in broker.settings:
            edits = broker.settings[other].insert_after([(broker.variable_for(key), text)])
            if edits is not None:
                return edits
    return None


def check(broker: BrokerConfig, setup: Setup) -> Iterator[LintFinding]:
    yield from syntax(broker)
    yield from wildcard(broker, setup)
    yield from names(broker)
    yield from protocols(broker)
    yield from ports(broker)
    if broker.is_broker and (broker.complete or "inter.broker.listener.name" in broker.settings):
        yield from inter_broker(broker)
    yield from removed(broker, setup)


def syntax(broker: BrokerConfig) -> Iterator[LintFinding]:
    for key in ("listeners", "advertised.listeners"):
        value = broker.settings.get(key)
        for index, entry in parse_endpoints(value)[1] if value is not None else ():
            name = entry.partition(":")[0] or "PLAINTEXT"
            edits = None
            if value is not None and entry.count(":") == 2 and ":/" in entry and "://" not in entry:
                edits = value.replace_entry(index, f"{name}://{entry.partition('/')[2].strip('/')}")
            suggestion = line_of(broker, key, f"{name}://HOST:PORT")
            assert value is not None
            yield new_finding("listener-syntax", value, broker.name, f"'{entry}' is no listener", edits, suggestion)


def wildcard(broker: BrokerConfig, setup: Setup) -> Iterator[LintFinding]:
    given = broker.settings.get("advertised.listeners")
    for one in broker.advertised:
        if one.kind is HostKind.WILDCARD and given is not None:
            edits, suggestion = _routable(broker, setup, one, given)
            text = f"{one.name} advertises {one.host}"
            yield new_finding("advertised-wildcard", given, broker.name, text, edits, suggestion)
    listeners = broker.settings.get("listeners")
    if given is None and listeners is not None and "advertised.listeners" not in broker.defaults:
        yield from _unadvertised(broker, setup, listeners)


def _routable(
    broker: BrokerConfig, setup: Setup, one: ListenerEndpoint, given: ConfigValue
) -> tuple[list[Edit] | None, str]:
    """The advertised listeners with a host in the place of the wildcard; the finding's suggestion if none is known."""
    listener = broker.listener(one.name)
    host = setup.advertise
    if not host and listener is not None and listener.kind in (HostKind.IP, HostKind.NAME, HostKind.LOOPBACK):
        host = listener.host
    if not host and broker.service is not None:
        outside = listener is not None and any(
            p.container_port == listener.port for p in broker.service.published_ports
        )
        host = "localhost" if outside else broker.service.name
    if host:
        return given.replace_entry(one.index, one.with_host(host)), ""
    entries = [*given.entries]
    entries[one.index] = one.with_host(_PLACEHOLDER)
    return None, given.line_beside(given.key, ",".join(entries)) or line_of(broker, "advertised.listeners", entries[0])


def _unadvertised(broker: BrokerConfig, setup: Setup, listeners: ConfigValue) -> Iterator[LintFinding]:
    """Without advertised.listeners, the broker advertises where it listens."""
    wild = [one for one in broker.advertised if one.kind is HostKind.WILDCARD]
    if wild and broker.is_broker:
        host = setup.advertise or (broker.service.name if broker.service else "")
        text = ",".join(one.with_host(host or _PLACEHOLDER) for one in broker.advertised)
        pair = (broker.variable_for("advertised.listeners"), text)
        edits = listeners.insert_after([pair]) if host else None
        said = f"{wild[0].name} listens on {wild[0].host} and is not advertised otherwise"
        yield new_finding(
            "advertised-wildcard", listeners, broker.name, said, edits, listeners.line_beside(*pair) or ""
        )
    elif broker.is_broker and any(one.kind is HostKind.EMPTY for one in broker.advertised):
        text = ",".join(one.with_host(setup.advertise or _PLACEHOLDER) for one in broker.advertised)
        beside = listeners.line_beside(broker.variable_for("advertised.listeners"), text)
        said = "advertised.listeners is missing, and listeners has no host"
        yield new_finding("canonical-host-name", listeners, broker.name, said, None, beside or "")


def names(broker: BrokerConfig) -> Iterator[LintFinding]:
    given = broker.settings.get("advertised.listeners")
    known = [one.name for one in broker.listeners]
    if given is None or not known or ("listeners" not in broker.settings and not broker.complete):
        return
    for one in broker.advertised:
        if one.name in known:
            continue
        if one.name in broker.controller_names:
            continue  # said by the rules for controllers
        free = [
            name for name in known if broker.advertised_endpoint(name) is None and name not in broker.controller_names
        ]
        twin = [two for two in broker.listeners if two.port == one.port and two.name in free]
        edits = None
        listeners = broker.settings.get("listeners")
        meant = twin[0].name if len(twin) == 1 else free[0] if len(free) == 1 else ""
        if meant:
            edits = given.change_entry(one.index, _written(one), meant)
        elif listeners is not None and one.port is not None and all(two.port != one.port for two in broker.listeners):
            edits = listeners.add_entry(f"{one.name}://:{one.port}")
        else:
            edits = given.remove_entry(one.index)
        text = f"{one.name} is advertised, but listeners has only {', '.join(known)}"
        yield new_finding(
            "advertised-unknown-listener", given, broker.name, text, edits, line_of(broker, given.key, "")
        )


def _written(one: ListenerEndpoint) -> str:
    return one.text.partition("://")[0]


def protocols(broker: BrokerConfig) -> Iterator[LintFinding]:
    given = broker.settings.get("listener.security.protocol.map")
    known = broker.protocol_map
    for index, entry in enumerate(given.entries[:100] if given is not None else ()):
        name, sign, protocol = (part.strip() for part in entry.partition(":"))
        if "{" in entry or (sign and protocol.upper() in PROTOCOLS):
            continue
        assert given is not None
        likely = _likely_protocol(protocol or name)
        text = f"'{entry}' has no protocol that Kafka knows"
        yield new_finding("protocol-unknown", given, broker.name, text, given.replace_entry(index, f"{name}:{likely}"))
    if (given is not None and not given.is_known) or ("listeners" not in broker.settings and not broker.complete):
        return
    used = [one.name for one in broker.listeners] + (broker.controller_names if broker.roles else [])
    missing = [name for name in dict.fromkeys(used) if name not in known]
    if not missing:
        return
    needed = [f"{name}:{_likely_protocol(name)}" for name in missing]
    if given is not None:
        edits = given.add_entry(",".join(needed))
        at: ConfigValue | None = given
    else:
        every = list(dict.fromkeys(used))
        text = ",".join(f"{name}:{known.get(name) or _likely_protocol(name)}" for name in every)
        key = "listener.security.protocol.map"
        beside = ("listeners", "advertised.listeners", "controller.listener.names")
        edits = set_or_add(broker, key, text, *beside)
        at = next((broker.settings[key] for key in beside if key in broker.settings), None)
    text = f"listener.security.protocol.map has no protocol for {', '.join(missing)}"
    suggestion = line_of(broker, "listener.security.protocol.map", ",".join(needed))
    yield new_finding("protocol-map-missing", at or broker.location, broker.name, text, edits, suggestion)


def _likely_protocol(text: str) -> str:
    """The protocol that a name speaks of. A name that speaks of none has PLAINTEXT, as Kafka's own default."""
    word = text.upper()
    sasl, tls = "SASL" in word, "SSL" in word or "TLS" in word
    return ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")


def ports(broker: BrokerConfig) -> Iterator[LintFinding]:
    given = broker.settings.get("listeners")
    if given is None:
        given = broker.settings.get("advertised.listeners") if broker.listeners_derived else None
    if given is None:
        return
    taken = {one.port for one in broker.listeners}
    for one, two in combinations(broker.listeners, 2):
        if _pair(one, two):
            continue
        if one.name == two.name:
            text = f"listeners has {one.name} twice"
            yield new_finding("duplicate-listener-name", given, broker.name, text, given.remove_entry(two.index))
        elif one.port is not None and one.port == two.port and one.port:
            told = broker.advertised_endpoint(two.name)
            port = told.port if told is not None and told.port not in taken else None
            port = port or next(number for number in range(one.port + 1, 65536) if number not in taken)
            edits = given.change_entry(two.index, f":{two.port}", f":{port}")
            if told is not None and told.port == two.port and told.value is not None and told.value is not given:
                edits = combine(edits, told.value.change_entry(told.index, f":{two.port}", f":{port}"))
            text = f"{one.name} and {two.name} both have port {one.port}"
            yield new_finding("duplicate-port", given, broker.name, text, edits)


def _pair(one: ListenerEndpoint, two: ListenerEndpoint) -> bool:
    """Whether these are the IPv4 and the IPv6 address of one port."""
    return ({":" in one.host, ":" in two.host} == {True, False} and HostKind.IP in (one.kind, two.kind)) or (
        {one.host.strip("[]"), two.host.strip("[]")} in ({"0.0.0.0", "::"}, {"127.0.0.1", "::1"})
    )


def inter_broker(broker: BrokerConfig) -> Iterator[LintFinding]:
    name, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    given, other = broker.settings.get(name), broker.settings.get(protocol)
    if given is not None and other is not None:
        text = f"{name} and {protocol} are both set"
        yield new_finding("inter-broker-twice", other, broker.name, text, other.remove())
    choices = [one.name for one in broker.client_endpoints if broker.listener(one.name)]
    if not choices or broker.inter_broker in choices or "{" in broker.inter_broker:
        return
    best = _best_between(broker, choices)
    if given is not None:
        text = f"{name} is {given.text}, but advertised.listeners has {', '.join(choices)}"
        yield new_finding("inter-broker-unknown", given, broker.name, text, given.replace(best))
    elif other is not None:
        text = f"{protocol} is {other.text}, and no listener is called so"
        edits = combine(other.rename_key(broker.variable_for(name)), other.replace(best))
        yield new_finding("inter-broker-unknown", other, broker.name, text, edits)
    else:
        edits = set_or_add(broker, name, best, "listener.security.protocol.map", "advertised.listeners", "listeners")
        keys = ("advertised.listeners", "listeners")
        at = next((broker.settings[key] for key in keys if key in broker.settings), broker.location)
        text = f"{name} is missing, and no listener is called PLAINTEXT"
        yield new_finding("inter-broker-missing", at, broker.name, text, edits, line_of(broker, name, best))


def _best_between(broker: BrokerConfig, choices: list[str]) -> str:
    """Brokers reach one another best at the address that is no localhost, and in a container is not published."""
    inner = broker.service.names if broker.service else ()

    def rank(name: str) -> tuple[bool, bool]:
        one = broker.advertised_endpoint(name)
        assert one is not None
        return (one.kind is HostKind.LOOPBACK, bool(inner) and one.host not in inner)

    return min(choices, key=rank)


def removed(broker: BrokerConfig, setup: Setup) -> Iterator[LintFinding]:
    old = [broker.settings[key] for key in _REMOVED if key in broker.settings]
    if not old or (broker.version is not None and broker.version < (3, 0)) or broker.family is ImageFamily.WURSTMEISTER:
        return
    if broker.family is ImageFamily.CONFLUENT:
        return  # the image refuses it: said by the rules for images
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
        yield new_finding(
            "removed-setting", value, broker.name, text, edits, f"{key}=PLAINTEXT://HOST:{port}", severity=severity
        )
