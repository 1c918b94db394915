"""Honest clients, each through one kproxy: a producer that loses and repeats nothing, a plain one, a reader."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from tests.soak.records import Account, named, record

_PACE = 0.025  # between two rounds of records, in seconds: a flow, not a load
_END_SECONDS = 60
_COMMON: Mapping[str, Any] = {
    "reconnect.backoff.max.ms": 1000,
    "socket.timeout.ms": 10_000,
    "socket.connection.setup.timeout.ms": 5_000,
    # When all brokers have failed, librdkafka 2.16 gives up those it has learned of and bootstraps again (#5600).
    # A consumer whose coordinator is one of them may then never read again: its main thread says nothing more.
    "metadata.recovery.strategy": "none",
    "log_level": 2,  # of what goes wrong on the way there is plenty, and the journal says why
}


class Worker:
    """A thread that repeats `_turn` until it is told to stop, or has a problem. Use it as a context manager."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_END_SECONDS)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._turn()
        except Exception as error:  # noqa: BLE001  # the thread's only way to say it
            self.problems.append(f"{self.name}: {error!r}")

    def _turn(self) -> None:
        raise NotImplementedError


class Sender(Worker):
    """Sends 0, 1, 2, … to each partition, idempotently, with acks=all; it never gives up."""

    def __init__(self, bootstrap: str, account: Account, client_id: str = "sender") -> None:
        super().__init__(f"producer of {account.topic}")
        self._account = account
        self._producer = Producer(
            {
                **_COMMON,
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "enable.idempotence": True,
                "acks": "all",
                # With several in flight, a broker's restart can end librdkafka's producer for good, also without any
                # proxy (librdkafka #3584, confluent-kafka-go #830). The Java producer has five in flight.
                "max.in.flight.requests.per.connection": 1,
                "message.timeout.ms": 0,
                "request.timeout.ms": 10_000,
                "linger.ms": 5,
                "error_cb": self._note,
            }
        )

    def finish(self, seconds: float) -> None:
        """Send no more, and wait until all is acknowledged."""
        self.stop()
        left = self._producer.flush(seconds)
        if left:
            self.problems.append(f"{self.name}: {left} records are not acknowledged {seconds:g} s after the last fault")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self._producer.purge()
        with contextlib.suppress(KafkaException):  # of a fatal error `problems` has told already
            self._producer.close()

    def _turn(self) -> None:
        account = self._account
        for partition in account.partitions:
            number = account.sent[partition]
            key, value = record(account.topic, partition, number)
            delivered = partial(self._delivered, partition, number)
            with contextlib.suppress(BufferError):  # it waits for the cluster
                self._producer.produce(account.topic, value, key, partition, on_delivery=delivered)
                account.sent[partition] += 1
        self._producer.poll(0)
        self._stop.wait(_PACE)

    def _delivered(self, partition: int, number: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._account.acknowledge(partition, number, message.offset())
        elif error.code() != KafkaError._PURGE_QUEUE and error.code() != KafkaError._PURGE_INFLIGHT:
            self.problems.append(f"{self.name}: record {number} of partition {partition} was not delivered: {error}")

    def _note(self, error: KafkaError) -> None:
        if error.fatal():
            self.problems.append(f"{self.name}: {error}")


class PlainSender(Worker):
    """Sends with acks=1 and without idempotence. It may lose and repeat records; but what arrives is what it sent."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(f"producer of {topic}")
        self.topic = topic
        self.partitions = partitions
        self._number = 0
        self._producer = Producer({**_COMMON, "bootstrap.servers": bootstrap, "acks": 1, "message.timeout.ms": 20_000})

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self._producer.close()

    def foreign(self, partition: int, key: bytes | None, value: bytes | None) -> str | None:
        """What is wrong with a record that is in its topic's partition; None if it was sent so."""
        parts = bytes(value or b"").partition(b":")[0].rpartition(b"/")[2]
        if parts.isdigit() and (key, value) == record(self.topic, partition, int(parts)):
            return None
        return f"{self.topic}, partition {partition}: nobody sent {named(value)}"

    def _turn(self) -> None:
        partition = self._number % self.partitions
        key, value = record(self.topic, partition, self._number)
        with contextlib.suppress(BufferError):
            self._producer.produce(self.topic, value, key, partition)
            self._number += 1
        self._producer.poll(0)
        self._stop.wait(_PACE)


class Reader(Worker):
    """A member of the group that reads all topics."""

    def __init__(
        self, bootstrap: str, group: str, name: str, accounts: Mapping[str, Account], client_id: str = "reader"
    ) -> None:
        super().__init__(f"consumer through {name}")
        self._accounts = accounts
        self._consumer = Consumer(
            {
                **_COMMON,
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "auto.commit.interval.ms": 1000,
            }
        )
        self._consumer.subscribe(list(accounts))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        # librdkafka's close may wait for ever, in the middle of a rebalance too (confluent-kafka-python #1667). Not
        # `unsubscribe` before it: that once held up all threads of this process, and so what it waited for.
        closing = threading.Thread(target=self._consumer.close, name=f"close of {self.name}", daemon=True)
        closing.start()
        closing.join(_END_SECONDS)
        if closing.is_alive() and error is None:
            raise AssertionError(f"librdkafka's close of the {self.name} has not returned after {_END_SECONDS:g} s")

    def _turn(self) -> None:
        for message in self._consumer.consume(500, timeout=0.1):
            error = message.error()
            if error is not None:
                if error.fatal():
                    raise KafkaException(error)
                continue
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            self._accounts[topic].consume(partition, offset, message.key(), message.value())


def flowing(accounts: Sequence[Account], records: int = 20, *, read: bool = True) -> Callable[[], bool]:
    """A question whose answer is yes once so many more records of each partition were acknowledged, and then read.

    Without `read`, nothing reads them.
    """
    before = [list(account.acknowledged) for account in accounts]

    def reached() -> bool:
        return all(
            account.acknowledged[p] >= first[p] + records and (not read or account.read[p] >= first[p] + records)
            for account, first in zip(accounts, before, strict=True)
            for p in account.partitions
        )

    return reached
