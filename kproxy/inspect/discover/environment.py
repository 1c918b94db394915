"""Clusters that the environment of this process names, and places that only a question to a server would search. Pure.

The variables are those that Kafka's images, Spring and many applications read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kproxy.base.address import Address
from kproxy.base.printable import one_line
from kproxy.inspect.discover.results import ClusterCandidate, PlaceResult

# Variables with bootstrap servers, the most usual ones first; and those with the protocol.
_SERVERS = (
    "KAFKA_BOOTSTRAP_SERVERS",
    "BOOTSTRAP_SERVERS",
    "KAFKA_BROKERS",
    "KAFKA_BROKER_LIST",
    "KAFKA_HOSTS",
    "KAFKA_URL",
    "SPRING_KAFKA_BOOTSTRAP_SERVERS",
    "CONNECT_BOOTSTRAP_SERVERS",
    "KSQL_BOOTSTRAP_SERVERS",
    "SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS",
)
_PROTOCOLS = ("KAFKA_SECURITY_PROTOCOL", "SECURITY_PROTOCOL", "SPRING_KAFKA_SECURITY_PROTOCOL")
_PORT = 9092
_LONGEST = 253  # the characters of a host's name (RFC 1035)
_TLS_SCHEMES = ("ssl", "sasl_ssl", "kafka+ssl")  # the last one is Heroku's


def search_environment(environment: Mapping[str, str]) -> PlaceResult:
    """Return the clusters that variables name, each list of servers once."""
    candidates: dict[tuple[str, ...], ClusterCandidate] = {}
    for name in _SERVERS:
        text = environment.get(name, "")
        servers = _servers(text)
        if servers:
            tls = ("--tls",) if _has_tls(text, environment) else ()
            words = ("run", *(word for server in servers for word in ("-b", server)), *tls)
            shown = f"{name}={one_line(','.join(servers), 100)}"
            candidates.setdefault(words, ClusterCandidate(shown, words, tuple(_notes(environment))))
    return PlaceResult("variables", list(candidates.values()))


def _servers(text: str) -> tuple[str, ...]:
    """Return the addresses in a variable; none if any part of it is no address."""
    parts = [part.strip().rpartition("://")[2] for part in text.split(",") if part.strip()]
    try:
        addresses = [Address.parse(part, default_port=_PORT) for part in parts]
    except ValueError:
        return ()
    if any(len(address.host) > _LONGEST for address in addresses):
        return ()
    return tuple(str(address) for address in dict.fromkeys(addresses))


def _protocol(environment: Mapping[str, str]) -> str:
    return next((environment[name].upper() for name in _PROTOCOLS if environment.get(name)), "")


def _has_tls(text: str, environment: Mapping[str, str]) -> bool:
    schemes = {part.strip().partition("://")[0].lower() for part in text.split(",") if "://" in part}
    return _protocol(environment) in ("SSL", "SASL_SSL") or not schemes.isdisjoint(_TLS_SCHEMES)


def _notes(environment: Mapping[str, str]) -> Iterator[str]:
    if _protocol(environment).startswith("SASL"):
        yield "the variables ask for a login: add --sasl MECHANISM, or --client-config FILE"


def further_searches(engines: Iterator[tuple[str, Path]], has_kubeconfig: bool) -> PlaceResult:
    """Return the searches that would contact a container engine or a Kubernetes API server."""
    candidates = []
    if names := list(dict.fromkeys(name for name, _ in engines)):
        words = ("discover", "--in", "docker")
        candidates.append(ClusterCandidate(f"{' and '.join(names)}: brokers in containers", words))
    if has_kubeconfig:
        words = ("discover", "--in", "kubernetes")
        candidates.append(ClusterCandidate("the kubeconfig's cluster: brokers in Kubernetes", words))
    return PlaceResult("to look further", candidates)
