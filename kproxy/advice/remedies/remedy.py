"""What is said of a cause."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kproxy.advice.remedies.faults import Fault


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
class ProgramMessage:
    """What a program says when a fault is met. In `text`, `…` stands for text that varies.

    `shared`: programs that have nothing to do with Kafka say this too. Alone it proves nothing.
    """

    program: Program
    text: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Remedy:
    """What is said of a fault, in whole sentences. `title`: the fault in a few words. `cause`: why it is so.
    `check`: how the user sees that it is this. `fix`: what to do. `messages`: what programs say, the most telling
    first. `unsaid`: what clients do where most of them say nothing. Commands and settings in the texts stand between backticks."""

    fault: Fault
    title: str
    cause: str
    check: str
    fix: str
    messages: tuple[ProgramMessage, ...]
    behaviour: str = ""


class SharedText(str):
    """A text for `said` that other programs say too."""

    __slots__ = ()


def program_messages(**texts: tuple[str, ...]) -> tuple[ProgramMessage, ...]:
    """The messages of a table, by the names of `Program` in lower case."""
    return tuple(
        ProgramMessage(Program[name.upper()], str(text), isinstance(text, SharedText))
        for name, group in texts.items()
        for text in group
    )
