"""Where a migration stands, from the target alone: its state topic, and which topics it has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.base.errors import WireError
from kproxy.migrate.clusters.topic_identities import MigratedTopic, find_lost, migrated_topics
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.state import PartitionState, parse_key
from kproxy.migrate.copier.statetopic import read_state_topic
from kproxy.migrate.format import format_count, format_size
from kproxy.migrate.journal.driver import JOB_KEY, ORDER_KEY, DriverOrder
from kproxy.migrate.journal.switch_journal import SWITCH_KEY, SwitchEntry
from kproxy.migrate.verify.results import VerifiedRange, parse_verified_ranges
from kproxy.proxy.switching.twophase import JournalDecision

# While a leader moves, in seconds.
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """`partitions`: what is copied, by topic and partition of the source. `verified`: the same, and what is verified.
    `driver`: what the last one said, {} if none ever ran. `switch`: the last one, None if there was none. `topics`: by
    topic of the source, what is known of it. `lost`: by topic of the source, why the target has not what was copied any
    more."""

    name: str
    partitions: Mapping[tuple[str, int], PartitionState]
    verified: Mapping[tuple[str, int], VerifiedRange]
    groups: tuple[str, ...]
    driver: Mapping[str, Any]
    paused: bool
    last_switch: SwitchEntry | None = None
    topics: Mapping[str, MigratedTopic] = field(default_factory=dict)
    lost_topics: Mapping[str, str] = field(default_factory=dict)

    def verified_upto(self, where: tuple[str, int]) -> int | None:
        """An offset of the source; None if nothing of this partition is verified."""
        one = self.verified.get(where)
        return None if one is None or where[0] in self.lost_topics else one.upto

    def unknown_records(self, where: tuple[str, int]) -> int:
        """Records on the target behind the last copied one, when this was looked for last."""
        one = self.verified.get(where)
        return 0 if one is None else one.unknown

    def to_json(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "paused": self.paused,
                "driver": self.driver,
                "switch": None if self.last_switch is None else self.last_switch.to_record(),
                "groups": self.groups,
                "topics": [
                    {"topic": topic, "target_topic": one.target_topic, "problem": self.lost_topics.get(topic, "")}
                    for topic, one in sorted(self.topics.items())
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
                    }
                    for (topic, partition), state in sorted(self.partitions.items())
                ],
            },
            indent=2,
        )


def read_status(target: str, name: str) -> MigrationStatus:
    """Ask the target. Raises ConfigError if nothing was prepared there; UpstreamError and WireError."""
    cluster = ClusterClient(target)
    try:
        topic = read_state_topic(cluster, name, lambda found: not found.startswith(b'["map",'))
        topics = migrated_topics(topic.values)
        missing = retry(cluster, lambda: find_lost(cluster, topics), _PATIENCE)
    finally:
        cluster.close()
    partitions: dict[tuple[str, int], PartitionState] = {}
    groups: set[str] = set()
    for found, value in topic.values.items():
        match parse_key(found):
            case ["partition", str(of), int(partition)]:
                partitions[of, partition] = PartitionState.from_json(value)
            case ["offsets", str(group)]:
                groups.add(group)
    return MigrationStatus(
        name,
        partitions,
        parse_verified_ranges(topic.values),
        tuple(sorted(groups)),
        _object(topic.values.get(JOB_KEY, b"{}")),
        DriverOrder.read(topic.values.get(ORDER_KEY)).paused,
        SwitchEntry.read(topic.values.get(SWITCH_KEY)),
        topics,
        missing,
    )


def _object(value: bytes) -> dict[str, Any]:
    try:
        said = json.loads(value)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise WireError("malformed", "the state topic has a record that kproxy did not write")
    return said


def status_lines(standing: MigrationStatus) -> Iterator[str]:
    """For a terminal."""
    driver = standing.driver
    if not driver:
        yield f"{standing.name}: nobody has copied yet: kproxy migrate copy"
    else:
        how = "ended" if driver.get("ended") else "copies (when this was written)"
        yield f"{standing.name}: process {driver.get('pid')} on {driver.get('host')} {how}"
    if standing.last_switch is not None:
        yield _switch_line(standing.last_switch)
    if standing.paused:
        yield "paused: kproxy migrate resume goes on"
    topics: dict[str, list[tuple[int, PartitionState]]] = {}
    for (topic, partition), state in sorted(standing.partitions.items()):
        topics.setdefault(topic, []).append((partition, state))
    for topic, parts in topics.items():
        records, copied = sum(state.records for _, state in parts), sum(state.size for _, state in parts)
        target = parts[0][1].target_topic
        yield (
            f"{topic}"
            + (f" -> {target}" if target != topic else "")
            + f": {format_count(len(parts), 'partition')}, {format_count(records, 'record')}, {format_size(copied)},"
            + f" {_verification_text(standing, topic, parts)}"
        )
        skipped = sum(state.skipped for _, state in parts)
        if skipped:
            yield (
                f"  {skipped:,} offsets were left out, which the source had deleted: somebody allowed it, or a Kafka"
                " Streams application had read and deleted them"
            )
        if topic in standing.lost_topics:
            yield f"  {standing.lost_topics[topic]}"
    for topic, why in standing.lost_topics.items():
        if topic not in topics:
            yield f"{topic}: {why}"
    if standing.groups:
        yield f"positions written for groups: {', '.join(standing.groups)}"


def _switch_line(last: SwitchEntry) -> str:
    where = last.to if last.decision is JournalDecision.RELEASED else last.origin
    over = "" if last.ended else "; it is not over: kproxy migrate switch --resume or --abort"
    return f"{last.what} {last.switch} from {last.origin} to {last.to}: clients are on {where}{over}"


def _verification_text(standing: MigrationStatus, topic: str, parts: list[tuple[int, PartitionState]]) -> str:
    upto = [standing.verified_upto((topic, partition)) for partition, _ in parts]
    if not any(upto):
        return "not verified"
    if foreign := sum(one.unknown for (of, _), one in standing.verified.items() if of == topic):
        return (
            f"not verified: {format_count(foreign, 'record')} behind the last copied one: kproxy migrate verify names"
            " them"
        )
    if all(found == state.source_next for found, (_, state) in zip(upto, parts, strict=True)):
        return "verified up to all that is copied"
    found = zip(upto, parts, strict=True)
    behind = sum(state.source_next - (offset or state.source_begin) for offset, (_, state) in found)
    return f"verified but for the last {behind:,} offsets"
