"""What is found in a text: the messages of the tables, with their lines, counted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from kproxy.advice.explain import codes, numbers
from kproxy.advice.explain.codes import KafkaErrorCode
from kproxy.advice.explain.context import is_foreign, is_likely, is_sure
from kproxy.advice.explain.facts import LineFacts, bootstrap_servers, facts_of
from kproxy.advice.explain.numbers import DecodedNumber
from kproxy.advice.explain.patterns import MessagePattern, patterns_by_word
from kproxy.advice.remedies import Fault, Program

# A stack trace is looked at so far; of different findings, so many are kept.
_RECORD_LINES = 150
_RECORD_BYTES = 64 * 1024
_MOST_FINDINGS = 500
_MOST_SERVERS = 20

_WORDS = bytes(c if c < 128 and (chr(c).isalnum() or c in b"_\n") else 32 for c in range(256))
_NUMBERED = frozenset((b"size", b"length", b"key", b"apiKey", b"apikey"))
# Beside the messages and the names of codes, by one of their words.
_OTHERS = {
    b"code": (b"rror code", b"RROR CODE"), b"errorCode": (b"errorCode",), b"error_code": (b"error_code",), b"Error": (b"[Error ",),
    b"key": (b"pi key", b"PI key"), b"apiKey": (b"apiKey",), b"servers": (b"ootstrap.servers",), b"bootstrap_servers": (b"bootstrap_servers",),
    b"server": (b"--bootstrap-server",), b"list": (b"--broker-list",), b"kcat": (b"kcat",), b"kafkacat": (b"kafkacat",),
}  # fmt: skip
# Loggers of brokers: they say some things in the same words as clients.
_BROKER = (
    "kafka.network.", "kafka.server.", "SocketServer", "KafkaServer", "[BrokerServer", "NodeToControllerChannelManager",
    "ReplicaFetcher", "RaftManager", "kafka.raft",
)  # fmt: skip
_EXCEPTION = re.compile(rb"[a-z]\w{0,30}(?:\.[\w$]{1,60}){1,10}(?:Exception|Error)\b")
_PREFIX = re.compile(rb"^[\w.-]{1,60} {1,20}\| ")  # docker compose


@dataclass(slots=True)
class MessageMatch:
    """A message and the lines where it is. `faults` has more than one if the words fit several causes."""

    faults: tuple[Fault, ...]
    pattern: MessagePattern | None
    code: KafkaErrorCode | None
    decoded: DecodedNumber | None
    facts: LineFacts
    first: int
    last: int
    count: int = 1
    broker: bool = False  # the words are a broker's, about its clients or about other brokers

    @property
    def program(self) -> Program | None:
        """Whose words they are."""
        return self.pattern.program if self.pattern else None

    @property
    def text(self) -> str:
        """The message as the tables have it: nothing of the line itself."""
        return self.pattern.text if self.pattern else self.code.name if self.code else ""


@dataclass(slots=True)
class SearchResult:
    """`bootstrap_servers` are those that the text names, with the first line of each."""

    matches: dict[tuple[object, ...], MessageMatch] = field(default_factory=dict)
    bootstrap_servers: dict[str, int] = field(default_factory=dict)
    lines: int = 0

    def add(self, finding: MessageMatch) -> None:
        """Count it; beyond the limit, without telling addresses apart."""
        key: tuple[object, ...] = (finding.faults, finding.text, finding.facts)
        if key not in self.matches and len(self.matches) >= _MOST_FINDINGS:
            key = (finding.faults,)
        seen = self.matches.setdefault(key, finding)
        if seen is not finding:
            seen.last, seen.count = finding.last, seen.count + 1


def search(blocks: Iterable[list[bytes]]) -> SearchResult:
    """Look through a text."""
    found = SearchResult()
    literals = _literals()
    interesting = frozenset(literals)
    record: list[tuple[int, bytes, bool]] = []
    size = 0
    for block in blocks:
        if not block:
            continue
        words = b"\n".join(block).translate(_WORDS).split(b"\n")
        for line, of_line in zip(block, words, strict=True):
            found.lines += 1
            if record and not _continues(line):
                _look(record, found)
                record, size = [], 0
            words_hit = interesting.intersection(of_line.split())
            hit = bool(words_hit) and any(literal in line for word in words_hit for literal in literals[word])
            if len(record) < _RECORD_LINES and size < _RECORD_BYTES:
                record.append((found.lines, line, hit))
                size += len(line)
            elif hit:
                _look(record, found)
                record, size = [(found.lines, line, hit)], len(line)
    _look(record, found)
    return found


@cache
def _literals() -> dict[bytes, tuple[bytes, ...]]:
    """For each word: what a line with it must have too, so that it is worth a closer look."""
    found: dict[bytes, set[bytes]] = {word: set(literals) for word, literals in _OTHERS.items()}
    for word, patterns in patterns_by_word().items():
        found.setdefault(word, set()).update(
            (one.parts[0] if one.has_frame else max(one.parts, key=len)).rstrip().encode() for one in patterns
        )
    for name in codes.codes_by_name():
        found.setdefault(name.encode(), set()).add(name.encode())
    return {word: tuple(literals) for word, literals in found.items()}


def _continues(line: bytes) -> bool:
    """Whether a line belongs to the one before it, as the lines of a stack trace do."""
    if b" | " in line[:64]:
        line = _PREFIX.sub(b"", line)
    if line[:1].islower() and _EXCEPTION.match(line):
        return True
    return line[:1] in (b" ", b"\t", b"}", b"") or line.startswith(
        (b"Caused by:", b"Suppressed:", b"Traceback (", b"During handling")
    )


def _look(record: list[tuple[int, bytes, bool]], found: SearchResult) -> None:
    """Find the messages of a record: a line, and those that continue it."""
    if not any(hit for _, _, hit in record):
        return
    whole = b"\n".join(line for _, line, _ in record).decode("utf-8", "replace")
    sure = is_sure(whole)
    likely = sure or is_likely(whole)
    broker = any(word in whole for word in _BROKER)
    foreign = is_foreign(whole.lower())
    if sure and foreign and not is_sure(whole.partition("\n")[2]):
        sure = likely = False  # an exception of another program after a line of Kafka's
    foreign = foreign and not sure
    for number, raw, hit in record:
        if not hit:
            continue
        line = raw.decode("utf-8", "replace")
        for server in bootstrap_servers(line) if likely or "bootstrap" in line else ():
            if len(found.bootstrap_servers) < _MOST_SERVERS:
                found.bootstrap_servers.setdefault(server, number)
        rest = whole if b"OutOfMemoryError" in raw else ""
        kafkas = likely or (foreign and is_sure(line))
        for finding in _of_line(line, raw, number, kafkas, foreign and not kafkas, broker, rest):
            finding.broker = broker
            found.add(finding)


def _of_line(
    line: str, raw: bytes, number: int, likely: bool, foreign: bool, broker: bool, rest: str
) -> Iterator[MessageMatch]:
    words = set(raw.translate(_WORDS).split())
    patterns = [
        pattern
        for word in words & patterns_by_word().keys()
        for pattern in patterns_by_word()[word]
        if (likely or (pattern.is_specific and not foreign)) and pattern.find(line, rest)
    ]
    best = max(
        patterns,
        key=lambda one: (
            broker and one.program is Program.BROKER,
            one.weight,
            broker is (one.program is Program.BROKER),
        ),
        default=None,
    )
    code = codes.find_code(line) if likely or _is_kafkas(line) else None
    if best is None and (code is None or foreign):
        decoded = numbers.decode(line) if likely and not words.isdisjoint(_NUMBERED) else None
        if decoded:
            yield MessageMatch((decoded.fault,), None, None, decoded, facts_of(line), number, number)
        return
    faults = best.faults if best else (code.fault,) if code and code.fault else ()
    decoded = None
    if Fault.FRAME_SIZE in faults or Fault.NOT_KAFKA in faults or not words.isdisjoint(_NUMBERED):
        decoded = numbers.decode(line)
        faults = (decoded.fault,) if decoded else faults
    yield MessageMatch(faults, best, code, decoded, facts_of(line), number, number)


def _is_kafkas(line: str) -> bool:
    """Whether a name of an error in a line is one that only Kafka has: several words, one of them Kafka's."""
    lower = line.lower().replace("_", "")
    return any(
        word in lower
        for word in ("partition", "leadernot", "notleader", "coordinator", "sasl", "replica", "rebalance", "producerid",
                     "producerepoch", "fencedinstance", "memberid", "topicauth", "groupauth", "clusterauth", "listenernotfound",
                     "topicalreadyexists", "offsetoutofrange", "brokernotavail", "notenoughreplicas")
    )  # fmt: skip
