"""A position on the source, translated to the target (pure).

A position is the offset of the next record that somebody wants to read. On the target it is the offset from which the
same record is the next one: markers of transactions, aborted and compacted records lie differently on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kproxy.migrate.copier.statetopic import CopiedPartition

EXACT = "exact"  # the very record is there
NEXT = "next"  # in a gap: the next record that was copied
END = "end"  # no record is copied from there on: the next one that will be
BEFORE = "before"  # the source has deleted that offset before the copy: the first record that was copied
BEYOND = "beyond"  # not copied so far
PAST_END = "past the end"  # the source's log ends before it
AS_END = "as end"  # likewise, and the user wants it to be the end
NOT_COPIED = "not copied"  # nothing is copied of this partition
NO_MAP = "no map"  # records were copied, but nobody knows where to


@dataclass(frozen=True, slots=True)
class Position:
    """`target` is None if it cannot be translated; `missing`: then so many offsets are still to be copied, or lie
    between the end of the source's log and the position."""

    topic: str
    partition: int
    source: int
    target_topic: str
    target: int | None
    match: str
    missing: int = 0

    @property
    def text(self) -> str:
        """How it was translated, or why it was not."""
        if self.match == BEYOND:
            return f"{self.missing} offsets before it are not copied so far"
        if self.match == PAST_END:
            return f"it is {self.missing} offsets beyond the end of the log"
        return _WORDS[self.match]


_WORDS = {
    EXACT: "the same record",
    NEXT: "the next record that was copied",
    END: "the next record that comes",
    AS_END: "the next record that comes; the log ends before this position",
    BEFORE: "the first record that was copied; the source had deleted this offset before",
    NOT_COPIED: "the migration has not copied this partition",
    NO_MAP: "the state topic has no offset map of this partition",
}


def translate(
    copied: Mapping[tuple[str, int], CopiedPartition], topic: str, partition: int, position: int, target_topic: str = ""
) -> Position:
    """`target_topic`: what to call it if nothing was copied of this partition."""
    found = copied.get((topic, partition))
    if found is None:
        return Position(topic, partition, position, target_topic or topic, None, NOT_COPIED)
    target, how, missing = _translated(found, position)
    return Position(topic, partition, position, found.target_topic, target, how, missing)


def translate_past_end(
    copied: Mapping[tuple[str, int], CopiedPartition],
    topic: str,
    partition: int,
    position: int,
    end: int,
    *,
    as_end: bool,
) -> Position:
    """A position beyond the end of the source's log. `as_end`: take the end for it."""
    found = translate(copied, topic, partition, end)
    if found.match == NOT_COPIED:
        return replace(found, source=position)
    if not as_end:
        return replace(found, source=position, target=None, match=PAST_END, missing=position - end)
    return replace(found, source=position, match=found.match if found.target is None else AS_END)


def _translated(found: CopiedPartition, position: int) -> tuple[int | None, str, int]:
    if position > found.source_next:
        return None, BEYOND, position - found.source_next
    if not len(found.map) and found.records:
        return None, NO_MAP, 0
    at = found.map.next_target(position)
    if at is None:
        return found.target_next, BEFORE if position < found.source_begin else END, 0
    if position < found.source_begin:
        return at, BEFORE, 0
    return at, NEXT if found.map.to_target(position) is None else EXACT, 0
