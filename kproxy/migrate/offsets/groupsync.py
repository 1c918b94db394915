"""Synchronization of the committed offsets of groups: translates them, and writes them to the target.

The state topic has a journal of the offsets that kproxy wrote for each group. If a group has another offset on the
target, another consumer has committed it, and the group stays unchanged. kproxy writes the journal first, with the
previous offset: so the next command knows both, whenever this one is killed.

The brokers refuse a group that has members on the target. A consumer without group membership (`assign`) is invisible;
the offsets that it commits are not.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.base.diagnostic import ERROR, Diagnostic
from kproxy.base.errors import WireError
from kproxy.migrate.clusters import topic_identities
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.groups import (
    SHARE,
    CommittedOffset,
    GroupOffsets,
    GroupOffsetsClient,
    GroupRefusedError,
)
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import PartitionState, parse_key_of, state_key
from kproxy.migrate.copier.statetopic import CopiedPartition, copied_partitions, parse_states, read_state
from kproxy.migrate.journal.driver import write_once
from kproxy.migrate.offsets.positions import BEYOND, NOT_COPIED, PAST_END, Position, translate, translate_past_end
from kproxy.migrate.spec.migration import Migration

WRITTEN, UNCHANGED, PLANNED, SKIPPED, FAILED = "written", "there already", "would be written", "skipped", "failed"
NOT_COPIED_YET = "not-copied-yet"
"""The fault of a position that the copy has not reached."""
LOST = (
    "only the start offset of a share group is kept: records that were acknowledged beyond it, are in flight or were"
    " delivered before are delivered again, and delivery counts start at 0"
)
_PAST_END = (
    ": the topic was deleted and recreated, or has lost records. Further copying does not help: reset the group on the"
    " cluster that it leaves, or give --as-end {group} (groups.as-end in the file) to continue at the end of the log"
)
_OFFSETS = b'["offsets",'  # the beginning of a key
_TIMEOUT = 60.0
_MAX_JOURNAL_SIZE = 256 * 1024  # bytes of journal in one transaction


@dataclass(frozen=True, slots=True)
class PositionResult:
    """The result of one position of a group."""

    position: Position
    metadata: str | None
    outcome: str
    """WRITTEN, UNCHANGED, PLANNED, SKIPPED or FAILED."""
    reason: str = ""
    """Reason why the position was skipped or failed, or ""."""
    own_offset: int | None = None
    """Current offset on the target, if kproxy wrote it."""

    @property
    def target_partition(self) -> TopicPartition:
        """The topic and partition on the target."""
        return self.position.target_topic, self.position.partition


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The result of one group."""

    group: str
    kind: str
    positions: tuple[PositionResult, ...] = ()
    refusal: str = ""
    """Reason why no position of the group was written, or ""."""

    def to_record(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "group": self.group,
            "kind": self.kind,
            "refused": self.refusal,
            "lost": LOST if self.kind == SHARE else "",
            "positions": [
                {
                    "topic": row.position.topic,
                    "partition": row.position.partition,
                    "source": row.position.source,
                    "target_topic": row.position.target_topic,
                    "target": row.position.target,
                    "how": row.position.match,
                    "missing": row.position.missing,
                    "done": row.outcome,
                    "why": row.reason,
                }
                for row in self.positions
            ],
        }


JournaledOffsets = Mapping[TopicPartition, Collection[int]]
"""Offsets that kproxy wrote for a group, by partition of the target.

The last one and, because its write may have failed, the one before.
"""


def decide_writes(
    group: GroupOffsets,
    rows: Iterable[PositionResult],
    committed: Mapping[TopicPartition, CommittedOffset],
    journaled: JournaledOffsets,
    force: bool,
) -> GroupResult:
    """Decide which positions are written (pure). `committed`: the offsets of the group on the target."""
    decided, conflict = [], ""
    for row in rows:
        if row.outcome == PLANNED:
            current = committed.get(row.target_partition)
            own_offsets = list(journaled.get(row.target_partition, ()))
            if current is not None and current.offset in own_offsets:
                row = replace(row, own_offset=current.offset)
            if current is not None and (current.offset, current.metadata or "") == (
                row.position.target,
                row.metadata or "",
            ):
                row = replace(row, outcome=UNCHANGED)
            elif current is not None and current.offset not in (row.position.target, *own_offsets):
                conflict = conflict or _conflict_text(row.position, current.offset, own_offsets)
        decided.append(row)
    if conflict and not force:
        return GroupResult(group.name, group.kind, _replace_planned(decided, SKIPPED), conflict)
    return GroupResult(group.name, group.kind, tuple(decided))


def _conflict_text(position: Position, current: int, own_offsets: Sequence[int]) -> str:
    name = f"partition {position.partition} of {position.target_topic}"
    written = f"kproxy wrote {own_offsets[0]}" if own_offsets else "kproxy wrote none"
    return (
        f"its position in {name} on the target is {current}, and {written}: another consumer has committed it. --force"
        " overwrites it; the group may then read records twice, or skip some"
    )


def translate_positions(
    group: GroupOffsets,
    migration: Migration,
    copied: Mapping[TopicPartition, CopiedPartition],
    ends: Mapping[TopicPartition, int] | None = None,
    lost: Mapping[str, str] | None = None,
) -> list[PositionResult]:
    """Translate the positions of a group (pure).

    `ends`: ends of the source's logs, where known. `lost`: topics that are not the copied ones, and the reason; their
    positions are not translated.
    """
    results = []
    for (topic, partition), committed in sorted(group.positions.items()):
        end = (ends or {}).get((topic, partition), committed.offset)
        if committed.offset > end:
            as_end = group.name in migration.groups.as_end
            translated = translate_past_end(copied, topic, partition, committed.offset, end, as_end=as_end)
        else:
            translated = translate(copied, topic, partition, committed.offset, migration.target_name(topic))
        reason = "" if translated.target is not None else translated.text
        if translated.match == PAST_END:
            reason += _PAST_END.format(group=group.name)
        if translated.match == NOT_COPIED and not migration.selects_topic(topic):
            reason = "the file excludes this topic"
        reason = (lost or {}).get(topic, reason)
        results.append(PositionResult(translated, committed.metadata, SKIPPED if reason else PLANNED, reason))
    return results


def _past_copied(
    groups: Iterable[GroupOffsets], copied: Mapping[TopicPartition, CopiedPartition]
) -> set[TopicPartition]:
    """Return the partitions in which a group has a position beyond the copied offsets."""
    return {
        topic_partition
        for group in groups
        for topic_partition, committed in group.positions.items()
        if topic_partition in copied and committed.offset > copied[topic_partition].source_next
    }


def find_empty_partitions(
    source: str, target: str, migration: Migration, topic_partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, CopiedPartition]:
    """Return the partitions without records on the source, as if their offsets were copied.

    Nothing is copied of such a partition, but a group may have a position in it. That position is translated to the end
    of the target's log, where the next record goes. Partitions for which a cluster returns no offsets are left out.
    """
    target_names = {
        topic_partition: migration.target_name(topic_partition[0])
        for topic_partition in topic_partitions
        if migration.selects_topic(topic_partition[0])
    }
    if not target_names:
        return {}
    # The target first: records that are copied later come at its end or after, and a member must read them next.
    ends = _list_offsets(target, [(name, partition) for (_, partition), name in target_names.items()], requests.LATEST)
    highs, begins = (_list_offsets(source, target_names, which) for which in (requests.LATEST, requests.EARLIEST))
    return {
        (topic, partition): CopiedPartition.without_records(
            *(topic, partition, name),
            begin=begins[topic, partition],
            end=highs[topic, partition],
            target_end=ends[name, partition],
        )
        for (topic, partition), name in target_names.items()
        if (name, partition) in ends and highs.get((topic, partition), -1) == begins.get((topic, partition), -2)
    }


def _list_offsets(bootstrap: str, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
    """Return offsets, uncommitted records included."""
    if not (partitions := list(partitions)):
        return {}
    with ClusterClient(bootstrap) as cluster:
        return cluster.list_offsets(partitions, which, committed=False)


def parse_journal(values: Mapping[bytes, bytes]) -> dict[str, dict[TopicPartition, list[int]]]:
    """Return the journaled offsets of each group from the values of a state topic."""
    journal: dict[str, dict[TopicPartition, list[int]]] = {}
    for key, value in values.items():
        match parse_key_of((_OFFSETS,), key):
            case ["offsets", str(group)]:
                journal[group] = _decode_journal(value)
            case _:
                pass
    return journal


def _decode_journal(value: bytes) -> dict[TopicPartition, list[int]]:
    try:
        record = json.loads(value)
        if record["v"] != 1:
            raise WireError("malformed", "positions were written by a newer kproxy: update this one")
        return {
            (topic, int(index)): [int(offset) for offset in offsets]
            for topic, partitions in record["positions"].items()
            for index, offsets in partitions.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise WireError("malformed", "the state topic has positions that kproxy did not write") from None


def encode_journal(journaled: JournaledOffsets) -> dict[str, Any]:
    """Return the value of a group's record."""
    positions: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for (topic, index), offsets in sorted(journaled.items()):
        positions[topic][str(index)] = list(offsets)
    return {"v": 1, "at": time.time_ns() // 1_000_000, "positions": positions}


def write_journal(target: str, name: str, journaled: Mapping[str, JournaledOffsets]) -> None:
    """Write the journal of offsets that are about to be written, by group."""
    records: dict[bytes, dict[str, Any]] = {}
    size = 0
    for group, offsets in journaled.items():
        records[state_key("offsets", group)] = record = encode_journal(offsets)
        size += len(json.dumps(record))
        if size > _MAX_JOURNAL_SIZE:
            write_once(target, name, records, "offsets")
            records, size = {}, 0
    if records:
        write_once(target, name, records, "offsets")


@dataclass
class GroupOffsetSync:
    """Synchronizes group offsets between two clusters."""

    migration: Migration
    source: Admin
    target: Admin
    force: bool = False
    """Overwrite offsets that another consumer has committed."""
    copied: Mapping[TopicPartition, CopiedPartition] = field(default_factory=dict)
    journal: bool = True
    """Write the journal before the offsets."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Topics that are not the copied ones, and the reason: see `check_topics`."""
    _journaled: dict[str, dict[TopicPartition, list[int]]] = field(default_factory=dict)

    def read_state(self) -> GroupOffsetSync:
        """Read the copied partitions and the journal. Raises ConfigError."""
        values = read_state(self.target.bootstrap, self.migration.name)
        return self.use_state(values, parse_states(values))

    def use_state(
        self, values: Mapping[bytes, bytes], states: Mapping[TopicPartition, PartitionState]
    ) -> GroupOffsetSync:
        """Take the copied partitions and the journal from the state topic; `states` are those that `values` contain."""
        self.copied, self._journaled = copied_partitions(values, states), parse_journal(values)
        return self

    def check_topics(self) -> GroupOffsetSync:
        """Translate no position of a topic that was deleted or recreated on either side since it was copied.

        Raises ConfigError.
        """
        topics = topic_identities.read_migrated_topics(self.target.bootstrap, self.migration.name)
        self.lost = topic_identities.find_topic_problems(self.source.bootstrap, self.target.bootstrap, topics)
        return self

    def run(self, group_filter: Callable[[str], bool], *, dry_run: bool) -> list[GroupResult]:
        """Translate the offsets of the source's groups that `group_filter` selects, and write them unless `dry_run`."""
        target_groups, groups = GroupOffsetsClient(self.target), GroupOffsetsClient(self.source).read(group_filter)
        topic_partitions = {
            topic_partition for group in groups for topic_partition in group.positions
        } - self.copied.keys()
        copied = {
            **self.copied,
            **find_empty_partitions(self.source.bootstrap, self.target.bootstrap, self.migration, topic_partitions),
        }
        # After the positions: a log only grows, so a position beyond its current end was never in it.
        ends = _list_offsets(self.source.bootstrap, _past_copied(groups, copied), requests.LATEST)
        target_groups.prefetch(group.name for group in groups if group.kind != SHARE and not group.unreadable)
        results = [self._decide(group, target_groups, copied, ends) for group in groups]
        return results if dry_run else list(self._write(results, target_groups))

    def _decide(
        self,
        group: GroupOffsets,
        target_groups: GroupOffsetsClient,
        copied: Mapping[TopicPartition, CopiedPartition],
        ends: Mapping[TopicPartition, int],
    ) -> GroupResult:
        if group.unreadable:
            return GroupResult(group.name, group.kind, refusal=f"its positions on the source: {group.unreadable}")
        rows = translate_positions(group, self.migration, copied, ends, self.lost)
        if not any(row.outcome == PLANNED for row in rows):
            return GroupResult(group.name, group.kind, tuple(rows))
        try:
            committed = target_groups.read_positions(group.name, group.kind)
        except GroupRefusedError as error:
            rows_skipped = _replace_planned(rows, SKIPPED)
            return GroupResult(group.name, group.kind, rows_skipped, f"its positions on the target: {error}")
        return decide_writes(group, rows, committed, self._journaled.get(group.name, {}), self.force)

    def _write(self, results: list[GroupResult], target_groups: GroupOffsetsClient) -> Iterator[GroupResult]:
        if self.journal:
            self._write_journal(result for result in results if any(row.outcome == PLANNED for row in result.positions))
        for result in results:
            commits = {
                row.target_partition: CommittedOffset(row.position.target, row.metadata)
                for row in result.positions
                if row.outcome == PLANNED and row.position.target is not None
            }
            if not commits:
                yield result
                continue
            try:
                errors = target_groups.write_positions(result.group, result.kind, commits)
            except GroupRefusedError as error:
                yield replace(result, positions=_replace_planned(result.positions, SKIPPED), refusal=str(error))
                continue
            yield replace(result, positions=tuple(_apply_errors(row, errors) for row in result.positions))

    def _write_journal(self, results: Iterable[GroupResult]) -> None:
        journaled: dict[str, dict[TopicPartition, list[int]]] = {}
        for result in results:
            journaled[result.group] = dict(self._journaled.get(result.group, {}))
            for row in result.positions:
                if row.outcome == PLANNED and row.position.target is not None:
                    offsets = dict.fromkeys((row.position.target, row.own_offset))
                    journaled[result.group][row.target_partition] = [each for each in offsets if each is not None]
        write_journal(self.target.bootstrap, self.migration.name, journaled)


def _replace_planned(rows: Iterable[PositionResult], done: str) -> tuple[PositionResult, ...]:
    return tuple(replace(row, outcome=done) if row.outcome == PLANNED else row for row in rows)


def _apply_errors(row: PositionResult, errors: Mapping[TopicPartition, str]) -> PositionResult:
    if row.outcome != PLANNED:
        return row
    text = errors.get(row.target_partition, "the brokers returned no result for it")
    return replace(row, outcome=FAILED if text else WRITTEN, reason=text)


def unwritten_positions(results: Iterable[GroupResult], migration: Migration) -> list[Diagnostic]:
    """Return the positions of migrated topics that could not be written, each reason once."""
    diagnostics: dict[Diagnostic, None] = {}
    for result in results:
        group = f"group {result.group}"
        if result.refusal:
            diagnostics[Diagnostic(ERROR, "positions", f"{group}: {result.refusal}")] = None
            continue
        for row in result.positions:
            position = row.position
            if row.outcome == FAILED or (row.outcome == SKIPPED and migration.selects_topic(position.topic)):
                fault = NOT_COPIED_YET if row.outcome == SKIPPED and position.match == BEYOND else ""
                text = f"{group}, partition {position.partition} of {position.topic}: {row.reason}"
                diagnostics[Diagnostic(ERROR, "positions", text, fault)] = None
    return list(diagnostics)
