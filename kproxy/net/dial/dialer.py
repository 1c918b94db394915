"""Opening the upstream connections of one cluster, directly or through the hops of `--via`."""

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
    """The dialer of one cluster. What its hops keep open (an SSH connection) lives until `close`.

    `via` has the hops in order; this machine connects to the first. A connection may take `seconds`. `is_own` returns
    whether an address is one of kproxy's own listeners. Background work of hops runs in `tasks`.
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
        """Let a connection take at most `seconds` from now on."""
        self._seconds = seconds

    async def connect(self, address: Address, deadline: Deadline | None = None) -> socket.socket:
        """Return a connected, non-blocking socket.

        Raises UpstreamError; ViaError if a hop failed, whatever the address.
        """
        return await self._connectors[-1].connect(address, deadline or Deadline.after(self._seconds))

    async def close(self) -> None:
        """Close what the hops keep open for later connections."""
        for connector in reversed(self._connectors):
            await connector.close()


def check_library(hop: HopSpec) -> None:
    """Raise ConfigError if a hop needs an optional library that is not installed."""
    if hop.scheme == "kubernetes" and importlib.util.find_spec("websockets") is None:
        raise ConfigError(f"via: {hop} needs the package websockets: {install_command('websockets')}")


def _connector_for(hop: HopSpec, previous: Connector, tasks: asyncio.TaskGroup) -> Connector:
    # Each needs a library that costs memory, and most users need none of them.
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
