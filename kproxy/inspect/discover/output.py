"""What was found, as text and as JSON. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from kproxy.inspect.discover.results import ClusterCandidate, SearchResult


def text(places: Sequence[SearchResult]) -> Iterator[str]:
    """Lines for a person. Commands are not wrapped, so that they can be copied."""
    for place in places:
        for found in place.found:
            yield f"{place.name}: {found.what}"
            if found.words:
                yield f"  {command(found)}"
            for note in found.notes:
                yield f"  # {note}"
    for place in places:
        if place.more:
            yield f"there is more: {place.name}: {place.more}"
    for place in places:
        if place.problem:
            yield f"not looked at: {place.name}: {place.problem}"
    nothing = [place.name for place in places if not place.found and not place.problem and not place.more]
    if nothing:
        yield f"nothing found: {', '.join(nothing)}"


def command(candidate: ClusterCandidate) -> str:
    """What to paste."""
    return shlex.join(("kproxy", *candidate.words))


def as_json(places: Sequence[SearchResult]) -> str:
    """The same for a program."""
    said = [
        {
            "place": place.name,
            "problem": place.problem or None,
            "more": place.more or None,
            "found": [
                {"what": one.what, "command": ["kproxy", *one.words] if one.words else None, "notes": list(one.notes)}
                for one in place.found
            ],
        }
        for place in places
    ]
    return json.dumps(said, indent=2)
