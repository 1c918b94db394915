"""The records of the state topic on the target: JSON in keys and values, so that any Kafka client shows them.

The copier writes a state in the transaction of the records themselves, so a state is never wrong about them. The offset
map grows: the state has its last runs, and when they become many, the copier *seals* them as a separate piece.

A task of the copy gets a slice with such a state, and returns a result with the next one.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import crc32
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.protocol.wire.primitives import malformed

# Size of the runs in a state above which they are sealed, in bytes.
SEAL_THRESHOLD = 16 * 1024
# Maximum size of a batch: the default of max.message.bytes.
DEFAULT_MAX_BATCH = 1_048_588
# Bytes of a partition that are little: copying them with a transactional id of its own would cost more than they do.
LITTLE_SIZE = 16 * 1024 * 1024
# Number of partitions of a new state topic.
STATE_PARTITIONS = 16


def state_topic_name(name: str) -> str:
    """Return the name of the state topic of a migration."""
    return f"kproxy-migration-{name}"


def transactional_id(name: str, topic: str, partition: int) -> str:
    """Return the transactional id of one partition of the source, for copying it alone.

    A later producer with this id fences an earlier one. No name of a migration or topic contains a slash, so no two
    partitions have the same id of their own.
    """
    return f"kproxy-migration-{name}/{topic}/{partition}"


def shared_transactional_id(name: str, state_partition: int) -> str:
    """Return the transactional id for copying together partitions of the source that have little to copy.

    They are those whose states are in this partition of the state topic. `PartitionState.has_own_id` says which of both
    ids may write.
    """
    return f"kproxy-migration-{name}/shared-{state_partition}"


def topic_identity(cluster_id: str, topic_id: str) -> str:
    """Return the identity of a topic; parts that the broker did not return are empty.

    A recreated topic has another topic id (KIP-516).
    """
    return f"{cluster_id}/{topic_id}"


def identities_differ(identity: str, other: str) -> bool:
    """Return True if two identities belong to two topics. A part that only one identity has proves nothing."""
    pairs = zip(identity.split("/"), other.split("/"), strict=False)
    return any(left and right and left != right for left, right in pairs)


def merge_identities(identity: str, other: str) -> str:
    """Return an identity with the parts of two identities that do not differ."""
    if not (identity and other):
        return identity or other
    return "/".join(left or right for left, right in zip(identity.split("/"), other.split("/"), strict=False))


def copy_again_advice(topic: str) -> str:
    """Return how to copy a topic of the source from its beginning, as the end of a message."""
    return f"to copy it again: kproxy migrate undo FILE --topic {topic}, then prepare and copy"


def truncation_text(topic: str, target_topic: str, partition: int, end: int, copied_end: int) -> str:
    """Return the message for a target partition that ends before the last copied record."""
    return (
        f"partition {partition} of {target_topic} on the target ends at offset {end}, but records were copied up to"
        f" {copied_end}: the log was truncated (unclean leader election), or the topic was recreated;"
        f" {copy_again_advice(topic)}"
    )


def state_key(*parts: str | int) -> bytes:
    """Return a key: a kind ("partition", "map", …) and its topic, partition or name."""
    return json.dumps(list(parts), separators=(",", ":")).encode()


def parse_key(key: bytes) -> list[Any]:
    """Return the parts of a key. Raises WireError if `state_key` did not make it."""
    try:
        parts = json.loads(key)
    except ValueError:
        parts = None
    if not isinstance(parts, list) or not parts:
        raise malformed("the state topic has a key that kproxy did not write")
    return parts


def parse_key_of(beginnings: tuple[bytes, ...], key: bytes) -> list[Any]:
    """Return the parts of a key with one of these beginnings, such as b'["map",'; [] for a key of another kind.

    Keys of other kinds are not parsed, as a state topic may have tens of thousands. Raises WireError if `state_key` did
    not make the key.
    """
    is_other = key.startswith(b'["') and key.endswith(b"]") and not key.startswith(beginnings)
    return [] if is_other else parse_key(key)


def state_partition(key: bytes, partitions: int) -> int:
    """Return the partition of the state topic for a key. Map pieces are in the partition of their state."""
    parts = parse_key(key)[:3]
    if parts[0] == "map":
        parts[0] = "partition"
    return crc32(json.dumps(parts, separators=(",", ":")).encode()) % partitions


@dataclass(frozen=True, slots=True)
class Job:
    """A migration, and the number of partitions of its state topic on the target."""

    name: str
    state_partitions: int

    @property
    def state_topic(self) -> str:
        return state_topic_name(self.name)


def partition_of_state(job: Job, topic: str, partition: int) -> int:
    """Return the partition of the state topic that has the state of a partition of the source."""
    return state_partition(state_key("partition", topic, partition), job.state_partitions)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The progress of the copy of one source partition."""

    target_topic: str
    source_begin: int
    """First offset of the source when the copy began."""
    source_next: int
    """Source offset at which the copy continues."""
    target_next: int
    """Target offset after the last copied record."""
    records: int = 0
    size: int = 0
    """Copied bytes, as on the source's wire."""
    checksum: int = 0
    """CRC-32C of the checksums of all copied batches, in order."""
    skipped: int = 0
    """Offsets that the source had deleted, and that the user allowed to leave out."""
    at: int = 0
    """Milliseconds since 1970."""
    origin: str = ""
    """Identity of the source topic (`topic_identity`)."""
    destination: str = ""
    """Identity of the target topic."""
    map: OffsetMap = field(default_factory=OffsetMap)
    """The runs that are not sealed yet."""
    target_begin: int = 0
    """Records of the target before this offset that are not in the map existed before the copy."""
    has_own_id: bool = False
    """True if only the partition's own transactional id may write next; False if only the shared one may."""
    had_own_id: bool = False
    """True if the partition's own transactional id has written."""

    def to_json(self) -> bytes:
        """Return the value of the state's record."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return json.dumps({"v": 1, **values, "map": b64encode(self.map.to_bytes()).decode()}).encode()

    @classmethod
    def from_json(cls, value: bytes) -> PartitionState:
        """Parse a value of `to_json`. Raises WireError for anything else."""
        record = parse_object(value)
        try:
            if record["v"] != 1:
                raise malformed("the state was written by a newer kproxy: update this one")
            numbers = {name: record[name] for name in _NUMBERS} | {"target_begin": record.get("target_begin", 0)}
            # A state without these fields is from a time when there was no shared id.
            own_id = {name: record.get(name, True) for name in _FLAGS}
            if not all(type(number) is int and number >= 0 for number in numbers.values()):
                raise ValueError
            if not all(type(flag) is bool for flag in own_id.values()):
                raise ValueError
            return cls(
                str(record["target_topic"]),
                origin=str(record["origin"]),
                destination=str(record["destination"]),
                map=OffsetMap.from_bytes(b64decode(record["map"], validate=True)),
                **own_id,
                **numbers,
            )
        except (KeyError, ValueError, TypeError):
            raise malformed("the state topic has a record that kproxy did not write") from None

    def writers(self, job: Job, topic: str, partition: int) -> list[str]:
        """Return the transactional ids that have written this partition of the source."""
        own = [transactional_id(job.name, topic, partition)] if self.had_own_id else []
        return [*own, shared_transactional_id(job.name, partition_of_state(job, topic, partition))]

    def seal(self) -> tuple[PartitionState, OffsetMap]:
        """Return the state without runs, and its runs as a piece of the map."""
        return replace(self, map=OffsetMap()), self.map


_FLAGS = ("has_own_id", "had_own_id")
_NUMBERS = ("source_begin", "source_next", "target_next", "records", "size", "checksum", "skipped", "at")


def encode_map_piece(piece: OffsetMap) -> bytes:
    """Return the value of a sealed piece of the map."""
    return json.dumps({"v": 1, "map": b64encode(piece.to_bytes()).decode()}).encode()


def decode_map_piece(value: bytes) -> OffsetMap:
    """Parse a value of `encode_map_piece`. Raises WireError for anything else."""
    record = parse_object(value)
    try:
        return OffsetMap.from_bytes(b64decode(record["map"], validate=True))
    except (KeyError, ValueError, TypeError):
        raise malformed("the state topic has a record that kproxy did not write") from None


def parse_object(value: bytes) -> dict[str, Any]:
    """Parse the value of a record. Raises WireError if it is no JSON object."""
    try:
        record = json.loads(value)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise malformed("the state topic has a record that kproxy did not write")
    return record


# Copy tasks: what travels between Spark's driver and its tasks


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of one partition of the source: from the committed position up to the offset `upto`.

    A slice also ends after about `size` bytes or `seconds`.
    """

    topic: str
    partition: int
    target_topic: str
    begin: int
    """Offset at which the copy begins if there is no state yet."""
    upto: int
    size: int
    seconds: float
    state: PartitionState | None = None
    """State of the partition as the driver has read it, or None."""
    state_offset: int = 0
    """Offset in the state topic from which the task reads newer states."""
    skip_to: int = 0
    """The copy may leave out offsets before this one."""
    allows_gaps: bool = False
    """True if offsets may be missing: the topic is compacted, or the user allows gaps."""
    max_batch_size: int = DEFAULT_MAX_BATCH
    """Maximum size of a batch of the target topic, in bytes."""
    rate: float = 0.0
    """Maximum rate in bytes a second; 0 is no limit."""
    origin: str = ""
    """Current identity of the source topic (`state.topic_identity`)."""
    destination: str = ""
    """Current identity of the target topic."""

    @property
    def has_own_id(self) -> bool:
        """True if the partition's own transactional id may write it, as far as the driver knows."""
        return self.state is not None and self.state.has_own_id

    def state_partition(self, job: Job) -> int:
        """Return the partition of the state topic that has the state."""
        return partition_of_state(job, self.topic, self.partition)

    def transactional_id(self, job: Job) -> str:
        """Return the transactional id that copies the slice."""
        if self.has_own_id:
            return transactional_id(job.name, self.topic, self.partition)
        return shared_transactional_id(job.name, self.state_partition(job))


@dataclass(frozen=True, slots=True)
class SliceResult:
    """The result of copying a slice."""

    topic: str
    partition: int
    state: PartitionState | None
    """State that the target has committed, None if there is none. The copy continues from it."""
    records: int = 0
    size: int = 0
    seconds: float = 0.0
    log_start: int = -1
    """Log start offset of the source partition, -1 if unknown."""
    stable: int = -1
    """Last stable offset of the source partition, -1 if unknown."""
    stuck: str = ""
    """Reason why the copy of this partition could not continue, "" if it could."""
    is_final: bool = False
    """True if another attempt cannot succeed."""
    attempts: int = 1
    batch_counts: Mapping[str, int] = field(default_factory=dict)
    """Number of batches written, by the method that wrote them."""
