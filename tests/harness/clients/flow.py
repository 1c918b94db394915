"""Records that flow through kproxy while a test changes the cluster, and a check of all records at the end.

A flow sends numbered records, idempotently and with acks=all, and a consumer group reads them. At the end, every number
stands in the log exactly once, in order, and was consumed. A record may be *delivered* twice (a group promises at least
once after a rebalance), but then at the same offset; a record that stands in the log twice is a duplicate.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kproxy.dev.devcluster import Programs
from tests.harness.process import wait_until

# Between two rounds of records, in seconds: a flow, not a load.
_PACE = 0.004
_RECOVERY = 120.0  # bound for clients to find their way again


def create_topic(
    bootstrap: str, name: str, partitions: int = 3, assignment: list[list[int]] | None = None, **config: str
) -> None:
    """Create a topic; `assignment` has node ids for each partition, the first one leads."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if assignment is not None:
        topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment, config=config)
    else:
        topic = NewTopic(name, num_partitions=partitions, config=config)
    for done in admin.create_topics([topic], operation_timeout=30).values():
        done.result(60)


class Log:
    """The records that a consumer has read, by partition and offset."""

    def __init__(self) -> None:
        self.seen: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._highest: dict[int, int] = {}  # by partition
        self.problems: list[str] = []

    def add(self, partition: int, offset: int, number: int) -> None:
        seen = self.seen[partition]
        if offset in seen:
            if seen[offset] != number:
                self.problems.append(f"partition {partition}, offset {offset}: {seen[offset]}, then {number}")
        elif offset < (highest := self._highest.get(partition, -1)):
            self.problems.append(f"partition {partition}: offset {offset} came first after {highest}")
        seen[offset] = number
        self._highest[partition] = max(offset, self._highest.get(partition, -1))

    def numbers(self, partition: int) -> list[int]:
        """Return the records of a partition in the order of the log."""
        return [number for _, number in sorted(self.seen[partition].items())]

    @property
    def count(self) -> int:
        return sum(len(offsets) for offsets in self.seen.values())


class Flow:
    """librdkafka: a producer that sends 0, 1, 2, … to each partition, and a consumer in a group."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, **settings: Any) -> None:
        self.topic = topic
        self.log = Log()
        self.problems: list[str] = []
        self.acked = [0] * partitions
        self._sent = [0] * partitions
        self._stop_sending, self._stop_reading = threading.Event(), threading.Event()
        common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 1000, **settings}
        self._producer = Producer({**common, "enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 200_000})
        self._consumer = Consumer(
            {**common, "group.id": f"{topic}-readers", "auto.offset.reset": "earliest", "session.timeout.ms": 6000}
        )
        self._consumer.subscribe([topic])
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._send, self._read)]

    def __enter__(self) -> Flow:
        for thread in self._threads:
            thread.start()
        self.wait_flowing()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._stop_sending.set()
            self._stop_reading.set()
            for thread in self._threads:
                thread.join(60)
            self._producer.purge()
            self._consumer.close()

    def wait_flowing(self, records: int = 50) -> None:
        """Wait until so many more records of every partition have been acknowledged, and consumed."""
        acked, consumed = list(self.acked), [len(self.log.seen[p]) for p in range(len(self.acked))]

        def flowing() -> bool:
            return not self.problems and all(
                self.acked[p] >= acked[p] + records and len(self.log.seen[p]) >= consumed[p] + records
                for p in range(len(acked))
            )

        try:
            wait_until(flowing, "records flow on every partition", _RECOVERY)
        except AssertionError:
            now = [len(self.log.seen[p]) for p in range(len(acked))]
            raise AssertionError(
                f"no flow: acknowledged {acked} -> {self.acked}, consumed {consumed} -> {now}; {self.problems[:5]}"
            ) from None

    def _finish(self) -> None:
        """End the producer, read to the end, and compare."""
        self._stop_sending.set()
        self._threads[0].join(60)
        assert self._producer.flush(_RECOVERY) == 0, f"records without an answer; {self.problems[:5]}"
        wait_until(lambda: self.log.count >= sum(self._sent), "everything is consumed", _RECOVERY)
        assert not self.problems, self.problems[:5]
        assert not self.log.problems, self.log.problems[:5]
        assert self.acked == self._sent
        for partition, sent in enumerate(self._sent):
            numbers = self.log.numbers(partition)
            assert numbers == list(range(sent)), f"partition {partition}: {_difference(numbers, sent)}"

    def _send(self) -> None:
        while not self._stop_sending.wait(_PACE):
            for partition, number in enumerate(self._sent):
                try:
                    self._producer.produce(
                        self.topic, str(number).encode(), partition=partition, on_delivery=self._delivered
                    )
                except BufferError:
                    break
                except Exception as error:  # noqa: BLE001  # the thread's only way to say it
                    self.problems.append(f"produce: {error}")
                    return
                self._sent[partition] = number + 1
            self._producer.poll(0)

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.problems.append(f"not delivered: {error}")
            return
        partition = message.partition()
        assert partition is not None
        self.acked[partition] += 1

    def _read(self) -> None:
        while not self._stop_reading.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.fatal():
                    self.problems.append(f"consumer: {error}")
                continue
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert value is not None
            self.log.add(partition, offset, int(value))


class JavaFlow:
    """The Java clients: Kafka's console producer and console consumer, fed and read line by line."""

    _LINE = re.compile(r"Partition:(\d+)\tOffset:(\d+)\t(\d+)$")

    def __init__(
        self,
        programs: Programs,
        bootstrap: str,
        topic: str,
        directory: Path,
        *producer_properties: str,
        consumer_properties: Sequence[str] = (),
    ) -> None:
        self.log = Log()
        self._sent = 0
        self._stop = threading.Event()
        self._errors = directory / f"{topic}.java.err"
        properties = ["enable.idempotence=true", "delivery.timeout.ms=200000", *producer_properties]
        producer = programs.command(
            "kafka-console-producer", "--bootstrap-server", bootstrap, "--topic", topic,
            "--message-send-max-retries", "2147483647", "--request-timeout-ms", "15000", "--timeout", "5",
            "--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
            *(word for each in properties for word in ("--command-property", each)),
            heap="128m",
        )  # fmt: skip
        consumer = programs.command(
            "kafka-console-consumer", "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning",
            "--group", f"{topic}-java", "--formatter-property", "print.partition=true",
            "--formatter-property", "print.offset=true",
            *(word for each in consumer_properties for word in ("--command-property", each)), heap="128m",
        )  # fmt: skip
        with self._errors.open("ab") as errors:
            self._producer = subprocess.Popen(
                producer, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, text=True
            )
            self._consumer = subprocess.Popen(consumer, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._send, self._read)]

    def __enter__(self) -> JavaFlow:
        for thread in self._threads:
            thread.start()
        self.wait_flowing()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._stop.set()
            for process in (self._producer, self._consumer):
                if process.poll() is None:
                    process.kill()
            for thread in self._threads:
                thread.join(60)
            for process in (self._producer, self._consumer):
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        with contextlib.suppress(OSError):
                            stream.close()
                process.wait(30)

    def wait_flowing(self, records: int = 100) -> None:
        """Wait until so many records that are sent from now on have been consumed."""
        first = self._sent
        wait_until(
            lambda: sum(n >= first for seen in list(self.log.seen.values()) for n in list(seen.values())) >= records,
            f"records flow through the Java clients; they said {self._errors.read_text()[-1500:]}",
            _RECOVERY,
        )

    def _finish(self) -> None:
        self._stop.set()
        self._threads[0].join(60)
        assert self._producer.wait(_RECOVERY) == 0, self._errors.read_text()[-3000:]
        wait_until(
            lambda: self.log.count >= self._sent,
            f"everything is consumed; they said {self._errors.read_text()[-1500:]}",
            _RECOVERY,
        )
        assert not self.log.problems, self.log.problems[:5]
        numbers = [number for partition in self.log.seen for number in self.log.numbers(partition)]
        assert sorted(numbers) == list(range(self._sent)), _difference(numbers, self._sent)
        for partition in self.log.seen:
            in_log = self.log.numbers(partition)
            assert in_log == sorted(in_log), f"partition {partition} is out of order"

    def _send(self) -> None:
        stdin = self._producer.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # it has ended: its exit code will say so
            while not self._stop.wait(_PACE):
                stdin.write(f"{self._sent % 97}:{self._sent}\n")
                stdin.flush()
                self._sent += 1
            stdin.close()  # the producer sends what it has, and ends

    def _read(self) -> None:
        assert self._consumer.stdout is not None
        for line in self._consumer.stdout:
            match = self._LINE.match(line.rstrip("\n"))
            if match is None:
                self.log.problems.append(f"the console consumer said: {line!r}")
                continue
            partition, offset, number = map(int, match.groups())
            self.log.add(partition, offset, number)


def _difference(numbers: list[int], sent: int) -> str:
    missing = sorted(set(range(sent)) - set(numbers))
    twice = len(numbers) - len(set(numbers))
    return f"{len(numbers)} of {sent} records; missing {missing[:10]}, {twice} twice; or out of order"
