"""The messages of the tables, prepared for the search: first by one word, then by their literal parts in order.

The search uses no regular expression, so no line can make it slow.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

from kproxy.advice import remedies
from kproxy.advice.remedies.own import all_messages
from kproxy.advice.remedies.remedy import Program, ProgramMessage
from kproxy.base.faults import BY_ADDRESS, Fault
from kproxy.base.messages.message import Message

_WORD = re.compile(r"[A-Za-z0-9_]+")

# Words that only Kafka's programs use. A message without such a word counts only beside one.
_KAFKA_WORDS = (
    "kafka", "Kafka", "bootstrap", "Bootstrap broker", "node assignment", "Node may not be available", "Broker may not be available", "artition", "ipv4#",
    "ipv6#", "Failed to resolve '", "ApiVersion", "API_VERSIONS", "correlation id", "Invalid receive (size", "Invalid response size",
    "receive.message.max.bytes", "unable to dial:", "in-flight-requests", "Failed to connect to broker", "eplica",
    "NotLeader", "NOT_LEADER", "LeaderNot", "LEADER_NOT", "oordinator", "COORDINATOR", "Rebalance", "REBALANCE", "Broker: ", "Local: ",
    "Sasl", "SASL", "ssl.ca.location", "ssl.key.location", "ssl.certificate.location", "ssl.keystore.location", "request.timeout.ms",
    "RecordTooLarge", "RecordBatchTooLarge", "MESSAGE_TOO_LARGE", "TopicAuthorization", "GroupAuthorization", "TOPIC_AUTHORIZATION",
    "ClusterAuthorization", "TransactionalId", "Not authorized to access topics", "Not authorized to access group", "UnknownTopic",
    "UNKNOWN_TOPIC", "ProducerFenced", "PRODUCER_FENCED", "ProducerEpoch", "PRODUCER_EPOCH", "OffsetOutOfRange", "poll()",
    "max.poll.interval.ms", "maximum poll interval", "UnknownMemberId", "UNKNOWN_MEMBER", "FencedInstanceId", "FENCED_INSTANCE",
    "advertised.listeners", "controller.listener.names", "inter.broker.listener.name", "No security protocol defined for listener",
    "broker listener", "Topic authorization failed", "LISTENER_NOT_FOUND", "ListenerNotFound", "socket connection setup timeout",
    "plaintext connection speaking to a tls endpoint", "large response size", "Subscribed topic", "in-sync replicas",
    "not present in metadata after", "record(s) for", "while fetching topic metadata", "trying to create topic",
    "topic-partition", "SaslClient", "PLAINTEXT broker", "Shrinking ISR", "min.isr", "TopicException", "Unknown API key",
    "MaxMessageBytes", "is Denied operation", "current broker", "controller quorum", "message of length",
    "Connection setup timed out in state", "expired before the", "Failed to update metadata after", "FetchMetadata",
    "deadlineMs=", "IllegalSaslState", "OutOfOrderSequence", "OUT_OF_ORDER", "InconsistentClusterId", "INCONSISTENT_CLUSTER_ID",
    "ThrottlingQuotaExceeded", "UnknownProducerId", "ConsumerGroup", "Invalid timestamp", "seed_", "Unable connect to", "unable to open connection to broker", "AdminClient thread has exited", "does not exist as expected",
)  # fmt: skip


_NAME_OF_EXCEPTION = re.compile(r"[\w.$]+(?:Exception|Error)(?:: …)?")
# What a program prints around the reason.
_AROUND = frozenset(
    (
        "KafkaException: Failed to construct kafka …", "Failed to construct kafka consumer", "Failed to construct kafka producer",
        "Failed to create new KafkaAdminClient", "Unable to create Kafka consumer from given configuration",
        "Unable to create Kafka producer from given configuration", "Failed to load SSL keystore … of type", "Failed to load SSL keystore … of type …",
        "KafkaJSSASLAuthenticationError", "HttpAccessTokenRetriever", "HttpJwtRetriever", "FindCoordinator response error", "SASL Authentication Failed", "[58] SASL Authentication Failed",
        "could not successfully authenticate to … with SASL", "SASL authentication error: …", "SASL_AUTHENTICATION_FAILED: …",
        "Unspecified GSS failure", "GSSAPI Error", "GSS initiate failed",
        "SASL(-1): generic failure: GSSAPI Error: …", "SASL handshake failed (step): SASL(-1): generic failure: GSSAPI Error: …",
        "An error: (java.security.PrivilegedActionException: javax.security.sasl.SaslException: GSS initiate failed",
        "GSSException", "KrbException", "AS Exchange Error", "TGS Exchange Error", "KDC_Error", "AS_REP is not valid or client password/keytab incorrect", "Invalid PEM keystore configs", "Invalid PEM truststore configs",
        "Minor code may provide more information", "No valid credentials provided",
        "GSSException: No valid credentials provided (Mechanism level: …",
        "Failed to initialize SASL authentication: …", "Failed to create SaslClient with mechanism …", "failed authentication due to: …", "Kerberos client initialization error", "Error creating broker listeners from", "Error creating broker listeners from '…': …",
    )
)  # fmt: skip
# Those whose reason is a code of Kafka in the same line.
WRAPPERS = frozenset(
    {
        "FindCoordinator response error",
        "The metadata response from the cluster reported a recoverable issue with correlation id",
    }
)
# A broker in the list of `kcat -L`, which is no failure.
LISTED_BROKER = "broker … at …"
_BEFORE_A_FRAME = (" … at ", " … thread '", "{kpro_req … ", "{:kpro_req … ")
_CLAUSE_END = re.compile("[:;(]")
_ENOUGH_OF_A_MESSAGE = 18
"""So many literal characters of a clause are enough to recognise a message of kproxy's own."""


@dataclass(frozen=True, slots=True)
class MessagePattern:
    """A message to search for."""

    program: Program
    text: str
    parts: tuple[str, ...]
    faults: tuple[Fault, ...]
    is_specific: bool
    """True if only Kafka or kproxy uses these words."""
    is_alone: bool = False
    """True if another system's name beside it changes nothing."""
    is_conditional: bool = False
    """True if it is explained without a sign of Kafka, under the condition that a client has printed it."""
    note: str = ""
    """A sentence that holds for this message only; empty if there is none."""
    own_message: Message | None = None
    """Set for kproxy's own messages."""
    has_frame: bool = False
    """True if it is the first line of a stack trace or of an Erlang term, and a part of a later line."""

    @property
    def weight(self) -> int:
        """The specificity of the pattern: the number of its literal characters."""
        return sum(map(len, self.parts))

    @property
    def is_general(self) -> bool:
        """True if it is the name of an exception, or what stands around a reason: alone it may mean anything."""
        return self.text in _AROUND or _NAME_OF_EXCEPTION.fullmatch(self.text) is not None

    def find(self, line: str, following: str = "") -> tuple[int, int] | None:
        """Return start and end of the message in a line; `following` is the rest of the line's record."""
        if self.has_frame:
            return self._find((self.parts[0].strip(),), line) if self.parts[1].strip() in following else None
        return self._find(self.parts, line)

    def _find(self, parts: tuple[str, ...], line: str) -> tuple[int, int] | None:
        begin = end = -1
        position = 0
        for part in parts:
            index = line.find(part, position)
            at_word_start = begin < 0 and self.text.startswith(part)
            while at_word_start and index > 0 and part[0].isalnum() and line[index - 1].isalnum():
                index = line.find(part, index + 1)  # skip a match at the end of a longer word
            if index < 0:
                return None
            begin = index if begin < 0 else begin
            position = end = index + len(part)
        if self.text.endswith(":") and line[end:].strip():
            return None  # the message has no text after the colon
        if self.text[-1].isalnum() and line[end : end + 1].isalnum():
            return None
        return begin, end


@cache
def patterns_by_word() -> dict[bytes, tuple[MessagePattern, ...]]:
    """Return the patterns by one word that each line with the message has."""
    patterns = _all_patterns()
    frequency = Counter(word for pattern in patterns for word in set(_whole_words(pattern)))
    by_word: dict[bytes, list[MessagePattern]] = {}
    for pattern in patterns:
        rarest = min(_whole_words(pattern), key=lambda word: (len(word) < 3, frequency[word] - len(word)))
        by_word.setdefault(rarest.encode(), []).append(pattern)
    return {word: tuple(group) for word, group in by_word.items()}


def _whole_words(pattern: MessagePattern) -> list[str]:
    """Return the whole words of a pattern. A word beside … may be a part of a longer one; `_` joins words."""
    words = []
    last_index = len(pattern.parts) - 1
    open_start, open_end = pattern.text.startswith("…"), pattern.text.endswith("…")
    for number, part in enumerate(pattern.parts[:1] if pattern.has_frame else pattern.parts):
        for match in _WORD.finditer(part):
            cut_start = match.start() == 0 and (number > 0 or open_start)
            cut_end = match.end() == len(part) and (number < last_index or open_end)
            if not cut_start and not cut_end:
                words.append(match[0])
    return words


def _all_patterns() -> list[MessagePattern]:
    faults: dict[tuple[Program, str], list[tuple[int, Fault]]] = {}
    messages: dict[tuple[Program, str], ProgramMessage] = {}
    for remedy in remedies.all_remedies():
        if remedy.fault not in BY_ADDRESS:
            for message in remedy.messages:
                key = message.program, message.text
                faults.setdefault(key, []).append((message.rank, remedy.fault))
                if key not in messages or message.note:
                    messages[key] = message
    patterns = [
        MessagePattern(
            program,
            text,
            _literal_parts(text),
            tuple(fault for _, fault in sorted(faults[program, text], key=itemgetter(0))),
            message.alone or (not message.shared and any(word in text for word in _KAFKA_WORDS)),
            message.alone,
            message.conditional,
            message.note,
            has_frame=any(sign in text for sign in _BEFORE_A_FRAME),
        )
        for (program, text), message in messages.items()
    ]
    for own in all_messages():
        patterns += _own_patterns(own)
    return [pattern for pattern in patterns if _whole_words(pattern)]


def _own_patterns(own: Message) -> list[MessagePattern]:
    """Return the pattern of the whole message, and of each clause that only it has: people cut a line where they like."""
    clauses = (
        clause.strip(" .,…")
        for text in (own.pattern, *_literal_parts(own.pattern))
        for clause in _CLAUSE_END.split(text)
    )
    patterns = []
    for text in dict.fromkeys((own.pattern, *filter(_is_enough, clauses))):
        parts = _literal_parts(text)
        if len(max(parts, key=len)) >= 10:
            alone = "kproxy" in text or sum(map(len, parts)) >= 40
            patterns.append(MessagePattern(Program.KPROXY, text, parts, (own.fault,), alone, own_message=own))
    return patterns


def _is_enough(clause: str) -> bool:
    """Return whether a clause is long enough to recognise its message, and in no other."""
    length = sum(map(len, _literal_parts(clause)))
    return length >= _ENOUGH_OF_A_MESSAGE and sum(clause in text for text in _texts_of_own_messages()) == 1


@cache
def _texts_of_own_messages() -> tuple[str, ...]:
    return tuple(message.pattern for message in all_messages())


def _literal_parts(text: str) -> tuple[str, ...]:
    # People cut the full stop off.
    return tuple(part for part in text.removesuffix(".").split("…") if part.strip())
