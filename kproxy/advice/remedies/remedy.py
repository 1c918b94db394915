"""The remedy of a fault, and the messages that programs print for it."""

from __future__ import annotations

import re
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
    """A message that a program prints for a fault.

    In `text`, `…` stands for text that varies. If `text` ends with a colon, nothing follows.
    """

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


_LABELS = {"Check": "check", "Fix": "fix", "Clients": "behaviour"}
_MESSAGE = re.compile(r"([a-z-]+)(\??)> (.+)")


def parse_remedies(text: str) -> tuple[Remedy, ...]:
    """Return the remedies of a table.

    Each begins with `== fault: title`. The cause follows, and the paragraphs `Check:`, `Fix:` and `Clients:` (the
    behaviour). A line `program> message` is a message; `program?>` if programs that have nothing to do with Kafka print
    it too.
    """
    return tuple(_parse_remedy(remedy) for remedy in text.split("\n== ")[1:])


def _parse_remedy(text: str) -> Remedy:
    head, *lines = text.strip().split("\n")
    fault, _, title = head.partition(": ")
    messages: list[ProgramMessage] = []
    paragraphs = {"cause": ""}
    name = "cause"
    for line in lines:
        if match := _MESSAGE.fullmatch(line):
            messages.append(ProgramMessage(Program[match[1].upper().replace("-", "_")], match[3], bool(match[2])))
            continue
        label, _, rest = line.partition(": ")
        if label in _LABELS:
            name, line = _LABELS[label], rest
        paragraphs[name] = f"{paragraphs.get(name, '')} {line}".strip()
    return Remedy(Fault(fault), title, messages=tuple(messages), **paragraphs)
