"""What is said about a text: the causes, and the commands to go on with."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import BinaryIO

from kproxy.advice.explain.causes import Cause, causes_of, merge_by_message
from kproxy.advice.explain.linereader import MOST, LineReader
from kproxy.advice.explain.matches import MessageMatch, SearchResult, search
from kproxy.advice.explain.sentences import fill_in, sentence, title
from kproxy.advice.remedies import Fault, remedy_of
from kproxy.advice.remedies.own import OwnMessage

# With these, kproxy beside the client helps at once.
_HELPS = frozenset(
    {
        Fault.NAME_NOT_RESOLVED, Fault.NAME_RESOLVES_WRONGLY, Fault.LOOPBACK_ADVERTISED, Fault.WILDCARD_ADVERTISED,
        Fault.CONTAINER_NAME_ADVERTISED, Fault.KUBERNETES_NAME_ADVERTISED, Fault.PRIVATE_ADDRESS_ADVERTISED, Fault.FILTERED,
        Fault.NO_ROUTE, Fault.PORT_CLOSED, Fault.WRONG_LISTENER,
    }
)  # fmt: skip
_PLACEHOLDER = "HOST:PORT"


@dataclass(frozen=True, slots=True)
class Explanation:
    """`server` is the bootstrap server that is assumed, `server_line` the line that names it (0: none)."""

    causes: tuple[Cause, ...]
    server: str
    server_line: int
    lines: int
    bytes_read: int
    complete: bool

    @property
    def doctor_command(self) -> str:
        """The command that looks at the real cluster."""
        return f"kproxy doctor {_argument(self.server)}"

    def run_command(self, cause: Cause) -> str:
        """The command that makes it work now, if kproxy can."""
        others = [address for address in cause.addresses() if address != self.server]
        reachable = len(cause.faults) == 1 and cause.faults[0] in _HELPS and (others or not self.server)
        return f"kproxy run -b {_argument(self.server)}" if reachable else ""

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "known": bool(self.causes),
            "causes": [self._cause(cause) for cause in self.causes],
            "bootstrap": {"address": self.server, "line": self.server_line} if self.server else None,
            "doctor": self.doctor_command,
            "lines": self.lines,
            "bytes": self.bytes_read,
            "complete": self.complete,
        }

    def _cause(self, cause: Cause) -> dict[str, object]:
        return {
            "faults": [fault.value for fault in cause.faults],
            "title": title(cause),
            "sentence": sentence(cause),
            "remedies": [
                {
                    "fault": one.value,
                    "cause": remedy_of(one).cause,
                    "check": fill_in(remedy_of(one).check, cause, self.server),
                    "fix": fill_in(remedy_of(one).fix, cause, self.server),
                }
                for one in cause.faults
            ],
            "meanings": [row.meaning for row in own_messages(cause)],
            "numbers": [{"number": number, "meaning": meaning} for number, meaning in decoded_numbers(cause).items()],
            "codes": [
                {"code": one.number, "name": one.name, "text": one.text, "retriable": one.retriable}
                for one in dict.fromkeys(finding.code for finding in cause.matches)
                if one
            ],
            "addresses": cause.addresses(),
            "nodes": sorted({one.facts.node for one in cause.matches if one.facts.node is not None}),
            "topics": sorted({one.facts.topic for one in cause.matches if one.facts.topic}),
            "said": [_finding(one) for one in merge_by_message(cause.matches)],
            "follows": [_finding(one) for one in merge_by_message(cause.consequences)],
            "run": self.run_command(cause) or None,
        }


def explain(stream: BinaryIO, most: int = MOST) -> Explanation:
    """Read a text to its end, or to `most` bytes, and say what is wrong."""
    reading = LineReader(stream, most)
    found = search(reading.line_blocks())
    server, line = _server(found)
    causes = causes_of(found.matches.values(), found.bootstrap_servers)
    return Explanation(tuple(causes), server, line, found.lines, reading.bytes_read, reading.complete)


def own_messages(cause: Cause) -> list[OwnMessage]:
    """What kproxy's own messages mean."""
    rows = (finding.pattern.own_message for finding in cause.matches if finding.pattern)
    return list(dict.fromkeys(row for row in rows if row))


def decoded_numbers(cause: Cause) -> dict[int, str]:
    """Sizes and keys that were none, and what they are."""
    return {one.decoded.number: one.decoded.meaning for one in cause.matches if one.decoded}


def _server(found: SearchResult) -> tuple[str, int]:
    """The first bootstrap server in a setting, or else the first that a message calls so."""
    if found.bootstrap_servers:
        return next(iter(found.bootstrap_servers.items()))
    called = (one for one in found.matches.values() if one.facts.bootstrap and ":" in one.facts.address)
    first = min(called, key=lambda one: one.first, default=None)
    return (first.facts.address, first.first) if first else ("", 0)


def _finding(finding: MessageMatch) -> dict[str, object]:
    return {
        "program": finding.program.value if finding.program else None,
        "text": finding.text,
        "count": finding.count,
        "first": finding.first,
        "last": finding.last,
    }


def _argument(server: str) -> str:
    return shlex.quote(server) if server else _PLACEHOLDER
