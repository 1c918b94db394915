"""What was found in one place, and what could not be looked at. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterCandidate:
    """One cluster, as far as can be told without asking it. `words` are those behind `kproxy` that lead to it; none if
    clients on this machine need no kproxy. `notes` say what else is needed, or assumed."""

    what: str
    words: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A place where kproxy has looked. `problem`: why it could not, "" if it could. `more`: what it has left out, since
    there is too much, and how to see that."""

    name: str
    found: Sequence[ClusterCandidate] = ()
    problem: str = ""
    more: str = ""
