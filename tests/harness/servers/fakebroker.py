"""A broker's answers about its cluster, encoded by hand: for clusters that no real broker makes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from weakref import WeakSet

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.messages import read_request
from tests.harness.servers import answers


class FakeBroker:
    """A `Behaviour` for `Peer` with answers to ApiVersions, Metadata v2 and DescribeConfigs v1.

    Metadata has `nodes` (id, host, port) and the cluster's id, DescribeConfigs the `refusal`. A test may change them at
    any time. Any other request ends the connection.

    `checks` makes it one of Kafka 4.4: it gives the body of the answer to ApiVersions 5 for a cluster and a node, or
    None to end the connection. `received` are the API keys and versions of all requests.

    With `requires_login`, it takes any login. Before it, it answers ApiVersions alone, and confirms any node, as Kafka.
    """

    def __init__(
        self, nodes: Sequence[tuple[int, str, int]] = (), refusal: str = "", cluster_id: str | None = "fake"
    ) -> None:
        self.nodes = nodes
        self.refusal = refusal
        self.cluster_id = cluster_id
        self.asked = 0  # for its nodes
        self.checks: Callable[[str, int], bytes | None] | None = None
        self.received: list[tuple[int, int]] = []
        self.skew = 0  # of the correlation ids of its answers to ApiVersions 5
        self.adds = b""  # behind each answer
        self.deaf_to: set[int] = set()  # what ends the connection, as before a login
        self.requires_login = False
        self._logged_in: WeakSet[socket.socket] = WeakSet()
        self.serves = {ApiKey.API_VERSIONS: (0, 0), ApiKey.METADATA: (0, 2), ApiKey.DESCRIBE_CONFIGS: (0, 1)}

    def __call__(self, connection: socket.socket) -> None:
        unread = b""
        while data := connection.recv(65536):
            unread += data
            while len(unread) >= 4 and len(unread) >= (end := 4 + struct.unpack_from(">i", unread)[0]):
                if not self.answer(connection, unread[4:end]):
                    return
                unread = unread[end:]

    def answer(self, connection: socket.socket, request: bytes) -> bool:
        """Answer a request; return whether it has an answer."""
        said: dict[int, Callable[[], bytes]] = {
            ApiKey.API_VERSIONS: lambda: answers.versions(self.serves),
            ApiKey.METADATA: self._metadata,
            ApiKey.DESCRIBE_CONFIGS: lambda: answers.configs(42, self.refusal),
        }
        login = {
            ApiKey.API_VERSIONS: said[ApiKey.API_VERSIONS],
            ApiKey.SASL_HANDSHAKE: lambda: struct.pack(">hi", 0, 0),
            ApiKey.SASL_AUTHENTICATE: lambda: struct.pack(">hhi", 0, -1, 0),
        }
        key, version, correlation_id = struct.unpack_from(">hhi", request)
        self.received.append((key, version))
        awaits_login = self.requires_login and connection not in self._logged_in
        if awaits_login:
            said = login
        if key == ApiKey.SASL_AUTHENTICATE:
            self._logged_in.add(connection)
        if key not in said or key in self.deaf_to:
            return False
        if key == ApiKey.API_VERSIONS and version == 5 and awaits_login:
            said[key] = lambda: answers.versions_5(self.serves)
        elif key == ApiKey.API_VERSIONS and version == 5:
            fields = read_request(struct.pack(">i", len(request)) + request).fields
            answer = None if self.checks is None else self.checks(fields["ClusterId"].decode(), fields["NodeId"])
            if answer is None:
                return False
            correlation_id += self.skew
            said[key] = lambda: answer
        body = struct.pack(">i", correlation_id) + said[key]()
        connection.sendall(struct.pack(">i", len(body)) + body + self.adds)
        return True

    def be_new(self, node: int) -> None:
        """Become this node of the cluster, as a broker of Kafka 4.4 or later."""
        self.serves[ApiKey.API_VERSIONS] = (0, 5)

        def check(cluster_id: str, node_id: int) -> bytes:
            return answers.versions_5(self.serves, 0 if (cluster_id, node_id) == (self.cluster_id, node) else 129)

        self.checks = check

    def _metadata(self) -> bytes:
        self.asked += 1
        return answers.metadata(self.cluster_id, {node: f"{host}:{port}" for node, host, port in self.nodes})
