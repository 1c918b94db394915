"""Two waves of a migration, their clients, two kproxies, and commands that switch waves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, ConfigResource

from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.commands.observe import observed_path
from kproxy.migrate.copy.copyrun import CopyRun
from kproxy.migrate.copy.scope import build_copy_spec
from kproxy.migrate.journal.switch_journal import SwitchEntry, read_last_switch
from kproxy.migrate.report.reversecopies import copied_back_now, read_reverse_copies
from kproxy.migrate.report.status import read_status, status_lines
from kproxy.migrate.spec.migration import Migration, TopicSelection, WaveSelection
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.client_selection import ClientSelection, select_wave
from kproxy.migrate.switch.fleet import KproxyFleet, open_fleet
from kproxy.migrate.switch.observation_run import run_observation
from kproxy.migrate.switch.operations import roll_back_clients, switch_clients
from kproxy.migrate.switch.report import SwitchResult
from kproxy.migrate.switch.reverse_copy import ReverseCopy
from kproxy.migrate.switch.switch_run import SwitchContext
from kproxy.migrate.switch.wave_alarms import check_moved_waves
from kproxy.migrate.usage.observed import read_usage
from kproxy.proxy.switching.twophase import CoordinatorOutcome
from tests.harness.clients.going import Going, python
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.moving import prepare, rows, topics
from tests.harness.migration.switchdriver import Driver, driver_home
from tests.harness.migration.switched import GREEN, TOKEN, Switched
from tests.harness.topics import unique

PARTITIONS = 2
ORDERS, LOGS = "orders", "logs"


@dataclass
class WaveSite:
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
    drivers: list[Driver] = field(default_factory=list)

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
        return observed_path(self.file, self.migration.name)

    @property
    def file(self) -> Path:
        return self.directory / "move.yaml"

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

    def write_file(self) -> None:
        """Write the migration as an operator has it: commands in separate processes read it."""
        section, waves = self.section, self.migration.waves
        value = {
            "name": self.migration.name,
            "source": dict(self.migration.source),
            "target": dict(self.migration.target),
            "topics": {"include": list(self.migration.topics.include)},
            "switch": {
                "kproxies": [kproxy.admin for kproxy in self.kproxies], "token-file": str(section.token_file),
                "target-upstream": section.target_upstream, "hold-seconds": section.hold_seconds,
            },
            "waves": {
                name: {"clients": list(wave.clients), "groups": list(wave.groups), "topics": list(wave.topics)}
                for name, wave in waves.items()
            },
        }  # fmt: skip
        self.file.write_text(json.dumps(value))  # which is YAML as well

    def add_to_wave(self, wave: str, name: str, clients: str) -> str:
        """Give the wave a new topic of the source, and clients that use it; return the topic."""
        topic, former = unique(name), self.migration.waves[wave]
        topics(self.endpoints.source, {topic: 1}, 1)
        added = replace(former, clients=(*former.clients, clients), topics=(*former.topics, topic))
        include = (*self.migration.topics.include, topic)
        self.migration = replace(
            self.migration, topics=TopicSelection(include), waves={**self.migration.waves, wave: added}
        )
        return topic

    def command(self, *words: str, kill_at: str = "") -> Driver:
        """Run a command in a separate process, until it ends, is killed, or only its copy back still runs."""
        driver = Driver(words, self.file, self._home, kill_at=kill_at)
        self.drivers.append(driver)
        driver.wait()
        return driver

    def is_prepared_for_copy_back(self, wave: str) -> bool:
        """Return True if the topics of the wave on the source have what they need while records are copied back."""
        admin = AdminClient({"bootstrap.servers": self.endpoints.source})
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.topics[wave])
        retention = admin.describe_configs([resource])[resource].result(60)["retention.ms"].value
        state_topic = f"kproxy-migration-{self.migration.name}.{wave}-back"
        has_state = state_topic in admin.list_topics(timeout=60).topics
        assert has_state == (retention == "-1")
        return has_state

    @cached_property
    def _home(self) -> Path:
        return driver_home(self.directory)

    def close_drivers(self) -> None:
        for driver in self.drivers:
            driver.close()

    def copy_rest(self) -> None:
        """Copy what there is now, as `kproxy migrate copy` without --follow does."""
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
        copies = read_reverse_copies(self.migration, copied_back_now(status.last_switch), self.endpoints.source)
        return list(status_lines(replace(status, alarms=alarms, reverse_copies=copies)))


@contextmanager
def wave_site(sides: TwoSides, spark: Any, directory: Path) -> Iterator[WaveSite]:
    names = {wave: unique(wave) for wave in (ORDERS, LOGS)}
    topics(sides.source, dict.fromkeys(names.values(), PARTITIONS), 1)
    with ExitStack() as stack:
        kproxies = [
            stack.enter_context(Switched(directory / name, sides.source, sides.target)) for name in ("one", "two")
        ]
        token = directory / "token"
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
        made = WaveSite(spark, endpoints, kproxies, fleet, section, migration, names, directory)
        made.write_file()
        made.prepare()
        stack.callback(made.close_drivers)
        yield made
