"""What is said of a cause."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kproxy.remedies.faults import Fault


class Program(Enum):
    """Whose words a message is in."""

    JAVA = "Java"  # the Java client and what uses it: Kafka's tools, Flink, Connect
    SPARK = "Spark"
    LIBRDKAFKA = "librdkafka"  # kcat, confluent-kafka, Go, .NET, Node.js on top of it
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"
    KAFKAJS = "kafkajs"
    FRANZ_GO = "franz-go"
    SARAMA = "Sarama"
    BROKER = "the broker's log"
    KPROXY = "kproxy"


@dataclass(frozen=True, slots=True)
class Message:
    """What a program says when a fault is met. In `text`, `…` stands for text that varies."""

    program: Program
    text: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """What is said of a fault, in whole sentences. `cause`: why it is so. `check`: how the user sees that it is this.
    `fix`: what to do. `messages`: what programs say, the most telling first."""

    fault: Fault
    cause: str
    check: str
    fix: str
    messages: tuple[Message, ...]
