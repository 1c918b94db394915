"""The results of a verification, and their form in the state topic. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import parse_key_of, state_key
from kproxy.migrate.copier.statetopic import VERIFIED
from kproxy.migrate.verify.differences import Difference


@dataclass(frozen=True, slots=True)
class VerifiedRange:
    """The verified range of a partition, saved from one verification to the next."""

    since: int
    """First verified offset of the source."""
    upto: int
    """Offset of the source after the last verified one."""
    records: int = 0
    """Records that were compared and equal."""
    deleted: int = 0
    """Offsets that could not be compared because the source had deleted them."""
    compacted: int = 0
    """Records that compaction has removed from one or both sides."""
    unknown: int = 0
    """Minimum number of records after the last copied one that kproxy did not copy, in the last verification."""
    digest: int | None = field(default=None, compare=False)
    """The sum modulo 2^64 of the hashes of `records` records, equal on both sides: xxHash64 of offset and content.

    None if they were not all hashed by one way: compaction has removed records, a difference was found, another kproxy
    or a rollback wrote the range.
    """
    at: int = field(default=0, compare=False)
    """The time of saving, in milliseconds since 1970; 0 if it is unknown."""

    @property
    def digest_text(self) -> str:
        """The digest in hexadecimal, "" if there is none."""
        return "" if self.digest is None else f"{self.digest:016x}"

    def restart_at(self, begin: int) -> VerifiedRange:
        """Return the range with which a full verification starts.

        Only offsets before `begin`, which the source has deleted, stay verified.
        """
        return VerifiedRange(self.since, max(self.since, min(self.upto, begin)), deleted=self.deleted, digest=0)

    def to_record(self, at: int) -> dict[str, Any]:
        """Return the record for the state topic; `at` in milliseconds since 1970."""
        return {
            "v": 1,
            "upto": self.upto,
            "since": self.since,
            "records": self.records,
            "gone": self.deleted,
            "compacted": self.compacted,
            "foreign": self.unknown,
            "digest": self.digest_text,
            "sampled": False,
            "at": at,
        }

    @classmethod
    def read(cls, value: bytes | None) -> VerifiedRange | None:
        """Parse a record; return None if there is none, or none that can be read."""
        try:
            record = json.loads(value or b"")
            record.setdefault("foreign", 0)  # records of an older kproxy lack it, and the digest
            digest = record.get("digest") or ""
            return cls(
                since=int(record["since"]),
                upto=int(record["upto"]),
                records=int(record["records"]),
                deleted=int(record["gone"]),
                compacted=int(record["compacted"]),
                unknown=int(record["foreign"]),
                digest=int(digest, 16) if digest else None,
                at=int(record.get("at", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def verified_key(where: TopicPartition) -> bytes:
    """Return the key of the range of a partition."""
    return state_key("verified", *where)


def parse_verified_ranges(values: Mapping[bytes, bytes]) -> dict[TopicPartition, VerifiedRange]:
    """Return the verified ranges from the values of the state topic."""
    ranges = {}
    for key, value in values.items():
        match parse_key_of((VERIFIED,), key):
            case ["verified", str(topic), int(partition)] if (verified := VerifiedRange.read(value)) is not None:
                ranges[topic, partition] = verified
    return ranges


@dataclass(slots=True)
class PartitionResult:
    """The result of one partition in a verification. Counts are of this run alone; `kept` is of all runs."""

    topic: str
    partition: int
    target_topic: str
    begin: int
    """Source offset at which the copy began."""
    copied: int
    """Source offset up to which the partition was copied when the verification began."""
    source_end: int
    """End of the source's log."""
    kept: VerifiedRange
    """The verified range."""
    records: int = 0
    blocks: int = 0
    bad: int = 0
    extra: int = 0
    """Records on the target that were not copied, `kept.unknown` of them after the last copied one."""
    deleted: int = 0
    compacted_source: int = 0
    compacted_target: int = 0
    compacted_both: int = 0
    total_blocks: int = 0
    """Number of blocks from which a sampling chose."""
    client_records: int = 0
    """Records on the target of clients that were routed there before."""
    client_offsets: int = 0
    """Offsets after the last copied record that were not compared, because clients write there."""
    undecided_offsets: int = 0
    """Offsets of open transactions at the target's end."""
    difference: Difference | None = None
    note: str = ""

    @property
    def is_equal(self) -> bool:
        return not self.bad and not self.extra and self.difference is None and not self.note

    @property
    def is_complete(self) -> bool:
        """True if all copied offsets are verified, or cannot be verified any more."""
        return self.is_equal and self.kept.upto >= self.copied


@dataclass(frozen=True, slots=True)
class LagSample:
    """The lag of a copy, in offsets, at a time in milliseconds since 1970."""

    at: int
    lag: int


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """The result of one verification."""

    name: str
    at: int
    seconds: float
    partitions: tuple[PartitionResult, ...]
    sample_share: float | None = None
    """Share of the blocks that were compared; None without sampling."""
    lag: Sequence[LagSample] = ()

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The first difference of each partition that has one."""
        return tuple(partition.difference for partition in self.partitions if partition.difference is not None)

    @property
    def is_equal(self) -> bool:
        return all(partition.is_equal for partition in self.partitions)

    @property
    def exit_code(self) -> int:
        """0 if all copied offsets are equal, as far as they were compared; 1 if one differs or is not verified."""
        passed = (
            self.is_equal
            if self.sample_share is not None
            else all(partition.is_complete for partition in self.partitions)
        )
        return 0 if passed else 1
