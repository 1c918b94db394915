"""The search of a text for the messages of the tables: records, their matches, counted (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from operator import itemgetter

from kproxy.advice.explain import codes
from kproxy.advice.explain.facts import LineFacts
from kproxy.advice.explain.languages import in_english
from kproxy.advice.explain.listing import listed_brokers
from kproxy.advice.explain.matches import WORD_BYTES, MessageMatch, RecordMatches, matches_of, spans_of
from kproxy.advice.explain.patterns import patterns_by_word
from kproxy.advice.explain.progress import LITERALS as _SIGNS_OF_ANSWERS
from kproxy.advice.explain.servers import MOST_SERVERS, servers_in_settings
from kproxy.advice.explain.shapes import ShapeCache
from kproxy.advice.explain.subject import names_other_system
from kproxy.advice.explain.unlisted import unlisted_failure
from kproxy.advice.explain.wrapping import rejoined
from kproxy.advice.remedies.remedy import Program

# Limits of a record (a stack trace is one record), and of the matches that are kept.
_RECORD_LINES = 150
_RECORD_BYTES = 64 * 1024
_MOST_FINDINGS = 500
_MOST_CONDITIONAL = 2000
_MOST_CLIENTS = 100
# Limits of the records that are examined: of those with the same words, of all, and of different words.
_MOST_OF_A_KIND = 200
_MOST_EXAMINED = 20_000
_MOST_KINDS = 20_000
# The lines with other letters than ASCII that are put into English, of those without a word of a message.
_MOST_FOREIGN = 20_000
_NO_WORDS: frozenset[bytes] = frozenset()
# The beginning of a text, which shows whether a text without a sign of Kafka is of another system.
_HEAD_BYTES = 16 * 1024
# KafkaJS says that a seed broker has failed just after the message that names it; one message may have several lines.
_MOST_LINES_TO_SEED = 8

# Other literals to search for, beside messages and names of codes, by one of their words.
_OTHER_LITERALS = {
    b"code": (b"rror code", b"RROR CODE"),
    b"errorCode": (b"errorCode",),
    b"error_code": (b"error_code",),
    b"Error": (b"[Error ",),
    b"Err": (b"Err-",),
    b"key": (b"pi key", b"PI key"),
    b"protocol": (b"ecurity.protocol",),
    b"security_protocol": (b"security_protocol",),
    b"apiKey": (b"apiKey",),
    b"servers": (b"ootstrap.servers", b"ootstrap-servers"),
    b"bootstrap_servers": (b"bootstrap_servers",),
    b"bootstrapServers": (b"bootstrapServers",),
    b"server": (b"ootstrap-server", b"ootstrap.server"),
    b"list": (b"--broker-list", b"metadata.broker.list"),
    b"endpoints": (b"with broker endpoints:",),
    b"Broker": (b"Broker: ",),
    b"forward": (b"port-forward",),
    b"kcat": (b"kcat",),
    b"kafkacat": (b"kafkacat",),
    b"rdkafka_example": (b"rdkafka_example",),
    b"rdkafka_performance": (b"rdkafka_performance",),
    b"brokers": (b"ootstrap brokers:",),
    b"unregistered": (b"(unregistered)",),
    b"fetching": (b"fetching metadata for",),
    b"Fetching": (b"Fetching cluster metadata from",),
    b"successful": (b"SASL authentication successful with broker",),
    **_SIGNS_OF_ANSWERS,
}
_EXCEPTION = re.compile(rb"[a-z]\w{0,30}(?:\.[\w$]{1,60}){1,10}(?:Exception|Error)\b")
_PREFIX = re.compile(rb"^[\w.-]{1,60} {1,20}\| ")  # docker compose


@dataclass(slots=True)
class SearchResult:
    """The matches of a text, and the bootstrap servers that it names, with the first line of each."""

    matches: dict[tuple[object, ...], MessageMatch] = field(default_factory=dict)
    conditional: dict[tuple[object, ...], MessageMatch] = field(default_factory=dict)
    """Messages that any program prints, beside no sign of Kafka. They count if there are no others."""
    bootstrap_servers: dict[str, int] = field(default_factory=dict)
    protocols: set[str] = field(default_factory=set)
    """The values of `security.protocol` that it sets, in small letters: at most four."""
    answers: dict[str, int] = field(default_factory=dict)
    """The clients that a broker has answered, and the first line that shows it for each."""
    latest_of_kafkajs: tuple[str, int] = ("", 0)
    """The address in the latest message of KafkaJS, empty if it names none, and the line of the message."""
    lines: int = 0
    is_certain: bool = False
    """True if a match with a single fault is there: then the conditional ones do not count."""
    conditional_lines: int = 0

    @property
    def takes_conditional(self) -> bool:
        """True while a message that any program prints may still count: the first ones of a text are enough."""
        return not self.is_certain and self.conditional_lines < _MOST_CONDITIONAL

    def add(self, match: MessageMatch, line: int) -> None:
        """Add or count a match; beyond the limit, matches of the same faults count as one."""
        matches = self.conditional if match.conditional else self.matches
        self.is_certain |= not match.conditional and len(match.faults) == 1
        key: tuple[object, ...] = (match.faults, match.text, match.facts)
        if key not in matches and len(matches) >= _MOST_FINDINGS:
            key = (match.faults,)
        known_match = matches.get(key)
        if known_match is None:
            matches[key] = replace(match, first=line, last=line)
        else:
            known_match.last, known_match.count = line, known_match.count + 1

    def _add_seed(self, match: MessageMatch, line: int) -> None:
        """Add a bootstrap server if KafkaJS says that a seed broker has failed. Its message before names the address."""
        address, line_of_address = self.latest_of_kafkajs
        self.latest_of_kafkajs = match.facts.address, line
        is_seed = match.facts.bootstrap and address and not match.facts.address
        is_near = line - line_of_address <= _MOST_LINES_TO_SEED
        if is_seed and is_near and len(self.bootstrap_servers) < MOST_SERVERS:
            self.bootstrap_servers.setdefault(address, line_of_address)

    def add_settings(self, head: bytes) -> None:
        """Add the bootstrap servers in settings of the beginning of the text, before which an empty line stands."""
        for line, server in servers_in_settings(head.decode("utf-8", "replace")):
            if server not in self.bootstrap_servers or line - 1 < self.bootstrap_servers[server]:
                self.bootstrap_servers[server] = line - 1
        by_line = sorted(self.bootstrap_servers.items(), key=itemgetter(1))
        self.bootstrap_servers = dict(by_line[:MOST_SERVERS])

    def add_record(self, record: RecordMatches, first: int) -> None:
        """Add what a record contains, whose first line has this number."""
        # Before an answer, a client knows no other addresses.
        for index, server in (*record.servers, *(() if self.answers else record.contacts)):
            if len(self.bootstrap_servers) < MOST_SERVERS:
                self.bootstrap_servers.setdefault(server, first + index)
        self.protocols.update(record.protocols)
        for index, client in record.answers:
            if len(self.answers) < _MOST_CLIENTS:
                self.answers.setdefault(client, first + index)
        for index, match in record.matches:
            if match.program is Program.KAFKAJS:
                self._add_seed(match, first + index)
            self.add(match, first + index)
        self.conditional_lines += record.conditional_lines


def search(blocks: Iterable[list[bytes]], cache_shapes: bool = True) -> SearchResult:
    """Search a text for the messages of the tables. Without `cache_shapes`, each record is examined anew."""
    result = SearchResult()
    records = _Records(result, ShapeCache() if cache_shapes else None)
    literals = _LiteralSearch()
    head = b""
    foreign_lines = 0
    for block in rejoined(blocks, spans_of):
        if not block:
            continue
        if len(head) < _HEAD_BYTES:
            head = b"\n".join((head, *block))[:_HEAD_BYTES]
        words = b"\n".join(block).translate(WORD_BYTES).split(b"\n")
        for line, of_line in zip(block, words, strict=True):
            words_hit = literals.words.intersection(of_line.split())
            hit = words_hit if words_hit and literals.has_one(line, words_hit) else _NO_WORDS
            if not line.isascii() and (hit or foreign_lines < _MOST_FOREIGN):
                foreign_lines += 1
                if (english := in_english(line)) is not line:
                    line, hit = english, literals.words.intersection(english.translate(WORD_BYTES).split())
            records.add_line(line, hit)
    records.end()
    if result.conditional and names_other_system(head.decode("utf-8", "replace").lower()):
        result.conditional.clear()
    result.add_settings(head)
    if b"(from broker " in head:
        for number, match in listed_brokers(head.split(b"\n")[1:]):
            result.add(match, number)
    if not result.matches and not result.conditional and len(head) < _HEAD_BYTES:
        _examine_whole(head.split(b"\n")[1:], result)
    return result


def _examine_whole(lines: list[bytes], result: SearchResult) -> None:
    """Examine a short text as one record: the sign of Kafka may be in another line than the message."""
    result.add_record(matches_of(lines, range(len(lines)), takes_conditional=False), 1)
    if not result.matches and (failure := unlisted_failure(lines)):
        result.add(failure[1], failure[0])


class _Records:
    """Joins lines to records, and adds to the result what a record contains.

    Records with the same interesting words are of a kind. Of a kind, some hundred are examined; further ones count as
    the last of them, without its address. So a log whose records all differ takes no longer than others.
    """

    def __init__(self, result: SearchResult, cache: ShapeCache[RecordMatches] | None) -> None:
        self._result, self._cache = result, cache
        # By the hash of the words, as a set of many words is large.
        self._kinds: dict[tuple[int, bool], tuple[int, RecordMatches]] = {}
        self._at_first_line: dict[tuple[int, bool], RecordMatches] = {}
        self._examined = 0
        self._words: set[bytes] = set()
        self._lines: list[bytes] = []
        self._hits: list[int] = []
        self._first = 1
        self._size = 0

    def add_line(self, line: bytes, hit: frozenset[bytes]) -> None:
        """Add a line, which ends the record before it or continues it. `hit`: its words, if it may have a message."""
        lines = self._lines
        if lines and not _continues_record(line):
            self.end()
        elif lines and (len(lines) >= _RECORD_LINES or self._size >= _RECORD_BYTES):
            if not hit:
                self._result.lines += 1
                return
            self.end()
        self._result.lines += 1
        if not lines:
            self._first = self._result.lines
        if hit:
            self._hits.append(len(lines))
            self._words |= hit
        lines.append(line)
        self._size += len(line)

    def end(self) -> None:
        """End a record."""
        if self._hits:
            takes_conditional = self._result.takes_conditional
            if self._cache:
                record = self._cache.get(
                    b"\n".join(self._lines),
                    b"conditional" if takes_conditional else b"",
                    lambda: self._matches(takes_conditional),
                )
            else:
                record = matches_of(self._lines, self._hits, takes_conditional)
            self._result.add_record(record, self._first)
            self._hits.clear()
            self._words.clear()
        self._lines.clear()
        self._size = 0

    def _matches(self, takes_conditional: bool) -> RecordMatches:
        """Return what the record contains, from the last of its kind if enough of them were examined."""
        kind = hash(frozenset(self._words)), takes_conditional
        count, last = self._kinds.get(kind, (0, None))
        enough = count >= _MOST_OF_A_KIND or self._examined >= _MOST_EXAMINED
        if enough and (last is not None or len(self._kinds) >= _MOST_KINDS):
            return self._further(kind, last)
        examined = matches_of(self._lines, self._hits, takes_conditional)
        self._examined += 1
        if last is not None or len(self._kinds) < _MOST_KINDS:
            self._kinds[kind] = count + 1, examined
        return examined

    def _further(self, kind: tuple[int, bool], last: RecordMatches | None) -> RecordMatches:
        """Return a further record of a kind as the last one that was examined, without its address."""
        if last is None:
            return RecordMatches()
        if self._hits[0]:
            return _without_facts(last, self._hits[0])
        if kind not in self._at_first_line:
            self._at_first_line[kind] = _without_facts(last, 0)
        return self._at_first_line[kind]


def _without_facts(record: RecordMatches, index: int) -> RecordMatches:
    """Return the matches of a record as those of another one, whose addresses are not known; the line has this index."""
    matches = tuple((index, replace(match, facts=LineFacts())) for _, match in record.matches)
    return RecordMatches(matches, conditional_lines=record.conditional_lines)


class _LiteralSearch:
    """Decides which lines are searched further: those with a literal of one of their words."""

    def __init__(self) -> None:
        self._literals = _literals()
        self.words = frozenset(self._literals)
        self._latest: dict[int, bytes] = {}  # by the hash of words, as a set of many words is large

    def has_one(self, line: bytes, words: frozenset[bytes]) -> bool:
        """Return True if a line has a literal of `words`, which are those of `self.words` in it."""
        # Lines with the same words mostly have the same literal.
        kind = hash(words)
        if (latest := self._latest.get(kind)) is not None and latest in line:
            return True
        for word in words:
            for literal in self._literals[word]:  # a generator takes twice as long
                if literal in line:
                    if len(self._latest) < _MOST_KINDS:
                        self._latest[kind] = literal
                    return True
        return False


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
        if stem := codes.ruby_stem(name):
            literals.setdefault(stem.encode(), set()).add(f"Kafka::{stem}".encode())
    for spelling in codes.spellings():
        literals.setdefault(spelling.encode(), set()).add(spelling.encode())
    for title in codes.titles():
        literals.setdefault(max(title.split(), key=len).encode(), set()).add(title.encode())
    for description in codes.descriptions():
        # The first and last word may be a part of one.
        word = max(re.findall(r"\w+", description)[1:-1], key=len)
        literals.setdefault(word.encode(), set()).add(description.encode())
    return {word: tuple(literals) for word, literals in literals.items()}


def _continues_record(line: bytes) -> bool:
    """Check whether a line belongs to the line before it, like the lines of a stack trace."""
    if b" | " in line[:64]:
        line = _PREFIX.sub(b"", line)
    if line[:1].islower() and _EXCEPTION.match(line):
        return True
    return line[:1] in (b" ", b"\t", b"}", b"") or line.startswith(
        # Go and Ruby list the reasons of several brokers like that.
        (b"Caused by:", b"Suppressed:", b"Traceback (", b"During handling", b"* ", b"- kafka://")
    )
