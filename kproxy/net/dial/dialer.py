"""Opening the upstream connections of one cluster, directly or along the hops of `--via`."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import Callable, Sequence

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.base.packages import install_command
from kproxy.net.dial.connector import Connector, Deadline, HopSpec
from kproxy.net.dial.direct import DirectConnector


class Dialer:
    """One for each cluster. What hops keep (an SSH connection) lives until `close`.

    `via` are the hops, first the one that this machine connects to; `seconds` is how long a connection may take;
    `is_own` tells kproxy's own listeners. Hops that work in the background do so in `tasks`.
    """

    def __init__(
        self,
        via: Sequence[HopSpec],
        seconds: float,
        tasks: asyncio.TaskGroup,
        is_own: Callable[[Address], bool] = lambda _: False,
    ) -> None:
        self._seconds = seconds
        self._connectors: list[Connector] = [DirectConnector(is_own)]
        for hop in via:
            self._connectors.append(_connector_for(hop, self._connectors[-1], tasks))

    def set_timeout(self, seconds: float) -> None:
        """So long a connection may take from now on."""
        self._seconds = seconds

    async def connect(self, address: Address, deadline: Deadline | None = None) -> socket.socket:
        """A connected, non-blocking socket. Raises UpstreamError; ViaError if a hop failed, whatever the address."""
        return await self._connectors[-1].connect(address, deadline or Deadline.after(self._seconds))

    async def close(self) -> None:
        """Close what was kept open for later connections."""
        for connector in reversed(self._connectors):
            await connector.close()


def check_library(hop: HopSpec) -> None:
    """Raises ConfigError if the library of a hop is missing that not everybody has."""
    if hop.scheme == "kubernetes" and importlib.util.find_spec("websockets") is None:
        raise ConfigError(f"via: {hop} needs the package websockets: {install_command('websockets')}")


def _connector_for(hop: HopSpec, previous: Connector, tasks: asyncio.TaskGroup) -> Connector:
    # Each needs a library that costs memory, and most people use none of them.
    if hop.scheme == "ssh":
        from kproxy.net.dial.ssh import Ssh

        return Ssh(hop, previous, tasks)
    if hop.scheme == "socks5":
        from kproxy.net.dial.socks import Socks5

        return Socks5(hop, previous)
    if hop.scheme == "kubernetes":
        check_library(hop)
        from kproxy.net.dial.kubernetes import Kubernetes

        return Kubernetes(hop, previous, tasks)
    if hop.scheme == "docker":
        from kproxy.net.dial.docker import Docker

        return Docker(hop, previous)
    from kproxy.net.dial.httpconnect import HttpConnect

    return HttpConnect(hop, previous)
