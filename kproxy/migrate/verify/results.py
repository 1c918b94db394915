"""What a verification found, and its form in the state topic. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kproxy.migrate.copier.state import parse_key, state_key
from kproxy.migrate.verify.differences import Difference


@dataclass(frozen=True, slots=True)
class VerifiedRange:
    """Of one partition, from one verification to the next. `since`: from where on the source verified offsets are;
    `upto`: up to where, this one not included. `records`: compared, and the same. `gone`: offsets that could not be
    compared any more. `compacted`: records that compaction has removed from one side or both. `foreign`: records behind
    the last copied one on the target, at least so many, when this was looked for last."""

    since: int
    upto: int
    records: int = 0
    deleted: int = 0
    compacted: int = 0
    unknown: int = 0

    def again(self, begin: int) -> VerifiedRange:
        """For a verification that compares everything once more: what the source has deleted since, up to the offset
        `begin`, stays verified."""
        upto = max(self.since, min(self.upto, begin))
        return VerifiedRange(self.since, upto, deleted=self.deleted)

    def to_record(self, at: int) -> dict[str, Any]:
        """For the state topic; `at` in milliseconds."""
        return {
            "v": 1,
            "upto": self.upto,
            "since": self.since,
            "records": self.records,
            "gone": self.deleted,
            "compacted": self.compacted,
            "foreign": self.unknown,
            "sampled": False,
            "at": at,
        }

    @classmethod
    def read(cls, value: bytes | None) -> VerifiedRange | None:
        """None if there is none, or none that can be read."""
        try:
            said = json.loads(value or b"")
            said.setdefault("foreign", 0)  # of an older kproxy
            return cls(*(int(said[name]) for name in ("since", "upto", "records", "gone", "compacted", "foreign")))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def verified_key(where: tuple[str, int]) -> bytes:
    """The key of what is kept of this partition."""
    return state_key("verified", *where)


def parse_verified_ranges(values: Mapping[bytes, bytes]) -> dict[tuple[str, int], VerifiedRange]:
    """From what the state topic has. Raises WireError."""
    found = {}
    for name, value in values.items():
        match parse_key(name):
            case ["verified", str(topic), int(partition)] if (one := VerifiedRange.read(value)) is not None:
                found[topic, partition] = one
    return found


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """One partition after a verification. `copied`: up to where on the source it was copied when this began; `begin`:
    where the copy began; `ends`: the source's own end. `records`, `blocks`, `gone` and so on are of this run alone,
    `kept` is of all. `extra`: records on the target that were not copied, `kept.foreign` of them behind the last one
    that was. `others`: records on the target, of clients that were led there before. `behind`: offsets behind the last
    copied record of which nothing can be said, as clients write there. `undecided`: offsets at the target's end of
    transactions that have not ended. `of`: the blocks that there were to choose from, in a sampling."""

    topic: str
    partition: int
    target_topic: str
    begin: int
    copied: int
    source_end: int
    kept: VerifiedRange
    records: int = 0
    blocks: int = 0
    bad: int = 0
    extra: int = 0
    deleted: int = 0
    compacted_source: int = 0
    compacted_target: int = 0
    compacted_both: int = 0
    total_blocks: int = 0
    client_records: int = 0
    client_offsets: int = 0
    undecided_offsets: int = 0
    difference: Difference | None = None
    note: str = ""

    @property
    def is_equal(self) -> bool:
        return not self.bad and not self.extra and self.difference is None and not self.note

    @property
    def is_complete(self) -> bool:
        """Whether all that was copied is verified now, or cannot be verified any more."""
        return self.is_equal and self.kept.upto >= self.copied


@dataclass(frozen=True, slots=True)
class LagSample:
    """How far a copy was at some moment: milliseconds since 1970, and offsets of the source that it was behind."""

    at: int
    lag: int


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """Of one run. `share`: None, or of how many blocks the records were compared, by sampling."""

    name: str
    at: int
    seconds: float
    partitions: tuple[PartitionResult, ...]
    share: float | None = None
    differences: tuple[Difference, ...] = ()
    lag: tuple[LagSample, ...] = ()

    @property
    def is_equal(self) -> bool:
        return all(one.is_equal for one in self.partitions)

    @property
    def exit_code(self) -> int:
        """0: all that was copied is the same, as far as it was compared. 1: something differs, or is not verified."""
        good = self.is_equal if self.share is not None else all(one.is_complete for one in self.partitions)
        return 0 if good else 1
