"""Two clusters of three brokers, three kproxies, clients, and the migration between the clusters: switches there and
back, and what is done to them meanwhile."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import yaml

from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster
from kproxy.dev.devcluster.tools import Programs
from kproxy.proxy.switching import asjson
from kproxy.proxy.switching.asjson import SavedState
from kproxy.proxy.switching.parts import Part
from tests.harness.clusters.steady import RESTARTED
from tests.harness.migration.carried import offsets_in_log, positions
from tests.harness.migration.moving import topics
from tests.harness.migration.switchdriver import DONE, INCOMPLETE, STOPPED, UNDONE, Driver, driver_home
from tests.harness.migration.switched import BLUE, GREEN, Switched
from tests.harness.process import wait_until
from tests.soak.switchapps import WANTED, App, Place
from tests.soak.switchclients import KINDS, PARTITIONS, Clients, Kind
from tests.soak.switchjudged import Epoch, Log, doubled, read, shared, the_same, written

PROPERTIES = RESTARTED | {
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
_NAME = "soak"
_ATTEMPTS = 5
# Until a client has written again where it lost an answer, in seconds.
_SETTLES = 25.0
AGAIN = "the same command"


class Site:
    """`directory` has what they all write. `chance` decides what is not said. `versions`: of both clusters, each of
    which has so many `brokers`. Clients are those of the newest Kafka."""

    prepares_again = True
    """True if the target is prepared before each switch, for topics that are made meanwhile."""

    def __init__(
        self, directory: Path, chance: Random, held: ExitStack, apps: Mapping[str, Callable[..., App]] = WANTED, *,
        kinds: Sequence[Kind] = KINDS, versions: tuple[str, str] = (DEFAULT_VERSION, DEFAULT_VERSION),
        brokers: int = 3, committed: bool = False,
    ) -> None:  # fmt: skip
        self.directory, self.chance = directory, chance
        self.ways_on: Sequence[str] = ("--resume", "--abort", AGAIN)
        self._log = held.enter_context((directory / "soak.log").open("a", buffering=1))
        self._brokers = brokers
        self.sides = self._start_sides(held, versions, PROPERTIES | {"default.replication.factor": str(brokers)})
        self.direct = {name: one.direct_bootstrap for name, one in self.sides.items()}
        for kind in kinds:
            if not kind.reads:
                self.make_topic(kind.topic)
        self.kproxies = [held.enter_context(self._make_kproxy(directory / f"k{number}")) for number in range(3)]
        for name in (BLUE, GREEN):
            self._share_from_the_beginning(name, kinds)
        self.file, self.home = directory / "move.yaml", driver_home(directory)
        self.file.write_text(yaml.safe_dump(self._migration()))
        self._drivers: list[Driver] = []
        self._following: Driver | None = None
        held.callback(self._close_drivers)
        programs = Programs.of(DEFAULT_VERSION)
        bootstraps = [one.bootstrap for one in self.kproxies]
        self.clients = Clients(kinds, programs, bootstraps, directory, committed=committed)
        held.callback(self.clients.close)
        self._active = {"": BLUE}
        self.apps: list[App] = []
        place = Place(self, directory, programs)
        for number, (name, make) in enumerate(apps.items()):
            app = make(place, name, self.kproxies[number % 3].bootstrap)
            self.apps.append(app)
            held.callback(app.close)
        self.epochs: dict[Kind, list[Epoch]] = {kind: [] for kind in kinds if kind.reads and not kind.shares}
        self.counts: Counter[str] = Counter()
        self.killed: set[Switched] = set()
        self.seconds: list[float] = []
        self.records = 0

    def _start_sides(
        self, held: ExitStack, versions: tuple[str, str], properties: Mapping[str, str]
    ) -> Mapping[str, DevCluster]:
        return {
            name: held.enter_context(DevCluster(self._brokers, version=version, properties=properties))
            for name, version in zip((BLUE, GREEN), versions, strict=True)
        }

    def _make_kproxy(self, directory: Path) -> Switched:
        return Switched(directory, self.sides[BLUE].bootstrap, self.sides[GREEN].bootstrap)

    @property
    def active(self) -> str:
        """The cluster of the clients that are in no wave."""
        return self._active[""]

    def active_of(self, wave: str) -> str:
        """Return the cluster of the clients of a wave."""
        return self._active.get(wave, BLUE)

    def make_topic(self, name: str) -> None:
        safe = {"min.insync.replicas": str(min(2, self._brokers))}
        topics(self.direct[BLUE], {name: PARTITIONS}, self._brokers, **safe)

    def _migration(self) -> dict[str, Any]:
        """The migration's file."""
        return {
            "name": _NAME,
            "source": {"bootstrap-servers": self.sides[BLUE].bootstrap},
            "target": {"bootstrap-servers": self.sides[GREEN].bootstrap},
            "topics": {"include": ["soak-*"]},
            "switch": {
                "kproxies": [one.admin for one in self.kproxies],
                "token-file": str(self.kproxies[0].config_file.parent / "token"), "target-upstream": GREEN,
                "hold-seconds": 25,
            },
        }  # fmt: skip

    def _share_from_the_beginning(self, name: str, kinds: Sequence[Kind]) -> None:
        """Share groups, whose configuration is not copied."""
        cluster = self.sides[name]
        for kind in kinds:
            if not kind.shares:
                continue
            done = cluster.tool(
                "kafka-configs", "--bootstrap-server", self.direct[name], "--alter", "--entity-type", "groups",
                "--entity-name", kind.id, "--add-config", "share.auto.offset.reset=earliest",
            )  # fmt: skip
            assert done.returncode == 0, done.stderr

    def say(self, text: str) -> None:
        self._log.write(f"{time.strftime('%H:%M:%S', time.gmtime())} {text}\n")

    def note(self, what: str, count: int = 1) -> None:
        """Something was done."""
        self.counts[what] += count
        self.say(what)

    # Commands

    def _driver(self, *words: str, at: Callable[[str], None] = lambda _: None, kill_at: str = "") -> Driver:
        driver = Driver(words, self.file, self.home, lambda line: self.say(f"| {line}"), at, kill_at=kill_at)
        self._drivers.append(driver)
        return driver

    def _close_drivers(self) -> None:
        for one in self._drivers:
            one.close()
        self._drivers.clear()

    def command(self, *words: str, codes: Sequence[int] = (DONE,)) -> tuple[int, Driver]:
        """One that ends by itself."""
        driver = self._driver(*words)
        code = driver.wait()
        assert code in codes, (words, code, driver.lines[-30:])
        return code, driver

    def follow(self) -> None:
        """Let the copy run, until a switch takes its place."""
        if self._following is None or self._following.process.poll() is not None:
            self._following = self._driver("copy", "--follow")

    # One switch or rollback

    def switch(
        self, harm: Callable[[str], None], kill_at: str = "", *, reversible: bool = True, wave: str = "",
        options: Sequence[str] = (),
    ) -> str:  # fmt: skip
        """Lead the clients, or those of a wave, to the other cluster, and what came of it. `harm` is called at each
        stage; at `kill_at` the driver is killed, and another one goes on, or back. `options`: of the way there."""
        former = self.active_of(wave)
        there = ["switch", *(["--reversible"] if reversible else []), *options]
        words = there if former == BLUE else ["rollback"]
        words += ["--wave", wave] if wave else []
        if former == BLUE and self.prepares_again:
            self.command("prepare")
        apps = [app for app in self.apps if app.place.wave == wave]
        for app in apps:
            app.before()
        marks = self.clients.marks()
        code = self.lead(words, harm, kill_at)
        (active,) = (wave and self.led(f"{wave}-client")) or self.led()
        self._active[wave] = active
        for app in apps:
            app.after()
        if active == former:
            return "stopped" if code == STOPPED else "undone"
        for kind, epochs in self.epochs.items():
            # Else it was led there before, by itself.
            if kind.wave == wave and (not epochs or epochs[-1].to != active):
                self.note_epoch(kind, former, active, marks[kind])
        return "released"

    def lead(self, words: Sequence[str], harm: Callable[[str], None], kill_at: str = "") -> int:
        """Give this command, and others until it is over and all kproxies serve: with which code it ended. `harm` and
        `kill_at` as in `switch`."""
        driver = self._driver(*words, at=harm, kill_at=kill_at)
        code = driver.wait()
        if driver.was_killed:
            self.say(f"the driver was killed at {kill_at}")
        if driver.was_killed or code == INCOMPLETE:
            code = self._go_on(words)
        assert code in (DONE, UNDONE, STOPPED), (words, code, driver.lines[-30:])
        if driver.held() is not None:
            self.seconds.append(driver.held() or 0.0)
        wait_until(lambda: not any(asjson.state_from_json(one).holds for one in self.units()), "all kproxies serve")
        return code

    def _go_on(self, words: Sequence[str]) -> int:
        """With a switch that is not over. `words`: the command that was interrupted."""
        for _ in range(_ATTEMPTS):
            time.sleep(self.chance.uniform(0, 3))
            way = self.chance.choice(self.ways_on)
            command = words if way == AGAIN else ("switch", way)
            code, driver = self.command(*command, codes=(DONE, UNDONE, STOPPED, INCOMPLETE))
            self.say(f"{way}: {code}")
            self.counts[f"driver taken over by {way}"] += 1
            if code != INCOMPLETE:
                return code
        raise AssertionError(f"no way out: {driver.lines[-20:]}")

    def units(self) -> Iterator[dict[str, Any]]:
        """Yield the state of the cluster, and of its parts, at each kproxy; wait for a kproxy that is not back yet."""
        for kproxy in self.kproxies:
            yield from wait_until(partial(_clusters, kproxy), f"the kproxy at {kproxy.admin} answers")

    def led(self, client: str = "") -> set[str]:
        """Where clients with this client id are led, if they are a part; else where those are led that are none."""
        return {
            one["active"] for one in self.units()
            if (Part("one", tuple(one["members"])).has(client) if client else not one["members"])
        }  # fmt: skip

    def note_epoch(self, kind: Kind, former: str, to: str, since: int) -> None:
        """Where a group was when it left."""
        began = {one.partition: one.offset for one in positions(self.direct[former], kind.id) if one.offset >= 0}
        self.epochs[kind].append(Epoch(former, to, began, since))

    def absolve(self) -> None:
        """A kproxy that was killed does not know which clients may repeat writes, and would refuse to hold for five
        minutes, nor which have fetched, and would for as long give no records to those that bring their positions
        along. The test knows better: it waits until each producer has had the answer to all that it had sent, and each
        consumer has got a record. So the state file may say what it would say after an end in good order, long after
        the last switch. The same is done if a doubt stays for longer than the clients need, which is counted."""
        self.wait_flowing(brings_positions=False)
        until = time.monotonic() + _SETTLES
        for kproxy in self.kproxies:
            while (doubts := _doubts(kproxy)) and time.monotonic() < until and all(map(_named, doubts)):
                time.sleep(0.5)
            if not doubts and kproxy not in self.killed:
                continue
            for one in filter(_named, doubts):
                self.note(f"doubt that stays, of {one['client']}")
            kproxy.kill()
            for file in kproxy.state_dir.glob("cluster-*.json"):
                file.write_bytes(_settled(file.read_bytes()))
            kproxy.start()
            self.counts["kproxies absolved"] += 1
        self.killed.clear()
        self.wait_flowing()

    def wait_flowing(self, *, brings_positions: bool = True) -> None:
        """All clients have done something that they were asked for just now, and all applications, or those that ask
        brokers for their positions."""
        try:
            self.clients.wait_flowing()
            for app in self.apps:
                if brings_positions or not app.brings_positions:
                    app.wait_flowing()
        except AssertionError:
            self._keep_shown()
            raise

    def _keep_shown(self) -> None:
        """What kproxies and brokers show of a client that does not go on."""
        for number, kproxy in enumerate(self.kproxies):
            for page in ("status", "sessions", "metrics"):
                (self.directory / f"k{number}-{page}").write_text(kproxy.get(f"/{page}")[1])
            (self.directory / f"k{number}-switch").write_text(json.dumps(kproxy.ask()[1], indent=1))
        ids = [
            kind.properties["transactional.id"] for kind in self.clients.all if "transactional.id" in kind.properties
        ]
        for name, cluster in self.sides.items():
            at = ("--bootstrap-server", self.direct[name])
            asked = [["kafka-topics", *at, "--describe"]]
            asked += [["kafka-transactions", *at, "describe", "--transactional-id", one] for one in ids]
            told = (cluster.tool(*words) for words in asked)
            (self.directory / f"{name}-shown").write_text("\n".join(one.stdout + one.stderr for one in told))
            for log in cluster.directory.glob("node-*/kafka.log"):
                (self.directory / f"{name}-{log.parent.name}.log").write_bytes(log.read_bytes())

    # The end

    def judge(self) -> list[str]:
        """What is wrong, when producers have ended."""

        def active(kind: Kind) -> str:
            return self.active_of(kind.wave)

        self.clients.end_producers()
        logs = {kind: {name: self.logs(name, kind.topic) for name in self.sides} for kind in self.clients.producers}
        problems, self.doubled = [], {kind.name: doubled(logs[kind][active(kind)]) for kind in self.clients.producers}
        self.records = sum(len(log) for kind in self.clients.producers for log in logs[kind][active(kind)])
        for kind in self.clients.consumers:
            self._wait_consumed(kind, logs[self.clients.producer(kind.reads)][active(kind)])
        for kind in self.clients.all:
            lines = self.clients.all[kind].lines
            if kind.shares:
                found = [*shared(lines, logs[self.clients.producer(kind.reads)][active(kind)])]
            elif kind.reads:
                found = [*read(lines, logs[self.clients.producer(kind.reads)], active(kind), self.epochs[kind])]
            else:
                found = [*the_same(logs[kind], active(kind))]
                found += written(lines, logs[kind][active(kind)], exact=kind.exact)
            problems += [f"{kind.name}: {one}" for one in found[:10]]
            if found:  # what shows why
                (self.directory / f"{kind.id}-lines").write_text("\n".join(lines))
                for cluster, log in logs.get(kind, {}).items():
                    (self.directory / f"{kind.id}-log-{cluster}").write_text("\n".join(map(str, log)))
        for app in self.apps:
            problems += [f"{app.name}: {one}" for one in [*app.judge()][:10]]
        self.say(f"problems: {problems}")
        return problems

    def logs(self, cluster: str, topic: str) -> Sequence[Log]:
        """Offset and number of each record, by partition."""
        return offsets_in_log(self.direct[cluster], topic, PARTITIONS)

    def _wait_consumed(self, kind: Kind, partitions: Sequence[Log]) -> None:
        """If it does not come, `read` says what is missing."""
        one = self.clients.all[kind]
        last = {(at, log[-1][1]) for at, log in enumerate(partitions) if log}

        def there() -> bool:
            one.look()
            return last <= {(int(words[0]), int(words[2])) for words in one.said("got")[-5000:]}

        until = time.monotonic() + 120
        while not there() and time.monotonic() < until:
            time.sleep(0.5)


def _doubts(kproxy: Switched) -> list[Mapping[str, object]]:
    """Of the cluster and its parts."""
    return [doubt for one in kproxy.ask()[1]["clusters"] for doubt in one["doubts"]]


def _settled(data: bytes) -> bytes:
    """A state file, as it would be after an end in good order, long after the last switch."""
    unit = json.loads(data)["cluster"]
    kept = asjson.decode_state_file(data, unit)
    last = None if kept.state.last is None else replace(kept.state.last, at=0.0)
    state = replace(kept.state, last=last)
    return asjson.encode_state_file(unit, SavedState(state, True, kept.parts, kept.clients, fetched=()))


def _named(doubt: Mapping[str, object]) -> bool:
    """Whether it is of a certain client, and not of those of a kproxy before."""
    return doubt["client"] != ""


def _clusters(kproxy: Switched) -> list[dict[str, Any]] | None:
    try:
        clusters: list[dict[str, Any]] = kproxy.ask()[1]["clusters"]
    except OSError:
        return None
    return clusters
