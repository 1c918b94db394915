"""Bodies of brokers' answers, encoded by hand from Kafka's message definitions."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from kproxy.protocol.wire.api import ApiKey

ALL = {ApiKey.LIST_OFFSETS: (0, 9), ApiKey.METADATA: (0, 13), ApiKey.DESCRIBE_CONFIGS: (0, 4),
       ApiKey.LIST_GROUPS: (0, 5), ApiKey.FIND_COORDINATOR: (0, 6), ApiKey.API_VERSIONS: (0, 4)}  # fmt: skip


def text(value: str | None) -> bytes:
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def versions(served: Mapping[int, tuple[int, int]] = ALL) -> bytes:
    """Return ApiVersions v0."""
    return struct.pack(">h", 0) + array([struct.pack(">hhh", key, *both) for key, both in served.items()])


def versions_5(served: Mapping[int, tuple[int, int]] = ALL, error: int = 0) -> bytes:
    """Return ApiVersions v5."""
    ranges = [] if error else [struct.pack(">hhhb", key, *both, 0) for key, both in served.items()]
    return struct.pack(">hB", error, len(ranges) + 1) + b"".join(ranges) + bytes(5)


def metadata(
    cluster_id: str | None, brokers: Mapping[int, str], topics: Mapping[str, Sequence[int]] | None = None
) -> bytes:
    """Return Metadata v2: brokers by id, each HOST:PORT; topics with the leader of each partition."""
    nodes = []
    for node, address in brokers.items():
        host, _, port = address.rpartition(":")
        nodes.append(struct.pack(">i", node) + text(host) + struct.pack(">i", int(port)) + text(None))
    listed = []
    for name, leaders in (topics or {}).items():
        partitions = [
            struct.pack(">hii", 0, index, leader) + array([struct.pack(">i", leader)]) + array([])
            for index, leader in enumerate(leaders)
        ]
        listed.append(struct.pack(">h", 0) + text(name) + b"\0" + array(partitions))
    return array(nodes) + text(cluster_id) + struct.pack(">i", 1) + array(listed)


def refusal(node_id: int | str) -> bytes:
    """Return DescribeConfigs v1 for another broker."""
    words = f"Unexpected broker id, expected {node_id} or empty string, but received 2147483647"
    return struct.pack(">i", 0) + array(
        [struct.pack(">h", 42) + text(words) + b"\x04" + text("2147483647") + array([])]
    )


def configs(error: int = 0, words: str | None = None) -> bytes:
    """Return DescribeConfigs v1."""
    return struct.pack(">i", 0) + array([struct.pack(">h", error) + text(words) + b"\x04" + text("1") + array([])])


def offsets(errors: Mapping[tuple[str, int], int]) -> bytes:
    """Return ListOffsets v1."""
    topics: dict[str, list[bytes]] = {}
    for (name, index), error in errors.items():
        topics.setdefault(name, []).append(struct.pack(">ihqq", index, error, -1, 7))
    return array([text(name) + array(partitions) for name, partitions in topics.items()])


def groups(*names: str) -> bytes:
    """Return ListGroups v0."""
    return struct.pack(">h", 0) + array([text(name) + text("consumer") for name in names])


def coordinator(node_id: int, error: int = 0) -> bytes:
    """Return FindCoordinator v0."""
    return struct.pack(">hi", error, node_id) + text("host") + struct.pack(">i", 9092)
