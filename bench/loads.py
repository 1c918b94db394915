"""The loads, one line each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bench.native import FETCH, METADATA, PRODUCE, SMALL, Request

KIB, MIB = 1024, 1024 * 1024


class Kind(Enum):
    """The kind of a load. It decides which figures are shown."""

    BULK = "bulk"  # bytes: MB/s and CPU-seconds per GB
    FRAMES = "frames"  # frames/s and CPU-seconds per million
    LATENCY = "latency"  # the same, and percentiles
    METADATA = "metadata"  # CPU milliseconds per answer
    CONNECT = "connect"  # connections per second and CPU-seconds per million; each has ApiVersions and one request


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one kind on some connections, `depth` of them in flight on each.

    `key` loads are the few most important ones: all of --quick, and those for variants of a peer.
    """

    name: str
    kind: Kind
    request: Request
    connections: int
    depth: int
    key: bool = False

    @property
    def mode(self) -> str:
        return "connect" if self.kind is Kind.CONNECT else "run"


def _size(size: int) -> str:
    return f"{size // MIB}M" if size >= MIB else f"{size // KIB}K"


def _bulk() -> list[Load]:
    """Return loads with five requests in flight, as the Java producer has, on one partition."""
    loads = []
    for what, request in (("fetch", Request(FETCH, 12)), ("produce", Request(PRODUCE, 9))):
        for size in (16 * KIB, 64 * KIB, MIB):
            for connections in (1, 4, 16):
                loads.append(
                    Load(
                        f"{what}-{_size(size)}-c{connections}",
                        Kind.BULK,
                        Request(request.api, request.version, 1, size),
                        connections,
                        5,
                        key=(what, size, connections) in (("fetch", MIB, 4), ("produce", 16 * KIB, 4)),
                    )
                )
    return loads


def _partitions() -> list[Load]:
    """Return loads that show the cost of walking a frame.

    Produce v17 and Fetch v12 may name new leaders at their end (KIP-951).
    """
    loads = []
    for version in (12, 17):
        for partitions in (1, 50, 500):
            for size in (64 * KIB, MIB):
                loads.append(
                    Load(
                        f"fetch-v{version}-p{partitions}-{_size(size)}-c4",
                        Kind.BULK,
                        Request(FETCH, version, partitions, size),
                        4,
                        5,
                        key=(version, partitions, size) == (17, 50, MIB),
                    )
                )
    for partitions in (1, 50):
        request = Request(PRODUCE, 12, partitions, 64 * KIB)
        loads.append(Load(f"produce-v12-p{partitions}-64K-c4", Kind.BULK, request, 4, 5))
    return loads


def _small() -> list[Load]:
    return [
        Load("ping-c1", Kind.LATENCY, SMALL, 1, 1, key=True),
        Load("ping-c64", Kind.LATENCY, SMALL, 64, 1, key=True),
        Load("pipelined-d32-c16", Kind.FRAMES, SMALL, 16, 32, key=True),
        Load("pipelined-fetch-v17-d32-c16", Kind.FRAMES, Request(FETCH, 17, 1, 100), 16, 32),
        Load("pipelined-produce-v12-d32-c16", Kind.FRAMES, Request(PRODUCE, 12, 1, 100), 16, 32),
        Load("connect-c16", Kind.CONNECT, SMALL, 16, 1, key=True),
    ]


def _metadata() -> list[Load]:
    """Return loads with ten brokers, where every client requests all metadata again and again."""
    return [
        Load(
            f"metadata-{partitions}-c{connections}",
            Kind.METADATA,
            Request(METADATA, 12, partitions),
            connections,
            1,
            key=(partitions, connections) == (100_000, 16),
        )
        for partitions, connections in ((10, 16), (1_000, 16), (10_000, 16), (100_000, 16), (100_000, 100))
    ]


LOADS = (*_bulk(), *_partitions(), *_small(), *_metadata())
