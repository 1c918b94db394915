"""The results of a search: the candidates of one place, and why a place could not be searched. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterCandidate:
    """One possible cluster, as far as kproxy can tell without connecting to it."""

    description: str
    words: tuple[str, ...] = ()
    """The arguments of `kproxy` for this cluster; none if clients on this machine need no kproxy."""
    notes: tuple[str, ...] = ()
    """Further requirements, and assumptions."""


@dataclass(frozen=True, slots=True)
class PlaceResult:
    """The result of one place."""

    name: str
    candidates: Sequence[ClusterCandidate] = ()
    problem: str = ""
    """Why the place could not be searched, "" if it could."""
    left_out: str = ""
    """The results that were left out because there are too many, and how to see them."""
