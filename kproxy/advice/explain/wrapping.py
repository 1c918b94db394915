"""Lines that a terminal or an editor has broken within a message, put together again (pure).

People paste what they see, and a narrow window breaks a long line anywhere. A message is found in whole lines only. So
two lines become one where a message of the tables begins in the first and ends in the second. Only a short text is
pasted: a longer one is a file, and passes unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

# The limits of a pasted text, and of the places in it that are tried.
_MOST_BYTES = 48 * 1024
_MOST_SEAMS = 300
# No window is narrower.
_SHORTEST = 40
# A line ends by itself after these.
_ENDS = (b")", b"}", b"]", b";", b">")
# The begin of a record: a time, a level, a program, a frame of a stack trace.
_BEGIN = re.compile(
    rb"[\s\[{<%\"#*-]|\d{2,4}[-/:.]|\d{9}|Caused by|at |at:|Exception |File |Traceback|[\w./-]{1,60} {1,20}\| |"
    rb"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|ERR|INF|WRN)\b|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
)
Spans = Callable[[bytes], Iterable[tuple[int, int]]]
"""Returns where each message begins and ends that a line contains."""


def rejoined(blocks: Iterable[list[bytes]], spans_of: Spans) -> Iterator[list[bytes]]:
    """Yield the groups of lines, those of a short text with broken messages put together.

    A line that was joined to the one before it stays as an empty line, so that the numbers of lines do not change.
    """
    pending: list[bytes] = []
    size = 0
    blocks = iter(blocks)
    for block in blocks:
        pending += block
        size += sum(map(len, block)) + len(block)
        if size > _MOST_BYTES:
            yield pending
            yield from blocks
            return
    yield _rejoin(pending, spans_of)


def _rejoin(lines: list[bytes], spans_of: Spans) -> list[bytes]:
    joined: list[bytes] = []
    whole, parts, seams = lines[0] if lines else b"", 1, 0
    for line in lines[1:]:
        both = b""
        if seams < _MOST_SEAMS and _may_be_broken(whole, line):
            seams += 1
            both = _joined(whole, line, spans_of)
        if both:
            whole, parts = both, parts + 1
        else:
            joined += [whole, *[b""] * (parts - 1)]
            whole, parts = line, 1
    return [*joined, whole, *[b""] * (parts - 1)] if lines else []


def _may_be_broken(first: bytes, second: bytes) -> bool:
    return len(first) >= _SHORTEST and first[-1:] not in _ENDS and bool(second) and not _BEGIN.match(second)


def _joined(first: bytes, second: bytes, spans_of: Spans) -> bytes:
    """Return both lines as one, if a message lies across the break; empty if not."""
    first = first.rstrip()
    for between in (b"", b" "):
        whole = first + between + second
        if any(begin < len(first) < end - len(between) for begin, end in spans_of(whole)):
            return whole
    return b""
