"""The messages of the tables that a record of a text contains (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kproxy.advice.explain import codes, numbers
from kproxy.advice.explain.codes import KafkaErrorCode
from kproxy.advice.explain.endings import faults_at_login, message_of_end
from kproxy.advice.explain.facts import LineFacts, facts_of, protocol_setting
from kproxy.advice.explain.numbers import DecodedNumber
from kproxy.advice.explain.patterns import WRAPPERS, MessagePattern, patterns_by_word
from kproxy.advice.explain.progress import answered_client
from kproxy.advice.explain.servers import contacted_server, servers_in_line
from kproxy.advice.explain.subject import (
    names_client_port,
    names_kafka,
    names_other_program,
    names_other_system,
    names_package_manager,
)
from kproxy.advice.remedies.remedy import Program
from kproxy.base.faults import Fault, fault_set

# Keeps the words of lines, and the ends of lines.
WORD_BYTES = bytes(byte if byte < 128 and (chr(byte).isalnum() or byte in b"_\n") else 32 for byte in range(256))
_NUMBERED = frozenset((b"size", b"length", b"key", b"apiKey", b"apikey", b"successful"))
# Loggers of brokers: brokers log some messages in the same words as clients.
_BROKER_LOGGER = re.compile(
    r"kafka\.network\.|kafka\.server\.|SocketServer|KafkaServer|\[BrokerServer|NodeToControllerChannelManager|"
    r"\[Controller id=|kafka\.controller\.|ReplicaFetcher|RaftManager|kafka\.raft|BrokerToControllerChannelManager|BrokerLifecycleManager|kafka\.zk\."
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
# What names bootstrap servers in a line that has no other sign of Kafka.
_SIGNS_OF_SERVERS = ("ootstrap", "broker-list", "broker.list", "port-forward")
# What begins a message whose other part is a frame below it.
_BEFORE_FRAMES = (
    b"OutOfMemoryError",
    b"{kpro_req",
    b"{:kpro_req",
    b"IOException: Permission denied",
    b"IOException: Connection reset",
)
# What nc and curl print may stand beside a broker's log.
_OF_NETWORK_TOOL = re.compile(r"(?:nc|curl|telnet|Ncat): |\* (?:connect|Failed to connect) to |\(UNKNOWN\) \[")
_FRAME = re.compile(r"\s{1,40}at (?:new |async )?[\w.$<>/]{1,200} ?\(")
# A field of KafkaJS's log below its message, and the lines in which it is searched.
_BROKER_FIELD = re.compile(rb"\s{1,20}broker: \"([\w.:\[\]-]{3,260})\"", re.ASCII)
_MOST_FIELDS = 8
_SETTING = re.compile(rb"\s*[a-z][\w.]{2,80} = ")


@dataclass(slots=True)
class MessageMatch:
    """A message of the tables, and the lines of the text that contain it: 0 before `search` has set them."""

    faults: tuple[Fault, ...]
    """Several if the message fits several causes."""
    pattern: MessagePattern | None
    code: KafkaErrorCode | None
    decoded: DecodedNumber | None
    facts: LineFacts
    first: int = 0
    last: int = 0
    count: int = 1
    broker: bool = False  # a broker wrote the message, about its clients or about other brokers
    conditional: bool = False
    """True if nothing beside the message shows that a Kafka client has printed it."""
    answered: bool = False
    """True if the text shows that a broker has answered the client before."""
    answered_later: bool = False
    """True if the text shows that another broker has answered the client afterwards."""
    used: bool = False
    """True if the text shows that a connection to the address was in use before."""

    @property
    def program(self) -> Program | None:
        """The program that wrote the message."""
        return self.pattern.program if self.pattern else None

    @property
    def text(self) -> str:
        """The message as the tables have it, with no text of the line itself."""
        return self.pattern.text if self.pattern else self.code.name if self.code else ""


@dataclass(frozen=True, slots=True)
class RecordMatches:
    """The matches and bootstrap servers of a record, each with the index of its line in the record."""

    matches: tuple[tuple[int, MessageMatch], ...] = ()
    servers: tuple[tuple[int, str], ...] = ()
    """The bootstrap servers in settings and on command lines."""
    contacts: tuple[tuple[int, str], ...] = ()
    """The addresses that a client asks for metadata: bootstrap servers, as long as no broker has answered."""
    protocols: tuple[str, ...] = ()
    """The values of `security.protocol` in settings, in small letters."""
    answers: tuple[tuple[int, str], ...] = ()
    """The clients that a broker has answered, "" for one that has no name."""
    conditional_lines: int = 0
    """The lines that were searched for a message that any program prints."""


def matches_of(record: Sequence[bytes], hits: Sequence[int], takes_conditional: bool) -> RecordMatches:
    """Return the messages of a record: a line, and the lines that continue it. `hits` are the lines to search."""
    record_text = b"\n".join(record).decode("utf-8", "replace")
    sure = names_kafka(record_text)
    lower = "" if sure and len(record) == 1 and b"org.apache.kafka" in record[0] else record_text.lower()
    download = names_package_manager(lower)
    sure = sure and not download
    near = sure or names_client_port(lower)
    if not near and not takes_conditional and not _may_be_specific(record[index] for index in hits):
        return RecordMatches()
    foreign = names_other_program(lower)
    kafka_like = sure or (near and not foreign)
    broker = _BROKER_LOGGER.search(record_text) is not None
    if sure and foreign and not broker and not names_kafka(record_text.partition("\n")[2]):
        sure = kafka_like = False  # an exception of another program after a line of Kafka's
    foreign = foreign and not sure
    servers: list[tuple[int, str]] = []
    contacts: list[tuple[int, str]] = []
    record_matches: list[tuple[int, MessageMatch]] = []
    protocols: list[str] = []
    answers: list[tuple[int, str]] = []
    conditional_lines = 0
    for index in hits:
        raw = record[index]
        line = raw.decode("utf-8", "replace")
        if b"rotocol" in raw and (protocol := protocol_setting(line)):
            protocols.append(protocol)
        if kafka_like and (client := answered_client(line)) is not None:
            answers.append((index, client))
        if kafka_like or any(sign in line for sign in _SIGNS_OF_SERVERS):
            servers += [(index, server) for server in servers_in_line(line)]
        if kafka_like and (b"etching " in raw or b"(from broker -" in raw) and (server := contacted_server(line)):
            contacts.append((index, server))
        if _SETTING.match(raw):
            continue  # clients and brokers log all their settings: a name there is no message
        following = record_text if any(sign in raw for sign in _BEFORE_FRAMES) else ""
        is_kafka = kafka_like or (foreign and not download and names_kafka(line))
        matches = list(_match_line(line, raw, is_kafka, foreign and not is_kafka, broker, following))
        if not matches and not kafka_like and not foreign and takes_conditional:
            matches = _conditional_matches(line, raw, lower)
            conditional_lines += 1
        to_controllers = broker and _TO_CONTROLLERS.search(line if b"[" in raw[:64] else record_text[:512])
        for match in matches:
            match.broker = broker and not _OF_NETWORK_TOOL.match(line)
            match.faults = _faults_of_quorum(match.faults) if to_controllers else match.faults
            if not match.facts.address:
                match.facts = _facts_above(match.facts, raw, record, index) if index else _facts_below(match, record)
            record_matches.append((index, match))
    _attribute_to_other_server([match for _, match in record_matches])
    return RecordMatches(
        tuple(record_matches), tuple(servers), tuple(contacts), tuple(protocols), tuple(answers), conditional_lines
    )


def _facts_above(facts: LineFacts, raw: bytes, record: Sequence[bytes], index: int) -> LineFacts:
    """Return the facts of an exception or an Erlang term with the address of the line above that it belongs to."""
    if b"kpro_req" in raw:
        return replace(facts, address=facts_of(record[index - 1].decode("utf-8", "replace")).address)
    if b"xception: " in raw and (b"Error connecting to node" in record[0] or b"] Connection with " in record[0]):
        return replace(facts_of(record[0].decode("utf-8", "replace")), topic=facts.topic)
    return facts


def _facts_below(match: MessageMatch, record: Sequence[bytes]) -> LineFacts:
    """Return the facts of KafkaJS's message with the address of a line below, as pino-pretty shows its fields."""
    if match.program is not Program.KAFKAJS:
        return match.facts
    fields = (_BROKER_FIELD.fullmatch(line) for line in record[1:_MOST_FIELDS])
    below = next((field[1].decode("ascii") for field in fields if field), "")
    return replace(match.facts, address=facts_of(below).address)


def _attribute_to_other_server(matches: Sequence[MessageMatch]) -> None:
    """Let the causes of an exception that is about another server than a broker be about that server too.

    Matches are those of one record, such as a stack trace: "Caused by" tells how the connection to a token server failed.
    """
    outer: MessageMatch | None = None
    for match in matches:
        if (
            outer is not None
            and match.program in (Program.ANY, Program.JAVA)
            and _OF_CONNECTIONS.issuperset(match.faults)
        ):
            match.faults = outer.faults
        elif len(match.faults) == 1 and match.faults[0] in _ABOUT_OTHER_SERVERS:
            outer = outer or match


def spans_of(raw: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each message begins and ends that a line contains, counted in bytes."""
    line = raw.decode("latin-1")
    for pattern in _candidates(_words(raw)):
        span = pattern.find(line)
        if span is not None:
            yield span


def _conditional_matches(line: str, raw: bytes, lower: str) -> list[MessageMatch]:
    """Return the match of a message that any program prints, if nothing shows another system."""
    patterns = [pattern for pattern in _candidates(_words(raw)) if pattern.find(line)]
    conditional = (pattern for pattern in patterns if pattern.is_conditional)
    best = max(conditional, key=lambda pattern: pattern.weight, default=None)
    if best is None or names_other_system(lower):
        return []
    shown = _passing_on(best, best.faults, patterns)
    return [MessageMatch(best.faults, shown, None, None, facts_of(line), conditional=True)]


def _passing_on(best: MessagePattern, faults: tuple[Fault, ...], patterns: Iterable[MessagePattern]) -> MessagePattern:
    """Return the message of a client that passes on the words of any program and may have the same faults, or `best`."""
    clients = (
        pattern
        for pattern in patterns
        if pattern.program not in (Program.ANY, Program.KPROXY)
        and not pattern.is_general
        and set(faults).issubset(pattern.faults)
    )
    if best.program is not Program.ANY:
        return best
    return max(clients, key=lambda pattern: pattern.weight, default=best)


def _with_note(best: MessagePattern, faults: tuple[Fault, ...], patterns: Iterable[MessagePattern]) -> MessagePattern:
    """Return the message, or another one of the line with the same single fault if only that one has advice of its own."""
    if len(faults) != 1 or (best.note and not best.is_general) or best.own_message:
        return best
    with_note = (
        pattern
        for pattern in patterns
        if pattern.note and pattern.faults == faults and (best.is_general or not pattern.is_general)
    )
    return max(
        with_note,
        key=lambda pattern: (not pattern.is_general, pattern.weight, pattern.program is best.program),
        default=best,
    )


def _may_be_specific(lines: Iterable[bytes]) -> bool:
    """Check whether lines may have a message, or the name of an error, that needs no other sign of Kafka."""
    for raw in lines:
        line = raw.decode("utf-8", "replace")
        if _names_code(line):
            return True
        if any(pattern.is_specific and pattern.find(line) for pattern in _candidates(_words(raw))):
            return True
    return False


def _names_code(line: str) -> bool:
    """Check whether a line may name or describe an error of Kafka's in words that only Kafka uses."""
    return _KAFKA_ERROR_WORD.search(line.lower().replace("_", "")) is not None or codes.describes_code(line)


def _words(raw: bytes) -> set[bytes]:
    return set(raw.translate(WORD_BYTES).split())


def _candidates(words: set[bytes]) -> Iterator[MessagePattern]:
    """Yield the patterns whose rarest word is among the words of a line: only these may be found there."""
    by_word = patterns_by_word()
    for word in words & by_word.keys():
        yield from by_word[word]


def _match_line(
    line: str, raw: bytes, kafka_like: bool, foreign: bool, broker: bool, following: str
) -> Iterator[MessageMatch]:
    words = _words(raw)
    patterns = [pattern for pattern in _candidates(words) if pattern.find(line, following)]
    if not kafka_like and (foreign or not any(pattern.is_specific for pattern in patterns)):
        patterns = [pattern for pattern in patterns if pattern.is_alone]
    best = max(
        patterns,
        key=lambda pattern: (
            broker and pattern.program is Program.BROKER,
            -_distance(pattern, patterns),
            pattern.weight,
            broker is (pattern.program is Program.BROKER),
            pattern.program is not Program.KPROXY or "kproxy" in line,
        ),
        default=None,
    )
    code = codes.find_code(line) if kafka_like or _names_code(line) else None
    if _FRAME.match(line) and (best is None or best.is_general):
        return  # the name of an error in the frame that makes it: `at new BrokerNotAvailableError (…)`
    if best is None and (code is None or foreign):
        decoded = numbers.decode(line) if kafka_like and not words.isdisjoint(_NUMBERED) else None
        if decoded:
            yield MessageMatch((decoded.fault,), None, None, decoded, facts_of(line))
        return
    best = message_of_end(best, line) if best else None
    faults = _narrowed(best, patterns) if best else (code.fault,) if code and code.fault else ()
    faults = faults_at_login(best, faults, line) if best else faults
    if code and code.fault and ((best and best.text in WRAPPERS) or (len(faults) > 1 and codes.has_title(line))):
        faults = (code.fault,)
    decoded = None
    if Fault.FRAME_SIZE in faults or Fault.NOT_KAFKA in faults or not words.isdisjoint(_NUMBERED):
        decoded = numbers.decode(line)
        faults = (decoded.fault,) if decoded else faults
    if best and Fault.BROKER_TOO_OLD in faults and (fault := numbers.fault_of_ranges(line)):
        faults = (fault,)
    if "/<unresolved>:" in line and _NOT_REACHED.issuperset(faults):
        faults = (Fault.NAME_NOT_RESOLVED,)  # so Java prints an address that it could not resolve
    if best:
        best = _with_note(_passing_on(best, faults, patterns), faults, patterns)
    yield MessageMatch(faults, best, code, decoded, facts_of(line))


def _distance(pattern: MessagePattern, patterns: Iterable[MessagePattern]) -> int:
    """Return how far a message is from the reason: 0 if it is the reason, as far as the line shows.

    1 if it stands around the reason, 2 if it shows only that something has failed, 3 if it is a part of such words.
    """
    if pattern.is_general:
        return 1 + (Fault.CONFIGURATION in pattern.faults)
    if any(other.is_general and pattern.text in other.text for other in patterns):
        return 3
    is_vague = _VAGUE.issubset(pattern.faults)
    return 2 if is_vague and any(_is_nearer(other, pattern) for other in patterns) else 0


def _is_nearer(other: MessagePattern, pattern: MessagePattern) -> bool:
    return not _VAGUE.issubset(other.faults) and other.text not in pattern.text


# These are about a token server, a KDC, a registry or a database, when a message is about any server.
_ABOUT_OTHER_SERVERS = frozenset({Fault.CREDENTIALS_UNREADABLE, Fault.KERBEROS, Fault.NOT_ABOUT_REACHING_KAFKA})
# What the words of any program say about a connection.
_OF_CONNECTIONS = fault_set(
    """
    name-not-resolved dns-silent port-closed filtered no-route closed silent tls-failed certificate-untrusted
    certificate-name certificate-expired tls-version plaintext-to-tls tls-to-plaintext login-needed not-kafka
    """
)
# A message with all of these shows only that something has failed.
_VAGUE = frozenset({Fault.PORT_CLOSED, Fault.CLOSED})
# Faults of a connection that do not say why.
_NOT_REACHED = frozenset(
    {Fault.PORT_CLOSED, Fault.FILTERED, Fault.NO_ROUTE, Fault.SILENT, Fault.CLOSED, Fault.LOGIN_NEEDED}
)


def _faults_of_quorum(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Return the faults of a message about a server's own connection to a controller."""
    return (
        (Fault.NO_CONTROLLER,) if faults and (_NOT_REACHED | {Fault.NAME_NOT_RESOLVED}).issuperset(faults) else faults
    )


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
