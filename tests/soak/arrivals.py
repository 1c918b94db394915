"""Which requests arrived at which broker, as the lines to the brokers have seen it: not by kproxy's word.

A line reports each connection with the address to which it led, and the bytes of its client. Each request has its
client id in the header. One of kproxy's own is a question, and may go anywhere. A client's own request may arrive only
at a broker of the cluster that the client is for; a client whose id is from `client_id_for` writes and reads partitions
of one broker alone, so what it writes and reads may arrive only there. ApiVersions may arrive elsewhere if it names the
cluster and the node that it is for (KIP-1242): it is there for the broker to refuse.
"""

from __future__ import annotations

import re
import struct
import threading
from collections import Counter
from dataclasses import dataclass

from kproxy.base.address import Address
from kproxy.protocol.rewrite.versionsrequest import read_versions_request
from tests.harness.clients.rawclient import API_VERSIONS, FETCH, PRODUCE

LIST_OFFSETS = 2
"""API key."""

KPROXY = "kproxy"
"""The client id of kproxy's own requests."""

_ONLY_LEADER = (PRODUCE, FETCH, LIST_OFFSETS)
_HEAD = struct.Struct(">ihhih")  # size, API key, version, correlation id, length of the client id
_NODE = re.compile(r"for-(\d+)(?!\d)")
_MOST_PROBLEMS = 20


def client_id_for(node: int) -> str:
    """Return the client id of a client that uses only partitions of this broker."""
    return f"for-{node}"


@dataclass(frozen=True, slots=True)
class Server:
    """A broker or a controller. `home`: it is of the cluster that clients are for."""

    name: str
    node: int
    home: bool = False
    controller: bool = False


class Arrivals:
    """All that arrived. Its methods may be called in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[Address, Server] = {}
        self._problems: list[str] = []
        self.detours = Counter[str]()
        """How many connections led elsewhere than home, by the name of the server."""
        self.questions = Counter[str]()
        """How many requests of kproxy's own arrived at each server, by its name."""
        self.checks = Counter[str]()
        """How many ApiVersions requests of clients with the cluster and the node that they are for."""
        self.requests = Counter[str]()
        """How many other requests of clients."""
        self.at_their_node = Counter[int]()
        """How many requests of clients of one broker that only this one may get, by its node id."""

    def register(self, address: Address, server: Server) -> None:
        """Note which server listens at an address from now on."""
        with self._lock:
            self._servers[address] = server

    def connection(self, to: Address, home: Address) -> Connection:
        """Begin a connection to this address along the line home; where no server is known, it is an impostor's."""
        with self._lock:
            server = self._servers.get(to, Server("an impostor", -1))
            if to != home:
                self.detours[server.name] += 1
        return Connection(self, server)

    def problems(self) -> list[str]:
        """Return the requests that have arrived where they should not."""
        with self._lock:
            return list(self._problems)

    def add(self, server: Server, frame: bytes, key: int, version: int, client_id: str) -> None:
        """Judge a request; `frame` has all of an ApiVersions request, and the header of another."""
        with self._lock:
            if client_id == KPROXY:
                self.questions[server.name] += 1
                return
            if key == API_VERSIONS:
                versions = read_versions_request(frame)
                if versions is not None and versions.version >= 5 and versions.cluster_id is not None:
                    self.checks[server.name] += 1
                    return
            self.requests[server.name] += 1
            node = _NODE.match(client_id)
            if not server.home or server.controller:
                self._problem(server, key, version, client_id)
            elif node and key in _ONLY_LEADER:
                self.at_their_node[int(node[1])] += 1
                if int(node[1]) != server.node:
                    self._problem(server, key, version, client_id)

    def _problem(self, server: Server, key: int, version: int, client_id: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            what = f"a request with the API key {key}, version {version}, of the client {client_id!r}"
            self._problems.append(f"{what} arrived at {server.name}")


class Connection:
    """The requests of one connection, whatever the chunks are."""

    def __init__(self, arrivals: Arrivals, server: Server) -> None:
        self._arrivals = arrivals
        self._server = server
        self._begun = b""  # of a frame whose header is not complete
        self._left = 0  # of a frame whose header was judged

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the client."""
        data, self._begun = self._begun + data, b""
        at = min(self._left, len(data))
        self._left -= at
        while at < len(data):
            if len(data) - at < _HEAD.size:
                break
            size, key, version, _, length = _HEAD.unpack_from(data, at)
            head = _HEAD.size + max(0, length)
            if len(data) - at < (4 + size if key == API_VERSIONS else head):
                break
            client_id = data[at + _HEAD.size : at + head].decode(errors="replace")
            self._arrivals.add(self._server, data[at : at + 4 + size], key, version, client_id)
            end = at + 4 + size
            self._left = max(0, end - len(data))
            at = min(end, len(data))
        self._begun = data[at:]
