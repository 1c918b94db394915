"""Translation of a position on the source to the target (pure).

A position is the offset of the next record to read. Its translation is the target offset from which the same record is
the next one: transaction markers, and aborted and compacted records, have different places on the two sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kproxy.base.messages.migrations import POSITION_BEYOND_END
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import CopiedPartition

EXACT = "exact"  # the record itself
NEXT = "next"  # in a gap: the next copied record
END = "end"  # after all copied records: the next one that will be copied
BEFORE = "before"  # deleted on the source before the copy: the first copied record
BEYOND = "beyond"  # not copied yet
PAST_END = "past the end"  # the source's log ends before it
AS_END = "as end"  # likewise, and the user wants the end instead
NOT_COPIED = "not copied"  # nothing is copied of this partition
NO_MAP = "no map"  # records were copied, but their offset map is missing


@dataclass(frozen=True, slots=True)
class Position:
    """A position on the source and its translation."""

    topic: str
    partition: int
    source: int
    target_topic: str
    target: int | None
    """Target offset, None if the position cannot be translated."""
    match: str
    """The kind of translation: one of the constants of this module."""
    missing: int = 0
    """Offsets that must still be copied, or that lie between the end of the source's log and the position."""

    @property
    def text(self) -> str:
        """The kind of translation, or the reason why there is none."""
        if self.match == BEYOND:
            return f"{self.missing} offsets before it are not copied yet"
        if self.match == PAST_END:
            return POSITION_BEYOND_END(missing=self.missing)
        return _TEXTS[self.match]


_TEXTS = {
    EXACT: "the same record",
    NEXT: "the next copied record",
    END: "the next record that will be written",
    AS_END: "the next record that will be written; the log ends before this position",
    BEFORE: "the first copied record; the source had deleted this offset before the copy",
    NOT_COPIED: "the migration has not copied this partition",
    NO_MAP: "the state topic has no offset map of this partition",
}


def translate(
    copied: Mapping[TopicPartition, CopiedPartition], topic: str, partition: int, position: int, target_topic: str = ""
) -> Position:
    """Translate a position. `target_topic` is the name to show if nothing was copied of this partition."""
    partition_map = copied.get((topic, partition))
    if partition_map is None:
        return Position(
            topic=topic,
            partition=partition,
            source=position,
            target_topic=target_topic or topic,
            target=None,
            match=NOT_COPIED,
        )
    target, match, missing = _translate_offset(partition_map, position)
    return Position(
        topic=topic,
        partition=partition,
        source=position,
        target_topic=partition_map.target_topic,
        target=target,
        match=match,
        missing=missing,
    )


def translate_past_end(
    copied: Mapping[TopicPartition, CopiedPartition],
    topic: str,
    partition: int,
    position: int,
    end: int,
    *,
    as_end: bool,
) -> Position:
    """Translate a position beyond the end of the source's log; with `as_end`, translate the end instead."""
    end_position = translate(copied, topic, partition, end)
    if end_position.match == NOT_COPIED:
        return replace(end_position, source=position)
    if not as_end:
        return replace(end_position, source=position, target=None, match=PAST_END, missing=position - end)
    return replace(end_position, source=position, match=end_position.match if end_position.target is None else AS_END)


def _translate_offset(copied: CopiedPartition, position: int) -> tuple[int | None, str, int]:
    if position > copied.source_next:
        return None, BEYOND, position - copied.source_next
    if not len(copied.map) and copied.records:
        return None, NO_MAP, 0
    target = copied.map.next_target(position)
    if target is None:
        return copied.target_next, BEFORE if position < copied.source_begin else END, 0
    if position < copied.source_begin:
        return target, BEFORE, 0
    return target, NEXT if copied.map.to_target(position) is None else EXACT, 0
