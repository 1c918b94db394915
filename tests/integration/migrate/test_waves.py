"""Waves are switched by themselves, with everything real: two clusters, two kproxies, Spark, librdkafka under load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copy.copyrun import CopyRun
from kproxy.migrate.copy.scope import build_copy_spec
from kproxy.migrate.journal.switch_journal import SwitchEntry, read_last_switch
from kproxy.migrate.report.status import read_status, status_lines
from kproxy.migrate.spec.migration import Migration, TopicSelection, WaveSelection
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.client_selection import ClientSelection, select_wave
from kproxy.migrate.switch.fleet import KproxyFleet, open_fleet
from kproxy.migrate.switch.observation_run import run_observation
from kproxy.migrate.switch.operations import roll_back_clients, switch_clients
from kproxy.migrate.switch.report import SwitchResult, describe_copies, result_lines
from kproxy.migrate.switch.reverse_copy import ReverseCopy
from kproxy.migrate.switch.switch_run import SwitchContext
from kproxy.migrate.switch.wave_alarms import check_moved_waves
from kproxy.migrate.usage.observed import read_usage
from kproxy.migrate.verify.runner import run_verification
from kproxy.proxy.switching.twophase import CoordinatorOutcome
from tests.harness.clients.going import Going, ending, python
from tests.harness.clients.spark import needs_spark
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.moving import prepare, rows, topics
from tests.harness.migration.switched import BLUE, GREEN, TOKEN, Switched
from tests.harness.topics import consumer, read, unique

pytestmark = [
    pytest.mark.integration,
    needs_spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    # kafka-python reads its message definitions in an old way.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]

PARTITIONS = 2
ORDERS, LOGS = "orders", "logs"


@dataclass
class Site:
    """Two waves, each with a topic, its writers and its readers; two kproxies; a migration that is prepared."""

    spark: Any
    endpoints: ClusterEndpoints
    kproxies: Sequence[Switched]
    fleet: KproxyFleet
    section: SwitchSection
    migration: Migration
    topics: dict[str, str]
    directory: Path
    lines: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        prepare(self.migration, self.endpoints)

    @property
    def context(self) -> SwitchContext:
        return SwitchContext(
            self.spark, self.migration, self.endpoints, self.fleet, self.section, self.lines.append, self.show,
            usage=read_usage(self.observed) if self.observed.exists() else None,
        )  # fmt: skip

    @property
    def observed(self) -> Path:
        return self.directory / "observed.json"

    @property
    def last(self) -> SwitchEntry | None:
        return read_last_switch(self.endpoints.target, self.migration.name)

    def show(self, findings: Any) -> None:
        self.lines += [f"{each.severity}: {each.subject}: {each.text}" for each in findings]

    def errors(self) -> list[str]:
        return [line for line in self.lines if line.startswith("error")]

    def switch(
        self,
        wave: str = "",
        *,
        dry_run: bool = False,
        reversible: bool = False,
        split: bool = False,
        until: Any = ReverseCopy.close,
    ) -> SwitchResult:
        selection = select_wave(self.migration, wave, allow_split_readers=split) if wave else None
        return switch_clients(
            self.context, lambda _: None, dry_run=dry_run, reversible=reversible, selection=selection, until=until
        )

    def rollback(self, wave: str = "", *, dry_run: bool = False) -> SwitchResult:
        return roll_back_clients(self.context, dry_run=dry_run, selection=ClientSelection(wave=wave) if wave else None)

    def move(self, run: Callable[[], SwitchResult]) -> SwitchResult:
        """Switch or roll back; beside other work, the rehearsal may take longer than a hold may: then once more."""
        for _ in range(5):
            result = run()
            if "too long for a hold" not in result.message:
                break
        assert result.drive_result is not None, self.errors()
        assert result.drive_result.end is CoordinatorOutcome.RELEASED, result.drive_result.reasons
        return result

    def observe(self, meanwhile: Any) -> None:
        run_observation(self.migration, 1, self.observed, self.lines.append, lambda _: meanwhile())

    def copy_rest(self) -> None:
        """As `kproxy migrate copy` without --follow."""
        last = self.last
        migration = self.migration if last is None else self.migration.without_moved(last.moved_topics)
        spec = build_copy_spec(migration, self.endpoints, take_over=True)
        CopyRun(self.spark, self.endpoints.source, self.endpoints.target, spec).run()

    def sides(self) -> dict[str, set[str]]:
        """The upstream of each unit, at all kproxies."""
        sides: dict[str, set[str]] = {}
        for kproxy in self.kproxies:
            for unit in kproxy.ask()[1]["clusters"]:
                sides.setdefault(unit["name"].removeprefix("default").lstrip("/"), set()).add(unit["active"])
        return sides

    def writer(self, wave: str, name: str, at: int = 0) -> Going:
        properties = {
            "bootstrap.servers": self.kproxies[at].bootstrap, "enable.idempotence": "true",
            "client.id": f"{wave}-{name}", "linger.ms": "5",
        }  # fmt: skip
        arguments = ["produce", self.topics[wave], str(PARTITIONS), "20"]
        return python("confluent", arguments, properties, self.directory / f"{wave}-{name}")

    def reader(self, wave: str, at: int = 1) -> Going:
        group = self.group(wave)
        properties = {
            "bootstrap.servers": self.kproxies[at].bootstrap, "group.id": group, "auto.offset.reset": "earliest",
            "client.id": f"{group}-1", "session.timeout.ms": "10000", "auto.commit.interval.ms": "500",
        }  # fmt: skip
        return python("confluent", ["consume", self.topics[wave]], properties, self.directory / group)

    def group(self, wave: str) -> str:
        return f"{self.topics[wave]}-readers"

    def values(self, bootstrap: str, wave: str) -> list[list[bytes | None]]:
        return [[row[2] for row in rows(bootstrap, self.topics[wave], at)] for at in range(PARTITIONS)]

    def status(self) -> list[str]:
        status = read_status(self.endpoints.target, self.migration.name, tuple(self.migration.waves))
        alarms = tuple(check_moved_waves(self.endpoints, self.migration, status.last_switch))
        return list(status_lines(replace(status, alarms=alarms)))


@pytest.fixture
def site(sides: TwoSides, spark: Any, tmp_path: Path) -> Iterator[Site]:
    names = {wave: unique(wave) for wave in (ORDERS, LOGS)}
    topics(sides.source, dict.fromkeys(names.values(), PARTITIONS), 1)
    with ExitStack() as stack:
        kproxies = [
            stack.enter_context(Switched(tmp_path / name, sides.source, sides.target)) for name in ("one", "two")
        ]
        token = tmp_path / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        addresses = KproxySelection(tuple(kproxy.admin for kproxy in kproxies))
        section = SwitchSection(addresses, GREEN, token_file=token, hold_seconds=25)
        waves = {wave: WaveSelection((f"{wave}-*",), (f"{topic}-readers",), (topic,)) for wave, topic in names.items()}
        migration = Migration(
            {"bootstrap-servers": sides.source}, {"bootstrap-servers": sides.target}, unique("mv"),
            topics=TopicSelection(tuple(names.values())), switch=section, waves=waves,
        )  # fmt: skip
        endpoints = ClusterEndpoints.from_addresses(sides.source, sides.target)
        fleet = stack.enter_context(open_fleet(section))
        made = Site(spark, endpoints, kproxies, fleet, section, migration, names, tmp_path)
        made.prepare()
        yield made


def flow(*clients: Going) -> None:
    """Wait until each has written or read more."""
    for client in clients:
        client.wait_more("acked" if client.said("acked") else "got", 20)


def numbers(client: Going, word: str = "acked") -> list[int]:
    return [int(number[0] if word == "acked" else number[2]) for number in client.said(word)]


def assert_all_there(site: Site, bootstrap: str, wave: str, writers: Sequence[Going]) -> None:
    """Each acknowledged record once: the writers send the same numbers."""
    values = [int(value or b"-1") for partition in site.values(bootstrap, wave) for value in partition]
    assert sorted(values) == sorted(number for writer in writers for number in numbers(writer))
    for writer in writers:
        assert [line for line in writer.lines if line.startswith(("failed", "fatal", "died"))] == []


def produce(bootstrap: str, topic: str, count: int, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for _ in range(count):
        producer.produce(topic, b"0", partition=0)
    assert producer.flush(60) == 0


def test_a_wave_goes_and_comes_back_and_goes_again(site: Site, figures: list[str]) -> None:
    """The other wave runs all the time, and stays where it is."""
    source, target = site.endpoints.source, site.endpoints.target
    logs, reader = site.writer(LOGS, "writer"), site.reader(LOGS)
    writers = [site.writer(ORDERS, "first")]
    with ending(logs, reader):
        with ending(writers[0], orders_reader := site.reader(ORDERS)):
            for client, word in ((writers[0], "acked"), (logs, "acked"), (orders_reader, "got"), (reader, "got")):
                client.wait_more(word, 20)
            site.observe(lambda: flow(writers[0], logs, orders_reader, reader))
            closing: list[str] = []

            def until(copy_back: ReverseCopy) -> None:
                assert site.last is not None
                wave = site.migration.of_wave(ORDERS, site.migration.waves[ORDERS].topics)
                closing.extend(describe_copies(site.last, wave, site.endpoints))
                copy_back.close()

            result = site.move(lambda: site.switch(ORDERS, reversible=True, until=until))
            figures += [f"wave: {line.strip()}" for line in result_lines(result)]
            assert site.sides() == {"": {BLUE}, "wave-orders": {GREEN}}
            flow(writers[0], logs, orders_reader, reader)
        assert any("are copied back: process" in line for line in closing), closing
        assert "kproxy migrate rollback FILE --wave orders" in closing[1]
        assert_all_there(site, target, ORDERS, writers)
        assert set(numbers(orders_reader, "got")) <= set(numbers(writers[0]))
        assert any(line.startswith("wave orders: on green since") for line in site.status()), site.status()
        assert "wave logs: on the source" in site.status()
        site.copy_rest()  # leaves out what has moved
        assert run_verification(site.spark, source, target, site.migration.name).exit_code == 0
        with pytest.raises(ConfigError, match="wave orders is on green: kproxy migrate rollback FILE --wave orders"):
            site.switch(ORDERS)
        with pytest.raises(ConfigError, match="--wave logs: is not on the target by itself; waves that are: orders"):
            site.rollback(LOGS)
        writers.append(site.writer(ORDERS, "second"))
        with ending(writers[1]):
            writers[1].wait_more("acked", 50)
            site.move(lambda: site.rollback(ORDERS))
            assert site.sides() == {"": {BLUE}, "wave-orders": {BLUE}}
            flow(logs, reader)
        assert any("moved back at" in line for line in site.status()), site.status()
        assert_all_there(site, source, ORDERS, writers)
        writers.append(site.writer(ORDERS, "third", at=1))
        with ending(writers[2]):
            writers[2].wait_more("acked", 50)
            assert site.switch(ORDERS).drive_result is None
            assert "kproxy migrate prepare" in site.errors()[-1]  # the source assigns ids above the target's now
            site.prepare()
            site.move(lambda: site.switch(ORDERS))
            flow(writers[2], logs, reader)
        with pytest.raises(ConfigError, match="moved without --reversible"):
            site.rollback(ORDERS)
        assert site.sides() == {"": {BLUE}, "wave-orders": {GREEN}}
    assert_all_there(site, target, ORDERS, writers)
    assert_all_there(site, source, LOGS, [logs])
    assert set(numbers(reader, "got")) == set(numbers(logs))


def test_wave_after_wave_to_the_end(site: Site) -> None:
    """Both go, then all that is left. What still writes to the source is named."""
    orders, logs, reader = site.writer(ORDERS, "writer"), site.writer(LOGS, "writer"), site.reader(LOGS)
    with ending(orders, logs, reader):
        for client, word in ((orders, "acked"), (logs, "acked"), (reader, "got")):
            client.wait_more(word, 20)
        site.observe(lambda: flow(orders, logs, reader))
        site.move(lambda: site.switch(ORDERS))
        assert not any("still written" in line for line in site.status()), site.status()
        produce(site.endpoints.source, site.topics[ORDERS], 3)
        warning = f"warning: topic {site.topics[ORDERS]}: is still written on the source"
        assert any(line.startswith(warning) and "3 records" in line for line in site.status()), site.status()
        site.move(lambda: site.switch(LOGS))
        assert any(line.startswith(warning) for line in site.lines), "in the preflight of the next wave"
        assert site.sides() == {"": {BLUE}, "wave-orders": {GREEN}, "wave-logs": {GREEN}}
        flow(orders, logs, reader)
        assert site.switch(reversible=True).drive_result is None
        assert "wave orders, logs is on the target" in site.errors()[-1]
        site.move(site.switch)
        assert site.sides() == {"": {GREEN}, "wave-orders": {GREEN}, "wave-logs": {GREEN}}
        flow(orders, logs, reader)
    assert_all_there(site, site.endpoints.target, ORDERS, [orders])
    assert_all_there(site, site.endpoints.target, LOGS, [logs])
    assert set(numbers(reader, "got")) == set(numbers(logs))
    assert "wave logs: on green, with all other clients" in site.status()


def test_what_is_connected_across_waves_stops_it(site: Site) -> None:
    """A reader and a writer outside, a writer inside that writes elsewhere, a producer that goes round, no record."""
    first, second = (kproxy.bootstrap for kproxy in site.kproxies)
    orders, logs = site.topics[ORDERS], site.topics[LOGS]
    assert site.switch(ORDERS, dry_run=True).blocked
    assert any("was not observed" in line and "kproxy migrate observe" in line for line in site.errors())
    outsiders = unique("outsiders")

    def meanwhile() -> None:
        produce(first, orders, 3, **{"client.id": "orders-writer"})
        produce(second, logs, 3, **{"client.id": "logs-writer"})
        produce(second, orders, 1, **{"client.id": "stranger"})
        produce(first, logs, 1, **{"client.id": "orders-audit"})

    with consumer(second, **{"group.id": outsiders, "client.id": "spy"}) as reader:
        reader.subscribe([orders])

        def with_reader() -> None:
            meanwhile()
            read(reader, 1)
            reader.commit(asynchronous=False)

        site.observe(with_reader)
        site.lines.clear()
        assert site.switch(ORDERS, dry_run=True).blocked
        errors = site.errors()
        for words in (
            f"error: wave orders: client spy stays on the source, and is connected to topic {orders}: it reads",
            f"client stranger stays on the source, and is connected to topic {orders}: it writes",
            f"topic {logs} stays on the source, and client orders-audit is connected to it: it writes",
            f"group {outsiders} stays on the source",
        ):
            assert any(words in line for line in errors), (words, errors)
        site.lines.clear()
        assert site.switch(ORDERS, dry_run=True, split=True).blocked  # readers may stay, writers may not
        assert not any("spy" in line for line in site.errors()), site.errors()
        assert any("stranger" in line for line in site.errors())
    assert site.sides() == {"": {BLUE}}
    assert site.last is None
