"""The results of a search, as text and as JSON. Pure."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterator, Sequence

from kproxy.inspect.discover.results import ClusterCandidate, PlaceResult

_WIDTH = 80


def text(places: Sequence[PlaceResult]) -> Iterator[str]:
    """Yield lines for a person. Commands are not wrapped, so that they can be copied."""
    for place in places:
        for candidate in place.candidates:
            yield from _wrapped(f"{place.name}: {candidate.description}")
            if candidate.words:
                yield f"  {command(candidate)}"
            for note in candidate.notes:
                yield from _wrapped(note, "  # ", "  # ")
    for place in places:
        if place.left_out:
            yield from _wrapped(f"there is more: {place.name}: {place.left_out}")
    for place in places:
        if place.problem:
            yield from _wrapped(f"not searched: {place.name}: {place.problem}")
    nothing = [place.name for place in places if not place.candidates and not place.problem and not place.left_out]
    if nothing:
        yield from _wrapped(f"nothing found: {', '.join(nothing)}")


def _wrapped(line: str, first: str = "", others: str = "    ") -> list[str]:
    """Wrap a line for a terminal. An address stays whole."""
    return textwrap.wrap(
        line, _WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )


def command(candidate: ClusterCandidate) -> str:
    """Return the command of a candidate, to paste into a shell."""
    return shlex.join(("kproxy", *candidate.words))


def as_json(places: Sequence[PlaceResult]) -> str:
    """Return the results as JSON."""
    values = [
        {
            "place": place.name,
            "problem": place.problem or None,
            "more": place.left_out or None,
            "found": [
                {
                    "what": candidate.description,
                    "command": ["kproxy", *candidate.words] if candidate.words else None,
                    "notes": list(candidate.notes),
                }
                for candidate in place.candidates
            ],
        }
        for place in places
    ]
    return json.dumps(values, indent=2)
