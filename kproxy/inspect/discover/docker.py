"""Brokers in containers of Docker and Podman, through their socket (Docker Engine API, which Podman has too).

The server at the socket may be any program: its text is shown escaped.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kproxy.advice.lint import images
from kproxy.base.printable import one_line
from kproxy.inspect.discover import brokers
from kproxy.inspect.discover.brokers import ContainerBroker, ContainerPort
from kproxy.inspect.discover.results import ClusterCandidate, PlaceResult
from kproxy.net.dial import engine

_MOST_CONTAINERS = 200
_KAFKA_PORTS = (9092, 9094, 29092, 19092)
_NAMED = re.compile(r"(^|[/_-])(kafka|cp-kafka|cp-server|redpanda)", re.IGNORECASE)
# Beside a broker, with its name in theirs.
_NOT_BROKERS = re.compile(
    r"ui|connect|rest|exporter|manager|registry|console|zookeeper|mirror|cruise|ksql", re.IGNORECASE
)
_PROJECT = "com.docker.compose.project"


def search_docker(name: str, path: Path) -> PlaceResult:
    """Search the containers behind this socket for brokers."""
    try:
        listed = engine.get(path, "/containers/json")
        containers = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        likely = [container for container in containers if _may_be_broker(container)][:_MOST_CONTAINERS]
        ids = [engine.check_id(container.get("Id")) for container in likely]
        descriptions = [engine.get(path, f"/containers/{id_}/json") for id_ in ids]
    except engine.EngineError as error:
        return PlaceResult(name, problem=str(error))
    return PlaceResult(name, list(_clusters(descriptions)))


def _clusters(descriptions: Sequence[Any]) -> Iterator[ClusterCandidate]:
    """Yield clusters: brokers of one Compose project are one cluster, as are those that share a network."""
    groups: dict[str, list[tuple[ContainerBroker, str]]] = defaultdict(list)
    for description in descriptions:
        try:
            broker_of_group = _broker(description)
        except (AttributeError, KeyError, TypeError, ValueError, IndexError):
            continue  # no container that an engine describes looks so
        if broker_of_group is not None:
            group, broker, image = broker_of_group
            groups[group].append((broker, image))
    for members in groups.values():
        names = ", ".join(broker.name for broker, _ in members)
        what = f"{names} ({members[0][1]})"
        candidate = brokers.cluster_candidate(what, [broker for broker, _ in members])
        yield candidate or ClusterCandidate(what, (), ("no port of it is published, so this machine cannot reach it",))


def _may_be_broker(container: Mapping[str, Any]) -> bool:
    image = str(container.get("Image", ""))
    if images.recognise_image(image) is not None:
        return True
    repository = image.rpartition("/")[2]
    return _NAMED.search(image) is not None and _NOT_BROKERS.search(repository.partition(":")[0]) is None


def _broker(description: Mapping[str, Any]) -> tuple[str, ContainerBroker, str] | None:
    """Return the group of a container, the broker in it, and its image; None if it has no broker."""
    config = description["Config"]
    name = one_line(str(description["Name"]).lstrip("/"), 70)
    image = one_line(str(config["Image"]), 70)
    networks = description["NetworkSettings"]["Networks"] or {}
    published = list(_published(description["NetworkSettings"].get("Ports") or {}))
    # On Linux, containers' own addresses are this machine's neighbours; elsewhere they are in a virtual machine.
    own = [str(network.get("IPAddress") or "") for network in networks.values()] if sys.platform == "linux" else []
    address = one_line(next(filter(None, own), ""), 70)
    labels = config.get("Labels") or {}
    group = str(labels.get(_PROJECT) or next(iter(sorted(networks)), "")) or name
    if group in ("bridge", "host", "podman"):
        group = name  # a network of all containers, not of one application
    broker = brokers.broker_from_properties(name, _settings(str(config["Image"]), config), published, address)
    if broker is None:
        private = next((port.private for port in published if port.private in _KAFKA_PORTS), _KAFKA_PORTS[0])
        broker = brokers.broker_with_port(name, published, address, private)
    return group, broker, image


def _settings(image: str, config: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the broker's properties, as far as its variables and its command contain them."""
    pairs = (str(word).partition("=") for word in config.get("Env") or ())
    variables = {key: value for key, _, value in pairs}
    if (kind := images.recognise_image(image)) is not None:
        names = {key: images.property_name(kind.family, key) for key in variables}
        settings = {name: variables[key] for key, name in names.items() if name is not None}
        return {**images.defaults(kind.family, settings), **settings}
    command = [str(word) for word in config.get("Cmd") or ()]
    flags = {"listeners": "--kafka-addr", "advertised.listeners": "--advertise-kafka-addr"}
    return {name: value for name, flag in flags.items() if (value := _flag(command, flag))}


def _flag(command: Sequence[str], flag: str) -> str:
    """Return the value of a flag of Redpanda, whose listeners have names as Kafka's have."""
    words = [word for argument in command for word in argument.split()]
    for at, word in enumerate(words):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag and at + 1 < len(words):
            return words[at + 1]
    return ""


def _published(ports: Mapping[str, Any]) -> Iterator[ContainerPort]:
    for private, bound in ports.items():
        number, _, protocol = str(private).partition("/")
        for binding in bound or ():
            if protocol == "tcp":
                yield ContainerPort(int(number), int(binding["HostPort"]), str(binding.get("HostIp") or ""))
