"""What a switch has decided, in the state topic on the target, before it has an effect: so that another driver can go
on where this one died.

The record is written in transactions of a transactional id. Whoever begins, resumes or aborts takes the id over, and
fences a driver that only was thought dead: that one can decide nothing any more.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import ProducerFenced
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.retries import backoff, is_retriable, retry
from kproxy.migrate.copier.slices import Job
from kproxy.migrate.copier.state import state_key, state_partition, state_topic_name
from kproxy.migrate.copier.statetopic import count_state_partitions, read_value
from kproxy.migrate.journal.driver import write_records
from kproxy.proxy.switching.parts import split_unit
from kproxy.proxy.switching.twophase import JournalDecision, driver_number, last_decision

SWITCH_KEY = state_key("switch")
_PATIENCE = 30.0

SWITCHING, ROLLBACK = "switch", "rollback"


@dataclass(frozen=True, slots=True)
class MovedPart:
    """A part that is on the target: its client ids, its groups, and whether its clients write there."""

    name: str
    clients: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    writes: bool = False


@dataclass(frozen=True, slots=True)
class SwitchEntry:
    """`switch`: its id. `what`: SWITCHING or ROLLBACK. `origin`, `to`: upstreams of `cluster`, as the kproxies call
    them. `kproxies`: which are part of it. `decisions`: of each driver, in order. `reversible`: what is written to the
    target is copied back. `ended`: every kproxy has been told. `began`, `at`: milliseconds since 1970.

    If only a part of the cluster is switched, or led back, `cluster` is the part's unit, `clients` and `groups` are its
    own, and `writes` says that its clients write. `parts`: the others that were led to the target before. `again`: the
    cluster as a whole was switched before."""

    switch: str
    what: str
    cluster: str
    origin: str
    to: str
    kproxies: tuple[str, ...]
    decisions: tuple[tuple[str, str], ...] = ()
    reversible: bool = False
    ended: bool = False
    began: int = 0
    at: int = 0
    host: str = ""
    pid: int = 0
    clients: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    writes: bool = False
    parts: tuple[MovedPart, ...] = ()
    again: bool = False

    @property
    def part(self) -> str:
        """The name of the part that was switched; "" if it was the cluster."""
        return split_unit(self.cluster)[1]

    @property
    def parts_on_target(self) -> tuple[MovedPart, ...]:
        """The parts that are on the target now, while the cluster is not."""
        released = self.decision is JournalDecision.RELEASED
        if not self.part:
            return () if self.is_moved or (self.what == ROLLBACK and released) else self.parts
        if released is (self.what == SWITCHING):
            return (*self.parts, MovedPart(self.part, self.clients, self.groups, self.writes))
        return self.parts

    @property
    def decision(self) -> JournalDecision:
        """What counts."""
        return last_decision([(driver, JournalDecision(record)) for driver, record in self.decisions])

    @property
    def source_upstream(self) -> str:
        """The upstream that is the migration's source."""
        return self.origin if self.what == SWITCHING else self.to

    @property
    def target_upstream(self) -> str:
        """The one that is its target."""
        return self.to if self.what == SWITCHING else self.origin

    @property
    def driver_number(self) -> int:
        """Of the last driver."""
        return max((driver_number(driver) for driver, _ in self.decisions), default=0)

    @property
    def is_moved(self) -> bool:
        """Whether the cluster's clients write to the migration's target: all of them, not only those of parts."""
        return not self.part and (self.decision is JournalDecision.RELEASED) is (self.what == SWITCHING)

    def with_decision(self, driver: str, record: JournalDecision) -> SwitchEntry:
        """With one more."""
        return replace(self, decisions=(*self.decisions, (driver, record.value)))

    def to_record(self) -> dict[str, Any]:
        """The value of the journal's record."""
        return {"v": 1, **asdict(self)}

    @classmethod
    def read(cls, value: bytes | None) -> SwitchEntry | None:
        """None if there is none. Raises ConfigError if it cannot be read: guessing would be worse."""
        if value is None:
            return None
        try:
            said = json.loads(value)
            texts = all(isinstance(said[name], str) for name in ("switch", "cluster", "origin", "to"))
            if said.pop("v") != 1 or said["what"] not in (SWITCHING, ROLLBACK) or not texts:
                raise ValueError
            decisions = tuple((str(driver), JournalDecision(record).value) for driver, record in said.pop("decisions"))
            parts = tuple(
                MovedPart(str(one["name"]), _texts(one["clients"]), _texts(one["groups"]), bool(one["writes"]))
                for one in said.pop("parts", ())
            )
            for name in ("kproxies", "clients", "groups"):
                said[name] = _texts(said.get(name, ()))
            return cls(**{**said, "parts": parts, "decisions": decisions})
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(
                "the state topic has a record of a switch that this kproxy cannot read: use the kproxy that began it,"
                " or a newer one"
            ) from None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in value)


def read_last_switch(target: str, name: str) -> SwitchEntry | None:
    """What was decided last, in any switch of this migration. Raises ConfigError if nothing was prepared;
    UpstreamError and WireError."""
    cluster = ClusterClient(target)
    try:
        return _read_last(cluster, name, retry(cluster, lambda: count_state_partitions(cluster, name), _PATIENCE))
    finally:
        cluster.close()


def _read_last(cluster: ClusterClient, name: str, partitions: int) -> SwitchEntry | None:
    partition = state_partition(SWITCH_KEY, partitions)
    return SwitchEntry.read(
        retry(cluster, lambda: read_value(cluster, state_topic_name(name), partition, 0, SWITCH_KEY), _PATIENCE)
    )


class SwitchJournal:
    """Of one migration, for one driver."""

    def __init__(self, target: str, name: str) -> None:
        """Raises ConfigError if nothing was prepared; UpstreamError and WireError."""
        self._cluster = ClusterClient(target)
        partitions = retry(self._cluster, lambda: count_state_partitions(self._cluster, name), _PATIENCE)
        self._job = Job(name, state_topic_name(name), partitions)
        self._producer = TransactionalProducer(self._cluster, f"kproxy-migration-{name}/switch")
        self._host, self._pid = platform.node(), os.getpid()
        self.last: SwitchEntry | None = None

    def __enter__(self) -> SwitchJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def read(self) -> SwitchEntry | None:
        """What was decided last. Raises ConfigError, UpstreamError and WireError."""
        self.last = _read_last(self._cluster, self._job.name, self._job.state_partitions)
        return self.last

    def take_over(self) -> SwitchEntry | None:
        """From now on only this driver decides. Returns what the one before decided last. Raises as `read` does."""
        retry(self._cluster, lambda: self._producer.start(time.monotonic() + _PATIENCE), _PATIENCE)
        return self.read()

    def write(self, entry: SwitchEntry, seconds: float = _PATIENCE) -> SwitchEntry:
        """Returns when it is there. Raises ConfigError if another driver has taken over; UpstreamError and WireError if
        nobody knows whether it is there."""
        entry = replace(entry, at=time.time_ns() // 1_000_000, host=self._host, pid=self._pid)
        until = time.monotonic() + seconds
        for pause in backoff():
            try:
                write_records(self._job, self._producer, {SWITCH_KEY: entry.to_record()})
                self.last = entry
                return entry
            except ProducerFenced:
                raise self._taken_over() from None
            except KproxyError as error:
                if not is_retriable(error) or time.monotonic() + pause >= until:
                    raise
            self._cluster.invalidate()
            time.sleep(pause)
            self._restart(entry, until)
        raise AssertionError

    def _restart(self, entry: SwitchEntry, until: float) -> None:
        """After a failure nobody knows how the transaction has ended. A new epoch decides it, and would also fence a
        driver that has come since: so this looks before."""
        try:
            now = _read_last(self._cluster, self._job.name, self._job.state_partitions)
            if now not in (self.last, entry):
                raise self._taken_over()
            self._producer.start(until)
        except ProducerFenced:
            raise self._taken_over() from None
        except ConfigError:
            raise
        except KproxyError:
            self._cluster.invalidate()

    def _taken_over(self) -> ConfigError:
        return ConfigError(
            f"another kproxy has taken over the switch of {self._job.name}: this one does nothing more; the other one"
            " goes on"
        )
