"""Waves are switched by themselves, with everything real: two clusters, two kproxies, Spark, librdkafka under load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kproxy.base.errors import ConfigError
from kproxy.dev.devcluster import DEFAULT_VERSION
from kproxy.dev.devcluster.tools import Programs
from kproxy.migrate.report.doubts import find_doubts
from kproxy.migrate.report.movepage import render_page
from kproxy.migrate.report.record import read_record
from kproxy.migrate.switch.report import describe_copies, result_lines
from kproxy.migrate.switch.reverse_copy import ReverseCopy
from kproxy.migrate.verify.runner import run_verification
from tests.harness.clients.going import Going, ending, java
from tests.harness.clients.spark import needs_spark
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.moving import rows
from tests.harness.migration.switchdriver import DONE, UNDONE, Driver
from tests.harness.migration.switched import BLUE, GREEN
from tests.harness.migration.wavesite import LOGS, ORDERS, WaveSite, wave_site
from tests.harness.process import wait_until
from tests.harness.topics import consumer, read, unique

pytestmark = [
    pytest.mark.integration,
    needs_spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    # kafka-python reads its message definitions in an old way.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]


@pytest.fixture
def site(sides: TwoSides, spark: Any, tmp_path: Path) -> Iterator[WaveSite]:
    with wave_site(sides, spark, tmp_path) as made:
        yield made


def flow(*clients: Going) -> None:
    """Wait until each has written or read more."""
    for client in clients:
        done = _done(client)
        client.wait(lambda client=client, done=done: _done(client) >= done + 20, "20 more records")


def _done(client: Going) -> int:
    return len(client.said("acked")) + len(client.said("got"))


def numbers(client: Going, word: str = "acked") -> list[int]:
    return [int(number[0] if word == "acked" else number[2]) for number in client.said(word)]


def assert_all_there(site: WaveSite, bootstrap: str, wave: str, writers: Sequence[Going]) -> None:
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


def test_a_wave_goes_and_comes_back_and_goes_again(site: WaveSite, figures: list[str]) -> None:
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
                flow(writers[0])
                wait_until(lambda: _copied_back(site.status(), site.topics[ORDERS]), "records are copied back")
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
        record = read_record(site.migration, target, source, 0, None)
        (copy_back,) = record.reverse_copies
        assert (copy_back.wave, copy_back.problem) == (ORDERS, "")
        assert not [doubt for doubt in find_doubts(record) if doubt.subject == "copy back of wave orders"]
        assert "Copied back of wave orders, from the target to the source" in render_page(record)
        assert_all_there(site, source, ORDERS, writers)
        writers.append(site.writer(ORDERS, "third", at=1))
        with ending(writers[2]):
            writers[2].wait_more("acked", 50)
            site.switch(ORDERS, dry_run=True)  # the source assigns ids above the target's now
            assert any("would be raised above the source's" in line for line in site.lines)
            assert not any("producer ids" in line for line in site.errors())
            audits, auditor = site.add_to_wave(ORDERS, "audits", "audit-*"), {"client.id": "audit-1"}
            site.prepare()
            through = site.kproxies[1].bootstrap
            site.observe(lambda: (flow(writers[2], logs, reader), produce(through, audits, 1, **auditor)))
            written = len(rows(source, audits, 0))
            site.move(lambda: site.switch(ORDERS))
            flow(writers[2], logs, reader)
            produce(through, audits, 1, **auditor)
            assert (len(rows(source, audits, 0)), len(rows(target, audits, 0))) == (written, written + 1)
        with pytest.raises(ConfigError, match="moved without --reversible"):
            site.rollback(ORDERS)
        assert site.sides() == {"": {BLUE}, "wave-orders": {GREEN}}
    assert_all_there(site, target, ORDERS, writers)
    assert_all_there(site, source, LOGS, [logs])
    assert set(numbers(reader, "got")) == set(numbers(logs))


def _copied_back(status: Sequence[str], topic: str) -> bool:
    """Return True if the status shows records that were copied back, and the process that copies."""
    at = status.index("copy back of wave orders, from the target to the source:")
    return "was copying at its last report" in status[at + 1] and any(
        line.startswith(f"  {topic}: ") and " 0 records" not in line for line in status[at + 2 :]
    )


# A minute or more each. `make test` has the one after which it is not known whether the switch is undone or finished.
_SHORT = ("commit",)
_STEPS = ("preflight", "ask", "hold", "work", "copy", "verify", "translate", "flip", "commit", "release")


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[] if step in _SHORT else [pytest.mark.matrix]) for step in _STEPS]
)
def test_the_same_command_continues_the_switch_of_a_wave_whose_driver_was_killed(site: WaveSite, step: str) -> None:
    """It says what had happened, and finishes the switch or undoes it. The other wave and its copy continue."""
    source, target = site.endpoints.source, site.endpoints.target
    command, back = ("switch", "--wave", ORDERS, "--reversible"), ("rollback", "--wave", ORDERS)
    reader, logs = site.reader(ORDERS), site.writer(LOGS, "writer")
    writers = [site.writer(ORDERS, "first")]
    with ending(reader, logs):
        with ending(writers[0]):
            for client, word in ((writers[0], "acked"), (reader, "got"), (logs, "acked")):
                client.wait_more(word, 20)
            site.observe(lambda: flow(writers[0], reader, logs))
            then = _kill_and_repeat(site, command, step)
            flow(writers[0], reader, logs)
        if site.sides()["wave-orders"] == {GREEN}:
            assert then.wait() == DONE, then.lines
            assert "clients: those of wave orders are on green" in then.lines
            then.kill()  # which copied back
            then = site.command(*command)
            assert any("back to the source has ended with its driver: starting it again" in each for each in then.lines)
            # Another producer: librdkafka's idempotent one ends when it gets its own sequence numbers again.
            writers.append(site.writer(ORDERS, "second"))
            with ending(writers[1]):
                flow(writers[1], reader)
                then = _kill_and_repeat(site, back, step)
                if site.sides()["wave-orders"] == {GREEN}:
                    assert then.wait() == UNDONE, then.lines
                    then = site.command(*back)
                assert then.wait() == DONE, then.lines
                assert "clients: those of wave orders are on blue" in then.lines
        else:
            assert then.wait() == UNDONE, then.lines
            assert "clients: those of wave orders are on blue, as before" in then.lines
            assert site.last is not None
            assert not site.last.waves_on_target
            assert not site.is_prepared_for_copy_back(ORDERS)
        writers.append(site.writer(ORDERS, "third"))
        with ending(writers[-1]):
            flow(writers[-1], reader, logs)
    assert site.sides() == {"": {BLUE}, "wave-orders": {BLUE}}
    assert_all_there(site, source, ORDERS, writers)
    assert_all_there(site, source, LOGS, [logs])
    assert {*numbers(reader, "got")} <= {number for writer in writers for number in numbers(writer)}
    site.copy_rest()
    assert run_verification(site.spark, source, target, site.migration.name).exit_code == 0


_UNDECIDED = ("hold", "work", "copy", "verify", "translate")


def _kill_and_repeat(site: WaveSite, command: Sequence[str], step: str) -> Driver:
    """Kill this switch or rollback at a step, copy the rest meanwhile, and give the same command again."""
    (former,) = site.sides().get("wave-orders", {BLUE})
    before = site.last
    killed = site.command(*command, kill_at=step)
    assert killed.was_killed, killed.lines
    has_begun = step not in ("preflight", "ask")
    assert (site.last != before) is has_begun
    assert any("of wave orders" in line and "not finished" in line for line in site.status()) is has_begun
    site.copy_rest()
    if step == "ask" and former == BLUE:  # the driver has prepared the source, and no switch is in the journal
        assert site.is_prepared_for_copy_back(ORDERS)
        site.command("switch", "--abort")
        assert not site.is_prepared_for_copy_back(ORDERS)
    then = site.command(*command)
    assert any("of wave orders, has not finished" in line for line in then.lines) is has_begun, then.lines
    assert site.last is not None
    assert site.last.ended
    sides = site.sides()
    assert sides[""] == {BLUE}
    if step in _UNDECIDED:
        assert sides["wave-orders"] == {former}
    if not has_begun or step == "release":
        assert sides["wave-orders"] == {GREEN if former == BLUE else BLUE}
    return then


def test_wave_after_wave_to_the_end(site: WaveSite) -> None:
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


def test_what_is_connected_across_waves_stops_it(site: WaveSite) -> None:
    """A reader and a writer outside, a writer inside that writes elsewhere, a producer that goes round, no record."""
    first, second = (kproxy.bootstrap for kproxy in site.kproxies)
    orders, logs = site.topics[ORDERS], site.topics[LOGS]
    assert site.switch(ORDERS, dry_run=True).blocked
    assert any("was not observed" in line and "kproxy migrate observe" in line for line in site.errors())
    outsiders = unique("outsiders")
    # A share group of the wave whose member goes round the kproxies.
    share = {"bootstrap.servers": site.endpoints.source, "group.id": site.group(ORDERS), "client.id": "sharer"}

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

        with java(Programs.of(DEFAULT_VERSION), ["share", orders], share, site.directory / "sharer"):
            site.observe(with_reader)
            lacks = f"error: group {site.group(ORDERS)}: its members sharer "

            def names_sharer() -> bool:
                site.switch(ORDERS, dry_run=True)
                return any(line.startswith(lacks) for line in site.errors())

            wait_until(names_sharer, "its member, which takes a while to join, is named")
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
