"""The small signs that led to a cause, and what they leave unsure, as sentences (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.advice.explain.causes import Cause
from kproxy.advice.explain.facts import LineFacts, leads_to_itself, split_address
from kproxy.advice.explain.hostnames import NameKind, name_kind
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.remedies.ports import OTHER_SERVERS, USUALLY_TLS
from kproxy.advice.remedies.services import demand_of, service_of
from kproxy.base.addressclass import AddressClass, classify
from kproxy.base.faults import Fault, fault_set

_ABOUT_ADDRESSES = fault_set(
    """
    name-not-resolved name-resolves-wrongly dns-silent loopback-advertised wildcard-advertised
    container-name-advertised kubernetes-name-advertised private-address-advertised short-name-advertised host-gateway
    port-closed filtered no-route ipv6-only same-address-twice
    """
)
_ABOUT_NAMES = fault_set(
    """
    name-not-resolved dns-silent container-name-advertised kubernetes-name-advertised short-name-advertised host-gateway
    """
)
_ABOUT_PORTS = fault_set(
    """
    port-closed filtered silent closed not-kafka plaintext-to-tls tls-to-plaintext tls-failed login-needed
    login-not-offered sasl-mechanism credentials-refused network-refused controller-port
    """
)
_NAMES = {
    NameKind.CONTAINER_ID: "{host} may be a container: Docker names one after the first 12 hexadecimal digits of its id.",
    NameKind.HOST_GATEWAY: "{host} is a name for the host of containers. Only Docker Desktop defines it by itself.",
    NameKind.SERVICE: (
        "{host} has no dot: it may be the name of a container or service in Docker Compose or Kubernetes, which only "
        "its own network knows."
    ),
    NameKind.COMPUTER: (
        "{host} has no dot, and looks like the name of a computer or virtual machine: a broker advertises the name of its "
        "machine if nothing else is configured. It may be a typo, too."
    ),
    NameKind.SHORT: (
        "{host} has no dot: it may be the name of the broker's machine, of a container or service, or a typo."
    ),
    NameKind.POD: "{host} looks like a pod or service of Kubernetes: only its own cluster resolves such names.",
    NameKind.CLOUD: (
        "{host} looks like a name inside a company's or cloud's network (such as a VPC of AWS): other resolvers do not "
        "know it, and some of them fail instead of saying so."
    ),
    NameKind.LOCAL: "{host} looks like a name of a local network, which other networks cannot resolve.",
}

_BETWEEN_NODES = (
    "A broker or controller has printed it, about its own connection to another node. Each node must resolve and reach the "
    "addresses that the others advertise for the listener in `inter.broker.listener.name`, from its own container or pod: "
    "set them so. kproxy beside the clients changes nothing there."
)


def signs_of(cause: Cause) -> list[str]:
    """Return one sentence for each sign in the first address of a cause."""
    if Fault.CONFIGURATION in cause.faults[:1]:
        settings = dict.fromkeys(match.facts.setting for match in cause.matches if match.facts.setting)
        return [f"The setting is `{setting}`." for setting in settings]
    match = next((match for match in cause.matches if match.facts.address), None)
    if cause.is_between_nodes and cause.faults:
        return [_BETWEEN_NODES]
    if match is None and _ABOUT_ADDRESSES.intersection(cause.faults):
        node = next((match.facts.node for match in cause.matches if match.facts.node is not None), None)
        return (
            []
            if node is None
            else [f"{node} is a broker's id: the client has its address from the broker that it reached."]
        )
    if match is None or match.broker or not cause.faults:
        return []
    return list(dict.fromkeys(_signs(cause, match)))


def _signs(cause: Cause, match: MessageMatch) -> Iterator[str]:
    host, port = split_address(match.facts.address)
    faults = set(cause.faults)
    if match.facts.scheme:
        yield f"`{match.facts.scheme}://` stands before the address, and the client has looked it up as a part of the name."
    if faults & _ABOUT_ADDRESSES:
        yield from _who_chose(match.facts)
        if match.answered_later:
            yield (
                "A broker has answered the client afterwards, at another address of this name or at another bootstrap "
                "server: one address that refuses does no harm by itself."
            )
        if match.used:
            yield "A connection to it was in use before: the address is right, and the network or the broker has failed since."
        if leads_to_itself(match.facts):
            resolved = split_address(match.facts.resolved)[0]
            yield f"The name leads to {resolved}, the client's own machine; inside a container, it is the container itself."
    if faults & _ABOUT_NAMES and (kind := name_kind(host)) in _NAMES:
        yield _NAMES[kind].format(host=host)
    if faults & _ABOUT_NAMES and match.facts.in_kubernetes:
        yield (
            "The resolver has the address that is usual for the one of a Kubernetes cluster. Then the client runs there, "
            "and no Service or pod has this name: look at its namespace, and whether it is headless or ready."
        )
    if faults & _ABOUT_ADDRESSES:
        is_private = Fault.PRIVATE_ADDRESS_ADVERTISED in faults
        yield from _place(
            split_address(match.facts.resolved)[0] if is_private and match.facts.resolved else host, faults
        )
    if faults & _ABOUT_PORTS:
        yield from _port(host, port, match.facts)


def _who_chose(facts: LineFacts) -> Iterator[str]:
    if facts.bootstrap:
        yield (
            "The text shows that it is a bootstrap server (a setting, a negative node id, `/bootstrap` or `seed`): it is "
            "from the client's configuration, whatever brokers advertise."
        )
    elif facts.is_coordinator:
        yield "It is the address of a coordinator of groups or transactions, which a broker advertises."
    elif facts.node is not None:
        yield (
            f"{facts.node} is a broker's id, so a broker advertises this address. Bootstrap servers have negative ids "
            "(Java) or `/bootstrap` (librdkafka)."
        )
    elif facts.bootstrap is False:
        yield "The text names other bootstrap servers, so a broker advertises this address."
    else:
        yield (
            "The text does not show whether a broker advertises this address, or whether it is one of the client's "
            "bootstrap servers: compare it with those."
        )


def _place(host: str, faults: set[Fault]) -> Iterator[str]:
    bare = host.strip("[]")
    place = classify(bare)
    if bare == "::1" and Fault.PORT_CLOSED in faults:
        yield (
            "[::1] is localhost over IPv6, which many clients try first. If the broker listens on IPv4 only, use "
            "127.0.0.1 in place of localhost, or `broker.address.family=v4`."
        )
    elif place is AddressClass.LOOPBACK:
        yield f"{host} is the client's own machine; inside a container, it is the container itself."
    elif place is AddressClass.WILDCARD:
        yield f"{host} is the wildcard address, for listening and not for connecting."
    elif place is AddressClass.PRIVATE:
        if is_shared(bare):
            yield (
                f"{host} is of 100.64.0.0/10, which carriers, VPNs such as Tailscale, Kubernetes and proxies that "
                "inspect TLS use inside their networks."
            )
        elif bare.startswith("172.17."):
            yield f"{host} is of 172.17.0.0/16, the network that Docker gives to containers unless another one is set."
        else:
            yield f"{host} is a private address: it means something in its own network only."


def is_shared(host: str) -> bool:
    """Check whether a host is of 100.64.0.0/10 (RFC 6598)."""
    first, _, rest = host.partition(".")
    second = rest.partition(".")[0]
    return first == "100" and second.isdigit() and 64 <= int(second) <= 127


def _port(host: str, port: int, facts: LineFacts) -> Iterator[str]:
    demand = demand_of(host, port)
    if demand is not None:
        login = f", and {demand.login}" if demand.login else ""
        yield f"At this address, {demand.service} demands `security.protocol={demand.protocol}`{login}."
        if facts.protocol and facts.protocol.upper() != demand.protocol:
            yield f"The client uses `{facts.protocol.upper()}`."
    elif (service := service_of(host)) is not None and service.only_port and service.only_port != port:
        yield f"{service.name} listens for clients of Kafka at port {service.only_port} only."
    elif port in OTHER_SERVERS:
        yield f"{port} is the default port of {OTHER_SERVERS[port]}, and not of a Kafka broker."
    elif port in USUALLY_TLS and facts.protocol not in ("ssl", "sasl_ssl"):
        yield f"{port} is often the port of {USUALLY_TLS[port]}. That is a habit only."
