"""A running migration: continuous records on the source, the command that copies them, and faults."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.prepare.preparation import Preparation
from kproxy.migrate.spec.migration import Migration
from tests.harness.clients.spark import bare_environment
from tests.harness.process import wait_until
from tests.harness.topics import unique

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""A record: offset, key, value, headers, timestamp."""

_PATIENCE = 180.0


def topics(bootstrap: str, names: Mapping[str, int], replicas: int, **config: str) -> None:
    """Create topics with so many partitions each."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = [NewTopic(name, count, replicas, config=config) for name, count in names.items()]
    for made_one in admin.create_topics(made).values():
        made_one.result(60)


def prepare(migration: Migration, endpoints: ClusterEndpoints, say: Callable[[str], None] = lambda _: None) -> None:
    """Prepare the target, as `kproxy migrate prepare` does. It must succeed."""
    with ClusterPair(migration, endpoints) as sides:
        assert not Preparation(sides, sides.examine(0.0), say).run().failed


def rows(bootstrap: str, topic: str, partition: int, *, committed: bool = True) -> list[Row]:
    """Return all records of a partition, as librdkafka reads them."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": unique("reader"), "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed else "read_uncommitted", "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )  # fmt: skip
    try:
        low, high = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
        reader.assign([TopicPartition(topic, partition, low)])
        found: list[Row] = []
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            for message in reader.consume(5000, 1.0):
                if message.error() is not None:
                    if message.error().code() == -191:  # _PARTITION_EOF
                        return found
                    raise KafkaException(message.error())
                headers = tuple((name, value) for name, value in message.headers() or ())
                found.append((message.offset(), message.key(), message.value(), headers, message.timestamp()[1]))
        raise AssertionError(f"{topic}/{partition} has no end: {len(found)} records, {low} to {high}")
    finally:
        reader.close()


def compared(source: Sequence[Row], target: Sequence[Row], known: OffsetMap) -> str:
    """Compare a copy: the same records in order, at the offsets of the map, and no others; "" if all is right."""
    for at, (one, other) in enumerate(zip(source, target, strict=False)):
        if one[1:] != other[1:]:
            return f"record {at}: {one} on the source, {other} on the target"
        if known.to_target(one[0]) != other[0]:
            return f"record {at}: offset {one[0]} is {other[0]} on the target, the map says {known.to_target(one[0])}"
    if len(source) != len(target):
        return f"{len(source)} records on the source, {len(target)} on the target"
    if known.records != len(source):
        return f"the map has {known.records} records, and there are {len(source)}"
    return ""


@dataclass
class Load:
    """Continuous records until `stop`: plain ones with keys and headers, and transactions, some aborted."""

    bootstrap: str
    plain: Mapping[str, int]
    transactional: Mapping[str, int]
    seed: int
    pause: float = 0.05
    sent: int = 0
    problems: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for work in (self._plain, self._transactions):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)

    def _config(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap, "linger.ms": 5, "enable.idempotence": True,
            "message.timeout.ms": 60_000, "log_level": 0, **more,
        }  # fmt: skip

    def _plain(self) -> None:
        chance = random.Random(self.seed)
        producers = [Producer(self._config(**{"compression.type": codec})) for codec in ("none", "lz4", "zstd")]
        parts = [(topic, index) for topic, count in self.plain.items() for index in range(count)]
        while not self._stop.wait(self.pause):
            for _ in range(chance.choice((1, 40, 300))):
                topic, partition = chance.choice(parts)
                value = None if chance.random() < 0.05 else chance.randbytes(chance.choice((1, 100, 1000, 5000)))
                key = None if chance.random() < 0.1 else str(chance.randrange(1000)).encode()
                headers = [("a", b"1"), ("a", None), ("b", b"")] if chance.random() < 0.1 else None
                producer = chance.choice(producers)
                with suppress(BufferError):
                    producer.produce(topic, value, key, partition, headers=headers)
                    self.sent += 1
            for producer in producers:
                producer.poll(0)
        for producer in producers:
            producer.flush(120)

    def _transactions(self) -> None:
        chance = random.Random(self.seed + 1)
        parts = [(topic, index) for topic, count in self.transactional.items() for index in range(count)]
        producer: Producer | None = None
        while not self._stop.wait(self.pause):
            try:
                if producer is None:
                    producer = Producer(self._config(**{"transactional.id": unique("load")}))
                    producer.init_transactions(60)
                producer.begin_transaction()
                count = chance.randrange(1, 60)
                for _ in range(count):
                    topic, partition = chance.choice(parts)
                    producer.produce(topic, chance.randbytes(chance.randrange(1, 500)), b"t", partition)
                if chance.random() < 0.25:
                    producer.flush(60)
                    producer.abort_transaction(60)
                else:
                    producer.commit_transaction(60)
                    self.sent += count
            except KafkaException:  # a broker was killed in the middle: what became of it, readers of committed know
                producer = None


def below(top: int) -> list[tuple[int, int, str]]:
    """Return the descendants of a process: pid, parent, command."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                parents[int(entry.name)] = int(stat[1]), command
    found, wanted = [], {top}
    grown = True
    while grown:
        new = {pid for pid, (parent, _) in parents.items() if parent in wanted} - wanted
        wanted |= new
        grown = bool(new)
    for pid in sorted(wanted - {top}):
        found.append((pid, *parents[pid]))
    return found


@dataclass
class Copying:
    """`python -m kproxy.migrate copy` in a separate process that is started again when it was killed."""

    file: Path
    home: Path
    log: Path
    master: str
    process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "kproxy.migrate",
            "copy",
            str(self.file),
            "--master",
            self.master,
            *more,
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=bare_environment(self.home), cwd=self.log.parent, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def below(self) -> list[tuple[int, int, str]]:
        """Return its descendants: pid, parent, command."""
        return below(self.pid)

    def tasks(self) -> list[int]:
        """Return Spark's Python workers, the forks of a daemon."""
        daemons = {pid for pid, _, command in self.below() if "pyspark.daemon" in command}
        return [pid for pid, parent, command in self.below() if "pyspark.daemon" in command and parent in daemons]

    def executors(self) -> list[int]:
        return [
            pid for pid, _, command in self.below() if "CoarseGrainedExecutorBackend" in command and "java" in command
        ]

    def kill(self, but: Sequence[int] = ()) -> None:
        """Kill all its processes, `but` for these, as if the machine failed, without time to clean up."""
        if self.process is None:
            return
        for pid, _, command in self.below():
            if pid not in but and "kproxy.spark.keeper" not in command and "kproxy.spark.proxy" not in command:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(30)
        self.process = None

    def end(self) -> int:
        """End it as Ctrl-C does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # so that it says where it is
            self.process.wait(30)
            raise AssertionError(f"it does not end: {self.said()[-10000:]}") from None
        self.process = None
        return code


@contextmanager
def loading(load: Load) -> Iterator[Load]:
    load.start()
    try:
        yield load
    finally:
        load.stop()


def until(reached: Any, what: str) -> Any:
    """Wait with a long bound, for JVMs on a busy machine."""
    return wait_until(reached, what, _PATIENCE)
