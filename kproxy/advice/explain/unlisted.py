"""Failures in words that no table has: a program of Kafka says that it does not reach or use a broker (pure).

There are more programs than tables. The last resort is the grammar of such a sentence: what has failed (a connection, TLS, a
login), or what is not set, and that it is about a broker, a bootstrap server or metadata. It is tried if a short text has
nothing else.
"""

from __future__ import annotations

import re

from kproxy.advice.explain.facts import facts_of
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.explain.patterns import MessagePattern
from kproxy.advice.explain.subject import names_kafka, names_other_program, names_package_manager
from kproxy.advice.remedies.remedy import Program
from kproxy.base.faults import Fault

_OBJECT = r"(?:broker|bootstrap|metadata|seed|node|kafka(?: cluster| server)?)s?"
_FAILURE = (
    r"(?:fail(?:ed|ure|s|ing)?|unable|cannot|can't|could ?n[o']t|timed ?out|timeout|give up|giving up|lost|refused|unavailable|"
    r"unreachable|not (?:available|connected|reachable|ready)|no (?:broker|node|usable|reachable|available))"
)
_ATTEMPT = r"(?:connect\w*|reach\w*|bootstrap\w*|load\w*|fetch\w*|get\w*|dial\w*|request\w*|metadata|available|find|establish\w*|usable)"
_TLS = r"(?:tls|ssl|x\.?509|certificates?|handshakes?|trust ?stores?|key ?stores?)"
_LOGIN = r"(?:sasl\w*|authenticat\w*|login|log in|credentials?|passwords?|unauthori[sz]ed)"
_REFUSAL = r"(?:fail\w*|errors?|invalid|unable|cannot|can't|could ?n[o']t|refused|rejected|denied|expired|unknown|untrusted|wrong|incorrect)"
_SERVERS = r"(?:bootstrap[ ._-]?servers?|(?:kafka |seed )?brokers?(?: list| urls?| address(?:es)?)?|kafka[ ._-](?:urls?|hosts?|servers?))"
_NOT_SET = (
    r"(?:(?:must|should|has to|have to|needs? to) be (?:set|configured|specified|provided|given|defined)|"
    r"(?:is|are|was|were)? ?(?:not (?:set|configured|specified|provided|given|defined)|missing|required|empty|undefined))"
)


def _either_way(first: str, second: str, between: int = 60) -> re.Pattern[str]:
    return re.compile(rf"(?i)\b{first}\b.{{0,{between}}}\b{second}\b|\b{second}\b.{{0,{between}}}\b{first}\b")


def _pattern(note: str, *faults: Fault) -> MessagePattern:
    return MessagePattern(Program.ANY, "words that kproxy does not know", (), faults, is_specific=True, note=note)


def _unknown(words: str) -> str:
    reason = "A line around it, or the client's log at the level DEBUG, has the reason."
    return f"kproxy does not know this message: its words say only that {words}. {reason}"


_ABOUT = re.compile(rf"(?i)\b{_OBJECT}\b")
_ERROR_WITH = re.compile(r"(?i)\berror (?:communicating|talking) (?:with|to)\b")
# What a sentence says, the most precise first.
_SENTENCES = (
    (
        re.compile(rf"(?i)\b{_SERVERS}\b[^,;]{{0,40}}\b{_NOT_SET}\b|\bno (?:kafka )?{_SERVERS} (?:given|specified|set|configured|provided|found)\b"),
        _pattern(
            "The bootstrap servers seem not to be set: kproxy does not know this message, and reads its words only. Set them "
            "under the name, and in the section, that the program reads.",
            Fault.CONFIGURATION,
        ),
    ),
    (
        _either_way(_TLS, _REFUSAL),
        _pattern(
            _unknown("TLS fails"),
            Fault.CERTIFICATE_UNTRUSTED, Fault.TLS_TO_PLAINTEXT, Fault.CREDENTIALS_UNREADABLE, Fault.TLS_FAILED,
        ),
    ),
    (
        _either_way(_LOGIN, _REFUSAL),
        _pattern(
            _unknown("the login fails"),
            Fault.CREDENTIALS_REFUSED, Fault.SASL_MECHANISM, Fault.LOGIN_NOT_OFFERED, Fault.CREDENTIALS_UNREADABLE,
        ),
    ),
    (
        _either_way(_FAILURE, _ATTEMPT),
        _pattern(
            _unknown("a broker or its metadata is not reached"),
            Fault.NAME_NOT_RESOLVED, Fault.PORT_CLOSED, Fault.FILTERED, Fault.PLAINTEXT_TO_TLS, Fault.LOGIN_NEEDED,
            Fault.SILENT, Fault.CLOSED,
        ),
    ),
)  # fmt: skip
_LONGEST = 2000
_FRAME = re.compile(r"\s*(?:at |File |\.\.\.|[a-z_]+\()")


def unlisted_failure(lines: list[bytes]) -> tuple[int, MessageMatch] | None:
    """Return the first line, by its number, that says what does not work with a broker; None if there is none."""
    text = b"\n".join(lines).decode("utf-8", "replace")
    if names_package_manager(text.lower()) or not (names_kafka(text) or "kafka" in text.lower()):
        return None
    for number, raw in enumerate(lines, 1):
        line = raw[:_LONGEST].decode("utf-8", "replace")
        if _FRAME.match(line) or names_other_program(line.lower()) or not _ABOUT.search(line):
            continue
        pattern = next((pattern for sentence, pattern in _SENTENCES if sentence.search(line)), None)
        if pattern is None and _ERROR_WITH.search(line):
            pattern = _SENTENCES[-1][1]
        if pattern is not None:
            return number, MessageMatch(pattern.faults, pattern, None, None, facts_of(line))
    return None
