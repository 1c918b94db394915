"""Clients of three kproxies are led to another cluster and back by `kproxy migrate switch`, with everything real: two
Kafka clusters, Spark, kproxies, librdkafka."""

from __future__ import annotations

import json
import platform
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kproxy.base.diagnostic import ERROR
from kproxy.base.errors import ConfigError, UpstreamError, WireError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.commands.group import migrate
from kproxy.migrate.copier import partitioncopy
from kproxy.migrate.copier.sourcelog import CopyBlocked
from kproxy.migrate.copy.copyrun import CopyRun
from kproxy.migrate.copy.driverround import DriverRounds
from kproxy.migrate.copy.scope import build_copy_spec
from kproxy.migrate.journal.driver import current_user
from kproxy.migrate.journal.switch_journal import read_last_switch
from kproxy.migrate.offsets.groupsync import GroupOffsetSync, unwritten_positions
from kproxy.migrate.report.doubts import find_doubts
from kproxy.migrate.report.movepage import render_page
from kproxy.migrate.report.record import outcome_of, read_record
from kproxy.migrate.report.status import read_status
from kproxy.migrate.report.status import status_lines as status_lines
from kproxy.migrate.spec.migration import Migration, TopicSelection
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.client_selection import ClientSelection
from kproxy.migrate.switch.drive import DriveResult
from kproxy.migrate.switch.final_sync import FinalSync, FinalSyncError
from kproxy.migrate.switch.finish import finish_migration
from kproxy.migrate.switch.fleet import KproxyFleet, open_fleet
from kproxy.migrate.switch.observation_run import run_observation
from kproxy.migrate.switch.operations import roll_back_clients, switch_clients
from kproxy.migrate.switch.partial_rollback import TargetPositions
from kproxy.migrate.switch.report import SwitchResult, describe_copies, describe_no_switch, result_lines
from kproxy.migrate.switch.resumption import resume_drive
from kproxy.migrate.switch.reverse_copy import ReverseCopy
from kproxy.migrate.switch.source_use import read_source_use
from kproxy.migrate.switch.switch_run import SwitchContext
from kproxy.migrate.switch.unseen_check import UnseenCheck
from kproxy.migrate.usage.sourcestate import read_source
from kproxy.migrate.verify import driverhashing, verification
from kproxy.migrate.verify.runner import run_verification
from kproxy.proxy.switching.twophase import CoordinatorOutcome, Stage
from tests.harness.clients.going import Going, ending, python
from tests.harness.clients.spark import needs_spark
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.dying import Died, dying
from tests.harness.migration.moving import prepare, rows, topics
from tests.harness.migration.switched import TOKEN, Switched
from tests.harness.process import free_window, wait_until
from tests.harness.topics import unique

pytestmark = [
    pytest.mark.integration,
    needs_spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    # kafka-python reads its message definitions in an old way.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]

PARTITIONS = 3
linux = pytest.mark.skipif(sys.platform != "linux", reason="--reuse-port needs Linux")


@dataclass
class Site:
    """A topic, three kproxies, a migration that is prepared."""

    spark: Any
    endpoints: ClusterEndpoints
    kproxies: Sequence[Switched]
    fleet: KproxyFleet
    section: SwitchSection
    topic: str
    directory: Path
    migration: Migration
    said: list[str] = field(default_factory=list)
    read: dict[str, list[tuple[int, bytes | None]]] = field(default_factory=dict)

    def prepare(self) -> None:
        prepare(self.migration, self.endpoints)

    def switch(
        self,
        *,
        dry_run: bool = False,
        reversible: bool = False,
        until: Any = ReverseCopy.close,
        only: ClientSelection | None = None,
        allow_unseen: tuple[str, ...] = (),
    ) -> SwitchResult:
        return switch_clients(
            self.context, lambda _: None, dry_run=dry_run, reversible=reversible, selection=only,
            unseen=UnseenCheck(self.observed, allow_unseen), until=until,
        )  # fmt: skip

    @property
    def observed(self) -> Path:
        """The file of an observation."""
        return self.directory / "observed.json"

    @property
    def context(self) -> SwitchContext:
        return SwitchContext(
            self.spark, self.migration, self.endpoints, self.fleet, self.section, self.said.append, self.show
        )

    def write_file(self) -> Path:
        """The file of the migration."""
        migration, path = self.migration, self.directory / "move.yaml"
        value = {
            "name": migration.name,
            "source": dict(migration.source),
            "target": dict(migration.target),
            "topics": {"include": list(migration.topics.include)},
            "switch": {
                "kproxies": list(self.section.kproxies.addresses),
                "target-upstream": self.section.target_upstream,
                "token-file": str(self.section.token_file),
            },
        }
        path.write_text(json.dumps(value))  # which is YAML as well
        return path

    def rollback(self, *, dry_run: bool = False, only: ClientSelection | None = None) -> SwitchResult:
        return roll_back_clients(self.context, dry_run=dry_run, selection=only)

    def resume(self, *, abort: bool = False) -> DriveResult | None:
        return resume_drive(
            self.endpoints.target, self.migration, self.fleet, self.section, self.said.append, abort=abort
        )  # fmt: skip

    def afterwards(self) -> list[str]:
        """What `--resume` says when there is no switch."""
        last = read_last_switch(self.endpoints.target, self.migration.name)
        return [*describe_no_switch(last), *describe_copies(last, self.migration, self.endpoints)]

    def copy_forth(self) -> None:
        what = build_copy_spec(self.migration, self.endpoints, take_over=True)
        CopyRun(self.spark, self.endpoints.source, self.endpoints.target, what).run()

    @contextmanager
    def following(self) -> Iterator[threading.Thread]:
        """What is written to the source is copied as it comes."""
        what = build_copy_spec(self.migration, self.endpoints, follow=True)
        copy = CopyRun(self.spark, self.endpoints.source, self.endpoints.target, what)
        thread = threading.Thread(target=copy.run)
        thread.start()
        try:
            yield thread
        finally:
            copy.finish_round()
            thread.join(60)

    def consume(self, group: str, count: int, bootstrap: str = "") -> None:
        """Read so many records in this group, 0: all that are left, and commit exactly that. What the group has read is
        kept: it never reads anything twice, and leaves nothing out."""
        bootstrap = bootstrap or self.kproxies[0].bootstrap
        reader = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
                "auto.offset.reset": "earliest", "enable.partition.eof": True,
            }
        )  # fmt: skip
        reader.subscribe([self.topic])
        read, ended = self.read.setdefault(group, []), set[int]()
        left, next_ones = count or -1, dict[int, TopicPartition]()
        until = time.monotonic() + 120
        while left and (count or len(ended) < PARTITIONS):
            assert time.monotonic() < until, (count, left, ended)
            found = reader.poll(0.5)
            if found is None:
                continue
            if found.error() is not None:
                assert found.error().code() == KafkaError._PARTITION_EOF, found.error()
                ended.add(found.partition())
                continue
            read.append((found.partition(), found.value()))
            next_ones[found.partition()] = TopicPartition(self.topic, found.partition(), found.offset() + 1)
            left -= 1
        if next_ones:
            reader.commit(offsets=list(next_ones.values()), asynchronous=False)
        reader.close()

    def in_order(self, group: str) -> bool:
        """Whether a group has read the first records of each partition, each once, as they are where clients are."""
        active = next(iter(self.phases()))[1]
        there = self.values(self.endpoints.target if active == "green" else self.endpoints.source)
        found: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
        for partition, value in self.read[group]:
            found[partition].append(value)
        return all(whole[: len(some)] == some for whole, some in zip(there, found, strict=True))

    def show(self, findings: Any) -> None:
        self.said += [f"{one.severity}: {one.subject}: {one.text}" for one in findings]

    def stops(self) -> list[str]:
        return [line for line in self.said if line.startswith("error")]

    def phases(self) -> set[tuple[str, str]]:
        return {(seen["phase"], seen["active"]) for seen in (one.seen() for one in self.kproxies)}

    def values(self, bootstrap: str) -> list[list[bytes | None]]:
        """Of each partition, committed."""
        return [[one[2] for one in rows(bootstrap, self.topic, at)] for at in range(PARTITIONS)]

    def producer(self, name: str, at: int, **more: str) -> Going:
        properties = {
            "bootstrap.servers": self.kproxies[at].bootstrap, "enable.idempotence": "true", "client.id": name,
            "linger.ms": "5", **more,
        }  # fmt: skip
        return python("confluent", ["produce", self.topic, str(PARTITIONS), "20"], properties, self.directory / name)

    def transactions(self, at: int) -> Going:
        properties = {"bootstrap.servers": self.kproxies[at].bootstrap, "transactional.id": unique("tx")}
        arguments = ["transact", self.topic, str(PARTITIONS), "20", "100"]
        return python("confluent", arguments, properties, self.directory / f"tx-{at}")

    def consumer(self, group: str, at: int) -> Going:
        properties = {
            "bootstrap.servers": self.kproxies[at].bootstrap, "group.id": group, "auto.offset.reset": "earliest",
            "client.id": f"{group}-{at}", "session.timeout.ms": "10000",
        }  # fmt: skip
        return python("confluent", ["consume", self.topic], properties, self.directory / f"{group}-{at}")


@pytest.fixture
def site(sides: TwoSides, spark: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """By a parameter, all kproxies share their ports."""
    shares = f"127.0.0.1:{free_window(202)}" if getattr(request, "param", "") == "shared" else ""
    topic = unique("orders")
    topics(sides.source, {topic: PARTITIONS, f"{topic}-late": 1}, 1)
    with ExitStack() as stack:
        kproxies = [
            stack.enter_context(Switched(tmp_path / name, sides.source, sides.target, shares=shares))
            for name in ("one", "two", "three")
        ]
        token = tmp_path / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        section = SwitchSection(
            KproxySelection(tuple(one.admin for one in kproxies)), "green", token_file=token, hold_seconds=25
        )
        migration = Migration(
            {"bootstrap-servers": sides.source}, {"bootstrap-servers": sides.target}, unique("mv"),
            topics=TopicSelection((f"{topic}*",)), switch=section,
        )  # fmt: skip
        those = stack.enter_context(open_fleet(section))
        made = Site(
            spark,
            ClusterEndpoints.from_addresses(sides.source, sides.target),
            kproxies,
            those,
            section,
            topic,
            tmp_path,
            migration,
        )
        made.prepare()
        yield made


def acknowledged(client: Going) -> list[int]:
    return [int(number) for number, *_ in client.said("acked")]


def problems(client: Going) -> list[str]:
    return [line for line in client.lines if line.startswith(("failed", "fatal", "died", "error"))]


def assert_once(values: list[list[bytes | None]], producers: Sequence[Going]) -> None:
    """Everything that was acknowledged is there, as often as producers sent it, and in order. The producers send the
    same numbers; so each number is there once for each that had it acknowledged."""
    wanted: dict[int, int] = {}
    for one in producers:
        assert problems(one) == []
        for number in acknowledged(one):
            wanted[number] = wanted.get(number, 0) + 1
    found: dict[int, int] = {}
    for partition in values:
        for value in partition:
            assert value is not None
            found[int(value)] = found.get(int(value), 0) + 1
    assert found == wanted


@pytest.mark.parametrize(
    "site",
    [pytest.param("apart", marks=pytest.mark.matrix), pytest.param("shared", marks=linux)],
    indirect=True,
)
def test_switch_under_load(site: Site, figures: list[str]) -> None:
    producers = [site.producer(f"p{at}", at) for at in range(3)]
    group = unique("readers")
    readers = [site.consumer(group, at) for at in (0, 1)]
    with ending(*producers, *readers):
        for one in (*producers, *readers):
            one.wait_more("acked" if one in producers else "got", 50)
        came = site.switch()
        assert came.drive_result is not None, site.stops()
        assert came.drive_result.end is CoordinatorOutcome.RELEASED, came.drive_result.reasons
        for one in (*producers, *readers):
            one.wait_more("acked" if one in producers else "got", 50)
    assert site.phases() == {("serving", "green")}
    assert_once(site.values(site.endpoints.target), producers)
    seen = [int(found[2]) for one in readers for found in one.said("got")]
    assert set(seen) == {number for one in producers for number in acknowledged(one)}
    figures += [f"switch: {line.strip()}" for line in result_lines(came)]


def test_a_producer_that_goes_round_the_kproxies(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named before, stops the switch unless the topic is allowed, is named again when it still writes, and
    stops the end of the migration."""

    def produce(bootstrap: str, count: int) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for _ in range(count):
            producer.produce(site.topic, b"x", partition=1)
        assert producer.flush(60) == 0

    def pause(_: float) -> None:
        produce(site.kproxies[1].bootstrap, 1)
        produce(site.endpoints.source, 3)

    run_observation(site.migration, 1, site.observed, site.said.append, pause)
    assert site.switch(dry_run=True).blocked
    (stop,) = site.stops()
    assert f"topic {site.topic}: a producer goes round the kproxies: partition 1: producer id" in stop
    assert f"--allow-unseen {site.topic}" in stop
    came = site.switch(allow_unseen=(site.topic,))
    assert came.drive_result is not None, site.stops()
    assert came.drive_result.end is CoordinatorOutcome.RELEASED, came.drive_result.reasons
    assert not any("still written" in line for line in site.said)
    with Admin(site.endpoints.source) as admin:
        topic = read_source(admin, site.migration)
    produce(site.endpoints.source, 2)
    (finding,) = UnseenCheck(site.observed).after(site.endpoints.source, topic.ends)
    assert finding.subject == f"topic {site.topic}"
    assert "is still written on the source" in finding.text
    assert "2 records" in finding.text
    file = site.write_file()
    assert finish(file) == 1
    shown = capsys.readouterr().out
    assert "do not switch off blue yet: topic" in shown
    assert "is still written on the source" in shown
    assert finish(file, "--allow-unseen", f"{site.topic}*") == 0
    shown = capsys.readouterr().out
    assert "blue can be switched off by what was tried" in shown
    assert "3 kproxies replied, and route all clients to green" in shown
    path = site.directory / "report.html"
    words = ["report", str(file), "-o", str(path), "--json"]
    assert migrate.main(words, prog_name="kproxy migrate", standalone_mode=False) == 0
    value = json.loads(capsys.readouterr().out)
    (entry,) = value["switches"]
    assert (entry["user"], entry["host"], entry["outcome"]) == (current_user(), platform.node(), "done")
    assert entry["held_seconds"] > 0
    assert all(partition["digest"] for partition in value["copy"]["partitions"])
    assert not any(doubt["subject"] == "copy back" for doubt in value["not_proven"]), "nothing was copied back"
    assert entry["switch"] in path.read_text()


def finish(file: Path, *options: str) -> int:
    words = ["finish", str(file), "--dry-run", *options]
    return int(migrate.main(words, prog_name="kproxy migrate", standalone_mode=False))


@pytest.mark.matrix
def test_consumers_first_then_producers_one_at_a_time(site: Site) -> None:
    producers = [site.producer(f"p{at}", at) for at in range(3)]
    group = unique("readers")
    readers = [site.consumer(group, at) for at in (0, 1)]

    def led(
        only: ClientSelection | None, end: CoordinatorOutcome = CoordinatorOutcome.RELEASED
    ) -> set[tuple[str, bool]]:
        """Do this; where the cluster and its parts are led then, at all kproxies."""
        came = site.switch(only=only)
        assert came.drive_result is not None, site.stops()
        assert came.drive_result.end is end, came.drive_result.reasons
        return {(one["active"], bool(one["members"])) for each in site.kproxies for one in each.ask()[1]["clusters"]}

    with ending(*producers, *readers):
        for one in (*producers, *readers):
            one.wait_more("acked" if one in producers else "got", 50)
        assert site.switch(only=ClientSelection(clients=("p0",))).blocked
        assert f"{group}-0, {group}-1 read on the source" in site.stops()[-1]
        assert site.switch(only=ClientSelection(clients=(f"{group}-0",))).blocked
        assert f"its members {group}-1 would stay on the source" in site.stops()[-1]
        assert site.switch(dry_run=True, only=ClientSelection((group,))).blocked is False, site.stops()
        assert led(ClientSelection((group,))) == {("blue", False), ("green", True)}
        assert led(ClientSelection(clients=("p0",))) == {("blue", False), ("green", True)}
        producers[0].wait_more("acked", 50)
        for one in readers:
            one.wait_more("got", 20)
        assert site.switch(reversible=True).blocked
        assert "would not be copied back" in site.stops()[-1]
        with pytest.raises(ConfigError, match=r"p0 were moved to the target by themselves .* and have written there"):
            site.rollback()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FinalSync, "translate", _failing)
            assert led(ClientSelection(clients=("p1",)), CoordinatorOutcome.UNDONE) == {
                ("blue", False),
                ("blue", True),
                ("green", True),
            }
        assert led(None) == {("green", False), ("green", True)}, "a part that was left where all others were goes along"
        for one in (*producers, *readers):
            one.wait_more("acked" if one in producers else "got", 50)
    assert_once(site.values(site.endpoints.target), producers)
    seen = [int(found[2]) for one in readers for found in one.said("got")]
    assert set(seen) == {number for one in producers for number in acknowledged(one)}
    report = run_verification(site.spark, site.endpoints.source, site.endpoints.target, site.migration.name, full=True)
    assert any(one.client_records for one in report.partitions)


@pytest.mark.matrix
def test_consumers_first_and_back_again(site: Site) -> None:
    """They read on where they were, in both directions, while a producer goes on."""
    producer, group = site.producer("p0", 0), unique("readers")
    reader, direct = site.consumer(group, 1), Producer({"bootstrap.servers": site.endpoints.target})

    def where() -> list[set[str]]:
        """Where the cluster without parts is led at all kproxies, and where its part is."""
        told = [one for each in site.kproxies for one in each.ask()[1]["clusters"]]
        return [{one["active"] for one in told if bool(one["members"]) is part} for part in (False, True)]

    def done(came: SwitchResult) -> None:
        assert came.drive_result is not None, site.stops()
        assert came.drive_result.end is CoordinatorOutcome.RELEASED, came.drive_result.reasons
        with site.following():
            reader.wait_more("got", 20)

    with ending(producer, reader):
        reader.wait_more("got", 50)
        done(site.switch(only=ClientSelection((group,))))
        assert where() == [{"blue"}, {"green"}]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TargetPositions, "check_no_foreign_records", _failing)
            assert site.rollback().drive_result is None
        assert "as the test has it" in site.stops()[-1]
        done(site.rollback())
        assert where() == [{"blue"}, {"blue"}]
        with pytest.raises(ConfigError, match="nothing to roll back"):
            site.rollback()
        done(site.switch(only=ClientSelection((group,))))
        direct.produce(site.topic, b"0", partition=1)
        assert direct.flush(30) == 0
        assert site.rollback(only=ClientSelection((group,))).drive_result is None
        assert "partition 1" in site.stops()[-1]
        assert "has at least 1 records that were not copied there: a client has written to it" in site.stops()[-1]
        with site.following():
            last = max(acknowledged(producer))
            reader.wait(lambda: int(reader.said("got")[-1][2]) > last, "it has got what was written by now")
    assert_once(site.values(site.endpoints.source), [producer])
    seen = {int(found[2]) for found in reader.said("got")}
    assert set(range(last)) <= seen <= set(acknowledged(producer)) | {0}


@pytest.mark.matrix
def test_positions_on_the_way_back_are_exact(site: Site) -> None:
    """Behind markers, aborted transactions and gaps of both logs, and in a partition without a record."""
    group, empty = unique("exact"), TopicPartition(f"{site.topic}-late", 0, 0)
    _spoil(site.endpoints.source, site.topic)
    site.copy_forth()
    source, target = Admin(site.endpoints.source), Admin(site.endpoints.target)
    with ExitStack() as stack:
        for one in (source, target):
            stack.enter_context(one)
        site.consume(group, 7, site.endpoints.source)
        forth = GroupOffsetSync(site.migration, source, target).read_state().run(group.__eq__, dry_run=False)
        assert not unwritten_positions(forth, site.migration)
        for at in range(6):
            here, there = (
                (site.endpoints.target, site.endpoints.source)
                if at % 2 == 0
                else (site.endpoints.source, site.endpoints.target)
            )
            site.consume(group, 4 + at, here)
            if at == 2:
                member = Consumer({"bootstrap.servers": here, "group.id": group})
                member.commit(offsets=[empty], asynchronous=False)
                member.close()
            if there is site.endpoints.source:
                _spoil(site.endpoints.source, site.topic)  # also while members are away
                site.copy_forth()
                with TargetPositions(site.spark, site.migration, site.endpoints, groups={group}) as positions:
                    positions.check_no_foreign_records(0.0)
                    assert positions.translate(time.monotonic() + 60) == []
            else:
                forth = GroupOffsetSync(site.migration, source, target).read_state().run(group.__eq__, dry_run=False)
                assert not unwritten_positions(forth, site.migration)
    site.consume(group, 0, site.endpoints.source)
    assert site.in_order(group)
    assert len(site.read[group]) == sum(map(len, site.values(site.endpoints.source)))


def _spoil(bootstrap: str, topic: str) -> None:
    """Ten records in each partition; transactions, one of which is aborted, between them."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("tx")})
    producer.init_transactions(60)
    for number in range(10):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, str(time.time_ns()).encode(), partition=partition)
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)(60)


def _failing(self: FinalSync | TargetPositions, until: float) -> None:
    raise FinalSyncError("as the test has it")


def test_transactions_that_are_open(site: Site) -> None:
    """They end in an abort that the application sees; what it has had committed is there once, and nothing else."""
    client = site.transactions(0)
    with ending(client):
        client.wait_more("committed", 1)
        came = site.switch()
        assert came.drive_result is not None, site.stops()
        assert came.drive_result.end is CoordinatorOutcome.RELEASED, came.drive_result.reasons
        client.wait_more("committed", 2)
    committed = [
        number for first, last in client.said("committed") for number in range(int(first), int(last) + 1)
    ]  # fmt: skip
    assert client.said("fatal") + client.said("died") == []
    assert [one.id for one in came.ended_transactions] or not client.said("aborted")
    found = [int(value) for partition in site.values(site.endpoints.target) for value in partition if value is not None]
    assert sorted(found) == committed


def test_somebody_writes_without_kproxy(site: Site) -> None:
    """What is held everywhere else grows: the switch is undone, and says where."""
    went_by = Producer({"bootstrap.servers": site.endpoints.source})
    asked = FinalSync.translate

    def late(self: FinalSync, until: float) -> None:
        asked(self, until)
        went_by.produce(site.topic, b"0", partition=0)
        assert went_by.flush(30) == 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FinalSync, "translate", late)
        came = site.switch(reversible=True)
    assert came.drive_result is not None, site.stops()
    assert came.drive_result.end is CoordinatorOutcome.UNDONE
    assert "a client writes to the source without kproxy: partition 0" in came.drive_result.reasons[0]
    assert site.phases() == {("serving", "blue")}
    there = AdminClient({"bootstrap.servers": site.endpoints.source}).list_topics(timeout=30).topics
    assert f"kproxy-migration-{site.migration.name}-back" not in there  # the way back is taken back


@contextmanager
def holding(site: Site, fault: str) -> Iterator[list[str]]:
    """Records come to the source after the rehearsal, and the fault is there from the hold on; yields the Spark jobs of
    the hold."""
    jobs: list[str] = []
    with pytest.MonkeyPatch.context() as patch:

        def drain(self: FinalSync, until: float) -> None:
            send(site, range(100, 130))
            patch.setattr(verification, "hash_blocks", _noting(jobs, "compare", verification.hash_blocks))
            patch.setattr(CopyRun, "_run_spark_job", _noting(jobs, "copy", CopyRun._run_spark_job))
            break_now(patch, fault)
            drained(self, until)

        send(site, range(100))  # which Spark compares before the hold
        drained = FinalSync.drain
        # So that they are copied in the hold, and not before the fault is there.
        patch.setattr(CopyRun, "set_urgent", lambda self, urgent: None)
        patch.setattr(FinalSync, "drain", drain)
        yield jobs


def send(site: Site, numbers: Sequence[int]) -> None:
    """Write these to the source, without kproxy."""
    producer = Producer({"bootstrap.servers": site.endpoints.source})
    for number in numbers:
        producer.produce(site.topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def _noting(jobs: list[str], name: str, job: Any) -> Any:
    def run(*arguments: Any, **more: Any) -> Any:
        jobs.append(name)
        return job(*arguments, **more)

    return run


def break_now(patch: pytest.MonkeyPatch, fault: str) -> None:
    def lose_one(*arguments: Any, **more: Any) -> Iterator[Any]:
        yield from list(produce(*arguments, **more))[1:]

    def refuse(*_: object, **__: object) -> Iterator[Any]:
        raise CopyBlocked("a batch that nobody can read")

    def unreachable(*_: object, **__: object) -> Iterator[Any]:
        raise UpstreamError("unreachable", "as the test has it")

    def garbage(*_: object, **__: object) -> Iterator[Any]:
        raise WireError("corrupt", "as the test has it")

    produce = partitioncopy.produce_batches
    match fault:
        case "much to copy":
            patch.setattr(DriverRounds, "can_copy", staticmethod(lambda _: False))
        case "much to compare":
            patch.setattr(driverhashing, "MAX_OFFSETS", 0)
        case "a broker is away":
            patch.setattr(driverhashing, "fetch_batches", unreachable)
        case "a batch is damaged":
            patch.setattr(driverhashing, "fetch_batches", garbage)
        case "a record is lost":
            patch.setattr(partitioncopy, "produce_batches", lose_one)
        case "a partition is stuck":
            patch.setattr(partitioncopy, "produce_batches", refuse)


@pytest.mark.parametrize(
    ("fault", "jobs"),
    [
        ("", []),
        pytest.param("much to copy", ["copy"], marks=pytest.mark.matrix),
        ("much to compare", ["compare"]),
        pytest.param("a broker is away", ["compare"], marks=pytest.mark.matrix),
        pytest.param("a batch is damaged", ["compare"], marks=pytest.mark.matrix),
    ],
)
def test_the_hold_needs_spark_only_for_what_the_driver_cannot_do(site: Site, fault: str, jobs: list[str]) -> None:
    with holding(site, fault) as found:
        came = site.switch()
    assert came.drive_result is not None, site.stops()
    assert came.drive_result.end is CoordinatorOutcome.RELEASED, came.drive_result.reasons
    assert sorted(set(found)) == jobs
    assert any("as the driver cannot: as the test has it" in line for line in site.said) == fault.startswith("a b")
    values = [int(value or b"") for partition in site.values(site.endpoints.target) for value in partition]
    assert sorted(values) == list(range(130))
    report = run_verification(site.spark, site.endpoints.source, site.endpoints.target, site.migration.name)
    before = {(one.topic, one.partition): one.kept.digest_text for one in report.partitions}
    assert all(before.values())
    report = run_verification(site.spark, site.endpoints.source, site.endpoints.target, site.migration.name, full=True)
    assert before == {(one.topic, one.partition): one.kept.digest_text for one in report.partitions}, "it is Spark's"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("a record is lost", "not copied"), ("a partition is stuck", "a batch that nobody can read")],
)
def test_the_last_records_are_not_as_they_should_be(site: Site, fault: str, reason: str) -> None:
    """Whatever goes wrong with them in the driver, the switch is undone, and says where."""
    with holding(site, fault):
        came = site.switch()
    assert came.drive_result is not None, site.stops()
    assert came.drive_result.end is CoordinatorOutcome.UNDONE
    assert reason in came.drive_result.reasons[0]
    assert site.phases() == {("serving", "blue")}


def test_a_rehearsal_and_what_stops_it(site: Site) -> None:
    """It does not end the copy that follows."""
    with site.following() as following:
        wait_until(lambda: read_status(site.endpoints.target, site.migration.name).driver, "it copies")
        assert site.switch(dry_run=True).blocked is False, site.stops()
        assert following.is_alive()
        assert "running: the copy to the target: process" in site.afterwards()[2]
    assert site.phases() == {("serving", "blue")}
    assert read_last_switch(site.endpoints.target, site.migration.name) is None
    # No copy reaches a position beyond the end of a log.
    lost = unique("lost")
    reader = Consumer({"bootstrap.servers": site.endpoints.source, "group.id": lost})
    reader.commit(offsets=[TopicPartition(site.topic, 0, 10_000)], asynchronous=False)
    reader.close()
    assert site.switch(dry_run=True).blocked
    assert f"--as-end {lost}" in site.stops()[-1]
    assert site.switch().blocked
    assert site.phases() == {("serving", "blue")}
    assert read_last_switch(site.endpoints.target, site.migration.name) is None
    site.migration = site.migration.with_as_end([lost])
    assert site.switch(dry_run=True).blocked is False, site.stops()
    site.section = replace(site.section, target_upstream="red")
    assert site.switch(dry_run=True).blocked
    assert "has no upstream red (it has blue, green)" in site.stops()[-1]
    with pytest.raises(ConfigError, match="nothing to roll back"):
        site.rollback()
    assert site.resume() is None
    assert site.afterwards() == [
        "no switch to resume: none was started",
        "clients: all are on the source",
        "running: no copy to the target",
        "next: kproxy migrate copy FILE --follow resumes the copy; then kproxy migrate switch FILE starts a switch",
    ]


@pytest.mark.matrix
@pytest.mark.parametrize("stage", [Stage.WORK, Stage.HOLD, Stage.FLIP, Stage.COMMIT, Stage.RELEASE], ids=str)
def test_the_driver_dies(site: Site, stage: Stage) -> None:
    """Another one brings all kproxies to one side, and nothing is lost on it."""
    producer = site.producer("p", 0)
    with ending(producer):
        producer.wait_more("acked", 20)
        with dying(stage), pytest.raises(Died):
            raise AssertionError((site.switch(), site.stops()))
        with pytest.raises(ConfigError, match="has not finished: run kproxy migrate switch FILE --resume"):
            site.switch()
        assert any("not finished" in line for line in status(site))
        driven = site.resume(abort=stage is Stage.HOLD)
        assert driven is not None
        assert driven.entry.ended
        producer.wait_more("acked", 20)
    active = "green" if stage is Stage.RELEASE else "blue"
    assert driven.end is (CoordinatorOutcome.RELEASED if active == "green" else CoordinatorOutcome.UNDONE)
    assert site.phases() == {("serving", active)}
    assert_once(site.values(site.endpoints.target if active == "green" else site.endpoints.source), [producer])
    assert any(f"clients are on {active}" in line and "not finished" not in line for line in status(site))
    assert site.resume() is None


def status(site: Site) -> list[str]:
    return list(status_lines(read_status(site.endpoints.target, site.migration.name)))


@pytest.mark.matrix
def test_there_and_back_and_there_again(site: Site, figures: list[str]) -> None:
    """After a switch that is reversible, what clients write to the target is on the source before they go back; and a
    second switch goes on from there. Groups go on at the exact record each time."""
    group = unique("readers")
    producers = [site.producer("first", 0)]
    with ending(*producers):
        producers[0].wait_more("acked", 50)
        site.consume(group, 10)
        said: list[str] = []

        def until(kept: ReverseCopy) -> None:
            said.extend(site.afterwards())  # the copy back goes on
            kept.close()

        came = site.switch(reversible=True, until=until)
        assert came.drive_result is not None, site.stops()
        assert came.drive_result.end is CoordinatorOutcome.RELEASED, came.drive_result.reasons
        producers[0].wait_more("acked", 50)
    assert said[1] == "clients: all are on green, the target"
    assert "records that clients write to green are copied back: process" in said[2]
    assert "kproxy migrate copy FILE --reverse --follow" in site.afterwards()[3], "it has ended"
    assert_once(site.values(site.endpoints.target), producers)
    site.consume(group, 10)
    assert site.in_order(group)
    with pytest.raises(ConfigError, match="the source is not copied any more"):
        site.copy_forth()
    use = read_source_use(site.migration, site.endpoints.source, site.endpoints.target)
    assert (use.partitions, use.findings) == (PARTITIONS + 1, ()), "what the copy back writes is not taken for others'"
    late = Producer({"bootstrap.servers": site.kproxies[0].bootstrap})
    for number in range(10):  # to a topic that had no records before
        late.produce(f"{site.topic}-late", b"%d" % number)
    assert late.flush(60) == 0
    # Another producer: librdkafka's idempotent one ends when it meets its own sequence numbers again.
    producers.append(site.producer("second", 1))
    with ending(producers[1]):
        producers[1].wait_more("acked", 50)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FinalSync, "check_source_idle", _failing)  # the last thing: all has been written down
            came = site.rollback()
        assert came.drive_result is not None, site.stops()
        assert came.drive_result.end is CoordinatorOutcome.UNDONE, came.drive_result.reasons
        came = site.rollback()  # where it leads does not depend on the one that was undone
        assert came.drive_result is not None, site.stops()
        assert came.drive_result.end is CoordinatorOutcome.RELEASED, came.drive_result.reasons
        producers.append(site.producer("third", 2))
        with ending(producers[2]):
            producers[2].wait_more("acked", 50)
    assert site.phases() == {("serving", "blue")}
    shown = "\n".join(result_lines(came))
    assert "before another switch: run kproxy migrate copy FILE --follow" in shown
    assert "rollback" in site.afterwards()[0]
    assert site.afterwards()[1] == "clients: all are on blue, the source"
    assert_once(site.values(site.endpoints.source), producers)
    assert [one[2] for one in rows(site.endpoints.source, f"{site.topic}-late", 0)] == [b"%d" % at for at in range(10)]
    site.consume(group, 10)
    assert site.in_order(group)
    came = site.switch()
    assert came.drive_result is not None, site.stops()
    # The source hands out ids above the target's before.
    assert any("note: producer ids: " in line and "are raised above the source's" in line for line in site.said)
    assert came.drive_result.end is CoordinatorOutcome.RELEASED, came.drive_result.reasons
    assert site.phases() == {("serving", "green")}
    assert site.values(site.endpoints.target) == site.values(site.endpoints.source)
    site.consume(group, 0)
    assert site.in_order(group)
    assert len(site.read[group]) == sum(len(acknowledged(one)) for one in producers)
    figures += [f"second switch: {line.strip()}" for line in result_lines(came)]
    record = read_record(site.migration, site.endpoints.target, site.endpoints.source, 0, None)
    assert [(entry.what, outcome_of(entry)) for entry in record.switches] == [
        ("switch", "done"),
        ("rollback", "undone"),
        ("rollback", "done"),
        ("switch", "done"),
    ]
    assert {(entry.user, entry.host) for entry in record.switches} == {(current_user(), platform.node())}
    assert all(entry.held_seconds for entry in record.switches)
    assert [doubt for doubt in find_doubts(record) if doubt.severity is ERROR] == []
    (copy_back,) = record.reverse_copies
    assert copy_back.status is not None
    assert copy_back.status.partitions
    page = render_page(record)
    assert all(entry.switch in page for entry in record.switches)
    said.clear()
    last = read_last_switch(site.endpoints.target, site.migration.name)
    assert last is not None
    assert (
        finish_migration(site.migration, site.endpoints.source, site.endpoints.target, last, said.append, dry_run=False)
        == []
    )
    assert any("remove 'upstreams', 'active' and upstream blue" in line for line in said), said
    for bootstrap, state in ((site.endpoints.target, ""), (site.endpoints.source, "-back")):
        there = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
        assert f"kproxy-migration-{site.migration.name}{state}" not in there
