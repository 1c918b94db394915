"""The status of a migration, read from the target alone: its state topic, and its topics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from kproxy.base.diagnostic import Diagnostic, grouped, to_json
from kproxy.base.format import format_count, format_size
from kproxy.migrate.clusters.topic_identities import MigratedTopic, find_lost, migrated_topics
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import PartitionState, parse_object
from kproxy.migrate.copier.statetopic import parse_states, read_state_topic
from kproxy.migrate.copy.progress import describe_deletion
from kproxy.migrate.journal.driver import JOB_KEY, ORDER_KEY, DriverOrder
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCH_KEY, SwitchEntry
from kproxy.migrate.offsets.groupsync import parse_journal
from kproxy.migrate.verify.results import VerifiedRange, parse_verified_ranges
from kproxy.proxy.switching.twophase import JournalDecision

# While a leader moves, in seconds.
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """The status of a migration."""

    name: str
    partitions: Mapping[TopicPartition, PartitionState]
    """By source topic and partition, how far it was copied."""
    verified: Mapping[TopicPartition, VerifiedRange]
    """By source topic and partition, how far it was verified."""
    groups: tuple[str, ...]
    driver: Mapping[str, Any]
    """The record of the last driver; {} if none ever ran."""
    paused: bool
    last_switch: SwitchEntry | None = None
    """The last switch or rollback; None if there was none."""
    topics: Mapping[str, MigratedTopic] = field(default_factory=dict)
    """By source topic, what the state topic has recorded of it."""
    lost_topics: Mapping[str, str] = field(default_factory=dict)
    """By source topic, why the target has lost copied records."""
    waves: tuple[str, ...] = ()
    """The waves of the file."""
    alarms: tuple[Diagnostic, ...] = ()
    """The uses on the source of topics that have moved with waves."""
    reverse_copies: tuple[ReverseCopyStatus, ...] = ()
    """The copies back to the source of what clients on the target write now."""

    def verified_upto(self, partition: TopicPartition) -> int | None:
        """Return the source offset up to which the partition is verified; None if nothing of it is."""
        verified = self.verified.get(partition)
        return None if verified is None or partition[0] in self.lost_topics else verified.upto

    def verified_digest(self, partition: TopicPartition) -> str:
        """Return the digest of the partition's verified records, "" if there is none."""
        verified = self.verified.get(partition)
        return "" if verified is None or partition[0] in self.lost_topics else verified.digest_text

    def unknown_records(self, partition: TopicPartition) -> int:
        """Return the number of records on the target after the last copied one, at the last verification."""
        verified = self.verified.get(partition)
        return 0 if verified is None else verified.unknown

    @property
    def has_warnings(self) -> bool:
        """True if copied records are lost, topics of waves are used on the source, or a copy back cannot be read."""
        return bool(self.lost_topics or self.alarms) or any(copy.problem for copy in self.reverse_copies)

    def to_json(self) -> str:
        """Return the status as JSON text."""
        return json.dumps(
            {
                "name": self.name,
                "paused": self.paused,
                "driver": self.driver,
                "switch": None if self.last_switch is None else self.last_switch.to_record(),
                "groups": self.groups,
                "waves": [{"wave": name, "where": text} for name, text in wave_texts(self)],
                "alarms": [to_json(alarm) for alarm in self.alarms],
                "reverse_copies": [copy.to_json() for copy in self.reverse_copies],
                "topics": [
                    {"topic": topic, "target_topic": migrated.target_topic, "problem": self.lost_topics.get(topic, "")}
                    for topic, migrated in sorted(self.topics.items())
                ],
                "partitions": [
                    {
                        "topic": topic,
                        "partition": partition,
                        "target_topic": state.target_topic,
                        "source_begin": state.source_begin,
                        "source_next": state.source_next,
                        "target_next": state.target_next,
                        "records": state.records,
                        "bytes": state.size,
                        "skipped": state.skipped,
                        "checksum": f"{state.checksum:08x}",
                        "at": state.at,
                        "verified_upto": self.verified_upto((topic, partition)),
                        "foreign": self.unknown_records((topic, partition)),
                        "digest": self.verified_digest((topic, partition)) or None,
                    }
                    for (topic, partition), state in sorted(self.partitions.items())
                ],
            },
            indent=2,
        )


@dataclass(frozen=True, slots=True)
class ReverseCopyStatus:
    """The copy from the target back to the source of what the clients of a wave, or all, write."""

    wave: str
    """The wave; "" for all clients."""
    status: MigrationStatus | None
    """Its state on the source; None if it cannot be read."""
    problem: str = ""
    """The reason why it cannot be read, "" if it can."""

    @property
    def subject(self) -> str:
        return f"copy back of wave {self.wave}" if self.wave else "copy back"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        status = None if self.status is None else json.loads(self.status.to_json())
        return {"wave": self.wave, "problem": self.problem, "copy": status}


def read_status(target: str, name: str, waves: tuple[str, ...] = ()) -> MigrationStatus:
    """Read the status of a migration from the target; `waves` are those of the file.

    Raises ConfigError if nothing was prepared there.
    """
    return replace(read_status_and_records(target, name)[0], waves=waves)


def read_status_and_records(target: str, name: str) -> tuple[MigrationStatus, Mapping[bytes, bytes]]:
    """Return the status of a migration, and the records of the state topic without the offset maps.

    Raises as `read_status` does.
    """
    with ClusterClient(target) as cluster:
        values = read_state_topic(cluster, name, lambda record_key: not record_key.startswith(b'["map",')).values
        topics = migrated_topics(values)
        missing = retry(cluster, lambda: find_lost(cluster, topics), _PATIENCE)
    status = MigrationStatus(
        name=name,
        partitions=parse_states(values),
        verified=parse_verified_ranges(values),
        groups=tuple(sorted(parse_journal(values))),
        driver=parse_object(values.get(JOB_KEY, b"{}")),
        paused=DriverOrder.read(values.get(ORDER_KEY)).paused,
        last_switch=SwitchEntry.read(values.get(SWITCH_KEY)),
        topics=topics,
        lost_topics=missing,
    )
    return status, values


def status_lines(migration_status: MigrationStatus) -> Iterator[str]:
    """Yield the lines for a terminal."""
    driver = migration_status.driver
    if not driver:
        yield f"{migration_status.name}: not copied yet. Next: kproxy migrate copy FILE"
    else:
        activity = "ended" if driver.get("ended") else "was copying at its last report"
        yield f"{migration_status.name}: process {driver.get('pid')} on {driver.get('host')} {activity}"
        yield from _deletion_lines(driver)
    if migration_status.last_switch is not None:
        yield _switch_line(migration_status.last_switch)
    for wave, text in wave_texts(migration_status):
        yield f"wave {wave}: {text}"
    for alarm in grouped(migration_status.alarms):
        yield f"{alarm.severity}: {alarm}"
    if migration_status.paused:
        yield "paused. Next: kproxy migrate resume FILE"
    yield from _topic_lines(migration_status)
    if migration_status.groups:
        yield f"positions written for groups: {', '.join(migration_status.groups)}"
    for copy in migration_status.reverse_copies:
        yield from _reverse_copy_lines(copy)


def _reverse_copy_lines(copy: ReverseCopyStatus) -> Iterator[str]:
    if copy.status is None:
        yield f"warning: {copy.subject}: {copy.problem}"
        return
    yield f"{copy.subject}, from the target to the source:"
    driver = copy.status.driver
    if not driver or driver.get("ended"):
        option = f" --wave {copy.wave}" if copy.wave else ""
        yield f"  no process copies back. Next: kproxy migrate copy FILE --reverse{option} --follow"
    else:
        yield f"  process {driver.get('pid')} on {driver.get('host')} was copying at its last report"
    yield from (f"  {line}" for line in _topic_lines(copy.status))


def _topic_lines(migration_status: MigrationStatus) -> Iterator[str]:
    topics: dict[str, list[tuple[int, PartitionState]]] = {}
    for (topic, partition), state in sorted(migration_status.partitions.items()):
        topics.setdefault(topic, []).append((partition, state))
    for topic, parts in topics.items():
        records, copied = sum(state.records for _, state in parts), sum(state.size for _, state in parts)
        target = parts[0][1].target_topic
        yield (
            f"{topic}"
            + (f" -> {target}" if target != topic else "")
            + f": {format_count(len(parts), 'partition')}, {format_count(records, 'record')}, {format_size(copied)},"
            + f" {_verification_text(migration_status, topic, parts)}"
        )
        skipped = sum(state.skipped for _, state in parts)
        if skipped:
            yield (
                f"  {skipped:,} offsets were skipped that the source had deleted: --skip-deleted allowed it, or a"
                " Kafka Streams application had read and deleted them"
            )
        if topic in migration_status.lost_topics:
            yield f"  {migration_status.lost_topics[topic]}"
    for topic, why in migration_status.lost_topics.items():
        if topic not in topics:
            yield f"{topic}: {why}"


def _deletion_lines(driver: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the driver has expected at its last report that the source deletes before it is copied."""
    deletions = driver.get("deletions")
    if driver.get("ended") or not isinstance(deletions, list):
        return
    for deletion in deletions:
        match deletion:
            case [str(topic), int(partition), int(seconds)]:
                yield f"  warning: {describe_deletion(topic, partition, seconds)}"


def _switch_line(last: SwitchEntry) -> str:
    upstream = last.to if last.decision is JournalDecision.RELEASED else last.origin
    hint = "" if last.ended else "; not finished: run kproxy migrate switch FILE --resume or --abort"
    whom, clients = (f" of {last.part_text}", "its clients") if last.part else ("", "clients")
    return f"{last.what} {last.switch}{whom} from {last.origin} to {last.to}: {clients} are on {upstream}{hint}"


def wave_texts(migration_status: MigrationStatus) -> Iterator[tuple[str, str]]:
    """Yield each wave of the file, and each other one that is on the target, and where it is, in words (pure)."""
    last = migration_status.last_switch
    moved = {} if last is None else last.waves_on_target
    for name in dict.fromkeys((*migration_status.waves, *moved)):
        under_way = (
            "" if last is None or last.ended or last.wave != name else f"; {last.what} {last.switch} is under way"
        )
        if last is not None and last.is_moved:
            text = f"on {last.target_upstream}, with all other clients"
        elif last is not None and name in moved:
            back = "is copied back" if moved[name].reversible else "is not copied back"
            text = f"on {last.target_upstream} since {_utc(moved[name].since)}; what its clients write there {back}"
        elif last is not None and last.wave == name and last.what == ROLLBACK:
            text = f"on the source, to which it was moved back at {_utc(last.at)}"
        else:
            text = "on the source"
        yield name, text + under_way


def _utc(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def _verification_text(migration_status: MigrationStatus, topic: str, parts: list[tuple[int, PartitionState]]) -> str:
    verified_upto = [migration_status.verified_upto((topic, partition)) for partition, _ in parts]
    if not any(verified_upto):
        return "not verified"
    unknown = sum(
        verified.unknown
        for (verified_topic, _), verified in migration_status.verified.items()
        if verified_topic == topic
    )
    if unknown:
        return (
            f"not verified: {format_count(unknown, 'record')} on the target after the last copied one: kproxy migrate"
            " verify names them"
        )
    if all(offset == state.source_next for offset, (_, state) in zip(verified_upto, parts, strict=True)):
        return "verified up to all that is copied"
    pairs = zip(verified_upto, parts, strict=True)
    behind = sum(state.source_next - (offset or state.source_begin) for offset, (_, state) in pairs)
    return f"verified except for the last {behind:,} offsets"
