"""Copying between two real clusters by real Spark. librdkafka writes, and reads both sides in the end."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.copier import Copier
from kproxy.migrate.copier.state import Job, Slice, SliceResult
from kproxy.migrate.copier.statetopic import CopiedPartition, read_copied_partitions
from kproxy.migrate.copy.copyrun import CopyRun
from kproxy.migrate.copy.display import serve_metrics
from kproxy.migrate.copy.progress import CopyProgress
from kproxy.migrate.copy.scope import CopySpec, build_copy_spec
from kproxy.migrate.journal.driver import ORDER_KEY, DriverOrder, write_once
from kproxy.migrate.offsets.positions import translate
from kproxy.migrate.report.status import read_status, status_lines
from kproxy.migrate.spec.migration import Migration, TopicSelection
from tests.harness.clients.spark import needs_spark
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.moving import Row, compared, rows, topics, until
from tests.harness.process import free_window
from tests.harness.topics import commit_as, delete_topics, read_topic, unique

pytestmark = [
    pytest.mark.integration,
    needs_spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    # kafka-python reads its message definitions in an old way.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]

# Old records would be deleted by retention, some time during the tests.
NOW = time.time_ns() // 1_000_000


# Segments are cleaned as soon as they can be.
@dataclass(frozen=True)
class Site:
    """Two clusters that can be reached as they are, and Spark."""

    source: str
    target: str
    spark: Any

    def prepare(self, topic: Mapping[str, int], target: Mapping[str, int] | None = None, **config: str) -> CopySpec:
        """Topics on both sides, and a migration of its own."""
        name = unique("move")
        topics(self.source, topic, 1, **config)
        topics(self.target, target or topic, 1, **{"max.message.bytes": "2000000"})
        topics(self.target, {f"kproxy-migration-{name}": 4}, 1, **{"cleanup.policy": "compact"})
        names = dict(zip(topic, target or topic, strict=True))
        return CopySpec(name, names, max_batch_sizes=dict.fromkeys(names.values(), 2_000_000))

    def copy(self, what: CopySpec, shown: Callable[[CopyProgress], None] = lambda _: None) -> CopyProgress:
        return CopyRun(self.spark, self.source, self.target, what, shown).run()

    def state(self, what: CopySpec) -> dict[tuple[str, int], CopiedPartition]:
        return read_copied_partitions(self.target, what.name)

    def problems(self, what: CopySpec) -> dict[tuple[str, int], str]:
        """Of each partition that is not an exact copy."""
        found = {}
        for (topic, partition), copied in self.state(what).items():
            source, target = rows(self.source, topic, partition), rows(self.target, copied.target_topic, partition)
            if said := compared(source, target, copied.map):
                found[topic, partition] = said
        return found


_MANY = 20


@pytest.fixture(scope="module")
def site(sides: TwoSides, spark: Any) -> Site:
    return Site(sides.source, sides.target, spark)


def write(bootstrap: str, topic: str, partition: int, records: list[Row], **config: Any) -> None:
    """As one producer does, in order; the offsets are ignored."""
    own = {"enable.idempotence": True, "message.max.bytes": 2_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, **own, **config})
    for _, key, value, headers, timestamp in records:
        producer.produce(topic, value, key, partition, headers=list(headers), timestamp=timestamp)
    assert producer.flush(60) == 0


def mixed(chance: random.Random, count: int, largest: int = 2000) -> list[Row]:
    """Null and empty keys and values, headers with order, null and repeated names, times that go back."""
    found: list[Row] = []
    for at in range(count):
        key = chance.choice((None, b"", b"k%d" % chance.randrange(50)))
        value = chance.choice((None, b"", chance.randbytes(chance.randrange(1, largest))))
        headers = chance.choice(((), (("a", b"1"), ("b", None), ("a", b"")), (("é", b"\xff"),)))
        found.append((at, key, value, headers, NOW + chance.randrange(-5000, 5000)))
    return found


def _set(topic: str, name: str, value: str) -> ConfigResource:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    return ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])


def configure(bootstrap: str, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name, value in config.items():
        for done in admin.incremental_alter_configs([_set(topic, name, value)]).values():
            done.result(30)


def test_the_copy_goes_on_where_it_was(site: Site) -> None:
    topic = unique("goes-on")
    what = site.prepare({topic: 2})
    chance = random.Random(2)
    for _ in range(3):
        write(site.source, topic, 0, mixed(chance, 200))
        assert site.copy(what).done
    assert site.problems(what) == {}
    state = site.state(what)
    assert list(state) == [(topic, 0)]  # the other partition has never had anything
    assert state[topic, 0].records == 600


def test_it_ends_though_the_source_goes_on(site: Site) -> None:
    """Without --follow what was there at its beginning is copied, however quickly more comes."""
    topic = unique("more")
    what = site.prepare({topic: 1})
    write(site.source, topic, 0, mixed(random.Random(4), 100))

    def more(progress: CopyProgress) -> None:
        if progress.round < _MANY:  # each round finds the log longer than it was
            write(site.source, topic, 0, mixed(random.Random(progress.round), 10))

    progress = site.copy(what, more)
    assert progress.done
    assert progress.round < _MANY
    copied = site.state(what)[topic, 0]
    source, target = rows(site.source, topic, 0), rows(site.target, topic, 0)
    assert 100 <= copied.records == len(target) < len(source)
    assert compared(source[: len(target)], target, copied.map) == ""


def test_small_slices_and_transactions(site: Site) -> None:
    """Many rounds, each of which begins at what the one before has committed."""
    topic = unique("slices")
    what = replace(site.prepare({topic: 3}), slice_size=20_000)
    for partition in range(3):
        write(site.source, topic, partition, mixed(random.Random(partition), 1000, 1000), **{"batch.size": 5000})
    progress = site.copy(what)
    assert progress.done
    assert progress.round > 2
    assert site.problems(what) == {}


def test_a_compacted_topic(site: Site) -> None:
    topic = unique("compacted")
    what = site.prepare(
        {topic: 1}, **{"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01",
                       "delete.retention.ms": "86400000"},
    )  # fmt: skip
    chance = random.Random(3)
    keyed = [
        (0, b"%d" % chance.randrange(40), chance.choice((None, b"x%d" % at)), (), NOW + at)
        for at in range(2000)
    ]  # fmt: skip
    for begin in range(0, 2000, 100):
        write(site.source, topic, 0, keyed[begin : begin + 100], **{"batch.num.messages": 5})

    def cleaned() -> bool:
        write(site.source, topic, 0, keyed[:1])  # rolls the segment
        return len(rows(site.source, topic, 0)) < 500

    until(cleaned, "the source is compacted")
    configure(site.source, topic, **{"min.cleanable.dirty.ratio": "1.0", "segment.ms": "604800000"})

    stuck = site.copy(what)  # as if it were not known to be compacted
    assert "has no offsets" in stuck.stuck[topic, 0]
    assert "topics.allow-offset-gaps" in stuck.stuck[topic, 0]

    assert site.copy(replace(what, allows_gaps=frozenset({topic}))).done
    source = {row[0]: row[1:] for row in rows(site.source, topic, 0)}
    target = {row[0]: row[1:] for row in rows(site.target, topic, 0)}
    known = site.state(what)[topic, 0].map
    pairs = [(offset, known.to_target(offset)) for offset in source]
    assert all(there is not None and target[there] == source[offset] for offset, there in pairs)
    assert any(value is None for _, value, _, _ in source.values())  # tombstones


def test_what_the_source_has_deleted_is_not_passed_over(site: Site) -> None:
    topic = unique("deleted")
    what = site.prepare({topic: 2})
    write(site.source, topic, 0, mixed(random.Random(4), 100))
    write(site.source, topic, 1, mixed(random.Random(4), 100))
    assert site.copy(what).done
    write(site.source, topic, 0, mixed(random.Random(5), 100))
    write(site.source, topic, 1, mixed(random.Random(5), 100))
    admin = AdminClient({"bootstrap.servers": site.source})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 150)]).values():
        deleted.result(30)

    progress = site.copy(what)
    assert "has deleted offsets 100 to 149" in progress.stuck[topic, 0]
    assert f"--skip-deleted {topic}:0:150" in progress.stuck[topic, 0]
    assert list(progress.stuck) == [(topic, 0)]
    assert site.state(what)[topic, 1].records == 200

    assert site.copy(replace(what, skip={(topic, 0): 150})).done
    state = site.state(what)[topic, 0]
    assert state.records == 150
    assert state.map.to_target(149) is None
    assert state.map.to_target(150) == state.map.next_target(120)
    said = "\n".join(status_lines(read_status(site.target, what.name)))
    assert "50 offsets were skipped that the source had deleted" in said


@dataclass
class Application:
    """A repartition topic with 200 records, of which the first 100 are copied, and the group of its application."""

    site: Site

    def __post_init__(self) -> None:
        self.group = unique("app")
        self.topic = f"{self.group}-by-word-repartition"
        what = self.site.prepare({self.topic: 1}, **{"retention.ms": "-1"})
        self.what = replace(what, repartition=frozenset({self.topic}))
        self.admin = AdminClient({"bootstrap.servers": self.site.source})
        write(self.site.source, self.topic, 0, mixed(random.Random(6), 100))
        assert self.site.copy(self.what).done
        write(self.site.source, self.topic, 0, mixed(random.Random(7), 100))

    def commit(self, offset: int, group: str = "") -> None:
        commit_as(self.site.source, group or self.group, [TopicPartition(self.topic, 0, offset)])

    def delete(self, offset: int) -> None:
        for done in self.admin.delete_records([TopicPartition(self.topic, 0, offset)]).values():
            done.result(30)

    @property
    def state(self) -> CopiedPartition:
        return self.site.state(self.what)[self.topic, 0]


@pytest.mark.parametrize("upto", [150, 200], ids=["some", "all"])
def test_what_an_application_of_streams_has_deleted_is_left_out(site: Site, upto: int) -> None:
    """Without being asked: it has read that. Where the copy has got to is known even if nothing is left to copy."""
    made = Application(site)
    made.commit(upto)
    made.delete(upto)
    progress = site.copy(made.what)
    assert progress.done, progress.stuck
    assert (made.state.source_next, made.state.records) == (200, 300 - upto)
    assert f"{upto - 100} offsets were skipped that the source had deleted" in "\n".join(
        status_lines(read_status(site.target, made.what.name))
    )
    assert translate(site.state(made.what), made.topic, 0, 200).target == made.state.target_next
    write(site.source, made.topic, 0, mixed(random.Random(8), 10))
    assert site.copy(made.what).done
    assert made.state.records == 310 - upto


@pytest.mark.parametrize("commits", ["nobody", "less", "another", "two"])
def test_what_nobody_is_known_to_have_read_is_not_left_out(site: Site, commits: str) -> None:
    made = Application(site)
    if commits in ("less", "two"):
        made.commit(149)
    if commits == "two":  # whose name begins the topic's as well
        made.commit(150, f"{made.group}-by")
    if commits == "another":
        made.commit(200, unique("other"))
    made.delete(150)
    progress = site.copy(made.what)
    assert "has deleted offsets 100 to 149" in progress.stuck[made.topic, 0]
    assert made.state.source_next == 100


def test_a_streams_application_deletes_records_during_the_copy(site: Site) -> None:
    """The driver has seen offset 100, and when the task comes, the log begins at 150."""
    made = Application(site)
    made.commit(200)

    class Late(CopyRun):
        def _round(self, number: int, state_partitions: int, slices: list[tuple[int, Slice]]) -> list[SliceResult]:
            if number == 1:
                made.delete(150)
            return super()._round(number, state_partitions, slices)

    stuck: list[str] = []
    progress = Late(
        site.spark, site.source, site.target, made.what, lambda progress: stuck.extend(progress.stuck.values())
    ).run()
    assert progress.done
    assert not stuck
    assert made.state.records == 150


def test_repartition_topics_are_those_only_streams_deletes_from(site: Site) -> None:
    """Whoever names a topic so, and gives it a retention, has deleted nothing himself."""
    name = unique("app")
    settings: dict[str, dict[str, str]] = {
        f"{name}-a-repartition": {"retention.ms": "-1"},
        f"{name}-b-repartition": {},
        f"{name}-c-repartition": {"retention.ms": "-1", "cleanup.policy": "compact"},
        f"{name}-d-changelog": {"retention.ms": "-1"},
    }
    for topic, config in settings.items():
        for bootstrap in (site.source, site.target):
            topics(bootstrap, {topic: 1}, 1, **config)
    migration = Migration({}, {}, name, TopicSelection((f"{name}*",)))
    what = build_copy_spec(migration, ClusterEndpoints.from_addresses(site.source, site.target))
    assert what.repartition == {f"{name}-a-repartition"}


def test_what_is_deleted_while_the_copy_begins(site: Site) -> None:
    """The driver has seen offset 0, and when the task comes, the log begins at 40: nothing was lost by the copy."""
    topic = unique("begins")
    what = site.prepare({topic: 1})
    write(site.source, topic, 0, mixed(random.Random(16), 100))
    source, target = ClusterClient(site.source), ClusterClient(site.target)
    admin = AdminClient({"bootstrap.servers": site.source})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 40)]).values():
        deleted.result(30)
    job = Job(what.name, 4)
    [outcome] = Copier(source, target, job).copy([Slice(topic, 0, topic, 0, 100, 1 << 30, 60.0)])
    source.close()
    target.close()
    assert "the log now begins at offset 40" in outcome.stuck
    assert not outcome.is_final
    assert site.copy(what).done
    assert site.problems(what) == {}
    assert site.state(what)[topic, 0].source_begin == 40


def test_a_slice_whose_start_took_all_its_time(site: Site) -> None:
    """It copies something all the same, or says why it cannot: else the copy would end, with records left, without a
    word."""
    topic = unique("slow")
    what = site.prepare({topic: 1})
    write(site.source, topic, 0, mixed(random.Random(17), 10))
    source, target = ClusterClient(site.source), ClusterClient(site.target)
    copier = Copier(source, target, Job(what.name, 4))

    def copy(to: str) -> SliceResult:
        """Once the brokers know who coordinates the transaction: that takes time of its own."""
        found: list[SliceResult] = []

        def once() -> bool:
            found.extend(copier.copy([Slice(topic, 0, to, 0, 10, 1 << 30, 0.0)]))
            return "COORDINATOR" not in found[-1].stuck

        until(once, "the coordinator is known")
        return found[-1]

    assert "missing-there" in copy("missing-there").stuck
    outcome = copy(topic)
    source.close()
    target.close()
    assert (outcome.stuck, outcome.records) == ("", 10)
    assert site.problems(what) == {}


def test_a_batch_that_the_target_does_not_take(site: Site) -> None:
    topic = unique("large")
    what = replace(site.prepare({topic: 2}), max_batch_sizes={topic: 1000})
    configure(site.target, topic, **{"max.message.bytes": "1000"})
    write(site.source, topic, 0, [(0, None, b"x" * 50_000, (), NOW)])
    write(site.source, topic, 1, mixed(random.Random(6), 100, 100), **{"linger.ms": 50})
    progress = site.copy(what)
    assert "max.message.bytes" in progress.stuck[topic, 0]
    assert list(progress.stuck) == [(topic, 0)]
    assert site.problems(what) == {}  # the other one's batches were made smaller
    wrong = replace(what, max_batch_sizes={topic: 1_000_000})  # kproxy was told wrongly: the broker's answer says so
    assert "MESSAGE_TOO_LARGE" in site.copy(wrong).stuck[topic, 0]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_was_made_anew_is_another_one(site: Site, side: str) -> None:
    """Although it has more records than were copied of the one before, so that no offset looks wrong."""
    topic = unique("anew")
    what = site.prepare({topic: 1})
    write(site.source, topic, 0, mixed(random.Random(13), 10))
    assert site.copy(what).done
    bootstrap = site.source if side == "source" else site.target
    delete_topics(bootstrap, topic)
    topics(bootstrap, {topic: 1}, 1)
    write(bootstrap, topic, 0, mixed(random.Random(14), 50))
    write(site.source, topic, 0, mixed(random.Random(15), 50))
    progress = site.copy(replace(what, stall_timeout=5.0))
    assert "was deleted and recreated" in progress.stuck[topic, 0]
    assert site.state(what)[topic, 0].records == 10


def test_nothing_is_prepared(site: Site) -> None:
    with pytest.raises(ConfigError, match="kproxy migrate prepare"):
        site.copy(CopySpec(unique("never"), {"orders": "orders"}))


def test_a_topic_that_is_not_there(site: Site) -> None:
    topic = unique("here")
    what = site.prepare({topic: 1})
    progress = site.copy(replace(what, topics={"missing": "missing"}))
    assert "does not have topic missing" in progress.stuck["missing", -1]
    write(site.source, topic, 0, mixed(random.Random(7), 10))
    progress = site.copy(replace(what, topics={topic: "missing-there"}, slice_seconds=1.0, stall_timeout=1.0))
    assert "missing-there" in progress.stuck[topic, 0]


def test_tasks_whose_python_has_no_kproxy(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster whose hosts have another one: one line, and no trace of Java's."""
    topic = unique("python")
    what = site.prepare({topic: 1})
    write(site.source, topic, 0, mixed(random.Random(21), 3))
    program = tmp_path / "python3"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without its packages
    program.chmod(0o755)
    monkeypatch.setattr(site.spark.sparkContext, "pythonExec", str(program))
    with pytest.raises(
        ConfigError, match=r"^the Python of Spark's tasks \(.*\) lacks kproxy: give all hosts one Py"
    ) as why:
        site.copy(what)
    assert "\n" not in str(why.value)
    monkeypatch.undo()
    assert site.copy(what).done


class Following:
    """A copy that follows, in a thread."""

    def __init__(self, site: Site, what: CopySpec) -> None:
        self.copy = CopyRun(site.spark, site.source, site.target, replace(what, follow=True))
        self.error: KproxyError | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.copy.run()
        except KproxyError as error:
            self.error = error

    def __enter__(self) -> Following:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.copy.finish_round()
        self._thread.join(120)
        assert not self._thread.is_alive()


def test_pause_and_resume_and_numbers(site: Site) -> None:
    topic = unique("paused")
    what = site.prepare({topic: 1})
    port = free_window(1)
    write(site.source, topic, 0, mixed(random.Random(8), 100))
    with Following(site, what) as following:
        progress = following.copy.progress
        until(lambda: progress.done, "all is copied")
        where = f"127.0.0.1:{port}"
        with (
            serve_metrics(where, lambda: progress),
            urllib.request.urlopen(f"http://{where}/metrics", timeout=10) as answer,
        ):
            numbers = answer.read().decode()
        assert f'kproxy_migrate_records_total{{migration="{what.name}",topic="{topic}"}} 100.0' in numbers
        write_once(site.target, what.name, {ORDER_KEY: DriverOrder(paused=True).to_record()}, "orders")
        until(lambda: progress.paused, "it is paused")
        write(site.source, topic, 0, mixed(random.Random(9), 100))
        assert read_status(site.target, what.name).paused
        assert site.state(what)[topic, 0].records == 100
        write_once(site.target, what.name, {ORDER_KEY: DriverOrder(paused=False).to_record()}, "orders")
        until(lambda: site.state(what)[topic, 0].records == 200, "it goes on")
    assert following.error is None
    assert site.problems(what) == {}
    found = json.loads(read_status(site.target, what.name).to_json())
    assert found["driver"]["ended"] is True
    assert [one["records"] for one in found["partitions"]] == [200]


def test_the_next_driver_lets_the_one_before_end_its_round(site: Site) -> None:
    """Else readers of uncommitted records see the attempt that was broken off, and the same records again."""

    def seen(topic: str, isolation: str) -> int:
        return len(read_topic(site.target, topic, 1, isolation_level=isolation))

    topic = unique("grace")
    what = site.prepare({topic: 1})
    write(site.source, topic, 0, mixed(random.Random(12), 400))
    with Following(site, replace(what, max_rate=40_000)) as first:
        until(lambda: seen(topic, "read_uncommitted"), "an attempt has begun")
        assert not seen(topic, "read_committed"), "and is not over"
        assert site.copy(replace(what, take_over=True)).done
        until(lambda: first.error is not None, "the first one has ended")
    assert "has taken the place" in str(first.error)
    assert site.problems(what) == {}
    assert seen(topic, "read_committed") == 400
    assert seen(topic, "read_uncommitted") == 400


def test_it_ends_in_the_middle_of_a_round(site: Site) -> None:
    topic = unique("stopped")
    what = site.prepare({topic: 1})
    write(site.source, topic, 0, mixed(random.Random(13), 400))
    with Following(site, replace(what, max_rate=1_000, slice_seconds=3600.0)) as following:
        until(lambda: read_topic(site.target, topic, 1, isolation_level="read_uncommitted"), "an attempt has begun")
        following.copy.cancel()
    assert following.error is None
    assert following.copy.progress.problem == ""
    assert site.copy(what).done
    assert site.problems(what) == {}


def test_two_at_once(site: Site) -> None:
    topic = unique("twice")
    what = site.prepare({topic: 1})
    write(site.source, topic, 0, mixed(random.Random(10), 100))
    with Following(site, what) as first:
        until(lambda: first.copy.progress.done, "all is copied")
        with pytest.raises(ConfigError, match="is already being copied, by process"):
            site.copy(what)
        write(site.source, topic, 0, mixed(random.Random(11), 100))
        assert site.copy(replace(what, take_over=True)).done
        until(lambda: first.error is not None, "the first one is fenced")
    assert isinstance(first.error, ConfigError)
    assert "has taken the place" in str(first.error)
    assert site.problems(what) == {}


def test_the_display(site: Site, tmp_path: Path) -> None:
    """On no terminal: lines, one for each thing to know."""
    from kproxy.migrate.copy.display import display_progress

    topic = unique("shown")
    what = site.prepare({topic: 1})
    write(site.source, topic, 0, mixed(random.Random(12), 100))
    with (tmp_path / "log").open("w") as log, display_progress(log) as shown:
        site.copy(what, shown)
    said = (tmp_path / "log").read_text()
    assert what.name in said
    assert "offsets left" in said
