"""The remedy of a fault, and the messages that programs print for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
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
    KAFKA_GO = "kafka-go"
    KAFKA_NODE = "kafka-node"
    RUBY_KAFKA = "ruby-kafka"
    RSKAFKA = "rskafka"
    CONNECT = "Connect"  # Connect, Debezium, MirrorMaker
    SCHEMA_REGISTRY = "Schema Registry"
    BEATS = "Beats"
    TOOLS = "Kafka's tools"
    PROXY = "other proxies"
    ANY = "any program"  # the words of the operating system, a language or a TLS library
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
    alone: bool = False
    """True if only Kafka and its clients use these words, so that they need no other sign of Kafka."""
    conditional: bool = False
    """True if they are explained without any sign of Kafka, under the condition that a client has printed them."""
    note: str = ""
    """Whole sentences that hold for this message only: what it means, and what to do."""
    rank: int = 0
    """The place of this fault among those that the message fits, the likeliest first."""


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
_MESSAGE = re.compile(r"([a-z-]+)([?*!]?)> (.+)")
_NOTE = "Note:"


def parse_remedies(text: str) -> tuple[Remedy, ...]:
    """Return the remedies of a table.

    Each begins with `== fault: title`. The cause follows, and the paragraphs `Check:`, `Fix:` and `Clients:` (the
    behaviour). A line `program> message` is a message; `program?> message` if programs that have nothing to do with
    Kafka print it too; `program*> message` if such a message is also explained alone, under the condition that a client has
    printed it; `program!> message` if its words alone show Kafka. A paragraph `Note:` holds for the messages after it, up to the next one, which may be
    empty.
    """
    return tuple(_parse_remedy(remedy) for remedy in text.split("\n== ")[1:])


def parse_messages(text: str) -> dict[Fault, tuple[ProgramMessage, ...]]:
    """Return more messages of faults that have their remedies elsewhere.

    A line `== fault fault …` begins the messages that fit each of these faults, the likeliest first.
    """
    by_fault: dict[Fault, tuple[ProgramMessage, ...]] = {}
    for section in text.split("\n== ")[1:]:
        head, *lines = section.strip().split("\n")
        rest, messages = _parse_messages(lines)
        if rest:
            raise ValueError(f"no message: {rest[0]}")
        for rank, fault in enumerate(map(Fault, head.split())):
            by_fault[fault] = by_fault.get(fault, ()) + tuple(replace(message, rank=rank) for message in messages)
    return by_fault


def _parse_remedy(text: str) -> Remedy:
    head, *lines = text.strip().split("\n")
    fault, _, title = head.partition(": ")
    lines, messages = _parse_messages(lines)
    paragraphs = {"cause": ""}
    name = "cause"
    for line in lines:
        label, _, rest = line.partition(": ")
        if label in _LABELS:
            name, line = _LABELS[label], rest
        paragraphs[name] = f"{paragraphs.get(name, '')} {line}".strip()
    return Remedy(Fault(fault), title, messages=messages, **paragraphs)


def _parse_messages(lines: list[str]) -> tuple[list[str], tuple[ProgramMessage, ...]]:
    """Return the lines that are no messages, and the messages with their notes."""
    rest: list[str] = []
    messages: list[ProgramMessage] = []
    note, in_note = "", False
    for line in lines:
        if match := _MESSAGE.fullmatch(line):
            program = Program[match[1].upper().replace("-", "_")]
            messages.append(
                ProgramMessage(program, match[3], match[2] in ("?", "*"), match[2] == "!", match[2] == "*", note)
            )
            in_note = False
        elif line.startswith(_NOTE):
            note, in_note = line.removeprefix(_NOTE).strip(), line != _NOTE
        elif in_note:
            note = f"{note} {line}"
        elif line:
            rest.append(line)
    return rest, tuple(messages)
