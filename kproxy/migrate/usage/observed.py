"""What clients used at all kproxies, by what the kproxies recorded; and the file of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kproxy.base.errors import AdminError, ConfigError
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.usage.replies import KproxyRecord, RecordedClient, RecordedPartition
from kproxy.migrate.usage.sourcestate import SourceChange

_FORMAT = 1
_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class KproxyCoverage:
    """How much of what passed one kproxy was recorded. Times are Unix times."""

    name: str
    began: float = 0.0
    """When it was first observed; 0 if never."""
    ended: float = 0.0
    """When its record was read last."""
    gaps: tuple[tuple[float, float], ...] = ()
    """From when to when what passed is not known: it had ended, or did not answer and had begun anew."""
    problem: str = ""
    """Why its record could not be read at the end, "" if it could."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How often something did not fit its record, by kind."""

    @property
    def is_complete(self) -> bool:
        """True if all that passed from `began` to `ended` is recorded."""
        return bool(self.began) and not self.gaps and not self.problem and not self.left_out


@dataclass(frozen=True, slots=True)
class ObservedUsage:
    """What clients used from `began` to `ended` (Unix times). Topics have their names."""

    began: float
    ended: float
    clients: tuple[RecordedClient, ...] = ()
    partitions: tuple[RecordedPartition, ...] = ()
    kproxies: tuple[KproxyCoverage, ...] = ()
    source: SourceChange | None = None
    """What the source knows at the end, and how its logs grew; None if it could not be read."""

    @property
    def is_complete(self) -> bool:
        """True if all that passed any kproxy is recorded."""
        return bool(self.kproxies) and all(kproxy.is_complete for kproxy in self.kproxies)

    def of_clients(self, selects: Callable[[str], bool]) -> ObservedUsage:
        """Return the usage without clients whose client ids are not selected."""
        return replace(self, clients=tuple(client for client in self.clients if selects(client.client_id)))

    def written(self) -> Mapping[TopicPartition, RecordedPartition]:
        """Return what was written by partition; of upstreams other than the source's, nothing is here."""
        return {(partition.topic, partition.partition): partition for partition in self.partitions}


def merge_records(records: Iterable[KproxyRecord], target: str, names: Mapping[str, str]) -> ObservedUsage:
    """Merge what kproxies recorded of all sessions but those to the upstream `target`.

    `names` has the topics by their ids. A topic whose id is not there was deleted, and is named by its id.
    """
    clients: dict[tuple[str, ...], RecordedClient] = {}
    partitions: dict[TopicPartition, RecordedPartition] = {}
    for record in records:
        for client in record.clients:
            if client.upstream != target:
                named = client.with_names(names)
                before = clients.get(named.identity)
                clients[named.identity] = named if before is None else before.merged(named)
        for partition in record.partitions:
            if partition.upstream != target:
                part = partition.with_names(names)
                earlier = partitions.get((part.topic, part.partition))
                partitions[part.topic, part.partition] = part if earlier is None else earlier.plus(part)
    return ObservedUsage(0.0, 0.0, tuple(clients.values()), tuple(partitions.values()))


def write_usage(usage: ObservedUsage, path: Path) -> None:
    """Write the file, whole or not at all. Raises ConfigError if it cannot be written."""
    text = json.dumps({"format": _FORMAT, **usage_to_json(usage)}, indent=1)
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o600)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; allowed: a file that can be written") from None


def usage_to_json(usage: ObservedUsage) -> dict[str, Any]:
    """Return the usage as JSON values."""
    return {
        "began": usage.began,
        "ended": usage.ended,
        "kproxies": [asdict(kproxy) for kproxy in usage.kproxies],
        "clients": [client.to_json() for client in usage.clients],
        "partitions": [partition.to_json() for partition in usage.partitions],
        "source": None if usage.source is None else usage.source.to_json(),
    }


def read_usage(path: Path) -> ObservedUsage:
    """Read the file. Raises ConfigError with what to do."""
    hint = "write it anew with 'kproxy migrate observe FILE --for 1h'"
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigError(f"{path} is larger than {_LARGEST} bytes: {hint}")
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; {hint}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{path} is no JSON: {hint}") from None
    try:
        if value["format"] != _FORMAT:
            raise ConfigError(f"{path} is of another version of kproxy: {hint}")
        return ObservedUsage(
            float(value["began"]),
            float(value["ended"]),
            tuple(RecordedClient.read(client) for client in value["clients"]),
            tuple(RecordedPartition.read(partition) for partition in value["partitions"]),
            tuple(_coverage(kproxy) for kproxy in value["kproxies"]),
            None if value["source"] is None else SourceChange.read(value["source"]),
        )
    except (AdminError, AttributeError, KeyError, TypeError, ValueError):
        raise ConfigError(f"{path} is not a file of 'kproxy migrate observe': {hint}") from None


def _coverage(value: Mapping[str, Any]) -> KproxyCoverage:
    return KproxyCoverage(
        str(value["name"]),
        float(value["began"]),
        float(value["ended"]),
        tuple((float(start), float(end)) for start, end in value["gaps"]),
        str(value["problem"]),
        {str(kind): int(count) for kind, count in value["left_out"].items()},
    )
