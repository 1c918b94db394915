"""librdkafka as a client that continues during a switch; see `Going.java` for the arguments and the lines."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

ends = threading.Event()
at = [0]  # the number that a producer is at


def say(line: str) -> None:
    print(line, flush=True)


def wait_for_end() -> None:
    for _ in sys.stdin:
        say(f"sent {at[0]}")
    ends.set()


def insist(call: Callable[[], None]) -> None:
    """Repeat a call while librdkafka's error is retriable: its outcome is not known before."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def survived(producer: Producer, error: KafkaException, transaction: str) -> bool:
    """Abort the transaction that has failed, and return ""; print the end of the client if that is not possible."""
    try:
        if not transaction or error.args[0].fatal():
            raise error
        say(f"aborted {transaction} {error.args[0].name()}")
        insist(lambda: producer.abort_transaction(60))
    except KafkaException as final:
        say(f"died {final.args[0].name()}")
        return False
    return True


def produce(topic: str, partitions: int, pause: float, size: int, properties: dict[str, str]) -> None:
    fatal: list[object] = []
    begins = int(properties.pop("first.number", "0"))
    producer = Producer({**properties, "error_cb": lambda error: error.fatal() and fatal.append(error)})

    def report(number: int):
        def told(error, message) -> None:
            if error is None:
                say(f"acked {number} {message.partition()} {message.offset()}")
            else:
                say(f"failed {number} {error.name()}")

        return told

    if size:
        insist(lambda: producer.init_transactions(60))
    number = first = begins
    while not ends.is_set():
        at[0] = number
        try:
            if size and number == first:
                producer.begin_transaction()
            producer.produce(topic, str(number).encode(), partition=number % partitions, on_delivery=report(number))
            producer.poll(0)
            if size and number + 1 - first >= size:
                insist(lambda: producer.commit_transaction(60))
                say(f"committed {first} {number}")
                first = number + 1
        except KafkaException as error:
            if not survived(producer, error, f"{first} {number}" if size else ""):
                first = number  # nothing is left to abort
                break
            first = number + 1
        if fatal:
            say(f"fatal {fatal.pop()}")
        number += 1
        time.sleep(pause)
    if size and number != first:
        producer.abort_transaction(60)
    producer.flush(60)


def consume(topic: str, partition: int, offset: int, properties: dict[str, str]) -> None:
    consumer = Consumer(properties)
    if partition >= 0:
        consumer.assign([TopicPartition(topic, partition, offset)])
    else:

        def told(word: str):
            return lambda _, found: say(" ".join([word, *sorted(str(one.partition) for one in found)]))

        consumer.subscribe([topic], on_assign=told("assigned"), on_revoke=told("revoked"), on_lost=told("lost"))
    while not ends.is_set():
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is not None:
            say(f"error {message.error().name()} {message.error().fatal()}")
            if message.error().fatal():
                break
            continue
        say(f"got {message.partition()} {message.offset()} {message.value().decode()}")
    consumer.close()


def main() -> None:
    threading.Thread(target=wait_for_end, daemon=True).start()
    kind, topic, *more = sys.argv[1:]
    fixed = {"produce": 2, "transact": 3, "consume": 0, "seek": 2}[kind]
    numbers = [int(one) for one in more[:fixed]]
    properties = dict(pair.split("=", 1) for pair in more[fixed:])
    if kind == "produce":
        produce(topic, numbers[0], numbers[1] / 1000, 0, properties)
    elif kind == "transact":
        produce(topic, numbers[0], numbers[1] / 1000, numbers[2], properties)
    elif kind == "consume":
        consume(topic, -1, -1, properties)
    else:
        consume(topic, numbers[0], numbers[1], properties)
    say("ended")


main()
