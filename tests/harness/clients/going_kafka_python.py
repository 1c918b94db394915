"""kafka-python as a client that continues during a switch; see `Going.java` for the arguments and the lines."""

from __future__ import annotations

import sys
import threading
import time

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition

ends = threading.Event()
at = [0]  # the number that a producer is at


def say(line: str) -> None:
    print(line, flush=True)


def wait_for_end() -> None:
    for _ in sys.stdin:
        say(f"sent {at[0]}")
    ends.set()


def typed(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def produce(topic: str, partitions: int, pause: float, properties: dict[str, object]) -> None:
    number = int(properties.pop("first_number", 0))
    producer = KafkaProducer(**properties)
    while not ends.is_set():
        at[0] = number
        sent = producer.send(topic, str(number).encode(), partition=number % partitions)
        sent.add_callback(lambda there, number=number: say(f"acked {number} {there.partition} {there.offset}"))
        sent.add_errback(lambda error, number=number: say(f"failed {number} {type(error).__name__}"))
        number += 1
        time.sleep(pause)
    producer.flush(60)
    producer.close()


class Told(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned) -> None:
        say(" ".join(["assigned", *sorted(str(one.partition) for one in assigned)]))

    def on_partitions_revoked(self, revoked) -> None:
        say(" ".join(["revoked", *sorted(str(one.partition) for one in revoked)]))


def consume(topic: str, partition: int, offset: int, properties: dict[str, object]) -> None:
    consumer = KafkaConsumer(**properties)
    if partition >= 0:
        consumer.assign([TopicPartition(topic, partition)])
        consumer.seek(TopicPartition(topic, partition), offset)
    else:
        consumer.subscribe([topic], listener=Told())
    while not ends.is_set():
        for records in consumer.poll(timeout_ms=200).values():
            for record in records:
                say(f"got {record.partition} {record.offset} {record.value.decode()}")
    consumer.close()


def main() -> None:
    threading.Thread(target=wait_for_end, daemon=True).start()
    kind, topic, *more = sys.argv[1:]
    fixed = {"produce": 2, "consume": 0, "seek": 2}[kind]
    numbers = [int(one) for one in more[:fixed]]
    properties = {name.replace(".", "_"): typed(value) for name, value in (pair.split("=", 1) for pair in more[fixed:])}
    if kind == "produce":
        produce(topic, numbers[0], numbers[1] / 1000, properties)
    elif kind == "consume":
        consume(topic, -1, -1, properties)
    else:
        consume(topic, numbers[0], numbers[1], properties)
    say("ended")


main()
