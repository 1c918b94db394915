"""Connecting to containers by their names in a network of Docker or Podman, without a published port.

On Linux, the host has an address in each such network, so kproxy connects to a container's own address, which the
engine returns. Where containers run in a virtual machine (Docker Desktop), or in a user's own network (rootless), no
program of the host can do that, and kproxy says so.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.base.format import abbreviate
from kproxy.base.messages.hops import (
    DOCKER_SLOW,
    DOCKER_TIMEOUT,
    DOCKER_UNREACHABLE,
    NO_DOCKER_CONTAINER,
    NO_DOCKER_ENGINE,
    NO_DOCKER_NETWORK,
)
from kproxy.base.printable import one_line
from kproxy.net.dial import engine
from kproxy.net.dial.connector import Connector, Deadline, DialStepKind, HopSpec
from kproxy.net.dial.engine import EngineError

# The most containers of a network that are examined for a name.
_MOST_CONTAINERS = 500
_SERVICE = "com.docker.compose.service"


class Docker:
    """One network of Docker or Podman.

    Each connection asks the engine for the container's address: a recreated container has another address, and its
    former one may belong to another container.
    """

    def __init__(self, hop: HopSpec, previous: Connector) -> None:
        self._name = f"--via {hop}"
        self._network = hop.host
        self._previous = previous

    async def connect(self, address: Address, deadline: Deadline) -> socket.socket:
        """Connect to the container that has this name. Raises UpstreamError."""
        with deadline.step(DialStepKind.HOP, self._name):
            addresses = await self._find_addresses(address, deadline)
        failure: UpstreamError | None = None
        for ip in addresses:
            try:
                return await self._previous.connect(Address(ip, address.port), deadline)
            except UpstreamError as error:
                failure = error
        assert failure is not None
        if failure.reason in ("timeout", "unreachable"):
            text = DOCKER_UNREACHABLE(address=address, error=failure, name=self._name)
            raise UpstreamError(failure.reason, text) from None
        raise UpstreamError(failure.reason, f"{address}: {failure} (through {self._name})") from None

    async def close(self) -> None:
        """Do nothing: nothing is kept open."""

    async def _find_addresses(self, address: Address, deadline: Deadline) -> Sequence[str]:
        """Return the IP addresses of the containers with this name: a service of Compose may have several."""
        if _is_ip(address.host):
            return [address.host]
        try:
            async with deadline.timeout():
                addresses, names = await asyncio.to_thread(
                    find_addresses, address.host, self._network, deadline.remaining
                )
        except TimeoutError:
            raise ViaError(*DOCKER_TIMEOUT.with_reason(name=self._name, seconds=deadline.seconds)) from None
        except EngineError as error:
            raise ViaError("docker", f"{self._name}: {error}") from None
        if not addresses:
            shown = abbreviate([one_line(name, 70) for name in names], 10) or "no running container"
            raise UpstreamError(
                *NO_DOCKER_CONTAINER.with_reason(address=address, network=self._network, host=address.host, names=shown)
            )
        return addresses


def find_addresses(host: str, network: str, seconds: float) -> tuple[Sequence[str], Sequence[str]]:
    """Return the IP addresses of the containers with this name, and the names of all that run in the network.

    Raises EngineError, also if it takes longer than `seconds`. It blocks.
    """
    until = monotonic() + seconds
    path, containers = _find_network(network)
    host = host.lower().removesuffix(".").removesuffix(f".{network.lower()}").removesuffix(".dns.podman")
    names = sorted({name for container in containers for name in _names(container)})
    if addresses := list(_matching_addresses(host, network, containers)):
        return addresses, names
    # The engine returns aliases and hostnames only for single containers.
    details: list[Any] = []
    for container in containers:
        if monotonic() >= until:
            raise EngineError(DOCKER_SLOW(path=path, count=len(details), seconds=seconds))
        details.append(engine.get(path, f"/containers/{engine.check_id(container.get('Id'))}/json"))
    return list(_matching_addresses(host, network, details)), names


def _find_network(network: str) -> tuple[Path, list[Mapping[str, Any]]]:
    """Return the socket of the first engine that has the network, and the network's running containers."""
    network_names: list[str] = []
    problems: list[str] = []
    for _, path in engine.find_sockets():
        try:
            engine.get(path, f"/networks/{quote(network, safe='')}")
        except EngineError as error:
            if not error.not_found:
                problems.append(str(error))
                continue
            networks = engine.get(path, "/networks")
            network_names += [one_line(str(entry.get("Name")), 70) for entry in _dicts(networks)]
            continue
        filters = quote(json.dumps({"network": [network], "status": ["running"]}), safe="")
        return path, _dicts(engine.get(path, f"/containers/json?filters={filters}"))[:_MOST_CONTAINERS]
    if problems:
        raise EngineError(problems[0])
    if not network_names:
        raise EngineError(NO_DOCKER_ENGINE())
    raise EngineError(NO_DOCKER_NETWORK(network=network, names=", ".join(sorted(set(network_names))[:20])))


def _matching_addresses(host: str, network: str, containers: Sequence[Any]) -> Iterator[str]:
    for container in containers:
        of_network = _get_nested(container, "NetworkSettings", "Networks", network)
        aliases = [*_texts(_get_nested(of_network, "Aliases")), *_texts(_get_nested(of_network, "DNSNames"))]
        hostname = _get_nested(container, "Config", "Hostname")
        names = {
            name.lower() for name in (*_names(container), *aliases, *([hostname] if isinstance(hostname, str) else []))
        }
        identity = container.get("Id") if isinstance(container, dict) else None
        is_id = isinstance(identity, str) and len(host) >= 12 and identity.startswith(host)
        ip = _get_nested(of_network, "IPAddress") or _get_nested(of_network, "GlobalIPv6Address")
        if (host in names or is_id) and isinstance(ip, str) and _is_ip(ip):
            yield ip


def _names(container: Any) -> list[str]:
    """Return the container's own name, and that of its service."""
    listed = _texts(_get_nested(container, "Names")) or _texts([_get_nested(container, "Name")])
    labels = _get_nested(container, "Labels") or _get_nested(container, "Config", "Labels")
    return [name.removeprefix("/") for name in listed] + _texts([_get_nested(labels, _SERVICE)])


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _get_nested(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [entry for entry in value if isinstance(entry, str) and entry] if isinstance(value, list) else []
