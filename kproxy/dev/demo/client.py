"""The demo's real, unmodified client: librdkafka, through confluent-kafka.

It makes the same calls to the cluster directly, where they fail, and through kproxy.
"""

from __future__ import annotations

import logging
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition, libversion
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kproxy.base.errors import UpstreamError

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata

TOPIC = "demo"
GROUP = "demo"
PARTITIONS = 3
CLIENT = f"librdkafka {libversion()[0]}"

# librdkafka writes its errors to stderr unless a logger receives them; the demo shows some of them itself.
_silent = logging.Logger("librdkafka")
_silent.addHandler(logging.NullHandler())

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class DirectFailure:
    """The failure of a client without kproxy: the number of brokers that it learned of, and its messages."""

    brokers: int
    complaints: list[str]
    outcome: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """The result of producing."""

    one_by_one: float
    """Median seconds from one record to its acknowledgement."""
    rate: float
    """Records per second, sent all at once."""


@dataclass(frozen=True, slots=True)
class ConsumeResult:
    """The result of consuming: number of records, seconds until the first one, and records per second from there."""

    records: int
    joining: float
    rate: float


def fail_directly(bootstrap: str) -> DirectFailure | None:
    """Try to create the topic without kproxy; return None if that works, which would end the story."""
    errors: list[KafkaError] = []
    config: dict[str, Any] = {"bootstrap.servers": bootstrap, "error_cb": errors.append}
    client = AdminClient(config, logger=_silent)
    started = time.monotonic()
    try:
        brokers = len(client.list_topics(timeout=_TIMEOUT_S).brokers)
        _create(client, 3)
    except KafkaException as error:
        took = time.monotonic() - started
        client.poll(0)
        # librdkafka repeats its errors; one for each broker is enough.
        complaints: dict[str, str] = {}
        for error_event in errors:
            if error_event.code() == KafkaError._RESOLVE:
                broker, _, message = error_event.str().partition(": ")
                complaints.setdefault(broker, message.partition(" (after")[0])
        outcome = error.args[0].str()
        return DirectFailure(brokers, [complaints[broker] for broker in sorted(complaints)], outcome, took)
    return None


def create_topic(bootstrap: str, replicas: int) -> None:
    """Create the topic. Raises UpstreamError."""
    client = AdminClient({"bootstrap.servers": bootstrap}, logger=_silent)
    try:
        _create(client, int(_TIMEOUT_S), replicas)
    except KafkaException as error:
        raise _wrapped("the client could not create the topic", error) from None


def metadata(bootstrap: str) -> ClusterMetadata:
    """Return the metadata that `kcat -L` shows. Raises UpstreamError if no broker answers."""
    client = AdminClient({"bootstrap.servers": bootstrap}, logger=_silent)
    try:
        return client.list_topics(topic=TOPIC, timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise _wrapped("the client could not get metadata", error) from None


def produce(bootstrap: str, single: int, records: int) -> ProduceResult:
    """Produce `single` records one after another, then `records` more as fast as possible, all numbered from 0.

    The producer is idempotent, and all in-sync replicas acknowledge each record. Raises UpstreamError if one is not
    acknowledged.
    """
    config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all"}
    producer = Producer(config, logger=_silent)
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    def send(numbers: range) -> float:
        """Produce these numbers together, wait for all acknowledgements, and return the duration in seconds."""
        started = time.monotonic()
        for number in numbers:
            producer.produce(TOPIC, key=f"key-{number % 100}", value=str(number), on_delivery=delivered)
            producer.poll(0)
        while (left := producer.flush(0.2)) and time.monotonic() - started < _TIMEOUT_S:
            pass  # in short steps, so that Ctrl-C works
        if failed or left:
            why = failed[0].str() if failed else f"not acknowledged within {_TIMEOUT_S:.0f} s"
            raise UpstreamError("other", f"{len(failed) + left} of {len(numbers)} records were not delivered: {why}")
        return time.monotonic() - started

    median = statistics.median([send(range(number, number + 1)) for number in range(single)])
    return ProduceResult(one_by_one=median, rate=records / send(range(single, single + records)))


def consume(bootstrap: str, records: int) -> ConsumeResult:
    """Read the topic to its end as a group, and check that each number came exactly once."""
    config = {"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.partition.eof": True}
    consumer = Consumer({**config, "auto.offset.reset": "earliest"}, logger=_silent)
    seen: list[str] = []
    ended: set[int | None] = set()
    started = first = latest = last_received = time.monotonic()
    try:
        consumer.subscribe([TOPIC])
        while len(ended) < PARTITIONS:
            if time.monotonic() - last_received > _TIMEOUT_S:
                raise UpstreamError("timeout", f"the group received {len(seen)} of {records} records, then no more")
            for message in consumer.consume(1000, timeout=0.05):
                last_received = time.monotonic()
                error = message.error()
                if error is None:
                    first, latest = first if seen else last_received, last_received
                    seen.append((message.value() or b"").decode())
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise UpstreamError("other", f"the group could not read: {error.str()}")
        ends = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer.commit(offsets=consumer.position(ends), asynchronous=False)
    except KafkaException as error:
        raise _wrapped("the group could not read", error) from None
    finally:
        consumer.close()
    _check_exactly_once(seen, records)
    return ConsumeResult(len(seen), first - started, len(seen) / max(latest - first, 1e-3))


def _check_exactly_once(seen: list[str], records: int) -> None:
    missing, repeated = records - len(set(seen)), len(seen) - len(set(seen))
    if missing or repeated or set(seen) != {str(number) for number in range(records)}:
        raise UpstreamError("other", f"of {records} records, {missing} are missing and {repeated} arrived twice")


def _create(client: AdminClient, seconds: int, replicas: int = 1) -> None:
    topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=replicas)
    client.create_topics([topic], request_timeout=seconds)[TOPIC].result(seconds + 5)


def _wrapped(what: str, error: KafkaException) -> UpstreamError:
    return UpstreamError("other", f"{what}: {error.args[0].str()}")
