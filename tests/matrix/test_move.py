"""A whole move by the commands of docs/migration.md and docs/migration-switch.md, under load of Kafka's newest clients.

The team that moves has three brokers on each side whose names resolve nowhere, three kproxies, and applications that it
does not stop: idempotent and transactional producers, consumers of both protocols, and Kafka Streams. It goes to the
other cluster, back, and there for good. What must hold is read from the brokers themselves, and from what the clients
have printed: `tests.soak.switchjudged`. `MOVE_SHORT=1` is for a machine with much other work: one broker on each side,
there and back.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

import pytest

from kproxy.dev.devcluster import DEFAULT_VERSION
from tests.harness.clients.spark import needs_spark
from tests.harness.migration.flipseen import note
from tests.harness.migration.switchdriver import DONE, STOPPED
from tests.harness.migration.switched import BLUE, GREEN
from tests.matrix.report import FAILS, WORKS, section_results, write_section
from tests.soak.switchapps import Streams
from tests.soak.switchclients import CLASSIC, COMMITTED, JAVA_STICKY, KIP_848, Kind
from tests.soak.switchsite import AGAIN, Site

pytestmark = [pytest.mark.integration, pytest.mark.matrix, needs_spark, pytest.mark.timeout(2400)]

_SHORT = os.environ.get("MOVE_SHORT", "") == "1"
_BROKERS = 1 if _SHORT else 3
_TRIES = 4
# A step, a finding, or the answer: nothing of Spark's.
_FOR_A_PERSON = re.compile(r"\d\d:\d\d:\d\d |(error|warning|note|yes|no): ")
_IDEMPOTENT, _TRANSACTIONAL = "java producer, idempotent", "java producer, transactional"
_KINDS = (
    Kind(_IDEMPOTENT, 0, "java", "produce", {"enable.idempotence": "true", "linger.ms": "5"}),
    Kind(_TRANSACTIONAL, 1, "java", "transact", {"transactional.id": "move-java"}),
    Kind("java consumer, classic", 1, "java", "consume", CLASSIC, _IDEMPOTENT),
    Kind("java consumer, cooperative", 2, "java", "consume", CLASSIC | JAVA_STICKY | COMMITTED, _TRANSACTIONAL),
)
# Brokers of 3.9 have these protocols as a preview only, or not at all.
_SINCE_4 = (
    Kind("java consumer, KIP-848", 2, "java", "consume", KIP_848, _IDEMPOTENT),
    Kind("java consumer of transactions, KIP-848", 0, "java", "consume", KIP_848 | COMMITTED, _TRANSACTIONAL),
)
_PAIRS = [("3.9.2", DEFAULT_VERSION), (DEFAULT_VERSION, DEFAULT_VERSION)]


@pytest.fixture(scope="module")
def results() -> Iterator[dict[tuple[str, str], str]]:
    """Written down; what was not tried again stays."""
    seen: dict[tuple[str, str], str] = {}
    yield seen
    form = " (short form)" if _SHORT else ""
    lines = section_results("Moves") | {title(versions): f"{result}{form}" for versions, result in seen.items()}
    write_section("Moves", [f"{what}: {lines[what]}" for what in map(title, _PAIRS) if what in lines])


def title(versions: tuple[str, str]) -> str:
    return f"Kafka {versions[0]} to Kafka {versions[1]}"


@pytest.mark.parametrize("versions", _PAIRS, ids=" to ".join)
def test_there_and_back_and_there_for_good(
    tmp_path: Path, versions: tuple[str, str], figures: list[str], results: dict[tuple[str, str], str]
) -> None:
    results[versions] = FAILS
    newest = versions[0] == DEFAULT_VERSION
    protocol = "streams" if newest else "classic"
    streams = f"Kafka Streams, exactly_once_v2, group.protocol={protocol}"
    name = f"a move from {' to '.join(versions)}{', short form' if _SHORT else ''}"
    began = time.monotonic()
    with ExitStack() as held:
        site = Site(
            tmp_path, Random(versions[0]), held, {streams: partial(Streams, protocol=protocol)},
            kinds=_KINDS + _SINCE_4 if newest else _KINDS, versions=versions, brokers=_BROKERS,
        )  # fmt: skip
        site.wait_flowing()
        topics = {kind.topic for kind in site.clients.producers}
        # Days before
        plan = "\n".join(run(site, "plan"))
        assert all(topic in plan for topic in topics)
        run(site, "prepare")
        assert any("100.0%" in line for line in run(site, "copy"))
        run(site, "verify")
        # The day
        site.follow()
        if not _SHORT:
            rehearse(site)
            assert topics <= {partition["topic"] for partition in status(site)["partitions"]}
        site.ways_on = [AGAIN]  # the driver is killed when it has decided, and the same command continues
        move(site, kill_at="release")
        assert site.counts[f"driver taken over by {AGAIN}"] == 1
        assert "copying records from the target back to the source" in (tmp_path / "soak.log").read_text()
        assert site.led() == {GREEN}
        site.absolve()
        move(site)
        assert site.led() == {BLUE}
        site.absolve()
        if not _SHORT:
            site.follow()
            move(site, reversible=False)
            assert site.led() == {GREEN}
            site.absolve()
        problems = site.judge()
        if not _SHORT:
            run(site, "finish")
    for kind, client in site.clients.all.items():
        note(kind.name, name, client.seen())
    for app in site.apps:
        note(app.name, name, app.seen())
    held_s = ", ".join(f"{seconds:.1f}" for seconds in site.seconds)
    figures.append(
        f"{name}, {_BROKERS} brokers on each side: {time.monotonic() - began:.0f} s, {site.records} records,"
        f" writes held for {held_s} s"
    )
    assert problems == []
    results[versions] = WORKS


def run(site: Site, *words: str) -> list[str]:
    """Run a command that must succeed; return its lines."""
    return site.command(*words)[1].lines


def status(site: Site) -> dict[str, list[dict[str, object]]]:
    return dict(json.loads("\n".join(run(site, "status", "--json"))))


def move(site: Site, *, kill_at: str = "", reversible: bool = True) -> None:
    """Move the clients to the other side. On a machine so busy that the work does not fit into a hold, try again."""
    outcomes: list[str] = []
    while "released" not in outcomes:
        assert len(outcomes) < _TRIES, outcomes
        outcomes.append(site.switch(lambda _: None, kill_at=kill_at, reversible=reversible))


def rehearse(site: Site) -> None:
    """Check what a person reads of a dry-run and of the positions."""
    # Clients that run are ahead of the copy: then it says so, and ends with 1.
    positions = "\n".join(site.command("offsets", "--dry-run", codes=(DONE, STOPPED))[1].lines)
    assert all(kind.id in positions for kind in site.clients.consumers)
    code, driver = site.command("switch", "--dry-run", codes=(DONE, STOPPED))
    (answer,) = (line for line in driver.lines if line.startswith(("yes: ", "no: ")))
    assert all(_FOR_A_PERSON.match(line) for line in driver.lines), driver.lines
    # A machine may be too busy for the work in a hold.
    assert answer.startswith("yes: the switch can be done" if code == DONE else "no: time: "), answer
