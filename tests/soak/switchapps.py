"""Frameworks in the soak of switches: an application of Kafka Streams, a worker of Kafka Connect, a query of Spark.

Each knows by itself whether it works, and is begun again when it has ended.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from confluent_kafka import Consumer, TopicPartition

from kproxy.dev.devcluster import DEFAULT_VERSION
from kproxy.dev.devcluster.tools import Programs
from tests.harness.clients.going import HERE, Going
from tests.harness.clients.spark import environment, settings, spark_home
from tests.harness.migration.carried import positions
from tests.harness.migration.flipseen import seen
from tests.harness.migration.switched import BLUE
from tests.harness.process import wait_until
from tests.harness.topics import unique
from tests.matrix.connecting import Worker, ask, file_connectors
from tests.matrix.frameworks import Java
from tests.soak.switchclients import PARTITIONS, Kind
from tests.soak.switchjudged import Log, batched, counted, the_same

if TYPE_CHECKING:
    from tests.soak.switchsite import Site

_PATIENCE = 240.0
_LOOKED_AT = 20  # the last batches of a query that are looked at for what it has read
_NO_LOGIN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Place:
    """The place of an application. `wave`: the wave with which it is moved, if not with all others."""

    site: Site
    directory: Path
    programs: Programs
    wave: str = ""

    @property
    def active(self) -> str:
        """The cluster to which the application is led."""
        return self.site.active_of(self.wave)

    def writer(self, name: str) -> Kind:
        return self.site.clients.producer(name)

    def ends(self, topic: str) -> int:
        """Where the topic ends on the cluster to which clients are led: the sum of its partitions."""
        reader = Consumer({"bootstrap.servers": self.site.direct[self.active], "group.id": unique("ends")})
        try:
            return sum(reader.get_watermark_offsets(TopicPartition(topic, at), 30)[1] for at in range(PARTITIONS))
        finally:
            reader.close()

    def committed(self, group: str, topic: str) -> int:
        found = positions(self.site.direct[self.active], group)
        return sum(max(0, one.offset) for one in found if one.topic == topic)

    def logs(self, topic: str) -> Mapping[str, list[Log]]:
        return {name: self.site.logs(name, topic) for name in self.site.sides}


class App(ABC):
    """One of them. `lines`: what it has said, in all its lives."""

    brings_positions = False
    """Whether it never asks a broker for its positions."""

    def __init__(self, place: Place, name: str, bootstrap: str) -> None:
        self.place, self.name, self.bootstrap = place, name, bootstrap
        self.lines: list[str] = []

    @abstractmethod
    def wait_flowing(self) -> None:
        """It has done something with what was there before."""

    def before(self) -> None:  # noqa: B027  # most have nothing to do
        """A switch or a rollback begins."""

    def after(self) -> None:  # noqa: B027
        """It is over."""

    @abstractmethod
    def judge(self) -> Iterator[str]:
        """What is wrong, when nobody writes any more."""

    @abstractmethod
    def close(self) -> None: ...

    def seen(self) -> Counter[str]:
        return seen(self.lines)


class _Process(App):
    """One that is a `Going`."""

    def __init__(self, place: Place, name: str, bootstrap: str) -> None:
        super().__init__(place, name, bootstrap)
        self.begun = 0
        self._going: Going | None = None

    @abstractmethod
    def _start(self, log: Path) -> Going: ...

    def _begin(self) -> None:
        self.begun, self._said = self.begun + 1, 0
        kind = self.name.split(",")[0].replace(" ", "-").lower()
        self._going = self._start(self.place.directory / f"{kind}-{self.begun}.log")

    def look(self) -> bool:
        """Take over what it has said; whether it has ended."""
        if self._going is None:
            return True
        ended = self._going.process.poll() is not None
        if ended:
            self._going.__exit__()
        new = self._going.lines[self._said :]
        self._said += len(new)
        self.lines += new
        return ended or any(line.startswith("died ") for line in new)

    def _end(self) -> None:
        """Let it end in good order."""
        if self._going is not None:
            with suppress(subprocess.TimeoutExpired):
                self._going.end(60)
            self.look()
            self.close()

    def close(self) -> None:
        if self._going is not None:
            self._going.__exit__()
            self._going = None


class Streams(_Process):
    """An application that counts the records of the producer `reads`, exactly once.

    `protocol`: of its group, classic or streams; `id`: of the application; `login`: properties of its clients."""

    def __init__(
        self, place: Place, name: str, bootstrap: str, protocol: str = "classic", *,
        reads: str = "java producer, idempotent", id: str = "soak-streams", login: Mapping[str, str] = _NO_LOGIN,
    ) -> None:  # fmt: skip
        writer = place.writer(reads)
        super().__init__(replace(place, wave=writer.wave), name, bootstrap)
        self._protocol, self._id, self._counts, self._login = protocol, id, f"{id}-counts", login
        self._input = writer.topic
        place.site.make_topic(self._counts)
        self._begin()

    def _start(self, log: Path) -> Going:
        command = Java("Kafka Streams", DEFAULT_VERSION, program="streams/Moved").command()
        words = [self.bootstrap, self._id, self._input, self._counts, "0", "earliest", "exactly_once_v2", "500"]
        pairs = (f"{name}={value}" for name, value in self._login.items())
        return Going([*command, *words, f"group.protocol={self._protocol}", *pairs], log)

    def _lives(self) -> None:
        if self.look():
            self.close()
            self.lines.append("begun again")
            self._begin()

    def wait_flowing(self) -> None:
        end = self.place.ends(self._input)

        def there() -> bool:
            self._lives()
            return self.place.committed(self._id, self._input) >= end

        wait_until(there, f"{self.name} has counted what was there", _PATIENCE)

    def judge(self) -> Iterator[str]:
        records = sum(map(len, self.place.logs(self._input)[self.place.active]))
        with suppress(AssertionError):  # what is missing is said below
            self.wait_flowing()
        self._end()
        logs = self.place.logs(self._counts)
        yield from counted(logs[self.place.active], records)
        yield from the_same(logs, self.place.active)


class Connect(App):
    """A source gets lines of a file into a topic, and a sink gets the topic's records into another file."""

    _NAME, _PAUSE = "soak-connect", 0.2

    def __init__(self, place: Place, name: str, bootstrap: str) -> None:
        super().__init__(place, name, bootstrap)
        self._from, self._to = place.directory / "connect-source", place.directory / "connect-sink"
        self._from.touch()
        self._fed, self._begun = 0, 0
        place.site.make_topic(self._NAME)
        self._begin()
        for connector, values in file_connectors(self._NAME, self._from, self._to).items():
            wait_until(lambda c=connector, v=values: self._ask(f"connectors/{c}/config", v), "it is configured", 120)
        self._ends = threading.Event()
        self._feeder = threading.Thread(target=self._feed, daemon=True)
        self._feeder.start()

    def _begin(self) -> None:
        self._begun += 1
        directory = self.place.directory / f"connect-{self._begun}"
        directory.mkdir()
        self._worker = Worker(directory, self.bootstrap, self._NAME, replicas=3)
        self._url = self._worker.url()

    def _feed(self) -> None:
        with self._from.open("a", buffering=1) as file:
            while not self._ends.wait(self._PAUSE):
                file.write(f"{self._fed}\n")
                self._fed += 1

    def _ask(self, path: str, value: Mapping[str, str] | None = None) -> Any:
        with suppress(OSError, URLError, TimeoutError):
            return ask(f"{self._url}/{path}", value)
        return None

    def _lives(self) -> None:
        if self._worker.process.poll() is not None:
            self.lines.append("begun again")
            self._begin()
        for connector in self._ask("connectors") or ():
            status = self._ask(f"connectors/{connector}/status") or {"tasks": []}
            for task in status["tasks"]:
                if task["state"] == "FAILED":
                    self.lines.append("task failed")
                    self.place.site.say(f"{connector}: {task.get('trace', '')[:300]}")
                    again = Request(f"{self._url}/connectors/{connector}/tasks/{task['id']}/restart", method="POST")
                    with suppress(OSError, URLError), urlopen(again, timeout=60):
                        pass

    def _written(self) -> list[int]:
        text = self._to.read_text() if self._to.exists() else ""
        return [int(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def wait_flowing(self) -> None:
        number = self._fed
        tried = [0.0]

        def there() -> bool:
            if time.monotonic() > tried[0] + 3:
                tried[0] = time.monotonic()
                self._lives()
            return max(self._written(), default=-1) >= number

        wait_until(there, f"{self.name} has written {number}", _PATIENCE)

    def judge(self) -> Iterator[str]:
        self._ends.set()
        self._feeder.join(30)
        with suppress(AssertionError):
            self._fed -= 1
            self.wait_flowing()
            wait_until(lambda: set(self._written()) >= set(range(self._fed + 1)), "all lines", 60)
        logs = self.place.logs(self._NAME)
        there = {number for log in logs[self.place.active] for _, number in log}
        yield from the_same(logs, self.place.active)
        if lost := sorted(set(range(self._fed + 1)) - there):
            yield f"lines that are in no record: {lost[:10]}"
        if lost := sorted(there ^ set(self._written())):
            yield f"in the topic or in the sink's file only: {lost[:10]}"

    def close(self) -> None:
        self._ends.set()
        self._worker.__exit__()


class Spark(_Process):
    """A streaming query with a checkpoint, of a transactional producer's records. Sometimes it is stopped before a
    switch, as docs/migration-offsets.md asks for, and sometimes not. Then its checkpoint is translated.

    `client`: its client id begins so, else Kafka's client chooses one; `login`: properties of its clients."""

    brings_positions = True

    def __init__(
        self, place: Place, name: str, bootstrap: str, *, reads: str = "java producer, transactional", client: str = "",
        login: Mapping[str, str] = _NO_LOGIN,
    ) -> None:  # fmt: skip
        self._writer, self._client, self._login = place.writer(reads), client, login
        super().__init__(replace(place, wave=self._writer.wave), name, bootstrap)
        directory = place.directory / "query"
        directory.mkdir()
        more = settings(spark_jars=_connector(), spark_driver_memory="600m", spark_master="local[2,2]")
        self._home = spark_home(directory, defaults=more | {"spark.ui.showConsoleProgress": "false"})
        self._directory, self._checkpoints, self._of = directory, 0, self.place.active
        self._begin()

    @property
    def _checkpoint(self) -> Path:
        return self._directory / f"checkpoint-{self._checkpoints}"

    def _start(self, log: Path) -> Going:
        options = {
            "kafka.bootstrap.servers": self.bootstrap, "kafka.isolation.level": "read_committed",
            "kafkaConsumer.pollTimeoutMs": "3000",
            **{f"kafka.{name}": value for name, value in self._login.items()},
        }  # fmt: skip
        if self._client:  # another id in each life, and not only by a number, as docs/migration-offsets.md asks for
            letters = "".join(chr(ord("a") + int(digit)) for digit in str(self.begun))
            options |= {"kafka.client.id": f"{self._client}-{letters}", "groupIdPrefix": self._client}
        pairs = [f"{name}={value}" for name, value in options.items()]
        words = [sys.executable, str(HERE / "going_spark.py"), self._writer.topic, str(self._checkpoint), *pairs]
        return Going(words, log, environment(self._home))

    def before(self) -> None:
        if self.place.site.chance.random() < 0.5:
            self._end()

    def after(self) -> None:
        """If clients were led to the other cluster, it goes on there, when it has ended by itself."""
        if self._of == self.place.active:
            return
        wait_until(self.look, f"{self.name} ends", _PATIENCE)
        self._end()
        self._translate()

    def _translate(self) -> None:
        old, site = self._checkpoint, self.place.site
        self._checkpoints += 1
        back = ["--reverse"] if self.place.active == BLUE else []
        words = ["offsets", *back, "--spark-checkpoint", str(old), str(self._checkpoint)]
        code, driver = site.command(*words, codes=(0, 2))
        if code:
            self._move_away(old, "\n".join(driver.lines))
            site.command(*words)
        self.lines.append("checkpoint translated")
        self._of = self.place.active

    def _move_away(self, checkpoint: Path, said: str) -> None:
        """The batch that was planned with the other cluster's offsets, as kproxy says."""
        found = re.search(r"move (\d+) and \.\1\.crc away", said)
        assert found, said
        for name in (found[1], f".{found[1]}.crc"):
            (checkpoint / "offsets" / name).rename(checkpoint / f"moved-{name}")
        self.lines.append("planned batch moved away")

    def _planned_elsewhere(self) -> bool:
        """Whether Spark ends at once each time: a switch was undone after it had planned a batch."""
        last = [line for line in self.lines if line.startswith(("batch ", "died ", "begun again"))][-4:]
        return len(last) == 4 and not any(line.startswith("batch ") for line in last)

    def _lives(self) -> None:
        if not self.look():
            return
        self.close()
        if self._planned_elsewhere():
            done = {int(one.name) for one in (self._checkpoint / "commits").iterdir() if one.name.isdigit()}
            planned = {int(one.name) for one in (self._checkpoint / "offsets").iterdir() if one.name.isdigit()}
            if planned - done:
                number = max(planned)
                self._move_away(self._checkpoint, f"move {number} and .{number}.crc away")
        self.lines.append("begun again")
        self._begin()

    def batches(self) -> dict[int, list[tuple[int, int]]]:
        found = {}
        for line in self.lines:
            word, *rest = line.split(" ")
            if word == "batch":
                pairs = (one.split(":") for one in rest[1:])
                found[int(rest[0])] = [(int(partition), int(number)) for partition, number in pairs]
        return found

    def wait_flowing(self) -> None:
        end = max((int(words[1]) for words in self.place.site.clients.all[self._writer].said("committed")), default=0)

        def there() -> bool:
            self._lives()
            newest = (line for line in reversed(self.lines) if line.startswith("batch ") and ":" in line)
            # The records of a batch are in the order of partitions, so that the last one need not be the latest.
            pairs = (pair for line in islice(newest, _LOOKED_AT) for pair in line.split(" ")[2:])
            return max((int(pair.rpartition(":")[2]) for pair in pairs), default=-1) >= end

        wait_until(there, f"{self.name} has read {end} or a later one", _PATIENCE)

    def judge(self) -> Iterator[str]:
        logs = self.place.site.logs(self.place.active, self._writer.topic)
        last = max((number for log in logs for _, number in log), default=0)
        with suppress(AssertionError):
            self.wait_flowing()
            wait_until(lambda: self.look() or any(f":{last}" in line for line in self.lines[-20:]), "all", 60)
        self._end()
        yield from batched(self.batches(), logs)

    def seen(self) -> Counter[str]:
        return seen(line for line in self.lines if not line.startswith("batch "))


def _connector() -> str:
    from tests.harness.clients.spark import connector

    return connector()


_ALL: Mapping[str, tuple[str, Callable[[Place, str, str], App]]] = {
    "streams": ("Kafka Streams, exactly_once_v2", Streams),
    "connect": ("Kafka Connect, file source and sink", Connect),
    "spark": ("Spark, structured streaming", Spark),
}
_ASKED = os.environ.get("SWITCHES_LIBRARIES", "streams,connect,spark").split(",")
WANTED: Mapping[str, Callable[[Place, str, str], App]] = dict(_ALL[name] for name in _ASKED if name in _ALL)
"""By the name in the table."""
