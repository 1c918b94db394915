"""The messages of the tables that a text contains, with their lines, counted (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from kproxy.advice.explain import codes, numbers
from kproxy.advice.explain.codes import KafkaErrorCode
from kproxy.advice.explain.facts import LineFacts, bootstrap_servers, facts_of
from kproxy.advice.explain.numbers import DecodedNumber
from kproxy.advice.explain.patterns import MessagePattern, patterns_by_word
from kproxy.advice.explain.subject import (
    names_client_port,
    names_kafka,
    names_other_program,
    names_other_system,
    names_package_manager,
)
from kproxy.advice.remedies.remedy import Program
from kproxy.base.faults import Fault

# Limits of a record (a stack trace is one record), and of the matches that are kept.
_RECORD_LINES = 150
_RECORD_BYTES = 64 * 1024
_MOST_FINDINGS = 500
_MOST_SERVERS = 20
_MOST_CONDITIONAL = 2000
_MOST_PASSED = 2000
# The beginning of a text, which shows whether a text without a sign of Kafka is of another system.
_HEAD_BYTES = 16 * 1024

_WORD_BYTES = bytes(byte if byte < 128 and (chr(byte).isalnum() or byte in b"_\n") else 32 for byte in range(256))
_NUMBERED = frozenset((b"size", b"length", b"key", b"apiKey", b"apikey"))
# Other literals to search for, beside messages and names of codes, by one of their words.
_OTHER_LITERALS = {
    b"code": (b"rror code", b"RROR CODE"),
    b"errorCode": (b"errorCode",),
    b"error_code": (b"error_code",),
    b"Error": (b"[Error ",),
    b"key": (b"pi key", b"PI key"),
    b"apiKey": (b"apiKey",),
    b"servers": (b"ootstrap.servers",),
    b"bootstrap_servers": (b"bootstrap_servers",),
    b"server": (b"--bootstrap-server",),
    b"list": (b"--broker-list",),
    b"kcat": (b"kcat",),
    b"kafkacat": (b"kafkacat",),
}
# Loggers of brokers: brokers log some messages in the same words as clients.
_BROKER_LOGGER = re.compile(
    r"kafka\.network\.|kafka\.server\.|SocketServer|KafkaServer|\[BrokerServer|NodeToControllerChannelManager|"
    r"ReplicaFetcher|RaftManager|kafka\.raft|BrokerToControllerChannelManager|BrokerLifecycleManager|kafka\.zk\."
)
# Loggers of a broker's or controller's own connections to the controllers.
_TO_CONTROLLERS = re.compile(
    r"RaftManager|(?:Node|Broker)ToControllerChannelManager|to-controller-|KafkaRaftClient|ControllerRegistrationManager"
)
# Parts of error names that only Kafka uses, without underscores.
_KAFKA_ERROR_WORD = re.compile(
    r"partition|leadernot|notleader|coordinator|sasl|replica|rebalance|producerid|producerepoch|fencedinstance|memberid|"
    r"topicauth|groupauth|clusterauth|listenernotfound|topicalreadyexists|offsetoutofrange|brokernotavail|notenoughrep|inconsistentcluster|duplicatebroker"
)
_EXCEPTION = re.compile(rb"[a-z]\w{0,30}(?:\.[\w$]{1,60}){1,10}(?:Exception|Error)\b")
_SETTING = re.compile(rb"\s*[a-z][\w.]{2,80} = ")
_PREFIX = re.compile(rb"^[\w.-]{1,60} {1,20}\| ")  # docker compose


@dataclass(slots=True)
class MessageMatch:
    """A message of the tables, and the lines of the text that contain it."""

    faults: tuple[Fault, ...]
    """Several if the message fits several causes."""
    pattern: MessagePattern | None
    code: KafkaErrorCode | None
    decoded: DecodedNumber | None
    facts: LineFacts
    first: int
    last: int
    count: int = 1
    broker: bool = False  # a broker wrote the message, about its clients or about other brokers
    conditional: bool = False
    """True if nothing beside the message shows that a Kafka client has printed it."""

    @property
    def program(self) -> Program | None:
        """The program that wrote the message."""
        return self.pattern.program if self.pattern else None

    @property
    def text(self) -> str:
        """The message as the tables have it, with no text of the line itself."""
        return self.pattern.text if self.pattern else self.code.name if self.code else ""


@dataclass(slots=True)
class SearchResult:
    """The matches of a text, and the bootstrap servers that it names, with the first line of each."""

    matches: dict[tuple[object, ...], MessageMatch] = field(default_factory=dict)
    conditional: dict[tuple[object, ...], MessageMatch] = field(default_factory=dict)
    """Messages that any program prints, beside no sign of Kafka. They count if there are no others."""
    bootstrap_servers: dict[str, int] = field(default_factory=dict)
    lines: int = 0
    is_certain: bool = False
    """True if a match with a single fault is there: then the conditional ones do not count."""
    conditional_lines: int = 0
    passed: set[bytes] = field(default_factory=set)
    """Some lines that show nothing, because a log may have one of them millions of times."""

    @property
    def takes_conditional(self) -> bool:
        """True while a message that any program prints may still count: the first ones of a text are enough."""
        return not self.is_certain and self.conditional_lines < _MOST_CONDITIONAL

    def add(self, match: MessageMatch) -> None:
        """Add or count a match; beyond the limit, matches of the same faults count as one."""
        matches = self.conditional if match.conditional else self.matches
        self.is_certain |= not match.conditional and len(match.faults) == 1
        key: tuple[object, ...] = (match.faults, match.text, match.facts)
        if key not in matches and len(matches) >= _MOST_FINDINGS:
            key = (match.faults,)
        known_match = matches.setdefault(key, match)
        if known_match is not match:
            known_match.last, known_match.count = match.last, known_match.count + 1


def search(blocks: Iterable[list[bytes]]) -> SearchResult:
    """Search a text for the messages of the tables."""
    result = SearchResult()
    literals = _literals()
    interesting = frozenset(literals)
    record: list[tuple[int, bytes, bool]] = []
    size = 0
    head = b""
    for block in blocks:
        if not block:
            continue
        if len(head) < _HEAD_BYTES:
            head = b"\n".join((head, *block))[:_HEAD_BYTES]
        words = b"\n".join(block).translate(_WORD_BYTES).split(b"\n")
        for line, of_line in zip(block, words, strict=True):
            result.lines += 1
            if record and not _continues_record(line):
                _search_record(record, result)
                record, size = [], 0
            words_hit = interesting.intersection(of_line.split())
            hit = bool(words_hit) and any(literal in line for word in words_hit for literal in literals[word])
            if len(record) < _RECORD_LINES and size < _RECORD_BYTES:
                record.append((result.lines, line, hit))
                size += len(line)
            elif hit:
                _search_record(record, result)
                record, size = [(result.lines, line, hit)], len(line)
    _search_record(record, result)
    if result.conditional and names_other_system(head.decode("utf-8", "replace").lower()):
        result.conditional.clear()
    return result


@cache
def _literals() -> dict[bytes, tuple[bytes, ...]]:
    """Return the literals of each word. A line with the word is searched further if it contains one of them."""
    literals: dict[bytes, set[bytes]] = {word: set(literals) for word, literals in _OTHER_LITERALS.items()}
    for word, patterns in patterns_by_word().items():
        literals.setdefault(word, set()).update(
            (pattern.parts[0] if pattern.has_frame else max(pattern.parts, key=len)).rstrip().encode()
            for pattern in patterns
        )
    for name in codes.codes_by_name():
        literals.setdefault(name.encode(), set()).add(name.encode())
    for title in codes.titles():
        literals.setdefault(max(title.split(), key=len).encode(), set()).add(title.encode())
    return {word: tuple(literals) for word, literals in literals.items()}


def _continues_record(line: bytes) -> bool:
    """Check whether a line belongs to the line before it, like the lines of a stack trace."""
    if b" | " in line[:64]:
        line = _PREFIX.sub(b"", line)
    if line[:1].islower() and _EXCEPTION.match(line):
        return True
    return line[:1] in (b" ", b"\t", b"}", b"") or line.startswith(
        (b"Caused by:", b"Suppressed:", b"Traceback (", b"During handling")
    )


def _search_record(record: list[tuple[int, bytes, bool]], result: SearchResult) -> None:
    """Find the messages of a record: a line, and the lines that continue it."""
    if not any(hit for _, _, hit in record) or (len(record) == 1 and record[0][1] in result.passed):
        return
    record_text = b"\n".join(line for _, line, _ in record).decode("utf-8", "replace")
    sure = names_kafka(record_text)
    lower = "" if sure and len(record) == 1 and b"org.apache.kafka" in record[0][1] else record_text.lower()
    download = names_package_manager(lower)
    sure = sure and not download
    near = sure or names_client_port(lower)
    if not near and not result.takes_conditional and not _may_be_specific(record):
        if len(record) == 1 and len(result.passed) < _MOST_PASSED:
            result.passed.add(record[0][1])
        return
    foreign = names_other_program(lower)
    kafka_like = sure or (near and not foreign)
    if sure and foreign and not names_kafka(record_text.partition("\n")[2]):
        sure = kafka_like = False  # an exception of another program after a line of Kafka's
    foreign = foreign and not sure
    broker = _BROKER_LOGGER.search(record_text) is not None
    for number, raw, hit in record:
        if not hit:
            continue
        line = raw.decode("utf-8", "replace")
        for server in bootstrap_servers(line) if kafka_like or "bootstrap" in line else ():
            if len(result.bootstrap_servers) < _MOST_SERVERS:
                result.bootstrap_servers.setdefault(server, number)
        if _SETTING.match(raw):
            continue  # clients and brokers log all their settings: a name there is no message
        following = record_text if b"OutOfMemoryError" in raw else ""
        is_kafka = kafka_like or (foreign and not download and names_kafka(line))
        matches = list(_match_line(line, raw, number, is_kafka, foreign and not is_kafka, broker, following))
        if not matches and not kafka_like and not foreign and result.takes_conditional:
            matches = _conditional_matches(line, raw, number, lower)
            result.conditional_lines += 1
        to_controllers = broker and _TO_CONTROLLERS.search(line)
        for match in matches:
            match.broker = broker
            match.faults = _faults_of_quorum(match.faults) if to_controllers else match.faults
            result.add(match)


def _conditional_matches(line: str, raw: bytes, number: int, lower: str) -> list[MessageMatch]:
    """Return the match of a message that any program prints, if nothing shows another system."""
    patterns = [pattern for pattern in _candidates(raw) if pattern.find(line)]
    conditional = (pattern for pattern in patterns if pattern.is_conditional)
    best = max(conditional, key=lambda pattern: pattern.weight, default=None)
    if best is None or names_other_system(lower):
        return []
    shown = _passing_on(best, best.faults, patterns)
    return [MessageMatch(best.faults, shown, None, None, facts_of(line), number, number, conditional=True)]


def _passing_on(best: MessagePattern, faults: tuple[Fault, ...], patterns: Iterable[MessagePattern]) -> MessagePattern:
    """Return the message of a client that passes on the words of any program and may have the same faults, or `best`."""
    clients = (
        pattern
        for pattern in patterns
        if pattern.program is not Program.ANY and not pattern.is_general and set(faults).issubset(pattern.faults)
    )
    if best.program is not Program.ANY:
        return best
    return max(clients, key=lambda pattern: pattern.weight, default=best)


def _may_be_specific(record: list[tuple[int, bytes, bool]]) -> bool:
    """Check whether a record may have a message, or the name of an error, that needs no other sign of Kafka."""
    for _, raw, hit in record:
        if hit:
            line = raw.decode("utf-8", "replace")
            if _KAFKA_ERROR_WORD.search(line.lower().replace("_", "")):
                return True
            if any(pattern.is_specific and pattern.find(line) for pattern in _candidates(raw)):
                return True
    return False


def _candidates(raw: bytes) -> Iterator[MessagePattern]:
    """Yield the patterns whose rarest word is in a line: only these may be found there."""
    by_word = patterns_by_word()
    for word in set(raw.translate(_WORD_BYTES).split()) & by_word.keys():
        yield from by_word[word]


def _match_line(
    line: str, raw: bytes, number: int, kafka_like: bool, foreign: bool, broker: bool, following: str
) -> Iterator[MessageMatch]:
    words = set(raw.translate(_WORD_BYTES).split())
    patterns = [
        pattern
        for pattern in _candidates(raw)
        if (kafka_like or pattern.is_alone or (pattern.is_specific and not foreign)) and pattern.find(line, following)
    ]
    best = max(
        patterns,
        key=lambda pattern: (
            broker and pattern.program is Program.BROKER,
            not _is_around(pattern, patterns),
            pattern.weight,
            broker is (pattern.program is Program.BROKER),
        ),
        default=None,
    )
    code = codes.find_code(line) if kafka_like or _KAFKA_ERROR_WORD.search(line.lower().replace("_", "")) else None
    if best is None and (code is None or foreign):
        decoded = numbers.decode(line) if kafka_like and not words.isdisjoint(_NUMBERED) else None
        if decoded:
            yield MessageMatch((decoded.fault,), None, None, decoded, facts_of(line), number, number)
        return
    faults = _narrowed(best, patterns) if best else (code.fault,) if code and code.fault else ()
    if len(faults) > 1 and code and code.fault and codes.has_title(line):
        faults = (code.fault,)
    decoded = None
    if Fault.FRAME_SIZE in faults or Fault.NOT_KAFKA in faults or not words.isdisjoint(_NUMBERED):
        decoded = numbers.decode(line)
        faults = (decoded.fault,) if decoded else faults
    if best:
        best = _passing_on(best, faults, patterns)
    yield MessageMatch(faults, best, code, decoded, facts_of(line), number, number)


def _is_around(pattern: MessagePattern, patterns: Iterable[MessagePattern]) -> bool:
    """Check whether a message only stands around the reason, which another message of the line gives."""
    return pattern.is_general or (
        _VAGUE.issubset(pattern.faults)
        and any(not _VAGUE.issubset(other.faults) and other.text not in pattern.text for other in patterns)
    )


# A message with all of these shows only that something has failed.
_VAGUE = frozenset({Fault.PORT_CLOSED, Fault.CLOSED})
# Faults of a connection that do not say why.
_NOT_REACHED = frozenset(
    {Fault.PORT_CLOSED, Fault.FILTERED, Fault.NO_ROUTE, Fault.SILENT, Fault.CLOSED, Fault.LOGIN_NEEDED}
)


def _faults_of_quorum(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Return the faults of a message about a server's own connection to a controller."""
    return (Fault.NO_CONTROLLER,) if faults and _NOT_REACHED.issuperset(faults) else faults


# Less specific than the words of a TLS library or of an operating system beside it.
_GENERAL = frozenset({Fault.TLS_FAILED, Fault.CLOSED})


def _narrowed(best: MessagePattern, patterns: Iterable[MessagePattern]) -> tuple[Fault, ...]:
    """Return the faults of a client's message that also fit the words which it passes on from below."""
    below = sorted(
        (pattern for pattern in patterns if pattern.program is Program.ANY and pattern.text not in best.text),
        key=lambda pattern: (len(pattern.faults), -pattern.weight),
    )
    is_vague = _VAGUE.issubset(best.faults)
    for pattern in below:
        common = tuple(fault for fault in best.faults if fault in pattern.faults)
        if is_vague or (not common and _GENERAL.issuperset(best.faults)):
            return pattern.faults
        if common and len(pattern.faults) <= 2:
            return common
    return best.faults
