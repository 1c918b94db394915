"""What the state topic on the target keeps, and its form: JSON in keys and values, so that any Kafka client shows it.

The copier writes `State` in the transaction that has the records themselves, so it is never wrong about them. The
offset map grows; its last runs stand in the state, and when they are many they are *sealed* as a piece of their own.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import crc32
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.protocol.wire.primitives import malformed

# How many bytes of offset map stand in the state before they are sealed.
SEAL_THRESHOLD = 16 * 1024
# How many partitions a new state topic has.
STATE_PARTITIONS = 16


def state_topic_name(name: str) -> str:
    """The state topic of the migration with this name."""
    return f"kproxy-migration-{name}"


def transactional_id(name: str, topic: str, partition: int) -> str:
    """Whoever copies this partition of the source uses this id: a later one fences an earlier one. No name of a
    migration or topic has a slash, so no two partitions have one id."""
    return f"kproxy-migration-{name}/{topic}/{partition}"


def topic_identity(cluster_id: str, topic_id: str) -> str:
    """Of a topic; what a broker does not tell is left out. A topic that is made anew has another id (KIP-516)."""
    return f"{cluster_id}/{topic_id}"


def identities_differ(one: str, other: str) -> bool:
    """Whether two identities are those of two topics: what only one of them knows tells nothing."""
    pairs = zip(one.split("/"), other.split("/"), strict=False)
    return any(left and right and left != right for left, right in pairs)


def merge_identities(one: str, other: str) -> str:
    """An identity with all that either of two knows, which do not differ."""
    if not (one and other):
        return one or other
    return "/".join(left or right for left, right in zip(one.split("/"), other.split("/"), strict=False))


def truncation_text(topic: str, partition: int, end: int, upto: int) -> str:
    """Words for a partition of the target that ends before the records that were copied to it."""
    return (
        f"partition {partition} of {topic} on the target ends at offset {end}, and records were copied up to {upto}:"
        " its log was truncated (unclean leader election), or the topic was made anew; give the migration another name"
        " to begin again"
    )


def state_key(*parts: str | int) -> bytes:
    """A key: a kind ("partition", "map", …) and of what."""
    return json.dumps(list(parts), separators=(",", ":")).encode()


def parse_key(key: bytes) -> list[Any]:
    """What `key` was made of. Raises WireError if nothing was."""
    try:
        found = json.loads(key)
    except ValueError:
        found = None
    if not isinstance(found, list) or not found:
        raise malformed("the state topic has a key that kproxy did not write")
    return found


def state_partition(key: bytes, partitions: int) -> int:
    """In which partition of the state topic the records of a key are. The pieces of a map are with their state."""
    parts = parse_key(key)[:3]
    if parts[0] == "map":
        parts[0] = "partition"
    return crc32(json.dumps(parts, separators=(",", ":")).encode()) % partitions


@dataclass(frozen=True, slots=True)
class PartitionState:
    """How far one partition of the source has been copied.

    `source_next`: the source's offset from which the copy goes on. `target_next`: one beyond the last record's offset
    on the target. `source_begin`: the first offset that was there when the copy began. `records`, `size`: copied, the
    size in bytes as on the source's wire. `checksum`: the CRC-32C of the checksums of all batches taken, in their
    order. `skipped`: offsets that the source had deleted before, and that the user allowed to leave out. `origin`,
    `destination`: which topics these are (`identity`). `map`: the runs that are not sealed yet. `at`: milliseconds
    since 1970. `target_begin`: what lies before this offset on the target, and not in the map, was there before.
    """

    target_topic: str
    source_begin: int
    source_next: int
    target_next: int
    records: int = 0
    size: int = 0
    checksum: int = 0
    skipped: int = 0
    at: int = 0
    origin: str = ""
    destination: str = ""
    map: OffsetMap = field(default_factory=OffsetMap)
    target_begin: int = 0

    def to_json(self) -> bytes:
        """The value of the state's record."""
        said = {
            "v": 1,
            "target_topic": self.target_topic,
            "source_begin": self.source_begin,
            "source_next": self.source_next,
            "target_next": self.target_next,
            "records": self.records,
            "size": self.size,
            "checksum": self.checksum,
            "skipped": self.skipped,
            "at": self.at,
            "origin": self.origin,
            "destination": self.destination,
            "map": b64encode(self.map.to_bytes()).decode(),
            "target_begin": self.target_begin,
        }
        return json.dumps(said).encode()

    @classmethod
    def from_json(cls, value: bytes) -> PartitionState:
        """What `to_json` made. Raises WireError for anything else."""
        said = _object(value)
        try:
            if said["v"] != 1:
                raise malformed("the state was written by a newer kproxy: update this one")
            numbers = {name: said[name] for name in _NUMBERS} | {"target_begin": said.get("target_begin", 0)}
            if not all(type(number) is int and number >= 0 for number in numbers.values()):
                raise ValueError
            return cls(
                str(said["target_topic"]),
                origin=str(said["origin"]),
                destination=str(said["destination"]),
                map=OffsetMap.from_bytes(b64decode(said["map"], validate=True)),
                **numbers,
            )
        except (KeyError, ValueError, TypeError):
            raise malformed("the state topic has a record that kproxy did not write") from None

    def seal(self) -> tuple[PartitionState, OffsetMap]:
        """The same state without runs, and its runs as a piece that is written beside it."""
        return replace(self, map=OffsetMap()), self.map


_NUMBERS = ("source_begin", "source_next", "target_next", "records", "size", "checksum", "skipped", "at")


def encode_map_piece(piece: OffsetMap) -> bytes:
    """The value of a sealed piece of the map."""
    return json.dumps({"v": 1, "map": b64encode(piece.to_bytes()).decode()}).encode()


def decode_map_piece(value: bytes) -> OffsetMap:
    """What `piece_to_json` made. Raises WireError for anything else."""
    said = _object(value)
    try:
        return OffsetMap.from_bytes(b64decode(said["map"], validate=True))
    except (KeyError, ValueError, TypeError):
        raise malformed("the state topic has a record that kproxy did not write") from None


def _object(value: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(value)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise malformed("the state topic has a record that kproxy did not write")
    return said
