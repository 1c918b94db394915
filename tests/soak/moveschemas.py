"""Two schema registries in a move, and a producer whose records have the ids of their schemas."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import count

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.harness.migration.switched import BLUE, GREEN
from tests.harness.process import wait_until
from tests.harness.servers.schema_registry import SchemaRegistry
from tests.harness.topics import read_topic
from tests.soak.switchclients import PARTITIONS, PAUSE_MS
from tests.soak.switchjudged import Log, the_same, written

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # authlib's about itself
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

_PATIENCE = 240.0


class Registries:
    """Those of blue and green. Each would assign other ids."""

    def __init__(self) -> None:
        self._of = {BLUE: SchemaRegistry(300), GREEN: SchemaRegistry()}
        self._serving = ExitStack()

    def __enter__(self) -> Registries:
        for registry in self._of.values():
            self._serving.enter_context(registry.serving())
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.close()

    def url(self, side: str) -> str:
        return self._of[side].url

    def differences(self) -> Iterator[str]:
        """Yield the schemas that only one registry has."""
        ids = {
            side: {
                # AVRO is the type of a schema that names none.
                (subject, number, version.id, json.dumps({"schemaType": "AVRO", **version.schema}, sort_keys=True))
                for subject, each in registry.subjects.items()
                for number, version in each.versions.items()
            }
            for side, registry in self._of.items()
        }
        for side, other in ((BLUE, GREEN), (GREEN, BLUE)):
            if missing := ids[side] - ids[other]:
                yield f"schemas of {side} that {other} does not have: {sorted(missing)[:5]}"


class AvroWriter:
    """A thread with an idempotent producer, which registers its schema where it is led. `active`: the cluster."""

    def __init__(
        self, topic: str, properties: Mapping[str, str], registries: Registries, active: Callable[[], str]
    ) -> None:
        self._topic, self._registries, self._active = topic, registries, active
        self._properties = {**properties, "enable.idempotence": "true", "linger.ms": "5"}
        self._lines: list[str] = []
        self._version, self._registered = 1, 0
        self._ends = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="Avro", daemon=True)
        self._thread.start()
        self.records = 0

    def __enter__(self) -> AvroWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(60)

    def evolve(self) -> None:
        """Write with a new version of the schema from now on; return when its first record is acknowledged."""
        self._version += 1
        wait_until(lambda: self._failure or self._registered == self._version, "it is registered", _PATIENCE)
        self.wait_more()

    def wait_more(self) -> None:
        """Wait until a record is acknowledged that is sent from now on."""
        since = len(self._lines)
        wait_until(lambda: self._failure or len(self._lines) > since + 3, "records with schema ids", _PATIENCE)
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        self._ends.set()
        self._thread.join(_PATIENCE)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            numbers = count()
            while not self._ends.is_set():
                self._produce(numbers)
        except Exception as error:  # noqa: BLE001  # `wait_more` raises it
            self._failure = error

    def _produce(self, numbers: Iterator[int]) -> None:
        """Until the end, or an error that ends this producer."""
        fatal: list[KafkaError] = []
        # Without error_cb: confluent-kafka calls it while the exception of a fatal error is set, and it fails.
        producer = Producer(self._properties)
        context = SerializationContext(self._topic, MessageField.VALUE)
        while not self._ends.is_set() and not fatal:
            version = self._version
            with SchemaRegistryClient({"url": self._registries.url(self._active())}) as client:
                serializer = AvroSerializer(client, _schema(version))
                serializer({"id": 0}, context)
                self._registered = version
                while not self._ends.is_set() and not fatal and version == self._version:
                    number = next(numbers)
                    value = serializer({"id": number}, context)
                    note = self._note(number)
                    try:
                        producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=note)
                        producer.poll(0)
                    except KafkaException as error:  # docs/flip.md says when librdkafka ends so
                        fatal.append(error.args[0])
                    self._ends.wait(PAUSE_MS / 1000)
        if fatal:  # what it has not sent, it never will
            producer.purge()
        with suppress(KafkaException):
            producer.flush(10 if fatal else 60)

    def _note(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._lines.append(f"acked {number} {message.partition()} {message.offset()}")

        return note

    def judge(self, bootstraps: Mapping[str, str], active: str) -> Iterator[str]:
        """Yield errors in its records. Those of a cluster are read with the schemas of its registry."""
        logs = {side: self._read(bootstrap, side) for side, bootstrap in bootstraps.items()}
        self.records = sum(map(len, logs[active]))
        yield from the_same(logs, active)
        yield from written(self._lines, logs[active], exact=True)

    def _read(self, bootstrap: str, side: str) -> list[Log]:
        logs: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
        with SchemaRegistryClient({"url": self._registries.url(side)}) as client:
            read = AvroDeserializer(client)
            context = SerializationContext(self._topic, MessageField.VALUE)
            for message in read_topic(bootstrap, self._topic, PARTITIONS, **{"isolation.level": "read_committed"}):
                value = read(message.value(), context)
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                logs[partition].append((offset, value["id"]))
        return [sorted(log) for log in logs]


def _schema(version: int) -> str:
    more = [{"name": f"more{number}", "type": "string", "default": ""} for number in range(1, version)]
    return json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, *more]})
