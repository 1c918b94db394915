"""Brokers that tell what a test says: clusters that no real one makes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from kproxy.protocol.wire.api import ApiKey
from tests.harness.servers import answers
from tests.harness.servers.fakebroker import FakeBroker

TEXT, ARRAY = answers.text, answers.array


def numbers(values: Sequence[int]) -> bytes:
    return ARRAY([struct.pack(">i", value) for value in values])


@dataclass
class Topic:
    """`partitions`: leader, replicas, in-sync ones."""

    name: str
    partitions: Sequence[tuple[int, Sequence[int], Sequence[int]]] = ((1, (1,), (1,)),)
    internal: bool = False
    error: int = 0

    def body(self) -> bytes:
        """As Metadata v2 and later have it, v5 with no offline replica."""
        partitions = [
            struct.pack(">hii", 0, index, leader) + numbers(replicas) + numbers(isr) + numbers(())
            for index, (leader, replicas, isr) in enumerate(self.partitions)
        ]
        return struct.pack(">h", self.error) + TEXT(self.name) + struct.pack(">?", self.internal) + ARRAY(partitions)


@dataclass
class Told:
    """What a broker of the cluster says. `nodes`: id, host, port. `settings` of the broker that is asked; an error code
    instead refuses."""

    nodes: list[tuple[int, str, int]] = field(default_factory=list)
    topics: Sequence[Topic] = ()
    groups: Sequence[str] | int = ()
    settings: dict[str, str] | int = field(default_factory=dict)
    cluster_id: str | None = "fake"


class Listed(FakeBroker):
    """The broker `node_id` of a cluster. It tells its id to those who ask for another's."""

    def __init__(self, told: Told, node_id: int = 1) -> None:
        super().__init__((), f"expected {node_id} or empty string")
        self.told = told
        self.node_id = node_id
        self.serves |= {ApiKey.METADATA: (0, 5), ApiKey.LIST_GROUPS: (0, 0)}
        self.named: list[int] = []  # how many topics each question for them has named; -1: all

    def answer(self, connection: object, request: bytes) -> bool:
        key, version, correlation_id, length = struct.unpack_from(">hhih", request)
        body = request[10 + length :]
        self.nodes, self.cluster_id = self.told.nodes, self.told.cluster_id
        said = None
        if (key, version) == (ApiKey.METADATA, 5):
            said = self._contents(body)
        elif key == ApiKey.LIST_GROUPS:
            refused = isinstance(self.told.groups, int)
            groups = [] if refused else self.told.groups
            said = struct.pack(">h", self.told.groups if refused else 0) + answers.groups(*groups)[2:]
        elif key == ApiKey.DESCRIBE_CONFIGS and TEXT(str(self.node_id)) in body:
            said = self._settings()
        if said is None:
            return super().answer(connection, request)  # type: ignore[arg-type]
        whole = struct.pack(">i", correlation_id) + said
        connection.sendall(struct.pack(">i", len(whole)) + whole)  # type: ignore[attr-defined]
        return True

    def _contents(self, body: bytes) -> bytes:
        (count,) = struct.unpack_from(">i", body)
        self.named.append(count)
        nodes = [
            struct.pack(">i", i) + TEXT(host) + struct.pack(">i", port) + TEXT(None) for i, host, port in self.nodes
        ]
        topics = [topic.body() for topic in self.told.topics if count < 0 or TEXT(topic.name) in body]
        return bytes(4) + ARRAY(nodes) + TEXT(self.cluster_id) + struct.pack(">i", 2) + ARRAY(topics)

    def _settings(self) -> bytes:
        refused = isinstance(self.told.settings, int)
        settings = {} if isinstance(self.told.settings, int) else self.told.settings
        listed = [TEXT(name) + TEXT(value) + b"\0\0\0" + ARRAY([]) for name, value in settings.items()]
        error = struct.pack(">h", self.told.settings if refused else 0)
        return bytes(4) + ARRAY([error + TEXT(None) + b"\4" + TEXT(str(self.node_id)) + ARRAY(listed)])
