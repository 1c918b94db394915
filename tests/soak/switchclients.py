"""The clients of the soak of switches, each at one of three kproxies.

Each producer has a topic of its own, and each consumer reads the topic of a producer that promises to keep the order.
A client that has ended, which some may (`docs/flip.md`), is begun again: its records go on with the next number.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kproxy.dev.devcluster.tools import Programs
from tests.harness.clients.going import Going, java, python
from tests.harness.migration.flipseen import seen
from tests.harness.process import wait_until
from tests.matrix.languages import Go

PARTITIONS = int(os.environ.get("SWITCHES_PARTITIONS", "2"))
PAUSE_MS = 100
SIZE = 5
"""Records of a transaction."""
_PATIENCE = 240.0


@dataclass(frozen=True, eq=False)
class Kind:
    """A client: at which kproxy, its program, what it does, its properties; `reads`: the producer whose topic; `wave`:
    the wave of the migration with which it is moved, if not with all others."""

    name: str
    at: int
    program: str
    does: str
    properties: Mapping[str, str] = field(default_factory=dict)
    reads: str = ""
    wave: str = ""

    @property
    def exact(self) -> bool:
        """Whether the client itself promises that nothing is doubled and that the order is kept."""
        return "plain" not in self.name

    @property
    def shares(self) -> bool:
        """Whether it is in a share group, in which a record may come again, and in any order."""
        return self.does == "share"

    @property
    def topic(self) -> str:
        return "soak-" + _plain(self.reads or self.name)

    @property
    def id(self) -> str:
        """Of the client, and of its group."""
        return _plain(self.name)


def _plain(name: str) -> str:
    return name.replace(",", "").replace(" ", "-")


_GROUP = {"auto.offset.reset": "earliest", "auto.commit.interval.ms": "500"}
CLASSIC = {**_GROUP, "session.timeout.ms": "6000"}
KIP_848 = {**_GROUP, "group.protocol": "consumer"}
COMMITTED = {"isolation.level": "read_committed"}
_STICKY = {"partition.assignment.strategy": "cooperative-sticky"}
# It has waited without an end, twice in hundreds of rounds. Its log shows for what, if it does so again.
_TOLD = "eos,protocol,broker"
# As docs/flip.md advises: else it fails records when a broker is away.
_FRANZ = {"always.retry.eof": "true"}
JAVA_STICKY = {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"}

ALL = (
    Kind("java producer, idempotent", 0, "java", "produce", {"enable.idempotence": "true"}),
    Kind("java producer, plain", 1, "java", "produce", {"enable.idempotence": "false", "acks": "all"}),
    Kind("java producer, transactional", 2, "java", "transact", {"transactional.id": "soak-java"}),
    Kind("librdkafka producer, idempotent", 1, "confluent", "produce", {"enable.idempotence": "true"}),
    Kind("librdkafka producer, plain", 2, "confluent", "produce", {"acks": "all"}),
    Kind(
        "librdkafka producer, transactional", 0, "confluent", "transact",
        {"transactional.id": "soak-librdkafka", "debug": _TOLD},
    ),
    Kind("kafka-python producer, plain", 0, "kafka_python", "produce", {"acks": "-1", "enable.idempotence": "false"}),
    Kind("java consumer, classic", 0, "java", "consume", CLASSIC, "java producer, idempotent"),
    Kind("java consumer, cooperative", 1, "java", "consume", CLASSIC | JAVA_STICKY, "java producer, idempotent"),
    Kind("java consumer, KIP-848", 2, "java", "consume", KIP_848 | COMMITTED, "java producer, transactional"),
    Kind("librdkafka consumer, classic", 0, "confluent", "consume", CLASSIC, "librdkafka producer, idempotent"),
    Kind(
        "librdkafka consumer, cooperative", 1, "confluent", "consume", CLASSIC | COMMITTED | _STICKY,
        "librdkafka producer, transactional",
    ),
    Kind("librdkafka consumer, KIP-848", 2, "confluent", "consume", KIP_848, "librdkafka producer, idempotent"),
    Kind("franz-go producer, idempotent", 0, "franz", "produce", _FRANZ),
    Kind("franz-go producer, transactional", 1, "franz", "transact", {**_FRANZ, "transactional.id": "soak-franz"}),
    Kind("franz-go consumer, cooperative", 2, "franz", "consume", _FRANZ, "franz-go producer, idempotent"),
    Kind(
        "franz-go consumer of transactions", 0, "franz", "consume", _FRANZ | COMMITTED,
        "franz-go producer, transactional",
    ),
    Kind("java share consumer", 1, "java", "share", {}, "java producer, idempotent"),
    Kind("kafka-python consumer, classic", 2, "kafka_python", "consume", CLASSIC, "java producer, idempotent"),
)  # fmt: skip
_WANTED = os.environ.get("SWITCHES_LIBRARIES", "java,confluent,kafka_python,franz").split(",")
KINDS = tuple(
    kind
    for kind in ALL
    if kind.program in _WANTED and all(one.program in _WANTED for one in ALL if one.name == kind.reads)
)


class Client:
    """One that is begun again when it has ended; `lines` is what all of them have said."""

    def __init__(self, kind: Kind, programs: Programs, bootstrap: str, directory: Path, *, committed: bool) -> None:
        self._committed = COMMITTED if committed and not kind.shares else {}
        self.kind, self._programs, self._bootstrap, self._directory = kind, programs, bootstrap, directory
        self.lines: list[str] = []
        self.begun = 0
        self._said = 0  # of the lines of the process, how many are taken over
        self._going = self._begin(0)

    def _begin(self, first: int) -> Going:
        kind, self.begun, self._said = self.kind, self.begun + 1, 0
        arguments, properties = [kind.does, kind.topic], {"bootstrap.servers": self._bootstrap, "client.id": kind.id}
        if kind.reads:
            properties |= {**kind.properties, **self._committed, "group.id": kind.id}
        else:
            arguments += [str(PARTITIONS), str(PAUSE_MS), *([str(SIZE)] if kind.does == "transact" else [])]
            properties |= {**kind.properties, "first.number": str(first)}
        log = self._directory / f"{kind.id}-{self.begun}.log"
        if kind.program == "java":
            return java(self._programs, arguments, properties, log)
        if kind.program == "franz":
            pairs = (f"{name}={value}" for name, value in properties.items())
            return Going([*Go("franz-go", "", program="going_franz").command(), *arguments, *pairs], log)
        return python(kind.program, arguments, properties, log)

    def look(self) -> None:
        """Take over what it has said. If it has ended, begin it again."""
        ended = self._going.process.poll() is not None
        if ended:
            self._going.__exit__()
        new = self._going.lines[self._said :]
        self._said += len(new)
        self.lines += new
        if ended:
            self.lines.append("begun again")
            self._going = self._begin(self._next())

    def _next(self) -> int:
        """No number that it has used so far, nor one that it may have: what it sent last, it need not have said."""
        known = [int(line.split(" ")[1]) for line in self.lines if line.split(" ")[0] in ("acked", "failed", "sent")]
        return max(known, default=0) + 10_000

    def said(self, word: str) -> list[list[str]]:
        return [line.split(" ")[1:] for line in self.lines if line.split(" ", 1)[0] == word]

    def mark(self) -> None:
        """Let a producer say which number it is at."""
        with suppress(OSError):  # it has just ended
            assert self._going.process.stdin is not None
            self._going.process.stdin.write("mark\n")
            self._going.process.stdin.flush()

    def end(self) -> None:
        self._going.end()
        self.lines += self._going.lines[self._said :]
        self._said = len(self._going.lines)

    def close(self) -> None:
        self._going.__exit__()

    def seen(self) -> Counter[str]:
        """What it said besides that all is well."""
        return seen(self.lines)


class Clients:
    """All of them, one of each of `kinds`. `bootstraps`: those of the kproxies. `committed`: all consumers read
    committed records only."""

    def __init__(
        self, kinds: Sequence[Kind], programs: Programs, bootstraps: Sequence[str], directory: Path, *, committed: bool
    ) -> None:
        self.producers = [kind for kind in kinds if not kind.reads]
        self.consumers = [kind for kind in kinds if kind.reads]
        self.all = {kind: Client(kind, programs, bootstraps[kind.at], directory, committed=committed) for kind in kinds}

    def producer(self, name: str) -> Kind:
        """Return the producer with this name."""
        (found,) = (kind for kind in self.producers if kind.name == name)
        return found

    def close(self) -> None:
        for one in self.all.values():
            one.close()

    def look(self) -> None:
        for one in self.all.values():
            one.look()

    def wait_flowing(self) -> None:
        """Each producer has the answer to all that it had sent by now, and each consumer has got a record that was
        sent later."""
        marks = {}
        for kind in self.producers:
            one = self.all[kind]
            one.look()
            marks[kind] = len(one.lines)
            one.mark()
        for kind in self.producers:
            wait_until(lambda kind=kind: self._has_answers(kind, marks[kind]), f"{kind.name} goes on", _PATIENCE)
        for kind in self.consumers:
            number = max(int(words[0]) for words in self.all[self.producer(kind.reads)].said("acked"))
            what = f"{kind.name} gets {number} or a later one"
            wait_until(lambda kind=kind, number=number: self._has_got(kind, number), what, _PATIENCE)

    def _has_answers(self, kind: Kind, since: int) -> bool:
        one = self.all[kind]
        one.look()
        new = [line.split(" ") for line in one.lines[since:]]
        if ["begun", "again"] in new:  # what was sent before is lost with the process
            return any(words[0] == "acked" for words in new[new.index(["begun", "again"]) :])
        sent = [int(words[1]) for words in new if words[0] == "sent"]
        return bool(sent) and any(words[0] == "acked" and int(words[1]) > sent[0] for words in new)

    def _has_got(self, kind: Kind, number: int) -> bool:
        self.all[kind].look()
        return any(int(words[2]) >= number for words in self.all[kind].said("got")[-200:])

    def marks(self) -> dict[Kind, int]:
        """How many lines each consumer has said."""
        self.look()
        return {kind: len(self.all[kind].lines) for kind in self.consumers}

    def end_producers(self) -> None:
        for kind in self.producers:
            self.all[kind].end()
