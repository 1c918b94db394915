"""Who does things to others: in a thread, one event after the other, each undone when it is over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random

from tests.soak.journal import Journal
from tests.soak.timetable import Event, Rhythm

Act = Callable[[Random], str]
"""Does one kind of thing; everything about it is drawn from the given chance. Returns what came of it, in words."""


class Actor:
    """`name` and `gaps` (seconds between two of its events, at least and at most) are the class's, `acts` by kind."""

    name: str
    gaps: tuple[float, float]
    acts: Mapping[str, Act]

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.stopping = threading.Event()
        self.problems: list[str] = []
        self.done = 0
        self._thread: threading.Thread | None = None

    @property
    def rhythm(self) -> Rhythm:
        return Rhythm(tuple(self.acts), *self.gaps)

    def last(self, seconds: float) -> None:
        """Let what was done last so long, or to the end of the run."""
        self.stopping.wait(max(0.0, seconds))

    @contextmanager
    def playing(self, events: Sequence[Event]) -> Iterator[None]:
        """Do all this at its times meanwhile; what is not begun at the end is left out."""
        self._thread = threading.Thread(target=self._play, args=(events,), name=self.name, daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            self._thread.join(300)
            if self._thread.is_alive():
                self.problems.append(f"{self.name} does not come to an end")

    def _play(self, events: Sequence[Event]) -> None:
        for event in events:
            self.last(event.at - self.journal.seconds)
            if self.stopping.is_set():
                return
            self.journal.note(self.name, f"{event.kind} begins")
            try:
                came = self.acts[event.kind](Random(event.seed))
            except Exception as error:  # noqa: BLE001  # the thread's only way to say it
                self.problems.append(f"{self.name}, {event.kind}: {error!r}")
                self.journal.note(self.name, f"{event.kind} FAILED: {error!r}")
                return
            self.journal.note(self.name, f"{event.kind} is over: {came}")
            self.done += 1
