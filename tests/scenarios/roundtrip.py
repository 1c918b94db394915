"""A client that sends records and reads them back, as a program, for it must run where the client's network is.

    python -m tests.scenarios.roundtrip librdkafka|kafka-python BOOTSTRAP TOPIC WORD

Sends WORD-0, WORD-1, … to each partition in turn, reads as many of them, and ends with 0; or says what the client
said, and ends with 1. librdkafka gives up soon after the first error.
"""

# ruff: noqa: T201 (what it saw goes to stdout)

import logging
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

RECORDS = 60
PATIENCE_S = 30
GRACE_S = 1.2


class Refused(Exception):
    """The client cannot do it; in its own words."""


def main(client: str, bootstrap: str, topic: str, word: str) -> int:
    sent = [f"{word}-{number}".encode() for number in range(RECORDS)]
    try:
        read = {"librdkafka": librdkafka, "kafka-python": kafka_python}[client](bootstrap, topic, sent)
    except Refused as error:
        print(error)
        return 1
    print(len(read), "records")
    return sorted(read) != sorted(sent)


def librdkafka(bootstrap: str, topic: str, sent: list[bytes]) -> list[bytes]:
    errors: list[tuple[float, KafkaError]] = []
    common = {
        "bootstrap.servers": bootstrap,
        "error_cb": lambda error: errors.append((time.monotonic(), error)),
        "socket.connection.setup.timeout.ms": 1000,
    }

    def check() -> None:
        # That all are down may be said before it is said why, or why it is may only be logged on stderr.
        only_down = all(error.code() == KafkaError._ALL_BROKERS_DOWN for _, error in errors)
        if errors and (not only_down or time.monotonic() - errors[0][0] > GRACE_S):
            raise Refused("\n".join(error.str() for _, error in errors))

    def deliver(error: KafkaError | None, message: Message) -> None:
        delivered.append(message)
        errors.extend([(time.monotonic(), error)] if error else [])

    until = time.monotonic() + PATIENCE_S
    delivered: list[Message] = []
    producer = Producer(common)
    while True:
        try:
            count = len(producer.list_topics(topic, timeout=1).topics[topic].partitions)
            break
        except KafkaException:
            producer.poll(0)
            check()
    for number, value in enumerate(sent):
        producer.produce(topic, value, partition=number % count, on_delivery=deliver)
    while len(delivered) < len(sent) and time.monotonic() < until:
        producer.poll(0.1)
        check()
    consumer = Consumer({**common, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
    read: list[bytes] = []
    while len(read) < len(sent) and time.monotonic() < until:
        read += [value for message in consumer.consume(100, timeout=0.1) if (value := message.value()) in sent]
        check()
    consumer.close()
    return read


def kafka_python(bootstrap: str, topic: str, sent: list[bytes]) -> list[bytes]:
    from tests.harness.clients.kafka_python import KafkaConsumer, KafkaProducer, KafkaTimeoutError

    logging.basicConfig(stream=sys.stdout, level=logging.WARNING)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, max_block_ms=4000, delivery_timeout_ms=4000, request_timeout_ms=2000
    )
    try:
        for future in [producer.send(topic, value) for value in sent]:
            future.get(timeout=PATIENCE_S)
    except KafkaTimeoutError as error:
        raise Refused(str(error)) from None
    finally:
        producer.close(timeout=0)
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE_S * 1000
    )
    read: list[bytes] = []
    while len(read) < len(sent):
        value = next(consumer).value
        read += [value] if value in sent else []
    consumer.close()
    return read


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
