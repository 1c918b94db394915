"""The decisions of a switch, in the state topic on the target, recorded before they take effect.

Another driver can resume after a failure. The record is written in transactions of a transactional id. A driver that
begins, resumes or aborts a switch takes the id over, and fences a former driver that is still alive: the former one can
decide nothing any more.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.copier.clusterclient import ClusterClient, backoff, is_retriable, retry
from kproxy.migrate.copier.errorcodes import ProducerFenced
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.state import Job, state_key, state_partition
from kproxy.migrate.copier.statetopic import find_job, read_value
from kproxy.migrate.journal.driver import current_user, write_records
from kproxy.proxy.switching.parts import split_unit
from kproxy.proxy.switching.twophase import JournalDecision, driver_number, last_decision

SWITCH_KEY = state_key("switch")
# The key of an earlier switch has its id, too.
_FORMER = "former-switch"
_FORMER_PREFIX = b'["former-switch",'
_PATIENCE = 30.0
# A driver writes its decisions and the end within this time: the longest hold, and the final command to late kproxies.
_DRIVER_SILENCE_MS = 120_000

SWITCHING, ROLLBACK = "switch", "rollback"


@dataclass(frozen=True, slots=True)
class MovedPart:
    """A part that is on the target."""

    name: str
    clients: tuple[str, ...] = ()
    """Its client ids."""
    groups: tuple[str, ...] = ()
    """Its groups."""
    writes: bool = False
    """True if its clients write on the target."""
    wave: str = ""
    """The wave of the file that it is; "" if it was selected by `--only`."""
    topics: tuple[str, ...] = ()
    """The globs of the wave's topics."""
    reversible: bool = False
    """True if what its clients write to the topics of the wave is copied back."""
    since: int = 0
    """The time at which it came to the target, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class SwitchEntry:
    """The record of a switch or rollback. The field names are those of the JSON record."""

    switch: str
    """The id of the switch."""
    what: str
    """SWITCHING or ROLLBACK."""
    cluster: str
    """The cluster of the kproxies, or the unit of the part that is switched."""
    origin: str
    """The upstream from which clients are moved, by its name in the kproxies' configuration."""
    to: str
    """The upstream to which clients are moved."""
    kproxies: tuple[str, ...]
    """The participants."""
    decisions: tuple[tuple[str, str], ...] = ()
    """Pairs of driver and decision, in order."""
    reversible: bool = False
    """True if records that clients write to the target are copied back."""
    ended: bool = False
    """True if every participant has got the final command."""
    began: int = 0
    """The start, in milliseconds since 1970."""
    at: int = 0
    """The time of this record, in milliseconds since 1970."""
    host: str = ""
    pid: int = 0
    user: str = ""
    """The operator: the user of the driver's process on its host, "" if that is not known."""
    held_seconds: float | None = None
    """For how long writes were held, by the driver's clock; None if it did not see the whole hold."""
    clients: tuple[str, ...] = ()
    """The client ids of the part; empty for a whole cluster."""
    groups: tuple[str, ...] = ()
    """The groups of the part."""
    writes: bool = False
    """True if clients of the part write."""
    parts: tuple[MovedPart, ...] = ()
    """Other parts that were moved to the target before."""
    again: bool = False
    """True if the whole cluster was switched before."""
    users: tuple[str, ...] = ()
    """The users whose clients were connected before, or had been observed."""
    wave: str = ""
    """The wave that was switched; "" if it was another part, or the cluster."""
    topics: tuple[str, ...] = ()
    """The globs of the wave's topics."""
    since: int = 0
    """For the rollback of a wave, when it came to the target, in milliseconds since 1970."""
    waves_before: tuple[str, ...] = ()
    """The waves that were on the target at any time before."""

    @property
    def part(self) -> str:
        """The name of the part that was switched; "" if it was the cluster."""
        return split_unit(self.cluster)[1]

    @property
    def part_text(self) -> str:
        """The part that was switched, in words."""
        return f"wave {self.wave}" if self.wave else f"part {self.part}"

    @property
    def parts_on_target(self) -> tuple[MovedPart, ...]:
        """The parts that are on the target now, while the cluster is not."""
        released = self.decision is JournalDecision.RELEASED
        if not self.part:
            return () if self.is_moved or (self.what == ROLLBACK and released) else self.parts
        if released is (self.what == SWITCHING):
            wave = (self.wave, self.topics, self.reversible and bool(self.wave), self.since or self.at)
            return (*self.parts, MovedPart(self.part, self.clients, self.groups, self.writes, *wave))
        return self.parts

    @property
    def waves_on_target(self) -> Mapping[str, MovedPart]:
        """The waves that are on the target now, while the cluster is not, by their names."""
        return {part.wave: part for part in self.parts_on_target if part.wave}

    @property
    def switched_waves(self) -> tuple[str, ...]:
        """The waves that are on the target, or were there at any time."""
        return tuple(dict.fromkeys((*self.waves_before, *self.waves_on_target)))

    @property
    def moved_topics(self) -> tuple[str, ...]:
        """Return the globs of topics that clients write, or may write, to the target: those of waves."""
        under_way = () if self.ended else self.topics
        return tuple(dict.fromkeys(glob for part in self.parts_on_target for glob in part.topics)) + under_way

    @property
    def decision(self) -> JournalDecision:
        """The decision that counts."""
        return last_decision([(driver, JournalDecision(record)) for driver, record in self.decisions])

    @property
    def source_upstream(self) -> str:
        """The upstream that is the migration's source."""
        return self.origin if self.what == SWITCHING else self.to

    @property
    def target_upstream(self) -> str:
        """The upstream that is the migration's target."""
        return self.to if self.what == SWITCHING else self.origin

    @property
    def driver_number(self) -> int:
        """The number of the last driver."""
        return max((driver_number(driver) for driver, _ in self.decisions), default=0)

    @property
    def is_moved(self) -> bool:
        """True if all clients of the cluster, not only those of parts, write to the migration's target."""
        return not self.part and (self.decision is JournalDecision.RELEASED) is (self.what == SWITCHING)

    def may_be_driven(self, now_ms: int, host: str, is_alive: Callable[[int], bool]) -> bool:
        """Return True if the driver that wrote this entry may still live.

        `host` is this machine, and `is_alive` tells whether another process with that id runs here. A driver that has
        written nothing for so long has died, or another driver fences it.
        """
        is_recent = now_ms - self.at < _DRIVER_SILENCE_MS
        return not self.ended and is_recent and (self.host != host or is_alive(self.pid))

    def with_decision(self, driver: str, record: JournalDecision) -> SwitchEntry:
        """Return the entry with one more decision."""
        return replace(self, decisions=(*self.decisions, (driver, record.value)))

    def to_record(self) -> dict[str, Any]:
        """Return the value of the journal's record."""
        return {"v": 1, **asdict(self)}

    @classmethod
    def read(cls, value: bytes | None) -> SwitchEntry | None:
        """Return the entry of a record; None if there is none. Raises ConfigError if it cannot be read."""
        if value is None:
            return None
        try:
            record = json.loads(value)
            texts = all(isinstance(record[name], str) for name in ("switch", "cluster", "origin", "to"))
            if record.pop("v") != 1 or record["what"] not in (SWITCHING, ROLLBACK) or not texts:
                raise ValueError
            decisions = tuple(
                (str(driver), JournalDecision(decision).value) for driver, decision in record.pop("decisions")
            )
            parts = tuple(map(_moved_part, record.pop("parts", ())))
            for name in ("kproxies", "clients", "groups", "topics", "users", "waves_before"):
                record[name] = _texts(record.get(name, ()))
            return cls(**{**record, "parts": parts, "decisions": decisions})
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(
                "the state topic has a record of a switch that this kproxy cannot read: use the version that started"
                " it, or a newer one"
            ) from None


def require_ended(last: SwitchEntry | None) -> None:
    """Raise ConfigError if the last switch or rollback was interrupted."""
    if last is not None and not last.ended:
        raise ConfigError(
            f"{last.what} {last.switch} was started on {last.host} and has not finished: run kproxy migrate"
            " switch FILE --resume to continue it, or --abort to undo it if that is still possible"
        )


def read_history(values: Mapping[bytes, bytes]) -> list[SwitchEntry]:
    """Return all switches and rollbacks among the records of the state topic, in the order of their beginning.

    Raises ConfigError if one cannot be read.
    """
    entries = [SwitchEntry.read(value) for key, value in values.items() if is_switch_key(key)]
    return sorted((entry for entry in entries if entry is not None), key=lambda entry: (entry.began, entry.at))


def is_switch_key(key: bytes) -> bool:
    """Return True if `read_history` reads the record with this key."""
    return key == SWITCH_KEY or key.startswith(_FORMER_PREFIX)


def _moved_part(record: Mapping[str, Any]) -> MovedPart:
    return MovedPart(
        str(record["name"]),
        _texts(record["clients"]),
        _texts(record["groups"]),
        bool(record["writes"]),
        str(record.get("wave", "")),
        _texts(record.get("topics", ())),
        bool(record.get("reversible", False)),
        int(record.get("since", 0)),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(text) for text in value)


def read_last_switch(target: str, name: str) -> SwitchEntry | None:
    """Return the last record of this migration's switches and rollbacks. Raises ConfigError if nothing was prepared."""
    with ClusterClient(target) as cluster:
        return _read_last(cluster, find_job(cluster, name, _PATIENCE))


def _read_last(cluster: ClusterClient, job: Job) -> SwitchEntry | None:
    partition = state_partition(SWITCH_KEY, job.state_partitions)
    return SwitchEntry.read(
        retry(cluster, lambda: read_value(cluster, job.state_topic, partition, 0, SWITCH_KEY), _PATIENCE)
    )


class SwitchJournal:
    """The journal of one migration, for one driver."""

    def __init__(self, target: str, name: str) -> None:
        """Connect to the target. Raises ConfigError if nothing was prepared."""
        self._cluster = ClusterClient(target)
        self._job = find_job(self._cluster, name, _PATIENCE)
        self._producer = TransactionalProducer(self._cluster, f"kproxy-migration-{name}/switch")
        self._host, self._pid, self._user = platform.node(), os.getpid(), current_user()
        self.last: SwitchEntry | None = None

    def __enter__(self) -> SwitchJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def read(self) -> SwitchEntry | None:
        """Return the last record. Raises ConfigError."""
        self.last = _read_last(self._cluster, self._job)
        return self.last

    def take_over(self) -> SwitchEntry | None:
        """Fence all other drivers, and return the last record. Raises as `read` does."""
        retry(self._cluster, lambda: self._producer.init_transactions(time.monotonic() + _PATIENCE), _PATIENCE)
        return self.read()

    def write(self, entry: SwitchEntry, seconds: float = _PATIENCE) -> SwitchEntry:
        """Write the entry, and return it when it is committed. The entry of an earlier switch gets a key of its own.

        Raises ConfigError if another driver has taken over; UpstreamError and WireError if it is not known
        whether the record was written.
        """
        entry = replace(entry, at=time.time_ns() // 1_000_000, host=self._host, pid=self._pid, user=self._user)
        until = time.monotonic() + seconds
        records: dict[bytes, Mapping[str, Any] | bytes | None] = {SWITCH_KEY: entry.to_record()}
        if self.last is not None and self.last.switch != entry.switch:
            records[state_key(_FORMER, self.last.switch)] = self.last.to_record()
        for pause in backoff():
            try:
                write_records(self._job, self._producer, records)
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
        """Start a new epoch after a failure, when it is not known how the transaction ended.

        The new epoch decides it, and would also fence a driver that started since: so this reads the record
        before.
        """
        try:
            current = _read_last(self._cluster, self._job)
            if current not in (self.last, entry):
                raise self._taken_over()
            self._producer.init_transactions(until)
        except ProducerFenced:
            raise self._taken_over() from None
        except ConfigError:
            raise
        except KproxyError:
            self._cluster.invalidate()

    def _taken_over(self) -> ConfigError:
        return ConfigError(
            f"another driver has taken over the switch of {self._job.name}: this one stops, the other one continues"
        )
