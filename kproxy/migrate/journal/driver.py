"""The driver of a copy: its record in the state topic, and the orders of other commands.

The driver writes its record in transactions of its own transactional id. Another driver that starts with the same id
fences it: the first then stops at its next record. Before that, a new driver watches whether the record still changes,
which needs no synchronized clocks. A driver that takes the place of another asks it to leave first. Then no attempt of
the copy is interrupted; readers of uncommitted records would see the records of such an attempt twice.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.errorcodes import ProducerFenced
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.state import Job, state_key, state_partition
from kproxy.migrate.copier.statetopic import find_job, read_value

# How often the driver writes its record, and how long another driver watches the record, in seconds.
BEAT_INTERVAL, LOOK_TIMEOUT = 3.0, 10.0
# A driver that has not written for so long is not waited for, when it is asked to leave.
_SILENCE_LIMIT = 3 * BEAT_INTERVAL
_POLL_INTERVAL = 0.5
_PATIENCE = 60.0
JOB_KEY, ORDER_KEY, LEAVE_KEY = state_key("job"), state_key("order"), state_key("leave")


Records = Mapping[bytes, Mapping[str, Any] | bytes | None]
"""Records of the state topic, by key; None removes one."""


def write_records(job: Job, producer: TransactionalProducer, records: Records) -> None:
    """Write records of the state topic in one transaction.

    Raises UpstreamError and WireError; ProducerFenced if another process has the producer's id.
    """
    by_partition: dict[int, list[tuple[bytes, bytes | None]]] = {}
    for name, value in records.items():
        payload = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        by_partition.setdefault(state_partition(name, job.state_partitions), []).append((name, payload))
    producer.add_partitions({job.state_topic: list(by_partition)})
    timestamp = time.time_ns() // 1_000_000
    for partition, written in by_partition.items():
        producer.send_records(job.state_topic, partition, written, timestamp)
    producer.commit()


def write_once(target: str, name: str, records: Records, suffix: str) -> None:
    """Write records from a command that does nothing else; `suffix` completes its transactional id.

    Readers of the state topic see the records as soon as this returns.
    """
    with ClusterClient(target) as cluster:
        job = find_job(cluster, name, _PATIENCE)
        producer = TransactionalProducer(cluster, f"kproxy-migration-{name}/{suffix}")

        def once() -> None:
            producer.init_transactions(time.monotonic() + _PATIENCE)
            write_records(job, producer, records)
            # A coordinator says that a transaction has ended before its markers are written. It gives no new epoch
            # before they are.
            producer.init_transactions(time.monotonic() + _PATIENCE)

        retry(cluster, once, _PATIENCE)


@dataclass(frozen=True, slots=True)
class DriverOrder:
    """An order of another command to the driver."""

    paused: bool = False

    @classmethod
    def read(cls, value: bytes | None) -> DriverOrder:
        """Return the order of a record of the state topic; the default if it cannot be read."""
        try:
            record = json.loads(value or b"{}")
            return cls(paused=record.get("paused") is True)
        except (ValueError, AttributeError):
            return cls()

    def to_record(self) -> dict[str, Any]:
        return {"v": 1, "paused": self.paused}


def current_user() -> str:
    """Return the name of this process's user, or the number if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container
        return f"uid {os.getuid()}"


DriverIdentity = tuple[object, object, object]
"""The identity of a driver: host, process id, and start in milliseconds of Unix time."""


def _identity(value: bytes | Mapping[str, Any] | None) -> DriverIdentity | None:
    """Return the driver of a driver's record or of a leave request; None if it cannot be read."""
    try:
        record = json.loads(value or b"{}") if value is None or isinstance(value, bytes) else value
        return record["host"], record["pid"], record["since"]
    except (ValueError, KeyError, TypeError):
        return None


def parse_driver_record(value: bytes | None) -> dict[str, Any]:
    """Return a driver's record; {} if there is none, or none that can be read."""
    try:
        record = json.loads(value or b"{}")
    except ValueError:
        record = {}
    return record if isinstance(record, dict) else {}


def watch_driver(read_record: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any] | None:
    """Return the record of the driver that copies now; None if its record does not change for `seconds`."""
    record = read_record()
    until = time.monotonic() + seconds
    while record and not record.get("ended") and time.monotonic() < until:
        time.sleep(_POLL_INTERVAL)
        current = read_record()
        if current and current.get("beat") != record.get("beat") and not current.get("ended"):
            return current
        record = current
    return None


def find_active_driver(target: str, name: str) -> dict[str, Any] | None:
    """Return the record of the driver that copies to this cluster now.

    None if there is no driver, or its record does not change for some seconds.
    """
    with ClusterClient(target) as cluster:
        try:
            driver = CopyDriver(cluster, find_job(cluster, name, _PATIENCE))
        except ConfigError:  # nothing was prepared there, or is any more
            return None
        return watch_driver(driver.read_record, _SILENCE_LIMIT)


class CopyAlreadyRunning(ConfigError):
    """Another driver is copying."""


class CopyDriver:
    """This process as the driver of a copy."""

    def __init__(self, target: ClusterClient, job: Job) -> None:
        self._target, self._job = target, job
        self._producer = TransactionalProducer(target, f"kproxy-migration-{job.name}/driver")
        self._since = time.time_ns() // 1_000_000
        self._beat = 0
        self._due = 0.0
        self._partition = state_partition(JOB_KEY, job.state_partitions)

    def acquire(self, *, take_over: bool = False) -> None:
        """Become the driver, and fence the former one.

        Raises CopyAlreadyRunning if another driver updates its record meanwhile, unless `take_over`; UpstreamError.
        """
        if not take_over and (record := watch_driver(self.read_record, LOOK_TIMEOUT)):
            raise CopyAlreadyRunning(
                f"{self._job.name} is already being copied, by process {record.get('pid')} on"
                f" {record.get('host')}: stop that copy first, or replace it with --take-over"
            )
        retry(self._target, lambda: self._producer.init_transactions(time.monotonic() + _PATIENCE), _PATIENCE)
        self.heartbeat()

    def request_handover(self, target: str, seconds: float) -> None:
        """Ask the current driver to leave after its round, and wait for at most `seconds` until it has ended.

        Does not wait for a driver whose record does not change. Must be called before `acquire`.
        """
        record = self.read_record()
        identity = _identity(record)
        if identity is None or record.get("ended"):
            return
        leave_request = {"v": 1, **dict(zip(("host", "pid", "since"), identity, strict=True))}
        write_once(target, self._job.name, {LEAVE_KEY: leave_request}, "leave")
        now = time.monotonic()
        until, silent, beat = now + seconds, now + _SILENCE_LIMIT, record.get("beat")
        while time.monotonic() < min(until, silent):
            time.sleep(_POLL_INTERVAL)
            record = self.read_record()
            if record.get("ended") or _identity(record) != identity:
                return
            if record.get("beat") != beat:
                silent, beat = time.monotonic() + _SILENCE_LIMIT, record.get("beat")

    def is_leave_request(self, value: bytes | None) -> bool:
        """Return True if this record of the state topic asks this driver to leave."""
        return _identity(value) == self._own_identity

    @property
    def _own_identity(self) -> DriverIdentity:
        return platform.node(), os.getpid(), self._since

    def read_record(self) -> dict[str, Any]:
        """Return the record of the current or last driver; {} if there is none."""
        topic = self._job.state_topic
        value = retry(self._target, lambda: read_value(self._target, topic, self._partition, 0, JOB_KEY), BEAT_INTERVAL)
        return parse_driver_record(value)

    def use_cluster(self, target: ClusterClient) -> None:
        """Continue with other connections, as a separate thread must."""
        self._target = target
        self._producer.use_cluster(target)

    def heartbeat_if_due(self, **fields: Any) -> None:
        """Call `heartbeat` if the last one was some seconds ago."""
        if time.monotonic() >= self._due:
            self.heartbeat(**fields)

    def heartbeat(self, *, ended: bool = False, **fields: Any) -> None:
        """Write the driver's record. Raises ProducerFenced if another process has become the driver.

        Ignores other failures, since the next heartbeat follows soon.
        """
        self._beat += 1
        self._due = time.monotonic() + BEAT_INTERVAL
        host, pid, since = self._own_identity
        record = {
            "v": 1,
            "host": host,
            "pid": pid,
            "since": since,
            "user": current_user(),
            "beat": self._beat,
            "at": time.time_ns() // 1_000_000,
            "ended": ended,
            **fields,
        }
        try:
            write_records(self._job, self._producer, {JOB_KEY: record})
        except ProducerFenced:
            raise
        except KproxyError:
            self._target.invalidate()
            self._restart()

    def _restart(self) -> None:
        """Start a new epoch after a failure, when it is not known how the transaction ended.

        The new epoch decides it, and would also fence a driver that started since: so this reads the record
        before.
        """
        record = self._read_record_or_empty()
        is_own = record.get("pid") == os.getpid() and record.get("since") == self._since
        if record and not is_own:
            raise ProducerFenced(90, "the driver's record")
        try:
            self._producer.init_transactions(time.monotonic() + BEAT_INTERVAL)
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
