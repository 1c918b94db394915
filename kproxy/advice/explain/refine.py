"""Faults that the address in a message shows, together with the message: a name or a port that cannot work (pure).

A message says how an attempt ended. The kind of the name, the port, and who has chosen the address say why.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kproxy.advice.explain.facts import ClientFacts, host_of, is_ip, split_address
from kproxy.advice.explain.hostnames import NameKind, name_kind
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.explain.progress import has_answer, has_later_answer
from kproxy.advice.remedies.ports import OTHER_SERVERS, USUALLY_TLS
from kproxy.advice.remedies.remedy import Program
from kproxy.advice.remedies.services import demand_of
from kproxy.base.addressclass import AddressClass, classify
from kproxy.base.faults import Fault, fault_set

_NAMES = frozenset({Fault.NAME_NOT_RESOLVED, Fault.DNS_SILENT})
_NOT_REACHED = frozenset({Fault.PORT_CLOSED, Fault.FILTERED, Fault.NO_ROUTE})
# The client's own machine has a route to itself, and answers.
_NOT_ON_LOOPBACK = frozenset({Fault.NO_ROUTE, Fault.FILTERED})
# The client's own machine has no address of the family, or no free port.
_LOCAL_END = (Fault.IPV6_ONLY, Fault.TOO_MANY_FILES)
# What a message may mean if a connection has ended too early.
_ENDED = frozenset({Fault.CLOSED, Fault.PLAINTEXT_TO_TLS, Fault.LOGIN_NEEDED, Fault.NOT_KAFKA})
# What no client meets after a broker's answer: each broker's listener of that name speaks the same protocol.
_BEFORE_AN_ANSWER = fault_set(
    "plaintext-to-tls tls-to-plaintext login-needed login-not-offered credentials-refused not-kafka"
)
# The port of routes and ingresses, at which the listener's protocol is the first thing to check.
_ROUTE = 443
# librdkafka's summary, which any of its threads prints.
_OF_ALL_BROKERS = "…/… brokers are down"
_BY_KIND = {
    NameKind.CONTAINER_ID: Fault.CONTAINER_NAME_ADVERTISED,
    NameKind.SERVICE: Fault.CONTAINER_NAME_ADVERTISED,
    NameKind.COMPUTER: Fault.SHORT_NAME_ADVERTISED,
    NameKind.SHORT: Fault.SHORT_NAME_ADVERTISED,
    NameKind.POD: Fault.KUBERNETES_NAME_ADVERTISED,
}


def refine(match: MessageMatch, client: ClientFacts) -> MessageMatch:
    """Return the match with more precise faults if its address shows them.

    The user chooses the bootstrap servers, so most faults of an address can only be those of an advertised one.
    """
    if not match.faults or match.program is Program.KPROXY:
        return match
    if len(match.faults) > 1 and is_ip(host_of(match.facts.address)):
        match = replace(match, faults=tuple(fault for fault in match.faults if fault not in _NAMES))
    if match.broker:
        return _between_nodes(match)
    if match.facts.bootstrap is not True and has_answer(client.answers, match.facts.client, match.first):
        later = tuple(fault for fault in match.faults if fault not in _BEFORE_AN_ANSWER)
        match = replace(match, answered=True, faults=later or match.faults)
    if match.facts.bootstrap and _NOT_REACHED.issuperset(match.faults):
        match = replace(match, answered_later=has_later_answer(client.answers, match.facts.client, match.first))
    if match.text == _OF_ALL_BROKERS:
        match = replace(match, facts=replace(match.facts, address="", bootstrap=None, node=None))
    match = _of_protocol(match, match.facts.protocol or client.protocol)
    if match.facts.scheme and _NAMES.intersection(match.faults):
        return replace(match, faults=(Fault.ADDRESS_FORM,))
    if not match.facts.address and _ENDED.intersection(match.faults) and _are_alike(client.servers):
        match = _at_server(match, min(client.servers))  # such as Sarama, which names the address in a line before
    if not match.facts.address and match.faults == (Fault.TLS_TO_PLAINTEXT,) and _are_alike(client.servers):
        match = replace(match, facts=replace(match.facts, address=min(client.servers), bootstrap=True))
    of_no_node = not match.facts.address and match.facts.node is None
    if of_no_node and len(match.faults) > 1 and not match.answered and _are_loopback(client.servers):
        match = replace(match, facts=replace(match.facts, address=min(client.servers), bootstrap=True))
    if match.facts.bootstrap is None and match.facts.address and _is_named(match.facts.address, client):
        match = replace(match, facts=replace(match.facts, bootstrap=True))
    match = replace(match, used=match.facts.address in client.used)
    return _of_client(match, client.servers) if match.facts.address else match


def _of_protocol(match: MessageMatch, protocol: str) -> MessageMatch:
    """Return the match of a client with this `security.protocol`, without the faults that it cannot meet."""
    if not protocol:
        return match
    match = replace(match, facts=replace(match.facts, protocol=protocol))
    if len(match.faults) == 1:
        return match
    with_tls, with_login = protocol in ("ssl", "sasl_ssl"), protocol.startswith("sasl")
    excluded = {
        Fault.PLAINTEXT_TO_TLS if with_tls else Fault.TLS_TO_PLAINTEXT,
        Fault.LOGIN_NEEDED if with_login else Fault.LOGIN_NOT_OFFERED,
    }
    possible = tuple(fault for fault in match.faults if fault not in excluded)
    return replace(match, faults=possible or match.faults)


def _is_named(address: str, client: ClientFacts) -> bool:
    """Check whether another line of the text names the address, or its host alone, as a bootstrap server."""
    host = host_of(address)
    if address in client.servers or host in client.marked or _is_same_loopback(address, client.servers):
        return True
    return host == address and host in {host_of(server) for server in client.servers}


def _is_same_loopback(address: str, servers: Collection[str]) -> bool:
    """Check whether the address is one of a bootstrap server that is on the client's own machine: [::1] of localhost."""
    port = split_address(address)[1]
    return _is_loopback(address) and any(
        _is_loopback(server) and split_address(server)[1] == port for server in servers
    )


def _may_be_reached_by_name(address: str, servers: Collection[str]) -> bool:
    """Check whether the address may be where the name of a bootstrap server leads: Go and Node.js show that alone."""
    if not is_ip(host_of(address)) or _is_loopback(address):
        return False
    port = split_address(address)[1]
    names = (server for server in servers if not is_ip(host_of(server)) and not _is_loopback(server))
    return any(split_address(name)[1] == port for name in names)


def _is_loopback(address: str) -> bool:
    return classify(host_of(address).strip("[]")) is AddressClass.LOOPBACK


def _are_loopback(servers: Collection[str]) -> bool:
    """Check whether there are bootstrap servers, all of them on the client's own machine."""
    return bool(servers) and all(map(_is_loopback, servers))


def _of_client(match: MessageMatch, servers: Collection[str]) -> MessageMatch:
    """Return a client's message with the faults that its address shows."""
    if len(match.faults) > 1 and _is_loopback(match.facts.address):
        match = replace(match, faults=tuple(f for f in match.faults if f not in _NOT_ON_LOOPBACK) or match.faults)
    is_unknown = match.facts.bootstrap is None and not _is_chosen(match, servers)
    if is_unknown and servers and not _may_be_reached_by_name(match.facts.address, servers):
        match = replace(match, facts=replace(match.facts, bootstrap=False))
    if match.used and (_NAMES | _NOT_REACHED).issuperset(match.faults):
        return match  # a right address, which works no longer
    if match.faults == _LOCAL_END and is_ip(host_of(match.facts.address)):
        faults: tuple[Fault, ...] = (_LOCAL_END[not match.facts.address.startswith("[")],)
    elif _NAMES.issuperset(match.faults):
        faults = _faults_of_name(match, servers)
    elif Fault.NAME_NOT_RESOLVED in match.faults and _is_container_id(match.facts.address):
        faults = (Fault.CONTAINER_NAME_ADVERTISED,)  # such a name is never chosen
    elif _NOT_REACHED.issuperset(match.faults):
        faults = _faults_of_address(match, servers)
    elif match.faults == (Fault.TLS_TO_PLAINTEXT,) and _speaks_tls(match.facts.address):
        faults = (Fault.TLS_INSPECTION, Fault.TLS_FAILED)  # something else cuts the handshake
    elif match.faults == (Fault.SILENT,) and "plaintext" in match.facts.protocol and _speaks_tls(match.facts.address):
        faults = (Fault.PLAINTEXT_TO_TLS,)  # the server waits for the rest of a handshake
    elif _ENDED.intersection(match.faults) and (len(match.faults) > 1 or Fault.CLOSED in match.faults):
        faults = _faults_of_port(match)
    else:
        return match
    return replace(match, faults=faults)


def _between_nodes(match: MessageMatch) -> MessageMatch:
    """Return a message of a broker with the fault that the address of another node shows."""
    if _is_loopback(match.facts.address) and match.facts.node is not None and Fault.PORT_CLOSED in match.faults:
        return replace(match, faults=(Fault.LOOPBACK_ADVERTISED,))
    return match


def _are_alike(servers: Collection[str]) -> bool:
    """Check whether what holds for one bootstrap server holds for all: there is only one, or one cloud's at one port."""
    demands = {demand_of(*split_address(server)) for server in servers}
    return len(servers) == 1 or (len(demands) == 1 and None not in demands)


def _at_server(match: MessageMatch, server: str) -> MessageMatch:
    """Return the match with a bootstrap server as its address, if its own line marks it as one."""
    if match.facts.bootstrap:
        return replace(match, facts=replace(match.facts, address=server))
    at_server = replace(match, facts=replace(match.facts, address=server))
    faults = _faults_of_port(at_server) if len(match.faults) > 1 else match.faults
    is_told = len(faults) == 1 and len(match.faults) > 1
    is_route = split_address(server)[1] == _ROUTE and demand_of(*split_address(server)) is None
    return replace(at_server if is_told or is_route else match, faults=faults)


def _is_container_id(address: str) -> bool:
    return name_kind(host_of(address)) is NameKind.CONTAINER_ID


def _is_chosen(match: MessageMatch, servers: Collection[str]) -> bool:
    """Check whether the text shows that the address is a bootstrap server."""
    return match.facts.address in servers or match.facts.bootstrap is True


def _faults_of_name(match: MessageMatch, servers: Collection[str]) -> tuple[Fault, ...]:
    if is_ip(host_of(match.facts.address)):
        return ()  # an address needs no resolver: the reason is in another line
    kind = name_kind(host_of(match.facts.address))
    if kind is NameKind.HOST_GATEWAY:
        return (Fault.HOST_GATEWAY,)
    if kind in (NameKind.CLOUD, NameKind.LOCAL) or (kind is NameKind.POD and match.facts.in_kubernetes):
        return (Fault.NAME_NOT_RESOLVED,)  # a resolver that serves other names only
    if _is_chosen(match, servers) or kind not in _BY_KIND:
        return match.faults if kind not in _BY_KIND else (Fault.NAME_NOT_RESOLVED,)
    return (_BY_KIND[kind],)


def _faults_of_address(match: MessageMatch, servers: Collection[str]) -> tuple[Fault, ...]:
    host = host_of(match.facts.address)
    if match.facts.resolved and name_kind(host) is NameKind.CLOUD:
        host = host_of(match.facts.resolved)  # such a name leads nowhere else
    place = classify(host.strip("[]"))
    if place is AddressClass.WILDCARD:
        return (Fault.ADDRESS_FORM,) if _is_chosen(match, servers) else (Fault.WILDCARD_ADVERTISED,)
    if _is_chosen(match, servers) or match.facts.bootstrap is None:
        return match.faults
    if place is AddressClass.LOOPBACK:
        return (Fault.LOOPBACK_ADVERTISED,) if Fault.PORT_CLOSED in match.faults else match.faults
    # A definite refusal shows that the network is reached.
    if place is AddressClass.PRIVATE and match.faults != (Fault.PORT_CLOSED,):
        return (Fault.PRIVATE_ADDRESS_ADVERTISED,)
    return match.faults


def _speaks_tls(address: str) -> bool:
    """Check whether a cloud service is known to speak TLS at an address."""
    demand = demand_of(*split_address(address))
    return demand is not None and demand.uses_tls


def _faults_of_port(match: MessageMatch) -> tuple[Fault, ...]:
    """Return what an early end means at this port, the most likely fault first."""
    host, port = split_address(match.facts.address)
    faults = match.faults
    if port in OTHER_SERVERS:
        return (Fault.NOT_KAFKA,)
    protocol = match.facts.protocol
    demand = demand_of(host, port)
    if faults == (Fault.CLOSED,) and "ApiVersion" in match.text and demand is not None and demand.uses_tls:
        faults = (Fault.PLAINTEXT_TO_TLS, Fault.CLOSED)  # the first request ends it
    if demand is not None and demand.uses_tls and protocol not in ("ssl", "sasl_ssl"):
        if Fault.PLAINTEXT_TO_TLS in faults and (protocol or Fault.PORT_CLOSED not in faults):
            return (Fault.PLAINTEXT_TO_TLS,)
        if Fault.PLAINTEXT_TO_TLS in faults:  # the cloud listens at this port
            return (Fault.PLAINTEXT_TO_TLS, Fault.FILTERED)
        faults = tuple(fault for fault in faults if fault is not Fault.TLS_TO_PLAINTEXT)
    elif demand is not None and demand.protocol == "PLAINTEXT":
        faults = tuple(fault for fault in faults if fault not in (Fault.PLAINTEXT_TO_TLS, Fault.LOGIN_NEEDED))
    elif demand is not None and demand.needs_login and protocol == "ssl":
        return (Fault.LOGIN_NEEDED,)
    elif demand is not None and demand.uses_tls and Fault.TLS_TO_PLAINTEXT in faults:
        return (Fault.TLS_INSPECTION, Fault.CLOSED)  # something else cuts the handshake
    elif port in USUALLY_TLS and Fault.PLAINTEXT_TO_TLS in faults:
        return (Fault.PLAINTEXT_TO_TLS, *(fault for fault in faults if fault is not Fault.PLAINTEXT_TO_TLS))
    return faults or match.faults
