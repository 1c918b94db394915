"""The remedy of a fault, and the messages that programs print for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kproxy.base.faults import Fault


class Program(Enum):
    """The program that prints a message."""

    JAVA = "Java"  # the Java client and programs that use it: Kafka's tools, Flink, Connect
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
    """A message that a program prints for a fault. In `text`, `…` stands for text that varies."""

    program: Program
    text: str
    shared: bool = False
    """True if programs that have nothing to do with Kafka print it too. Alone it proves nothing."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """The explanation of a fault and its fix, in whole sentences.

    Commands and settings in the texts stand between backticks.
    """

    fault: Fault
    title: str
    """The fault in a few words."""
    cause: str
    check: str
    """The check by which the user recognises this fault."""
    fix: str
    messages: tuple[ProgramMessage, ...]
    """The messages that programs print, the most specific first."""
    behaviour: str = ""
    """The behaviour of clients, where most of them print no message."""


class SharedText(str):
    """A text for `program_messages` that other programs print too."""

    __slots__ = ()


def program_messages(**texts: tuple[str, ...]) -> tuple[ProgramMessage, ...]:
    """Return the messages of a table, given by the names of `Program` in lower case."""
    return tuple(
        ProgramMessage(Program[name.upper()], str(text), isinstance(text, SharedText))
        for name, group in texts.items()
        for text in group
    )
