"""Observes at all kproxies for a time, and keeps what they recorded: a kproxy may restart, or not answer for a while.

Each kproxy ends the observation by itself at the time that it was given, whatever happens to this process. While this
process runs, it sends the same command again and again: a kproxy that was restarted begins anew. The counts of a record
only grow, so the last record of each life of a kproxy has all that was recorded in it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from kproxy.base.errors import AdminError
from kproxy.migrate.usage.observed import KproxyCoverage
from kproxy.migrate.usage.replies import KproxyRecord
from kproxy.proxy.admin.client import AdminClient

PATH = "/observation"
_MOST_THREADS = 64
# Kproxies observe longer than they were asked, so that the last record can still be read; in seconds.
_GRACE = 120.0


@dataclass(slots=True)
class _Watched:
    """One kproxy: the first and the last record of each of its lives, in their order."""

    name: str
    client: AdminClient
    lives: list[tuple[KproxyRecord, KproxyRecord]] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0
    gaps: list[tuple[float, float]] = field(default_factory=list)
    problem: str = ""


class Collector:
    """The observer of some kproxies. `cluster` is their name for the cluster; `observer` names this process."""

    def __init__(self, kproxies: Sequence[tuple[str, AdminClient]], cluster: str, observer: str) -> None:
        self._watched = [_Watched(name, client) for name, client in kproxies]
        self._cluster = cluster
        self._observer = observer
        self._pool = ThreadPoolExecutor(min(_MOST_THREADS, max(1, len(self._watched))), "kproxy observe")

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def poll(self, seconds: float) -> None:
        """Let all kproxies observe for so many more seconds, and read what they have recorded."""
        list(self._pool.map(lambda watched: self._poll(watched, seconds), self._watched))

    def finish(self) -> None:
        """Read what all kproxies have recorded, and end the observation."""
        list(self._pool.map(self._finish, self._watched))

    @property
    def reached(self) -> int:
        """The number of kproxies whose record was read."""
        return sum(1 for watched in self._watched if watched.lives)

    @property
    def problems(self) -> dict[str, str]:
        """By name, why a kproxy could not be read the last time."""
        return {watched.name: watched.problem for watched in self._watched if watched.problem}

    def records(self) -> list[KproxyRecord]:
        """Return what was recorded since this observer began, one record for each life of each kproxy."""
        return [
            last.minus(first) if number == 0 else last
            for watched in self._watched
            for number, (first, last) in enumerate(watched.lives)
        ]

    def coverage(self) -> tuple[KproxyCoverage, ...]:
        """Return how complete the records are."""
        return tuple(
            KproxyCoverage(
                watched.name,
                watched.began,
                watched.ended,
                tuple(watched.gaps),
                watched.problem,
                _left_out(watched.lives),
            )
            for watched in self._watched
        )

    def _poll(self, watched: _Watched, seconds: float) -> None:
        try:
            command = {"observer": self._observer, "seconds": seconds + _GRACE}
            watched.client.post(PATH, command)
            self._read(watched)
        except AdminError as error:
            watched.problem = str(error)

    def _finish(self, watched: _Watched) -> None:
        try:
            self._read(watched)
            watched.client.post(PATH, {"observer": self._observer, "seconds": 0})
        except AdminError as error:
            watched.problem = str(error)

    def _read(self, watched: _Watched) -> None:
        record = KproxyRecord.read(watched.client.read_lines(PATH), self._cluster, watched.name)
        now = time.time()
        if not record.id:
            raise AdminError(f"{watched.name} has ended the observation: it was restarted")
        watched.problem = ""
        if not watched.lives:
            watched.lives.append((record, record))
            watched.began = now
        elif watched.lives[-1][0].id != record.id:
            watched.gaps.append((watched.ended, max(watched.ended, record.since)))
            watched.lives.append((record, record))
        else:
            watched.lives[-1] = watched.lives[-1][0], record
        watched.ended = now


def _left_out(lives: Sequence[tuple[KproxyRecord, KproxyRecord]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for _, last in lives:
        for kind, count in last.left_out.items():
            counts[kind] = counts.get(kind, 0) + count
    return counts
