"""Which fault comes when: a pure function of the seed, so that a run can be had again.

Each actor draws from its own deck of kinds, shuffled anew whenever it is empty: so each kind comes, soon and often.
An event has a seed of its own for everything about it. So a longer run begins as a shorter one does, and a run without
some kinds has all the others at their times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What an actor can do, and the seconds from one of its events to the next, at least and at most."""

    kinds: Sequence[str]
    shortest: float
    longest: float


@dataclass(frozen=True, slots=True)
class Event:
    """`at` is in seconds since the beginning."""

    at: float
    actor: str
    kind: str
    seed: int

    def after(self, seconds: float) -> Event:
        """The same so much later."""
        return replace(self, at=self.at + seconds)


def timetable(seed: int, seconds: float, actors: Mapping[str, Rhythm], without: Collection[str] = ()) -> list[Event]:
    """All events of a run in the order of time. Raises ValueError if `without` has a kind that nobody knows."""
    known = sorted({kind for rhythm in actors.values() for kind in rhythm.kinds})
    unknown = sorted(set(without) - set(known))
    if unknown:
        raise ValueError(f"there is no {', '.join(unknown)} to leave out; there are {', '.join(known)}")
    events = [event for name, rhythm in actors.items() for event in _events(seed, seconds, name, rhythm)]
    return sorted((one for one in events if one.kind not in without), key=lambda one: (one.at, one.actor))


def _events(seed: int, seconds: float, actor: str, rhythm: Rhythm) -> Iterator[Event]:
    chance = Random(f"{seed} {actor}")
    deck: list[str] = []
    at = chance.uniform(0, rhythm.longest)
    while at < seconds:
        if not deck:
            deck = chance.sample(list(rhythm.kinds), len(rhythm.kinds))
        yield Event(at, actor, deck.pop(), chance.getrandbits(32))
        at += chance.uniform(rhythm.shortest, rhythm.longest)
