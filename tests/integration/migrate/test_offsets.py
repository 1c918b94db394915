"""Positions of real groups, translated to another cluster: whoever goes on there reads the very next record."""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kproxy.dev.devcluster import DevCluster
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.groups import CommittedOffset, GroupOffsetsClient
from kproxy.migrate.commands.offsets import offsets as command
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets import groupsync as room
from kproxy.migrate.offsets.groupsync import PLANNED, SKIPPED, UNCHANGED, WRITTEN, GroupOffsetSync, GroupResult
from kproxy.migrate.offsets.positions import translate
from kproxy.migrate.spec.migration import Migration, TopicSelection
from tests.harness.clients import kafka_python  # noqa: F401  # its warnings are not ours
from tests.harness.clusters.twosides import TwoSides, plain, transactions, until
from tests.harness.migration.moving import Row, rows, topics
from tests.harness.topics import commit_as, unique

pytestmark = pytest.mark.integration

POSITIONS, GROUPS, SEED = 10_000, 6, 16
COPIED = {"plain": "plain", "tx": "renamed-tx", "compact": "compact"}
COMPACT = {
    "cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}  # fmt: skip
Place = tuple[str, int]


@dataclass
class Loaded:
    sides: TwoSides
    copied: dict[Place, CopiedPartition]
    source: dict[Place, list[Row]] = field(default_factory=dict)
    target: dict[Place, list[Row]] = field(default_factory=dict)

    def next_on_source(self, place: Place, position: int) -> bytes | None:
        return _next(self.source[place], position)

    def next_on_target(self, place: Place, position: int) -> bytes | None:
        return _next(self.target[place], position)


def _next(found: list[Row], position: int) -> bytes | None:
    """The value of the record that a consumer at this position reads first; values are unique."""
    at = bisect_left(found, position, key=lambda row: row[0])
    return found[at][2] if at < len(found) else None


def migration(sides: TwoSides, **topics_more: Any) -> Migration:
    return Migration({}, {}, sides.name, TopicSelection(**{"rename": {"tx": "renamed-tx"}, **topics_more}))


def run(
    sides: TwoSides, group: str | Callable[[str], bool], *, dry_run: bool = False, force: bool = False, **more: Any
) -> list[GroupResult]:
    wants = group.__eq__ if isinstance(group, str) else group
    with Admin(sides.source) as source, Admin(sides.target) as target:
        return GroupOffsetSync(migration(sides, **more), source, target, force).read_state().run(wants, dry_run=dry_run)


@pytest.fixture(scope="module")
def loaded(sides: TwoSides) -> Loaded:
    """Plain records, transactions of which some are aborted, and a compacted topic, on both sides."""
    topics(sides.source, {"plain": 2, "tx": 3}, 1)
    topics(sides.source, {"compact": 1}, 1, **COMPACT)
    topics(sides.target, {"plain": 2, "renamed-tx": 3, "compact": 1}, 1)
    # The target's offsets are not those of the source from the beginning on.
    plain(sides.target, "renamed-tx", 3, 100, 99)
    plain(sides.source, "plain", 2, 2000, SEED)
    transactions(sides.source, "tx", 3, 5000, SEED)
    plain(sides.source, "compact", 1, 2000, SEED, keys=500)

    def cleaned() -> bool:
        plain(sides.source, "compact", 1, 20, random.randrange(1 << 30), keys=500)
        return len(rows(sides.source, "compact", 0)) < 1500

    until(cleaned, "the source has not compacted its topic")
    sides.copy({"plain": "plain", "tx": "renamed-tx"}, size=4096)
    known = sides.copy({"compact": "compact"}, sparse=True, size=4096)
    made = Loaded(sides, known)
    for (topic, index), one in known.items():
        made.source[topic, index] = rows(sides.source, topic, index)
        made.target[topic, index] = rows(sides.target, one.target_topic, index)
    return made


def test_the_next_record_is_the_same_for_10000_positions(loaded: Loaded, figures: list[str]) -> None:
    chance = random.Random(SEED)
    places = sorted(loaded.copied)
    seen: dict[str, int] = {}
    for _ in range(POSITIONS):
        place = chance.choice(places)
        known = loaded.copied[place]
        position = known.source_next if chance.random() < 0.01 else chance.randrange(known.source_next + 1)
        found = translate(loaded.copied, *place, position)
        assert found.target is not None, found
        assert loaded.next_on_target(place, found.target) == loaded.next_on_source(place, position), found
        seen[found.match] = seen.get(found.match, 0) + 1
    assert min(seen[how] for how in ("exact", "next", "end")) > 10, seen
    assert any(len(one.map) > 20 for one in loaded.copied.values())
    figures.append(f"positions translated and compared: {seen}")


def commit(bootstrap: str, group: str, positions: Mapping[Place, int], metadata: str = "") -> None:
    """As a classic group."""
    commit_as(bootstrap, group, [TopicPartition(*place, offset, metadata) for place, offset in positions.items()])


def reader(bootstrap: str, group: str, protocol: str = "classic", **more: Any) -> Consumer:
    config = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    config |= {"group.protocol": protocol, "isolation.level": "read_committed", "auto.offset.reset": "error"}
    return Consumer({**config, **more})


def first_records(consumer: Consumer, names: list[str], partitions: int) -> dict[Place, bytes]:
    """The first record of each partition that a member of the group gets."""
    consumer.subscribe(names)
    found: dict[Place, bytes] = {}

    def complete() -> bool:
        for message in consumer.consume(500, 0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            found.setdefault((message.topic(), message.partition()), message.value())
        return len(found) == partitions

    until(complete, "not every partition gives a record")
    return found


def as_consumer_group(bootstrap: str, group: str, positions: Mapping[Place, int]) -> None:
    """The same as a group of KIP-848's protocol, by a member of it."""
    consumer = reader(bootstrap, group, "consumer", **{"auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(sorted({topic for topic, _ in positions}))

        def assigned() -> bool:
            consumer.poll(0.2)
            return len(consumer.assignment()) == len(positions)

        until(assigned, "the group is not assigned")
        consumer.commit(offsets=[TopicPartition(*place, at) for place, at in positions.items()], asynchronous=False)
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_go_on_with_the_very_next_record(loaded: Loaded, protocol: str) -> None:
    chance = random.Random(SEED)
    prefix = unique(protocol)
    wanted: dict[str, dict[Place, bytes | None]] = {}
    for number in range(GROUPS):
        group, positions = f"{prefix}-{number}", {}
        for place, known in loaded.copied.items():
            # At least one record is left, so that the first one can be seen.
            positions[place] = chance.randrange(loaded.source[place][-1][0])
            assert positions[place] < known.source_next
        (commit if protocol == "classic" else as_consumer_group)(loaded.sides.source, group, positions)
        wanted[group] = {
            (loaded.copied[place].target_topic, place[1]): loaded.next_on_source(place, at)
            for place, at in positions.items()
        }
    results = run(loaded.sides, lambda group: group.startswith(prefix))
    assert [(one.group, one.kind, one.refusal) for one in results] == [(name, protocol, "") for name in sorted(wanted)]
    assert {row.outcome for one in results for row in one.positions} == {WRITTEN}
    for group, records in wanted.items():
        consumer = reader(loaded.sides.target, group, protocol)
        try:
            assert first_records(consumer, sorted(set(COPIED.values())), len(records)) == records
        finally:
            consumer.close()


def only(results: list[GroupResult]) -> GroupResult:
    assert len(results) == 1, results
    return results[0]


def position_on(bootstrap: str, group: str, place: Place) -> CommittedOffset | None:
    with Admin(bootstrap) as admin:
        return GroupOffsetsClient(admin).read_positions(group, "classic").get(place)


def test_positions_of_many_groups_are_read_with_few_requests(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request for many groups, as writes are held. A group with an open transaction is asked for alone."""
    sides, prefix, place = loaded.sides, unique("many"), ("plain", 0)
    names = [f"{prefix}-{number}" for number in range(5)]
    for number, name in enumerate(names):
        commit(sides.source, name, {place: number, ("plain", 1): 10 + number})
    producer = Producer({"bootstrap.servers": sides.source, "transactional.id": unique("open")})
    producer.init_transactions(30)
    producer.begin_transaction()
    member = reader(sides.source, names[-1])
    producer.send_offsets_to_transaction([TopicPartition(*place, 99)], member.consumer_group_metadata(), 30)
    member.close()
    requests: list[tuple[str, int]] = []
    ask = Admin.ask

    def counted(admin: Admin, request: Any, node: int | None = None) -> Any:
        if type(request).__name__ in ("OffsetFetchRequest", "FindCoordinatorRequest"):
            requests.append((type(request).__name__, len(getattr(request, "groups", None) or ())))
            if requests[1:] == [("OffsetFetchRequest", 1)]:  # that of the transaction, now alone
                producer.commit_transaction(30)
        return ask(admin, request, node)

    monkeypatch.setattr(Admin, "ask", counted)
    with Admin(sides.source) as admin:
        read = GroupOffsetsClient(admin).read(lambda name: name.startswith(prefix))
    expected = [{place: number, ("plain", 1): 10 + number} for number in range(5)]
    expected[-1] = {place: 99, ("plain", 1): 14}
    assert [{where: at.offset for where, at in group.positions.items()} for group in read] == expected
    assert requests[0] == ("OffsetFetchRequest", 5)
    # Until the markers of the transaction are written, it is asked again, and its coordinator before.
    assert ("OffsetFetchRequest", 1) in requests
    assert {*requests[1:]} <= {("OffsetFetchRequest", 1), ("FindCoordinatorRequest", 0)}
    requests.clear()
    with Admin(sides.source) as admin:
        client = GroupOffsetsClient(admin)  # it knows no coordinator, as that of the target
        client.prefetch([*names, unique("absent")])
        assert requests == [("FindCoordinatorRequest", 0), ("OffsetFetchRequest", 6)]
        positions = [client.read_positions(name, "classic") for name in names]
        assert [{where: at.offset for where, at in group.items()} for group in positions] == expected
        assert len(requests) == 2
        client.prefetch(names)
        client.prefetch([])  # none of the first is returned later
        assert client.read_positions(names[0], "classic")[place].offset == 0
    assert [name for name, _ in requests[2:]] == ["OffsetFetchRequest"] * 2


def test_what_somebody_else_wrote_since_is_not_overwritten(loaded: Loaded) -> None:
    group, place = unique("g"), ("plain", 0)
    sides = loaded.sides
    commit(sides.source, group, {place: 100}, "told by the client")
    assert only(run(sides, group, dry_run=True)).positions[0].outcome == PLANNED
    assert position_on(sides.target, group, place) is None
    assert only(run(sides, group)).positions[0].outcome == WRITTEN
    target = translate(loaded.copied, *place, 100).target
    assert target is not None
    before = position_on(sides.source, group, place)
    assert before is not None
    assert before.metadata is not None
    assert before.metadata.startswith("told by the client")  # librdkafka's admin client adds a zero byte
    assert position_on(sides.target, group, place) == CommittedOffset(target, before.metadata)

    # Again, it is there; and when the source goes on, or back, so does the target.
    assert only(run(sides, group)).positions[0].outcome == UNCHANGED
    for source in (200, 150):
        commit(sides.source, group, {place: source})
        assert only(run(sides, group)).positions[0].outcome == WRITTEN

    # But for what was consumed there.
    commit(sides.target, group, {place: 7})
    commit(sides.source, group, {place: 300, ("plain", 1): 10})
    refused = only(run(sides, group))
    assert refused.refusal.startswith("its position in partition 0 of plain on the target is 7, and kproxy wrote")
    assert "--force" in refused.refusal
    assert {row.outcome for row in refused.positions} == {SKIPPED}
    assert position_on(sides.target, group, place) == CommittedOffset(7, "\0")
    assert position_on(sides.target, group, ("plain", 1)) is None
    forced = only(run(sides, group, force=True))
    assert {row.outcome for row in forced.positions} == {WRITTEN}
    assert only(run(sides, group)).positions[0].outcome == UNCHANGED


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_brokers_refuse_a_group_with_members_on_the_target(loaded: Loaded, protocol: str) -> None:
    group = unique("busy")
    commit(loaded.sides.source, group, {("plain", 0): 100})
    consumer = reader(loaded.sides.target, group, protocol, **{"auto.offset.reset": "earliest"})
    try:
        first_records(consumer, ["plain"], 2)
        refused = only(run(loaded.sides, group))
        assert refused.refusal.startswith("the group has members there")
        assert {row.outcome for row in refused.positions} == {SKIPPED}
        assert position_on(loaded.sides.target, group, ("plain", 0)) is None
    finally:
        consumer.close()
    assert only(run(loaded.sides, group)).positions[0].outcome == WRITTEN


def test_a_command_killed_between_journal_and_brokers(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    group, place = unique("g"), ("plain", 0)
    commit(loaded.sides.source, group, {place: 100})
    assert only(run(loaded.sides, group)).positions[0].outcome == WRITTEN

    class Ended(Exception):
        pass

    def end(*_: object) -> None:
        raise Ended

    for source in (200, 300):  # twice: the position of before is still known
        commit(loaded.sides.source, group, {place: source})
        monkeypatch.setattr(GroupOffsetsClient, "write_positions", end)
        with pytest.raises(Ended):
            run(loaded.sides, group)
        monkeypatch.undo()
    assert only(run(loaded.sides, group)).positions[0].outcome == WRITTEN


def test_untranslatable_positions_are_named_and_others_written(loaded: Loaded) -> None:
    group, sides = unique("g"), loaded.sides
    name = unique("elsewhere")
    topics(sides.source, {name: 1}, 1)
    end = loaded.copied["plain", 1].source_next
    producer = Producer({"bootstrap.servers": sides.source})
    for _ in range(5):
        producer.produce("plain", b"more", partition=1)
    assert producer.flush(30) == 0
    commit(sides.source, group, {("plain", 0): 3, ("plain", 1): end + 5, (name, 0): 0})
    result = only(run(sides, group, exclude=(name,)))
    assert {(row.position.topic, row.position.partition): (row.outcome, row.reason) for row in result.positions} == {
        ("plain", 0): (WRITTEN, ""),
        ("plain", 1): (SKIPPED, "5 offsets before it are not copied yet"),
        (name, 0): (SKIPPED, "the file excludes this topic"),
    }
    said = room.unwritten_positions([result], migration(sides, exclude=(name,)))
    text = f"group {group}, partition 1 of plain: 5 offsets before it are not copied yet"
    assert [(one.fault, one.text) for one in said] == [("not-copied-yet", text)]


def test_a_position_beyond_the_end_becomes_the_end_on_request(loaded: Loaded) -> None:
    """As of a topic that was deleted and made again. No copy reaches it."""
    group, other, sides = unique("g"), unique("g"), loaded.sides
    known = loaded.copied["plain", 0]
    for name in (group, other):
        commit(sides.source, name, {("plain", 0): known.source_next + 7})
    said = [one.text for one in room.unwritten_positions([only(run(sides, group))], migration(sides))]
    assert len(said) == 1
    assert said[0].startswith(f"group {group}, partition 0 of plain: it is 7 offsets beyond the end of the log: ")
    assert f"--as-end {group}" in said[0]
    with Admin(sides.source) as source, Admin(sides.target) as target:
        wanted = migration(sides).with_as_end([group])
        results = GroupOffsetSync(wanted, source, target).read_state().run({group, other}.__contains__, dry_run=False)
    assert {one.group: [row.outcome for row in one.positions] for one in results} == {
        group: [WRITTEN],
        other: [SKIPPED],
    }
    there = position_on(sides.target, group, ("plain", 0))
    assert there is not None
    assert there.offset == known.target_next


def start_of(bootstrap: str, group: str, place: Place) -> int:
    with Admin(bootstrap) as admin:
        return GroupOffsetsClient(admin).read_positions(group, "share")[place].offset


@pytest.mark.matrix  # half a minute
def test_the_start_of_a_share_group_is_kept(loaded: Loaded) -> None:
    group, sides = unique("share"), loaded.sides
    source, target = sides.clusters
    settings = "share.auto.offset.reset=earliest,share.isolation.level=read_committed"

    def consume(cluster: DevCluster, topic: str, count: int) -> list[str]:
        done = cluster.tool(
            "kafka-configs", "--bootstrap-server", cluster.direct_bootstrap, "--alter", "--entity-type", "groups",
            "--entity-name", group, "--add-config", settings,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        done = cluster.tool(
            "kafka-console-share-consumer", "--bootstrap-server", cluster.direct_bootstrap, "--topic", topic,
            "--group", group, "--max-messages", str(count), "--timeout-ms", "10000",
        )  # fmt: skip
        return [line for line in done.stdout.splitlines() if "tx-" in line]

    assert len(consume(source, "tx", 300)) >= 300
    result = only(run(sides, group))
    assert (result.kind, result.refusal) == ("share", "")
    assert {row.outcome for row in result.positions} == {WRITTEN}
    assert "delivered again" in result.to_record()["lost"]
    begun = {(row.position.topic, row.position.partition): row.position.source for row in result.positions}
    assert max(begun.values()) > 100
    for (topic, index), at in begun.items():
        there = start_of(sides.target, group, ("renamed-tx", index))
        assert loaded.next_on_target((topic, index), there) == loaded.next_on_source((topic, index), at)
    left = {
        (row[2] or b"").decode()
        for place, found in loaded.source.items()
        for row in found
        if place in begun and row[0] >= begun[place]
    }
    # Partitions that nobody had read on the source have no start. What the group reads there, and when, is Kafka's.
    ours = {(row[2] or b"").decode() for place, found in loaded.target.items() for row in found if place in begun}
    assert set(consume(target, "renamed-tx", 10_000)) & ours == left


def test_the_command(loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kproxy.migrate.clusters import endpoints

    group, sides = unique("cli"), loaded.sides
    commit(sides.source, group, {("tx", 1): 500})
    file = tmp_path / "m.yaml"
    file.write_text(
        f"name: {sides.name}\nsource: {{bootstrap-servers: '{sides.source}'}}\n"
        f"target: {{bootstrap-servers: '{sides.target}'}}\ntopics: {{rename: {{tx: renamed-tx}}}}\n"
    )
    both = endpoints.ClusterEndpoints.from_addresses(sides.source, sides.target)
    monkeypatch.setattr(endpoints, "open_endpoints", lambda _: nullcontext(both))
    said = CliRunner().invoke(command, [str(file), "--group", group, "--dry-run"], standalone_mode=False)
    assert said.return_value == 0, said.output
    target = translate(loaded.copied, "tx", 1, 500).target
    assert said.stdout.splitlines()[1].split()[:1] == [group]
    assert f" {target} " in said.stdout
    said = CliRunner().invoke(command, [str(file), "--group", group, "--json"], standalone_mode=False)
    assert json.loads(said.stdout)["groups"][0]["positions"][0]["target"] == target
    there = position_on(sides.target, group, ("renamed-tx", 1))
    assert there is not None
    assert there.offset == target


def test_a_migration_that_copied_nothing(sides: TwoSides) -> None:
    from kproxy.base.errors import ConfigError

    with pytest.raises(ConfigError, match=r"the target has no topic .* run kproxy migrate prepare first"):
        run(replace(sides, name=unique("none")), "g")


def test_positions_in_partitions_that_have_no_records(sides: TwoSides, loaded: Loaded) -> None:
    """Nothing is copied of them. One never had a record, one has none any more; of the third there is something to
    copy, and in the fourth a transaction is open."""
    topic, group = unique("sparse"), unique("group")
    topics(sides.source, {topic: 4}, 1)
    topics(sides.target, {topic: 4}, 1)
    writer = Producer({"bootstrap.servers": sides.source})
    for partition in (1, 2):
        for number in range(10):
            writer.produce(topic, str(number).encode(), partition=partition)
    assert writer.flush(30) == 0
    gone = [TopicPartition(topic, 1, 10)]
    admin = AdminClient({"bootstrap.servers": sides.source})
    for future in admin.delete_records(gone).values():
        future.result(30)
    there = Producer({"bootstrap.servers": sides.target})
    there.produce(topic, b"of somebody", partition=1)
    assert there.flush(30) == 0
    open_one = Producer({"bootstrap.servers": sides.source, "transactional.id": unique("open")})
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce(topic, b"open", partition=3)
    assert open_one.flush(30) == 0
    commit(sides.source, group, {(topic, 0): 0, (topic, 1): 10, (topic, 2): 10, (topic, 3): 0})
    (result,) = run(sides, group)
    open_one.abort_transaction(30)
    found = {row.position.partition: (row.position.target, row.outcome) for row in result.positions}
    assert found == {0: (0, WRITTEN), 1: (1, WRITTEN), 2: (None, SKIPPED), 3: (None, SKIPPED)}
