"""The observation of a kproxy: begins and ends the reading of requests, and writes the record as lines of JSON.

`POST /observation` names an observer and for how long it observes; `GET /observation` has the record. docs/admin.md
describes both.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from itertools import islice
from math import ceil
from time import perf_counter, time
from typing import Any
from uuid import uuid4

from kproxy.base.printable import one_line
from kproxy.proxy.observation.record import (
    ClientUsage,
    NameUsage,
    PartitionKey,
    PartitionUsage,
    Topic,
    UsageRecord,
)
from kproxy.proxy.observation.sessionreader import SessionReader
from kproxy.proxy.relay.observer import ObserverStart
from kproxy.proxy.watch.feed import SessionLabels

LONGEST_OBSERVATION = 7 * 24 * 3600
MOST_OBSERVERS = 8
_LONGEST_OBSERVER = 100
# Names of a client, or producers of a partition, in one line; and lines that are written before others may run: about a
# millisecond. The data plane shares this thread.
_NAMES_IN_LINE, _LINES_AT_ONCE = 50, 20

ReadLabels = Callable[[], SessionLabels]
NewReader = Callable[[ReadLabels, ObserverStart], SessionReader]


class Observation:
    """The observation of all sessions of this process.

    `read_requests` is called with the function that makes the reader of a session when the first observer comes, and
    with None when the last one has ended.
    """

    def __init__(self, read_requests: Callable[[NewReader | None], None]) -> None:
        self._read_requests = read_requests
        self._observers: dict[str, float] = {}  # until when each observes
        self._record: UsageRecord | None = None
        self._record_id = ""  # of this record, and of no other

    def command(self, body: object) -> bytes:
        """Execute the command of an observer, and return the JSON of what applies then.

        `{"observer": NAME, "seconds": N}`: observe from now for N seconds; 0: end. Raises ValueError with what is
        allowed.
        """
        observer, seconds = _parse_command(body)
        self._end_observers()
        if not seconds:
            self._observers.pop(observer, None)
        elif observer not in self._observers and len(self._observers) >= MOST_OBSERVERS:
            raise ValueError(f"{MOST_OBSERVERS} observers observe already; allowed: that one of them ends")
        else:
            until = self._observers[observer] = perf_counter() + seconds
            asyncio.get_running_loop().call_at(_loop_time(until), self._end_observers)
        self._apply()
        return json.dumps(self._head()).encode()

    def _end_observers(self) -> None:
        now = perf_counter()
        self._observers = {name: until for name, until in self._observers.items() if until > now}
        self._apply()

    def _apply(self) -> None:
        """Read requests if there is an observer, and only then."""
        if self._observers and self._record is None:
            record = self._record = UsageRecord(perf_counter())
            self._record_id = uuid4().hex
            self._read_requests(lambda read_labels, start: SessionReader(record, read_labels, start))
        elif not self._observers and self._record is not None:
            self._record = None
            self._read_requests(None)

    def _head(self) -> dict[str, Any]:
        record = self._record
        return {
            "record": None if record is None else self._record_id,
            "since": None if record is None else _unix(record.since),
            "observers": {name: _unix(until) for name, until in self._observers.items()},
            "left_out": {} if record is None else dict(record.left_out),
            "clients": 0 if record is None else len(record.clients),
        }

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the record as lines of JSON: the head, clients, partitions, and a line that says that it is the end."""
        record = self._record
        head = self._head()
        count = 0
        lines = _lines(record) if record is not None else iter(())
        yield _line({"observation": head})
        while some := [_line(line) for line in islice(lines, _LINES_AT_ONCE)]:
            yield b"".join(some)
            count += len(some)
            await asyncio.sleep(0)
        yield _line({"end": count})


def _parse_command(body: object) -> tuple[str, int]:
    allowed = f'allowed: {{"observer": NAME, "seconds": 0 to {LONGEST_OBSERVATION}}}'
    if not isinstance(body, dict) or body.keys() != {"observer", "seconds"}:
        raise ValueError(allowed)
    observer, seconds = body["observer"], body["seconds"]
    if not isinstance(observer, str) or not 0 < len(observer) <= _LONGEST_OBSERVER:
        raise ValueError(f"observer: allowed are 1 to {_LONGEST_OBSERVER} characters")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_OBSERVATION:
        raise ValueError(allowed)
    return one_line(observer, _LONGEST_OBSERVER), ceil(seconds)


def _lines(record: UsageRecord) -> Iterator[Mapping[str, Any]]:
    """Yield the lines of a record, which may change meanwhile. Long ones are cut into several."""
    for key, client in list(record.clients.items()):
        head = {**key._asdict(), "first": _unix(client.first), "last": _unix(client.last)}
        for uses in _several(_uses(client)):
            yield {"client": {**head, "uses": uses}}
    for place, partition in list(record.partitions.items()):
        yield from _partition_lines(place, partition)


def _several(values: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield these values, some at a time and none before it is wanted; an empty list if there are none."""
    left = iter(values)
    yield list(islice(left, _NAMES_IN_LINE))
    while some := list(islice(left, _NAMES_IN_LINE)):
        yield some


def _uses(client: ClientUsage) -> Iterator[Mapping[str, Any]]:
    for (use, topic), usage in list(client.topics.items()):
        yield {"use": use, **_topic(topic), **_usage(usage)}
    for (use, name), usage in list(client.names.items()):
        yield {"use": use, "name": name, **_usage(usage)}
    for (transaction, use, of), usage in list(client.transactions.items()):
        named = _topic(of) if isinstance(of, Topic) else {"name": of}
        yield {"use": use, "transaction": transaction, **named, **_usage(usage)}


def _partition_lines(place: PartitionKey, partition: PartitionUsage) -> Iterator[Mapping[str, Any]]:
    producers = (
        {"id": number, "epoch": producer.epoch, "offsets": producer.offsets, "last": _unix(producer.last)}
        for number, producer in list(partition.producers.items())
    )
    for some in _several(producers):
        yield {
            "partition": {
                "cluster": place.cluster,
                "upstream": place.upstream,
                **_topic(place.topic),
                "partition": place.partition,
                "offsets": partition.offsets,
                "unsized": partition.unsized,
                "last": _unix(partition.last),
                "producers": some,
            }
        }


def _topic(topic: Topic) -> Mapping[str, str]:
    """Return a topic as it is named; an id as Kafka writes it."""
    return {"topic_id": base64.urlsafe_b64encode(topic.id).decode().rstrip("=")} if topic.id else {"topic": topic.name}


def _usage(usage: NameUsage) -> Mapping[str, Any]:
    return {"requests": usage.requests, "last": _unix(usage.last)}


def _unix(at: float) -> float:
    return round(time() - (perf_counter() - at), 3)


def _loop_time(at: float) -> float:
    return asyncio.get_running_loop().time() + (at - perf_counter())


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
