"""Verification with real Spark and real brokers: copies by another producer, with the exact map, spoiled on purpose."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs forget NewTopic

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters import log_bounds
from kproxy.migrate.clusters.topic_identities import MigratedTopic
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.state import PartitionState, state_key, state_topic_name
from kproxy.migrate.copier.statetopic import CopiedPartition, read_copied_partitions
from kproxy.migrate.copy.copyrun import CopyRun
from kproxy.migrate.copy.scope import CopySpec
from kproxy.migrate.journal.driver import write_once
from kproxy.migrate.report.status import read_status, status_lines
from kproxy.migrate.verify import hashing
from kproxy.migrate.verify.driverhashing import DriverHashing
from kproxy.migrate.verify.report import render_text
from kproxy.migrate.verify.results import PartitionResult, VerificationReport, VerifiedRange
from kproxy.migrate.verify.runner import run_verification as verify_migration
from kproxy.migrate.verify.trailing_records import CopiedEnd, list_log_offsets
from kproxy.migrate.verify.verification import Verification
from tests.harness import topics
from tests.harness.clients.spark import needs_spark
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.spoiling import START_MS, Record, made, spoils
from tests.harness.process import wait_until
from tests.harness.topics import delete_topics, read_topic, unique

pytestmark = [
    pytest.mark.integration,
    needs_spark,
    pytest.mark.timeout(600),
    # pyspark leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    # kafka-python reads its message definitions in an old way.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]


# Records are old.
create_topic = partial(topics.create_topic, retention_ms="-1")


@pytest.fixture(scope="module")
def broker(sides: TwoSides) -> Iterator[str]:
    """One broker is source and target at once."""
    abort(sides.source, create_topic(sides.source, 1, 1), 0, 1)  # it has coordinators then
    yield sides.source
    plain.cache_clear()


@cache
def plain(bootstrap: str) -> Producer:
    """One for all topics: a new one takes a second to get its id."""
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})


def send(bootstrap: str, topic: str, partition: int, records: Sequence[Record], **config: Any) -> list[int]:
    """Their offsets."""
    found: list[int] = [-1] * len(records)
    failed: list[Any] = []
    transactions = config.pop("transactions", None)
    common = {"bootstrap.servers": bootstrap, "enable.idempotence": True}
    producer = Producer(common | config) if config else plain(bootstrap)
    if transactions:
        producer.init_transactions(30)
    for at, record in enumerate(records):

        def delivered(error: KafkaError | None, message: Message, at: int = at) -> None:
            if error is not None:
                failed.append(error)
            else:
                found[at] = -1 if (offset := message.offset()) is None else offset

        if transactions and at % transactions == 0:
            producer.begin_transaction()
        producer.produce(
            topic, record.value, record.key, partition, timestamp=record.timestamp, headers=list(record.headers),
            on_delivery=delivered,
        )  # fmt: skip
        if transactions and (at % transactions == transactions - 1 or at == len(records) - 1):
            producer.commit_transaction(30)
    assert producer.flush(30) == 0
    assert not failed, failed[:3]
    if not transactions:  # a batch that was sent again may be acknowledged without its offset
        end = ends(bootstrap, topic, partition)
        found = list(range(end - len(records), end))
    assert -1 not in found
    return found


def abort(bootstrap: str, topic: str, partition: int, count: int) -> None:
    """Records that nobody who reads committed ones sees."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("aborted")})
    producer.init_transactions(30)
    producer.begin_transaction()
    for n in range(count):
        producer.produce(topic, b"aborted-%d" % n, partition=partition)
    producer.flush(30)
    producer.abort_transaction(30)


def ends(bootstrap: str, topic: str, partition: int) -> int:
    from kproxy.migrate.clusters.log_bounds import read_log_bounds

    return read_log_bounds(bootstrap, [(topic, partition)])[topic, partition].end


def copied(
    bootstrap: str, source: str, target: str, partition: int, pairs: Sequence[tuple[int, int]], begin: int = 0
) -> CopiedPartition:
    """What the state topic would have: source and target offset of each record."""
    known = OffsetMap()
    for one, other in pairs:
        known.add(one, other, 1)
    last = pairs[-1][1] + 1 if pairs else 0
    end = ends(bootstrap, source, partition)
    return CopiedPartition(source, partition, target, begin, end, last, len(pairs), 0, known)


def verify(spark: Any, bootstrap: str, parts: Sequence[CopiedPartition], **more: Any) -> VerificationReport:
    """Read the records with Spark; and before, if nothing is said to be saved, in the driver, with the same result."""
    kept = more.pop("kept", {})
    topics = {one.topic: MigratedTopic(one.topic, one.target_topic) for one in parts}
    ends = {one.target_where: CopiedEnd(one.target_next) for one in parts}

    def run(**hashing: Any) -> VerificationReport:
        run = Verification(spark, bootstrap, bootstrap, **({"read_copied_ends": lambda: ends} | more | hashing))
        return run.run("test", {(one.topic, one.partition): one for one in parts}, kept, topics)

    def numbers(report: VerificationReport) -> list[tuple[PartitionResult, str]]:
        return [(one, one.kept.digest_text) for one in report.partitions]

    by_driver = None
    if not more.keys() & {"save", "sample_share"}:
        refused: list[str] = []
        with closing(DriverHashing(bootstrap, bootstrap, refused.append)) as driver_hashing:
            by_driver = run(driver_hashing=driver_hashing)
        assert refused == []
    by_spark = run()
    assert by_driver is None or numbers(by_driver) == numbers(by_spark)
    return by_spark


def of(report: VerificationReport, partition: int) -> PartitionResult:
    return next(one for one in report.partitions if one.partition == partition)


COUNT = 300
AT = 120  # the record that is spoiled
SPOILS = spoils(AT)


def test_ten_ways_to_spoil_a_copy(spark: Any, broker: str) -> None:
    """The map says that all is copied as it should be; the target says otherwise. And one that is right among them."""
    names = list(SPOILS)
    source = create_topic(broker, len(names) + 1, 1)
    target = create_topic(broker, len(names) + 1, 1)
    parts = []
    for partition in range(len(names) + 1):
        records = made(COUNT, partition)
        if partition < len(names):
            records[AT] = SPOILS[names[partition]].record
        offsets = send(broker, source, partition, records)
        spoil = SPOILS[names[partition]].spoil if partition < len(names) else lambda all: all
        send(broker, target, partition, spoil(records))
        parts.append(copied(broker, source, target, partition, [(one, one) for one in offsets]))
    report = verify(spark, broker, parts)
    for partition, name in enumerate(names):
        one = of(report, partition)
        found, way = one.difference, SPOILS[name]
        assert found is not None, name
        at = AT + 1 if name == "doubled" else AT
        assert (found.field.partition(" (also")[0], found.position) == (way.field, at), (name, found)
        assert found.target_offset == at
        assert way.left in found.source, (name, found)
        assert way.right in found.target, (name, found)
        assert bool(found.source) == (name != "doubled")
        assert (one.kept.upto, one.bad, one.is_complete) == (at, 1, False), name
        assert "key" not in found.source.replace("key 3 bytes", "")  # what records have is not shown
    right_one = of(report, len(names))
    assert right_one.is_complete
    assert (right_one.kept, right_one.records) == (VerifiedRange(0, COUNT, COUNT), COUNT)
    assert report.exit_code == 1
    assert len(report.differences) == len(names)


def test_null_is_not_empty(spark: Any, broker: str) -> None:
    source, target = create_topic(broker, 3, 1), create_topic(broker, 3, 1)
    parts = []
    for partition, (one, other) in enumerate(
        [
            (Record(b"k", None, START_MS), Record(b"k", b"", START_MS)),
            (Record(None, b"v", START_MS), Record(b"", b"v", START_MS)),
            (Record(None, b"same", START_MS), Record(b"same", None, START_MS)),
        ]
    ):
        send(broker, source, partition, [one])
        send(broker, target, partition, [other])
        parts.append(copied(broker, source, target, partition, [(0, 0)]))
    report = verify(spark, broker, parts, show_bytes=True)
    assert [(one.field, one.source, one.target.partition(" (")[0]) for one in report.differences] == [
        ("value", "null", "0 bytes"),
        ("key", "null", "0 bytes"),
        ("key", "null", "4 bytes, b'same'"),
    ]


def test_what_the_map_does_not_have(spark: Any, broker: str) -> None:
    """A record that was not copied, one that was copied twice, one in the wrong partition, one of somebody else's."""
    source, target = create_topic(broker, 6, 1), create_topic(broker, 6, 1)
    records = [replace(one, offset=n) for n, one in enumerate(made(COUNT))]
    stray = Record(b"stray", b"elsewhere", START_MS, offset=AT)
    foreign = Record(b"foreign", b"foreign", START_MS)
    stray_source = [stray if n == AT else one for n, one in enumerate(records)]
    without = [one for one in records if one.offset != AT]
    written: list[tuple[list[Record], list[Record]]] = [
        (records, without),
        (records, [*records[: AT + 1], replace(records[AT], offset=-1), *records[AT + 1 :]]),
        (stray_source, [one for one in stray_source if one.offset != AT]),
        (records, [*records[:50], replace(stray, offset=-1), *records[50:]]),
        (records, [*records[:AT], foreign, *records[AT:]]),
        (records, records),
    ]
    parts = []
    for partition, (left, right) in enumerate(written):
        send(broker, source, partition, left)
        offsets = send(broker, target, partition, right)
        pairs = [(one.offset, there) for one, there in zip(right, offsets, strict=True) if one.offset >= 0]
        parts.append(copied(broker, source, target, partition, pairs))
    report = verify(spark, broker, parts)
    found = [(one.field, one.position, one.source_offset, one.target_offset) for one in report.differences]
    assert found == [
        ("not copied", AT, AT, None),
        ("doubled", AT + 1, None, AT + 1),
        ("partition", AT, AT, None),
        ("extra", 50, None, 50),
        ("extra", AT, None, AT),
    ]
    assert report.differences[2].source.endswith("; on the target it is in partition 3 at 50")
    assert [of(report, partition).kept.upto for partition in range(6)] == [AT, AT + 1, AT, 50, AT, COUNT]


def test_transactions_gaps_codecs_and_renames(spark: Any, broker: str) -> None:
    """Committed records only, on both sides; markers and aborted records make gaps. Empty partitions are right."""
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    count = len(codecs) + 1
    source, target = create_topic(broker, count, 1), create_topic(broker, count, 1)
    parts = [copied(broker, source, target, len(codecs), [])]
    for partition, codec in enumerate(codecs):
        offsets: list[int] = []
        records = made(900, partition)
        for begin in range(0, 900, 300):
            more = {"transactional.id": unique("source"), "transactions": 10 + partition, "compression.type": codec}
            offsets += send(broker, source, partition, records[begin : begin + 300], **more)
            abort(broker, source, partition, 5)
        abort(broker, target, partition, 3)
        there = send(broker, target, partition, records, **{"transactional.id": unique("target"), "transactions": 64})
        parts.append(copied(broker, source, target, partition, list(zip(offsets, there, strict=True))))
    report = verify(spark, broker, parts)
    assert [str(one) for one in report.differences] == []
    assert report.exit_code == 0
    assert all(one.kept.upto == part.source_next for one, part in zip(report.partitions, parts[1:], strict=False))
    assert sum(one.records for one in report.partitions) == 900 * len(codecs)
    assert all(one.copied > 900 for one in report.partitions[:-1])


def test_a_record_behind_the_last_copied_one_is_named(spark: Any, broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the tail of a log, and in a partition to which nothing was copied. Markers of transactions, and what was
    aborted there, are nobody's records; one that is open is said."""
    source, target = create_topic(broker, 6, 1), create_topic(broker, 7, 1)
    parts = []
    for partition in range(5):
        records = made(COUNT, partition)
        pairs = zip(send(broker, source, partition, records), send(broker, target, partition, records), strict=True)
        parts.append(copied(broker, source, target, partition, list(pairs)))
    stray = Record(b"key", b"stray", START_MS)
    abort(broker, target, 0, 3)
    abort(broker, target, 1, 3)
    # The end of a transaction is acknowledged before its markers are written.
    for partition in (0, 1):
        wait_until(lambda at=partition: ends(broker, target, at) == COUNT + 4, "the marker is there")  # type: ignore[misc]
    assert send(broker, target, 1, [stray]) == [COUNT + 4]
    send(broker, target, 2, [stray, stray], **{"transactional.id": unique("stray"), "transactions": 2})
    wait_until(lambda: ends(broker, target, 2) == COUNT + 3, "the marker is there")
    open_one = Producer({"bootstrap.servers": broker, "transactional.id": unique("open")})
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce(target, b"open", partition=3)
    assert open_one.flush(30) == 0
    send(broker, target, 6, [stray], **{"enable.idempotence": False})
    try:
        saved: dict[tuple[str, int], VerifiedRange] = {}
        report = verify(spark, broker, parts, save=saved.update)
    finally:
        open_one.abort_transaction(30)
    assert [(one.partition, one.field, one.source_offset, one.target_offset) for one in report.differences] == [
        (1, "extra", None, COUNT + 4),
        (2, "extra", None, COUNT),
        (6, "extra", None, 0),
    ]
    said = [one.target for one in report.differences]
    assert all("key 3 bytes, sha256 2c70e12b7a0646f9…; value 5 bytes, sha256" in one for one in said)
    assert [one.partition("written ")[2].rstrip("0123456789, epoch") for one in said] == [
        "by producer id", "in a transaction of producer id", "by a producer that is not idempotent",
    ]  # fmt: skip
    assert [of(report, partition).is_complete for partition in (0, 1, 2, 3, 4, 6)] == [
        True,
        False,
        False,
        True,
        True,
        False,
    ]
    assert [of(report, partition).kept.unknown for partition in (0, 1, 2, 3, 6)] == [0, 1, 2, 0, 1]
    assert [of(report, partition).undecided_offsets for partition in range(5)] == [0, 0, 0, 1, 0]
    assert report.exit_code == 1
    assert saved[source, 1] == VerifiedRange(0, COUNT, COUNT, unknown=1)
    shown = "\n".join(render_text(report))
    assert "100 %" not in shown
    text = " ".join(shown.split())
    assert "1 records on the target that were not copied from the source, 1 of them after the last" in text
    # A partition of which nobody tells where it ends is not verified.
    from kproxy.migrate.verify import trailing_records

    with monkeypatch.context() as patch:
        patch.setattr(trailing_records, "list_log_offsets", lambda *_: {})
        silent = verify(spark, broker, parts, kept=saved)
    assert all(one.note.startswith("the target returned no offsets of this partition") for one in silent.partitions)
    assert (silent.exit_code, of(silent, 1).kept.unknown, of(silent, 4).kept.upto) == (1, 1, COUNT)
    # Clients that were led there write: then nobody can tell, and that is said.
    later = verify(spark, broker, parts, kept=saved, clients_write=lambda: True)
    assert later.differences == ()
    assert [of(later, partition).client_offsets for partition in (1, 4)] == [5, 0]


def test_the_copys_own_records_at_the_end_are_not_foreign(
    spark: Any, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its markers, what it writes while the verification goes on, and the same for a topic that is deleted, or made
    anew, without a word about the others."""
    topics = [create_topic(broker, 2, 1) for _ in range(3)]
    name = unique("move")
    names = {topic: f"to.{topic}" for topic in topics}
    admin = AdminClient({"bootstrap.servers": broker})
    # The records are of 2023: by default, the broker deletes them five minutes after its start.
    new = [NewTopic(there, 2, 1, config={"retention.ms": "-1"}) for there in names.values()]
    new.append(NewTopic(state_topic_name(name), 3, 1, config={"cleanup.policy": "compact"}))
    for made_one in admin.create_topics(new).values():
        made_one.result(30)
    for topic in topics:
        send(broker, topic, 0, made(COUNT))
    what = CopySpec(name, names)
    assert CopyRun(spark, broker, broker, what).run().done
    first = verify_migration(spark, broker, broker, name)
    assert ([str(one) for one in first.differences], first.exit_code) == ([], 0)

    # More is copied while the tails are looked at.
    for topic in topics:
        send(broker, topic, 0, made(COUNT))
    from kproxy.migrate.verify import trailing_records

    def ends(cluster: ClusterClient, places: Any) -> Any:
        assert CopyRun(spark, broker, broker, what).run().done
        return list_log_offsets(cluster, places)

    with monkeypatch.context() as patch:
        patch.setattr(trailing_records, "list_log_offsets", ends)
        second = verify_migration(spark, broker, broker, name)
    assert ([str(one) for one in second.differences], second.exit_code) == ([], 0)
    assert verify_migration(spark, broker, broker, name).exit_code == 0
    assert read_status(broker, name).lost_topics == {}

    # One topic of the target is deleted, another one is made anew.
    delete_topics(broker, names[topics[0]], names[topics[1]])
    admin.create_topics([NewTopic(names[topics[1]], 2, 1)])[names[topics[1]]].result(30)
    send(broker, names[topics[1]], 0, made(2 * COUNT))  # so that no offset looks wrong
    third = verify_migration(spark, broker, broker, name, full=True)
    notes = {one.topic: one.note for one in third.partitions}
    assert notes[topics[0]].startswith(
        f"to.{topics[0]}, to which {2 * COUNT} records were copied, no longer exists on the target"
    )
    assert notes[topics[1]].startswith(
        f"to.{topics[1]} on the target is not the topic to which {2 * COUNT} records were"
    )
    assert [(one.topic, one.note, one.is_complete) for one in third.partitions if not one.note] == [
        (topics[2], "", True)
    ]
    assert [one.kept.upto for one in third.partitions if one.note] == [0, 0]
    assert third.exit_code == 1
    said = read_status(broker, name)
    assert said.lost_topics.keys() == set(topics[:2])
    shown = "\n".join(status_lines(said))
    assert f"{topics[0]} -> to.{topics[0]}: 1 partition, {2 * COUNT} records" in shown
    assert shown.count("not verified") == 2
    progress = CopyRun(spark, broker, broker, what).run()
    assert {topic for topic, _ in progress.stuck} == set(topics[:2])
    assert not progress.done
    assert [round(line.done_share, 3) for line in progress.topics()] == [
        0.0 if line.stuck else 1.0 for line in progress.topics()
    ]
    assert names[topics[0]] not in admin.list_topics(timeout=30).topics  # nor did any of this bring it back


def test_an_open_transaction_hides_records(spark: Any, broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of committed records do not get what follows an open transaction: that is not missing on the target."""
    source, target = create_topic(broker, 1, 1), create_topic(broker, 1, 1)
    send(broker, source, 0, made(COUNT))
    other = Producer({"bootstrap.servers": broker, "transactional.id": unique("open")})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(target, b"open", partition=0)
    assert other.flush(30) == 0
    for record in made(COUNT):
        plain(broker).produce(
            target, record.value, record.key, 0, timestamp=record.timestamp, headers=list(record.headers)
        )
    assert plain(broker).flush(30) == 0
    part = copied(broker, source, target, 0, [(n, n + 1) for n in range(COUNT)])

    with monkeypatch.context() as patch:
        patch.setattr(log_bounds, "_MARKER_TIMEOUT", 0.0)
        (hidden,) = verify(spark, broker, [part]).partitions
    assert (hidden.difference, hidden.records, hidden.is_complete) == (None, 0, False)
    assert hidden.note.startswith("an open transaction on the target hides the records from offset 0 on")

    ending = threading.Timer(0.5, other.abort_transaction, [30])
    ending.start()
    (visible,) = verify(spark, broker, [part]).partitions
    ending.join()
    assert (visible.note, visible.difference, visible.records, visible.is_complete) == ("", None, COUNT, True)


def test_what_was_verified_stays_so(spark: Any, broker: str) -> None:
    """The second run compares what came since, also if what was verified has been deleted from the source."""
    source, target = create_topic(broker, 2, 1), create_topic(broker, 2, 1)
    first: list[CopiedPartition] = []
    for partition in range(2):
        records = made(COUNT, partition)
        offsets = send(broker, source, partition, records)
        there = send(broker, target, partition, records)
        first.append(copied(broker, source, target, partition, list(zip(offsets, there, strict=True))))
    saved: dict[tuple[str, int], VerifiedRange] = {}
    verify(spark, broker, first, save=saved.update)
    assert saved == {(source, partition): VerifiedRange(0, COUNT, COUNT) for partition in range(2)}
    second = []
    for partition in range(2):
        records = made(COUNT, partition + 10)
        offsets = send(broker, source, partition, records)
        there = send(broker, target, partition, records)
        pairs = [*zip(range(COUNT), range(COUNT), strict=True), *zip(offsets, there, strict=True)]
        second.append(copied(broker, source, target, partition, pairs))
    delete_before(broker, source, {0: COUNT, 1: COUNT + 50})
    report = verify(spark, broker, second, kept=dict(saved), save=saved.update)
    assert report.exit_code == 0
    assert [one.records for one in report.partitions] == [COUNT, COUNT - 50]
    assert [one.deleted for one in report.partitions] == [0, 50]
    assert saved[source, 0] == VerifiedRange(0, 2 * COUNT, 2 * COUNT)
    assert saved[source, 1] == VerifiedRange(0, 2 * COUNT, 2 * COUNT - 50, deleted=50)
    assert None not in {one.digest for one in saved.values()}
    assert len({one.digest for one in saved.values()}) == 2
    nothing = verify(spark, broker, second, kept=saved)
    assert (nothing.exit_code, sum(one.records for one in nothing.partitions)) == (0, 0)


def test_the_state_topic_is_read_and_keeps_what_is_verified(spark: Any, broker: str) -> None:
    name = unique("move")
    with pytest.raises(ConfigError, match=f"no topic kproxy-migration-{name}: run kproxy migrate prepare first"):
        verify_migration(spark, broker, broker, name)
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(state_topic_name(name), 3, 1, config={"cleanup.policy": "compact"})])[
        state_topic_name(name)
    ].result(30)
    source, target = create_topic(broker, 1, 1), create_topic(broker, 1, 1)
    records = made(COUNT)
    pairs = zip(send(broker, source, 0, records), send(broker, target, 0, records), strict=True)
    known = OffsetMap((one, other, 1) for one, other in pairs)
    state = PartitionState(target, 0, COUNT, COUNT, records=COUNT, map=known)
    write_once(
        broker,
        name,
        {state_key("partition", source, 0): json.loads(state.to_json())},
        "test",
    )
    first = verify_migration(spark, broker, broker, name)
    assert (first.exit_code, first.partitions[0].records) == (0, COUNT)
    assert read_copied_partitions(broker, name)[source, 0].verified_upto == COUNT
    again = verify_migration(spark, broker, broker, name)
    assert (again.exit_code, again.partitions[0].records) == (0, 0)
    assert again.partitions[0].kept == VerifiedRange(0, COUNT, COUNT)
    everything = verify_migration(spark, broker, broker, name, full=True)
    assert (everything.exit_code, everything.partitions[0].records) == (0, COUNT)
    assert everything.partitions[0].kept == VerifiedRange(0, COUNT, COUNT)
    digests = [report.partitions[0].kept.digest for report in (first, again, everything)]
    assert digests[0]
    assert digests == digests[:1] * 3, "whoever compares again gets the same digest"


def test_deleted_on_the_target_is_missing(spark: Any, broker: str) -> None:
    source, target = create_topic(broker, 1, 1), create_topic(broker, 1, 1)
    records = made(COUNT)
    pairs = list(zip(send(broker, source, 0, records), send(broker, target, 0, records), strict=True))
    delete_before(broker, target, {0: 10})
    part = copied(broker, source, target, 0, pairs)
    report = verify(spark, broker, [part])
    [found] = report.differences
    assert (found.field, found.source_offset, found.target_offset) == ("missing", 0, 0)
    assert of(report, 0).kept.upto == 0
    shorter = verify(spark, broker, [replace(part, source_next=COUNT + 7)])
    assert of(shorter, 0).note.startswith(
        f"the source ends at {COUNT}, but was copied up to {COUNT + 7}: was the topic"
    )


def delete_before(bootstrap: str, topic: str, offsets: dict[int, int]) -> None:
    from confluent_kafka import TopicPartition

    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    for future in admin.delete_records(places).values():
        future.result(30)


@pytest.mark.matrix
def test_sampling(spark: Any, broker: str) -> None:
    """Whole blocks, always the same ones; nothing counts as verified."""
    source, target = create_topic(broker, 1, 1), create_topic(broker, 1, 1)
    records = [Record(b"k", b"%d" % n, START_MS) for n in range(100_000)]
    known = list(zip(send(broker, source, 0, records), send(broker, target, 0, records), strict=True))
    part = copied(broker, source, target, 0, known)
    saved: list[Any] = []
    reports = [verify(spark, broker, [part], sample_share=0.5, save=saved.append) for _ in range(2)]
    one, again = (of(report, 0) for report in reports)
    assert (one.records, one.blocks, one.total_blocks, one.kept) == (
        again.records,
        again.blocks,
        7,
        VerifiedRange(0, 0, one.records),
    )
    assert 0 < one.blocks < 7
    assert 0 < one.records <= one.blocks << 14
    assert saved == []
    assert reports[0].exit_code == 0
    # The same without sampling, in blocks.
    assert of(verify(spark, broker, [part]), 0).kept.upto == 100_000


COMPACT = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.0001", "segment_ms": "100"}


def compact(bootstrap: str, topic: str, upto: int) -> None:
    """Wait until a topic's log cleaner has been there. It takes whole segments, and a later record begins a new one."""
    send(bootstrap, topic, 0, [Record(b"roll", b"roll", START_MS + 3_600_000)])

    def once_more() -> bool:
        left = read_topic(bootstrap, topic, 1)
        return sum((message.offset() or 0) < upto for message in left) < upto - 200

    wait_until(once_more, "the log is compacted", 60)


def test_compacted_topics(spark: Any, broker: str) -> None:
    """What compaction has removed from one side after the copy is accepted; a record that was not copied is not."""
    source, target = create_topic(broker, 1, 1), create_topic(broker, 1, 1, **COMPACT)
    other = create_topic(broker, 1, 1, cleanup_policy="compact")  # and its one segment is never cleaned
    records = [Record(b"k%d" % (n % 20), None if n % 7 == 0 else b"v%d" % n, START_MS + n) for n in range(COUNT)]
    records.append(Record(b"last", b"last", START_MS))
    offsets = send(broker, source, 0, records)
    pairs = list(zip(offsets, send(broker, target, 0, records), strict=True))
    assert send(broker, other, 0, [one for n, one in enumerate(records) if n not in (13, 295)])
    part = copied(broker, source, target, 0, pairs)
    compact(broker, target, COUNT)
    report = verify(spark, broker, [part], clients_write=lambda: True)  # that which rolls the segment
    one = of(report, 0)
    assert [str(each) for each in report.differences] == []
    assert one.is_complete
    assert one.compacted_target > 200
    assert one.records + one.compacted_target == COUNT + 1
    assert one.kept.compacted == one.compacted_target
    # The other way round: compacted on the source.
    back = CopiedPartition(target, 0, source, 0, COUNT + 1, COUNT + 1, COUNT + 1, 0, part.map)
    again = of(verify(spark, broker, [back]), 0)
    assert (again.compacted_source, again.difference) == (one.compacted_target, None)
    # Number 295 is the last one of its key: no compaction takes it. Number 13 has later ones.
    kept = [n for n in range(COUNT + 1) if n not in (13, 295)]
    lost = copied(broker, source, other, 0, list(zip(kept, range(COUNT - 1), strict=True)))
    verdict = of(verify(spark, broker, [lost]), 0)
    assert verdict.compacted_target == 1
    assert verdict.difference is not None
    assert (verdict.difference.field, verdict.difference.position) == ("not copied", 295)
    assert (verdict.bad, verdict.kept.upto) == (1, 295)


def test_without_the_connector_one_line_says_what_to_do(spark: Any, broker: str) -> None:
    class WithoutKafka:
        """The session, whose source is not there."""

        sparkContext = spark.sparkContext
        conf = spark.conf
        version = spark.version

        class read:
            @staticmethod
            def format(_: str) -> Any:
                return spark.read.format("kafka-that-is-not-there")

    source = create_topic(broker, 1, 1)
    send(broker, source, 0, made(3))
    part = copied(broker, source, source, 0, [(n, n) for n in range(3)])
    with pytest.raises(ConfigError, match=r"--packages org.apache.spark:spark-sql-kafka-0-10_2\.13:4\.0\.0$"):
        verify(WithoutKafka(), broker, [part])


def cpu_of(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.matrix
def test_what_it_costs(spark: Any, broker: str, figures: list[str]) -> None:
    """CPU of Spark's JVM and of this process for a small topic, JIT and all: no bar, a figure to look at."""
    source = create_topic(broker, 2, 1)
    value = os.urandom(1000)
    records = [Record(b"%d" % n, value, START_MS + n) for n in range(50_000)]
    parts = []
    for partition in range(2):
        offsets = send(broker, source, partition, records, **{"linger.ms": 50})
        parts.append(copied(broker, source, source, partition, [(one, one) for one in offsets]))
    pids = [os.getpid(), spark.sparkContext._gateway.proc.pid]
    before, began = sum(map(cpu_of, pids)), time.monotonic()
    assert verify(spark, broker, parts).exit_code == 0
    cost, took = sum(map(cpu_of, pids)) - before, time.monotonic() - began
    figures.append(f"verify: 100 MB a side at 1 KB: {cost:.1f} CPU-s (JVM and Python), {took:.1f} s")


def test_many_partitions_are_read_by_few_tasks(spark: Any, broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of Spark for each of very many partitions with few records would take most of the time."""
    topic = create_topic(broker, 5, 1)
    for partition in range(5):
        send(broker, topic, partition, made(partition + 1))
    monkeypatch.setattr(hashing, "_MAX_TASKS", 2)
    monkeypatch.setattr(hashing, "_MAX_TASKS_EACH", 1)
    ranges = {(topic, partition): (0, partition + 1) for partition in range(5)}
    frame = hashing.read_records(spark, broker, ranges)
    assert frame.rdd.getNumPartitions() == 2
    offsets = sorted((row["partition"], row["offset"]) for row in frame.select("partition", "offset").collect())
    assert offsets == [(partition, offset) for partition in range(5) for offset in range(partition + 1)]
    few = hashing.read_records(spark, broker, dict(list(ranges.items())[:2]))
    assert few.rdd.getNumPartitions() >= 2
