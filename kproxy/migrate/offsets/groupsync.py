"""The committed positions of groups, translated and written to the target.

The state topic has a journal: what was written for each group. If a position on the target is another one, somebody has
consumed there, and the group stays as it is. The journal is written first, with the position of before: whatever was
done when the command was ended, the next one knows it.

The brokers refuse a group that has members on the target. A consumer without a group membership (`assign`) cannot be
seen; what it has committed can.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.base.errors import WireError
from kproxy.migrate.clusters import topic_identities
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.group_offsets import (
    SHARE,
    CommittedOffset,
    GroupOffsets,
    GroupOffsetsClient,
    GroupRefusedError,
    TopicPartition,
)
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.slices import Job
from kproxy.migrate.copier.state import parse_key, state_key
from kproxy.migrate.copier.statetopic import CopiedPartition, StateTopic, parse_copied_partitions, read_state_topic
from kproxy.migrate.journal.driver import write_once
from kproxy.migrate.offsets.positions import NOT_COPIED, PAST_END, Position, translate, translate_past_end
from kproxy.migrate.spec.migration import Migration

WRITTEN, UNCHANGED, PLANNED, SKIPPED, FAILED = "written", "there already", "would be written", "skipped", "failed"
LOST = (
    "of a share group only its start offset is kept: what was acknowledged beyond it, is in flight or was delivered"
    " before is delivered again, and delivery counts begin anew"
)
_PAST_END = (
    ": the topic was deleted and made again, or has lost records. Copying on does not help: reset the group on the side"
    " that it leaves, or give --as-end {group} (groups.as-end in the file): it goes on at the end of the log"
)
_PATIENCE = 60.0
_AT_ONCE = 256 * 1024  # bytes of journal in one transaction


@dataclass(frozen=True, slots=True)
class PositionResult:
    """One position of a group. `done`: what became of it; `why`: if that is not as wanted. `ours`: the position on the
    target, if kproxy wrote it."""

    position: Position
    metadata: str | None
    outcome: str
    reason: str = ""
    own_offset: int | None = None

    @property
    def place(self) -> TopicPartition:
        """On the target."""
        return self.position.target_topic, self.position.partition


@dataclass(frozen=True, slots=True)
class GroupResult:
    """Of one group. `refused`: why nothing of it was written, "" if it was."""

    group: str
    kind: str
    positions: tuple[PositionResult, ...] = ()
    refusal: str = ""

    def to_record(self) -> dict[str, Any]:
        """For JSON."""
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
"""By place on the target, what kproxy has written for a group: the last position and, as it may not have come to that,
the one before."""


def decide_writes(
    group: GroupOffsets,
    rows: Iterable[PositionResult],
    there: Mapping[TopicPartition, CommittedOffset],
    wrote: JournaledOffsets,
    force: bool,
) -> GroupResult:
    """What is to be written (pure). `there`: the positions on the target."""
    found, foreign = [], ""
    for row in rows:
        if row.outcome == PLANNED:
            at = there.get(row.place)
            known = list(wrote.get(row.place, ()))
            if at is not None and at.offset in known:
                row = replace(row, own_offset=at.offset)
            if at is not None and (at.offset, at.metadata or "") == (row.position.target, row.metadata or ""):
                row = replace(row, outcome=UNCHANGED)
            elif at is not None and at.offset not in (row.position.target, *known):
                foreign = foreign or _foreign(row.position, at.offset, known)
        found.append(row)
    refused = "" if force else foreign
    if refused:
        found = _all(found, SKIPPED)
    return GroupResult(group.name, group.kind, tuple(found), refused)


def _foreign(position: Position, at: int, known: Sequence[int]) -> str:
    where = f"partition {position.partition} of {position.target_topic}"
    before = f"kproxy wrote {known[0]}" if known else "kproxy wrote none"
    return (
        f"its position in {where} on the target is {at}, and {before}: somebody has consumed there; --force overwrites"
        " it, and the group may then read records again or leave some out"
    )


def translate_positions(
    group: GroupOffsets,
    migration: Migration,
    known: Mapping[TopicPartition, CopiedPartition],
    ends: Mapping[TopicPartition, int] | None = None,
    lost: Mapping[str, str] | None = None,
) -> list[PositionResult]:
    """Its positions, translated (pure). `ends`: of the source's logs, where that is known. `lost`: topics that are not
    those that were copied, and why; no position of these is translated."""
    rows = []
    for (topic, partition), one in sorted(group.positions.items()):
        end = (ends or {}).get((topic, partition), one.offset)
        if one.offset > end:
            as_end = group.name in migration.groups.as_end
            found = translate_past_end(known, topic, partition, one.offset, end, as_end=as_end)
        else:
            found = translate(known, topic, partition, one.offset, migration.target_name(topic))
        why = "" if found.target is not None else found.text
        if found.match == PAST_END:
            why += _PAST_END.format(group=group.name)
        if found.match == NOT_COPIED and not migration.selects_topic(topic):
            why = "the file leaves this topic out"
        why = (lost or {}).get(topic, why)
        rows.append(PositionResult(found, one.metadata, SKIPPED if why else PLANNED, why))
    return rows


def _past_copied(
    groups: Iterable[GroupOffsets], known: Mapping[TopicPartition, CopiedPartition]
) -> set[TopicPartition]:
    """Where a group has a position beyond what is copied: either the copy or the group is ahead of the other."""
    return {
        place
        for group in groups
        for place, one in group.positions.items()
        if place in known and one.offset > known[place].source_next
    }


def find_empty_partitions(
    source: str, target: str, migration: Migration, places: Iterable[TopicPartition]
) -> dict[TopicPartition, CopiedPartition]:
    """Nothing is copied of a partition without records, and somebody may have a position there all the same. Those of
    these that have no record on the source, as if what they have were copied: what comes next goes to the end of the
    target's log. A partition of which a cluster does not tell is left out. Raises UpstreamError and WireError."""
    there = {place: migration.target_name(place[0]) for place in places if migration.selects_topic(place[0])}
    if not there:
        return {}
    # The target first: what is copied later is at its end or behind, and the next that a member is to read.
    ends = _offsets(target, [(name, partition) for (_, partition), name in there.items()], requests.LATEST)
    highs, begins = (_offsets(source, there, which) for which in (requests.LATEST, requests.EARLIEST))
    return {
        (topic, partition): CopiedPartition(
            topic,
            partition,
            name,
            begins[topic, partition],
            highs[topic, partition],
            ends[name, partition],
            0,
            0,
            OffsetMap([]),
        )
        for (topic, partition), name in there.items()
        if (name, partition) in ends and highs.get((topic, partition), -1) == begins.get((topic, partition), -2)
    }


def _offsets(bootstrap: str, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
    """With what is not committed yet. Raises UpstreamError and WireError."""
    if not (partitions := list(partitions)):
        return {}
    cluster = ClusterClient(bootstrap)
    try:
        return cluster.list_offsets(partitions, which, committed=False)
    finally:
        cluster.close()


def parse_journal(values: Mapping[bytes, bytes]) -> dict[str, dict[TopicPartition, list[int]]]:
    """By group, from the records of a state topic. Raises WireError."""
    found: dict[str, dict[TopicPartition, list[int]]] = {}
    for name, value in values.items():
        match parse_key(name):
            case ["offsets", str(group)]:
                found[group] = _from_record(value)
            case _:
                pass
    return found


def _from_record(value: bytes) -> dict[TopicPartition, list[int]]:
    try:
        said = json.loads(value)
        if said["v"] != 1:
            raise WireError("malformed", "positions were written by a newer kproxy: update this one")
        return {
            (topic, int(index)): [int(offset) for offset in offsets]
            for topic, some in said["positions"].items()
            for index, offsets in some.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise WireError("malformed", "the state topic has positions that kproxy did not write") from None


def encode_journal(wrote: JournaledOffsets) -> dict[str, Any]:
    """The value of a group's record."""
    positions: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for (topic, index), offsets in sorted(wrote.items()):
        positions[topic][str(index)] = list(offsets)
    return {"v": 1, "at": time.time_ns() // 1_000_000, "positions": positions}


def load_state_topic(target: str, migration: Migration) -> StateTopic:
    """The state topic, as it is now. Raises ConfigError if there is none, UpstreamError and WireError."""
    cluster = ClusterClient(target)
    try:
        return read_state_topic(cluster, migration.name)
    finally:
        cluster.close()


def write_journal(target: str, migration: Migration, partitions: int, wrote: Mapping[str, JournaledOffsets]) -> None:
    """Write down what is about to be written, by group. `partitions`: of the state topic. Raises UpstreamError and
    WireError."""
    job = Job(migration.name, migration.state_topic, partitions)
    records: dict[bytes, dict[str, Any]] = {}
    size = 0
    for group, one in wrote.items():
        records[state_key("offsets", group)] = record = encode_journal(one)
        size += len(json.dumps(record))
        if size > _AT_ONCE:
            write_once(target, job, records, "offsets")
            records, size = {}, 0
    if records:
        write_once(target, job, records, "offsets")


@dataclass
class GroupOffsetSync:
    """Both clusters, reached as they are. `force`: overwrite what somebody else wrote. `journal`: what is written is
    written down in the state topic before. `lost`: see `check_topics`."""

    migration: Migration
    source: Admin
    target: Admin
    force: bool = False
    known: Mapping[tuple[str, int], CopiedPartition] = field(default_factory=dict)
    journal: bool = True
    lost: Mapping[str, str] = field(default_factory=dict)
    _wrote: dict[str, dict[TopicPartition, list[int]]] = field(default_factory=dict)
    _partitions: int = 0

    def read_state(self) -> GroupOffsetSync:
        """What was copied, and what was written before. Raises ConfigError, UpstreamError and WireError."""
        topic = load_state_topic(self.target.bootstrap, self.migration)
        self._partitions = len(topic.logs)
        self.known, self._wrote = parse_copied_partitions(topic.values), parse_journal(topic.values)
        return self

    def check_topics(self) -> GroupOffsetSync:
        """Translate no position of a topic that was deleted or created again on either side since it was copied. Raises
        ConfigError, UpstreamError and WireError."""
        topics = topic_identities.read_migrated_topics(self.target.bootstrap, self.migration.name)
        self.lost = topic_identities.find_topic_problems(self.source.bootstrap, self.target.bootstrap, topics)
        return self

    def run(self, wants: Callable[[str], bool], *, dry_run: bool) -> list[GroupResult]:
        """For the groups of the source with these names. Raises UpstreamError and WireError."""
        there, groups = GroupOffsetsClient(self.target), list(GroupOffsetsClient(self.source).read(wants))
        places = {place for group in groups for place in group.positions} - self.known.keys()
        known = {
            **self.known,
            **find_empty_partitions(self.source.bootstrap, self.target.bootstrap, self.migration, places),
        }
        # After the positions: a log only grows, so one that is beyond an end now was never in it.
        ends = _offsets(self.source.bootstrap, _past_copied(groups, known), requests.LATEST)
        results = [self._decided(group, there, known, ends) for group in groups]
        return results if dry_run else list(self._written(results, there))

    def _decided(
        self,
        group: GroupOffsets,
        there: GroupOffsetsClient,
        known: Mapping[TopicPartition, CopiedPartition],
        ends: Mapping[TopicPartition, int],
    ) -> GroupResult:
        if group.unreadable:
            return GroupResult(group.name, group.kind, refusal=f"its positions on the source: {group.unreadable}")
        rows = translate_positions(group, self.migration, known, ends, self.lost)
        if not any(row.outcome == PLANNED for row in rows):
            return GroupResult(group.name, group.kind, tuple(rows))
        try:
            found = there.read_positions(group.name, group.kind)
        except GroupRefusedError as error:
            return GroupResult(
                group.name, group.kind, tuple(_all(rows, SKIPPED)), f"its positions on the target: {error}"
            )
        return decide_writes(group, rows, found, self._wrote.get(group.name, {}), self.force)

    def _written(self, results: list[GroupResult], there: GroupOffsetsClient) -> Iterator[GroupResult]:
        if self.journal:
            self._keep(result for result in results if any(row.outcome == PLANNED for row in result.positions))
        for result in results:
            wanted = {
                row.place: CommittedOffset(row.position.target, row.metadata)
                for row in result.positions
                if row.outcome == PLANNED and row.position.target is not None
            }
            if not wanted:
                yield result
                continue
            try:
                said = there.write_positions(result.group, result.kind, wanted)
            except GroupRefusedError as error:
                yield GroupResult(result.group, result.kind, tuple(_all(result.positions, SKIPPED)), str(error))
                continue
            yield GroupResult(result.group, result.kind, tuple(_told(row, said) for row in result.positions))

    def _keep(self, results: Iterable[GroupResult]) -> None:
        wrote: dict[str, dict[TopicPartition, list[int]]] = {}
        for result in results:
            wrote[result.group] = dict(self._wrote.get(result.group, {}))
            for row in result.positions:
                if row.outcome == PLANNED and row.position.target is not None:
                    both = _present([row.position.target, row.own_offset])
                    wrote[result.group][row.place] = list(dict.fromkeys(both))
        write_journal(self.target.bootstrap, self.migration, self._partitions, wrote)


def _all(rows: Iterable[PositionResult], done: str) -> list[PositionResult]:
    return [replace(row, outcome=done) if row.outcome == PLANNED else row for row in rows]


def _present(offsets: Iterable[int | None]) -> list[int]:
    return [offset for offset in offsets if offset is not None]


def _told(row: PositionResult, said: Mapping[TopicPartition, str]) -> PositionResult:
    if row.outcome != PLANNED:
        return row
    text = said.get(row.place, "the brokers said nothing about it")
    return replace(row, outcome=FAILED if text else WRITTEN, reason=text)


def count_unwritten(results: Iterable[GroupResult], migration: Migration) -> Counter[str]:
    """Positions of topics that are migrated and that could not be written, by why."""
    found: Counter[str] = Counter()
    for result in results:
        if result.refusal:
            found[f"group {result.group}: {result.refusal}"] += 1
            continue
        for row in result.positions:
            if row.outcome == FAILED or (row.outcome == SKIPPED and migration.selects_topic(row.position.topic)):
                where = f"partition {row.position.partition} of {row.position.topic}"
                found[f"group {result.group}, {where}: {row.reason}"] += 1
    return found
