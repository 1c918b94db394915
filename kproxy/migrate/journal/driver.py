"""Who copies, and whether it may: the driver's record in the state topic, and the orders of other commands.

The driver writes its record in transactions of its own transactional id. Another driver that takes the id over fences
it: the first then stops at its next record. Before that, a new driver looks whether the record still changes, which
needs no clocks that agree. One that takes another's place asks it to leave first. Then no attempt of the copy is broken
off, whose records readers of uncommitted records would see, and the same ones again.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import ProducerFenced
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.slices import Job
from kproxy.migrate.copier.state import state_key, state_partition, state_topic_name
from kproxy.migrate.copier.statetopic import count_state_partitions, read_value

# How often the driver writes its record, and how long another one looks whether it does, in seconds.
BEAT_INTERVAL, LOOK_TIMEOUT = 3.0, 10.0
# A driver that has not written for so long is not waited for, when it is asked to leave.
_SILENCE_LIMIT = 3 * BEAT_INTERVAL
_POLL_INTERVAL = 0.5
_PATIENCE = 60.0
JOB_KEY, ORDER_KEY, LEAVE_KEY = state_key("job"), state_key("order"), state_key("leave")


Records = Mapping[bytes, Mapping[str, Any] | bytes | None]
"""Of the state topic, by key; None removes one."""


def write_records(job: Job, producer: TransactionalProducer, records: Records) -> None:
    """Write records of the state topic in one transaction. Raises UpstreamError and WireError; Fenced if
    another process has the producer's id."""
    by_partition: dict[int, list[tuple[bytes, bytes | None]]] = {}
    for name, value in records.items():
        said = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        by_partition.setdefault(state_partition(name, job.state_partitions), []).append((name, said))
    producer.add({job.state_topic: list(by_partition)})
    at = time.time_ns() // 1_000_000
    for partition, written in by_partition.items():
        producer.write(job.state_topic, partition, written, at)
    producer.commit()


def write_once(target: str, job: Job, records: Records, what: str) -> None:
    """The same from a command that does nothing else: `what` names it. Whoever reads the state topic after this returns
    sees the records. Raises UpstreamError and WireError."""
    cluster = ClusterClient(target)
    try:
        producer = TransactionalProducer(cluster, f"kproxy-migration-{job.name}/{what}")

        def once() -> None:
            producer.start(time.monotonic() + _PATIENCE)
            write_records(job, producer, records)
            # A coordinator says that a transaction has ended before its markers are written. It gives no new epoch
            # before they are.
            producer.start(time.monotonic() + _PATIENCE)

        retry(cluster, once, _PATIENCE)
    finally:
        cluster.close()


@dataclass(frozen=True, slots=True)
class DriverOrder:
    """What other commands want of the driver."""

    paused: bool = False

    @classmethod
    def read(cls, value: bytes | None) -> DriverOrder:
        """From the state topic; a record that cannot be read is none."""
        try:
            said = json.loads(value or b"{}")
            return cls(paused=said.get("paused") is True)
        except (ValueError, AttributeError):
            return cls()

    def to_record(self) -> dict[str, Any]:
        return {"v": 1, "paused": self.paused}


DriverIdentity = tuple[object, object, object]
"""Of a driver: where it runs, its process id, and since when, in ms of Unix time."""


def _identity(value: bytes | Mapping[str, Any] | None) -> DriverIdentity | None:
    """Of whom a record of the state topic is, the driver's or that which asks it to leave; None if nobody can say."""
    try:
        said = json.loads(value or b"{}") if value is None or isinstance(value, bytes) else value
        return said["host"], said["pid"], said["since"]
    except (ValueError, KeyError, TypeError):
        return None


def find_active_driver(target: str, name: str, seconds: float = _SILENCE_LIMIT) -> dict[str, Any] | None:
    """What the driver says that copies now, to this cluster; None if there is none, or its record does not change for
    so long. Raises UpstreamError and WireError."""
    cluster = ClusterClient(target)
    try:
        try:
            partitions = retry(cluster, lambda: count_state_partitions(cluster, name), _PATIENCE)
        except ConfigError:  # nothing was prepared there, or is any more
            return None
        driver = CopyDriver(cluster, Job(name, state_topic_name(name), partitions))
        seen = driver.read_record()
        until = time.monotonic() + seconds
        while seen and not seen.get("ended") and time.monotonic() < until:
            time.sleep(_POLL_INTERVAL)
            now = driver.read_record()
            if now.get("beat") != seen.get("beat") and not now.get("ended"):
                return now
            seen = now
        return None
    finally:
        cluster.close()


class CopyAlreadyRunning(ConfigError):
    """Another driver copies."""


class CopyDriver:
    """This process as the one that copies."""

    def __init__(self, target: ClusterClient, job: Job) -> None:
        self._target, self._job = target, job
        self._producer = TransactionalProducer(target, f"kproxy-migration-{job.name}/driver")
        self._since = time.time_ns() // 1_000_000
        self._beat = 0
        self._due = 0.0
        self._partition = state_partition(JOB_KEY, job.state_partitions)

    def acquire(self, *, take_over: bool = False) -> None:
        """Raises CopiedAlready if another driver copies (it writes while this one looks), unless it is to be taken
        over; UpstreamError, WireError."""
        seen = self.read_record()
        until = time.monotonic() + LOOK_TIMEOUT
        while not take_over and seen and not seen.get("ended") and time.monotonic() < until:
            time.sleep(_POLL_INTERVAL)
            now = self.read_record()
            if now and now.get("beat") != seen.get("beat") and not now.get("ended"):
                raise CopyAlreadyRunning(
                    f"{self._job.name} is being copied already, by process {now.get('pid')} on {now.get('host')}: end"
                    " it first, or take its place with --take-over"
                )
            seen = now
        retry(self._target, lambda: self._producer.start(time.monotonic() + _PATIENCE), _PATIENCE)
        self.heartbeat()

    def request_handover(self, target: str, seconds: float) -> None:
        """Ask the driver that copies now to end after its round, and wait until it has ended, for so long at most. One
        whose record does not change is not waited for. To be called before `take`. Raises UpstreamError, WireError."""
        seen = self.read_record()
        other = _identity(seen)
        if other is None or seen.get("ended"):
            return
        write_once(
            target, self._job, {LEAVE_KEY: {"v": 1, **dict(zip(("host", "pid", "since"), other, strict=True))}}, "leave"
        )
        now = time.monotonic()
        until, silent, beat = now + seconds, now + _SILENCE_LIMIT, seen.get("beat")
        while time.monotonic() < min(until, silent):
            time.sleep(_POLL_INTERVAL)
            seen = self.read_record()
            if seen.get("ended") or _identity(seen) != other:
                return
            if seen.get("beat") != beat:
                silent, beat = time.monotonic() + _SILENCE_LIMIT, seen.get("beat")

    def is_leave_request(self, value: bytes | None) -> bool:
        """Whether this record of the state topic asks this driver to leave."""
        return _identity(value) == self._own_identity

    @property
    def _own_identity(self) -> DriverIdentity:
        return platform.node(), os.getpid(), self._since

    def read_record(self) -> dict[str, Any]:
        """The record of the one that copies, or did last; {} if there is none. Raises UpstreamError and WireError."""
        topic = self._job.state_topic
        value = retry(self._target, lambda: read_value(self._target, topic, self._partition, 0, JOB_KEY), BEAT_INTERVAL)
        try:
            said = json.loads(value or b"{}")
        except ValueError:
            said = {}
        return said if isinstance(said, dict) else {}

    def use_cluster(self, target: ClusterClient) -> None:
        """Go on with other connections, as a thread of its own must."""
        self._target = target
        self._producer.move(target)

    def heartbeat_if_due(self, **more: Any) -> None:
        """`beat`, every few seconds."""
        if time.monotonic() >= self._due:
            self.heartbeat(**more)

    def heartbeat(self, *, ended: bool = False, **more: Any) -> None:
        """Say that this process copies. Raises Fenced if another one does; anything else passes, the next beat is soon
        enough."""
        self._beat += 1
        self._due = time.monotonic() + BEAT_INTERVAL
        host, pid, since = self._own_identity
        record = {
            "v": 1,
            "host": host,
            "pid": pid,
            "since": since,
            "beat": self._beat,
            "at": time.time_ns() // 1_000_000,
            "ended": ended,
            **more,
        }
        try:
            write_records(self._job, self._producer, {JOB_KEY: record})
        except ProducerFenced:
            raise
        except KproxyError:
            self._target.invalidate()
            self._restart()

    def _restart(self) -> None:
        """After a failure the transaction's end is not known. A new epoch decides it, and would also fence another
        driver that has come since: so it looks before."""
        seen = self._read_record_or_empty()
        mine = seen.get("pid") == os.getpid() and seen.get("since") == self._since
        if seen and not mine:
            raise ProducerFenced(90, "the driver's record")
        try:
            self._producer.start(time.monotonic() + BEAT_INTERVAL)
        except ProducerFenced:
            raise
        except KproxyError:
            self._target.invalidate()

    def _read_record_or_empty(self) -> dict[str, Any]:
        try:
            return self.read_record()
        except KproxyError:
            self._target.invalidate()
            return {}
