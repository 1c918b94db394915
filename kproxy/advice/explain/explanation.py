"""The explanation of a text: its causes, and the commands to run next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

from kproxy.advice.explain.causes import Cause, causes_of, merge_by_message
from kproxy.advice.explain.endings import WHEN_IN_USE
from kproxy.advice.explain.facts import ClientFacts, host_of, is_ip
from kproxy.advice.explain.linereader import MAX_BYTES, LineReader
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.explain.reasons import has_whole_advice, notes_of
from kproxy.advice.explain.search import SearchResult, search
from kproxy.advice.explain.sentences import fill_in, sentence, title
from kproxy.advice.explain.signs import signs_of
from kproxy.advice.remedies import remedy_of
from kproxy.advice.remedies.remedy import Remedy
from kproxy.base.addressclass import AddressClass, classify
from kproxy.base.diagnostic import ERROR, NOTE, Diagnostic, DiagnosticPlace, to_json
from kproxy.base.faults import Fault, fault_set
from kproxy.base.messages.message import Message

# Faults that kproxy beside the client solves at once.
_SOLVED_BY_KPROXY = fault_set(
    """
    name-not-resolved name-resolves-wrongly loopback-advertised wildcard-advertised container-name-advertised
    kubernetes-name-advertised private-address-advertised short-name-advertised filtered no-route port-closed
    wrong-listener
    """
)
# What the start of a broker prints of a step. It is a failure if the log ends with it.
_STEPS = frozenset({"Check if … is writable", "is already formatted. Use --ignore-formatted"})
_PLACEHOLDER = "HOST:PORT"
CONDITION = "The text has no sign of Kafka: this holds if it came from a Kafka client."


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a text."""

    causes: tuple[Cause, ...]
    server: str
    """The assumed bootstrap server; empty if the text names none."""
    server_line: int
    """The line that names it, or 0."""
    lines: int
    bytes_read: int
    complete: bool
    conditional: bool = False
    """True if the text has no sign of Kafka, so that the causes hold only if a Kafka client has printed it."""
    name: str = "-"
    """The name of the text's file; "-" for standard input."""

    @property
    def is_elsewhere(self) -> bool:
        """True if nothing in the text is about reaching Kafka."""
        return bool(self.causes) and all(cause.is_elsewhere for cause in self.causes)

    @property
    def doctor_command(self) -> str:
        """The command that examines the real cluster."""
        return f"kproxy doctor {_server_argument(self.server)}"

    def run_command(self, cause: Cause) -> str:
        """Return the command that starts kproxy, if kproxy solves the cause; empty if not."""
        others = [address for address in cause.addresses() if address != self.server]
        if cause.is_between_nodes or has_whole_advice(cause) or any(match.used for match in cause.matches):
            return ""
        if len(cause.faults) != 1 or cause.faults[0] not in _SOLVED_BY_KPROXY:
            return ""
        # A name that is not resolved is a broker's if the bootstrap server has none.
        is_advertised = cause.faults[0] is Fault.NAME_NOT_RESOLVED and _needs_no_resolver(self.server)
        return f"kproxy run -b {_server_argument(self.server)}" if others or not self.server or is_advertised else ""

    def diagnostic(self, cause: Cause) -> Diagnostic:
        """Return a cause in the form that the other checks have. The place is a line of the text."""
        run = self.run_command(cause)
        why = [CONDITION] if self.conditional else []
        if not cause.is_elsewhere:
            why += [sentence(cause), *notes_of(cause), *signs_of(cause)]
        return Diagnostic(
            NOTE if cause.is_elsewhere else ERROR,
            next(iter(cause.addresses()), ""),
            title(cause),
            cause.faults[0] if len(cause.faults) == 1 else "",
            DiagnosticPlace(self.name, cause.first) if self.lines > 1 else None,
            (run,) if run else (),
            " ".join(filter(None, why)),
        )

    def as_json(self) -> dict[str, object]:
        """Return the explanation as JSON values."""
        return {
            "known": bool(self.causes),
            "findings": [self._cause_json(cause) for cause in self.causes],
            "bootstrap": {"address": self.server, "line": self.server_line} if self.server else None,
            "doctor": self.doctor_command,
            "lines": self.lines,
            "bytes": self.bytes_read,
            "complete": self.complete,
        }

    def _cause_json(self, cause: Cause) -> dict[str, object]:
        codes = dict.fromkeys(match.code for match in cause.matches if match.code)
        return to_json(
            self.diagnostic(cause),
            remedies=[self._remedy_json(remedy_of(fault), cause) for fault in cause.faults],
            meanings=[message.meaning for message in own_messages(cause)],
            numbers=[{"number": number, "meaning": meaning} for number, meaning in decoded_numbers(cause).items()],
            codes=[
                {"code": code.number, "name": code.name, "text": code.text, "retriable": code.retriable}
                for code in codes
            ],
            addresses=cause.addresses(),
            nodes=sorted({match.facts.node for match in cause.matches if match.facts.node is not None}),
            topics=sorted({match.facts.topic for match in cause.matches if match.facts.topic}),
            messages=[_match_json(match) for match in merge_by_message(cause.matches)],
            follows=[_match_json(match) for match in merge_by_message(cause.consequences)],
        )

    def _remedy_json(self, remedy: Remedy, cause: Cause) -> dict[str, str]:
        check, advice = (fill_in(text, cause, self.server) for text in (remedy.check, remedy.fix))
        return {"fault": remedy.fault, "why": remedy.cause, "check": check, "advice": advice}


def explain(stream: BinaryIO, max_bytes: int = MAX_BYTES, name: str = "-") -> Explanation:
    """Read a text, of the file `name`, to its end, or to `max_bytes`, and explain it."""
    reading = LineReader(stream, max_bytes)
    result = search(reading.line_blocks())
    matches, others = list(result.matches.values()), list(result.conditional.values())
    if any(match.text not in _STEPS for match in matches):
        matches = [match for match in matches if match.text not in _STEPS]
    if all(len(match.faults) > 1 for match in matches):
        matches += others  # the words of other lines may show which of several causes it is
    protocol = next(iter(result.protocols)) if len(result.protocols) == 1 else ""
    marked = frozenset(host_of(match.facts.address) for match in matches if match.facts.bootstrap)
    used = frozenset(match.facts.address for match in matches if match.text.endswith(WHEN_IN_USE))
    client = ClientFacts(frozenset(result.bootstrap_servers), marked, used, protocol, result.answers)
    causes = tuple(causes_of(matches, client))
    server, line = _assumed_server(result, causes)
    conditional = not result.matches and bool(others)
    return Explanation(causes, server, line, result.lines, reading.bytes_read, reading.complete, conditional, name)


def own_messages(cause: Cause) -> list[Message]:
    """Return the entries of kproxy's own messages in a cause."""
    messages = (match.pattern.own_message for match in cause.matches if match.pattern)
    return list(dict.fromkeys(message for message in messages if message))


def decoded_numbers(cause: Cause) -> dict[int, str]:
    """Return numbers that are another protocol's bytes, with their meanings."""
    return {match.decoded.number: match.decoded.meaning for match in cause.matches if match.decoded}


def _assumed_server(result: SearchResult, causes: Iterable[Cause]) -> tuple[str, int]:
    """Return the first bootstrap server in a setting, or else the first that a message names, and its line."""
    if result.bootstrap_servers:
        return next(iter(result.bootstrap_servers.items()))
    refined = (match for cause in causes for match in (*cause.matches, *cause.consequences))
    called = (match for match in refined if match.facts.bootstrap and ":" in match.facts.address)
    first = min(called, key=lambda match: match.first, default=None)
    return (first.facts.address, first.first) if first else ("", 0)


def _match_json(match: MessageMatch) -> dict[str, object]:
    return {
        "program": match.program.value if match.program else None,
        "text": match.text,
        "count": match.count,
        "first": match.first,
        "last": match.last,
    }


def _needs_no_resolver(server: str) -> bool:
    host = host_of(server)
    return is_ip(host) or classify(host) is AddressClass.LOOPBACK


def _server_argument(server: str) -> str:
    return shlex.quote(server) if server else _PLACEHOLDER
