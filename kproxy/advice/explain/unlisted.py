"""Failures in words that no table has: a program of Kafka says that it does not reach a broker (pure).

There are more programs than tables. The last resort is the grammar of such a sentence: what has failed, and that it is about
a broker, a bootstrap server or metadata. It is tried if a short text has nothing else.
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
_SENTENCE = re.compile(
    rf"(?i)\b{_FAILURE}\b.{{0,60}}\b{_ATTEMPT}\b|\b{_ATTEMPT}\b.{{0,60}}\b{_FAILURE}\b|\berror (?:communicating|talking) (?:with|to)\b"
)
_ABOUT = re.compile(rf"(?i)\b{_OBJECT}\b")
_UNREACHABLE = MessagePattern(
    Program.ANY,
    "words that kproxy does not know",
    (),
    (
        Fault.NAME_NOT_RESOLVED,
        Fault.PORT_CLOSED,
        Fault.FILTERED,
        Fault.PLAINTEXT_TO_TLS,
        Fault.LOGIN_NEEDED,
        Fault.SILENT,
        Fault.CLOSED,
    ),
    is_specific=True,
    note=(
        "kproxy does not know this message: its words say only that a broker or its metadata is not reached. A line around "
        "it, or the client's log at the level DEBUG, has the reason."
    ),
)
_LONGEST = 2000
_FRAME = re.compile(r"\s*(?:at |File |\.\.\.|[a-z_]+\()")


def unlisted_failure(lines: list[bytes]) -> tuple[int, MessageMatch] | None:
    """Return the first line, by its number, that says that a broker is not reached; None if there is none."""
    text = b"\n".join(lines).decode("utf-8", "replace")
    if names_package_manager(text.lower()) or not (names_kafka(text) or "kafka" in text.lower()):
        return None
    for number, raw in enumerate(lines, 1):
        line = raw[:_LONGEST].decode("utf-8", "replace")
        if _FRAME.match(line) or names_other_program(line.lower()) or not _SENTENCE.search(line):
            continue
        if _ABOUT.search(line):
            return number, MessageMatch(_UNREACHABLE.faults, _UNREACHABLE, None, None, facts_of(line))
    return None
