"""What the sessions of a process share: the chunk that they read into, and the drain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kproxy.relay.selector import RelaySelector

if TYPE_CHECKING:
    from kproxy.relay.session import Session

# One read takes at most this many bytes. Larger chunks save system calls, but fall out of the cache; 256 KiB was the
# best of 64 KiB to 1 MiB with 1 MB frames.
CHUNK = 256 * 1024
# What a slow sink leaves of a chunk is copied if it is this small; else the chunk is kept and replaced by another.
COPY = 16 * 1024
# So many chunks may be kept at once (64 MiB); beyond that, reads are so small that what is left is copied.
_MAX_KEPT = 256
# Chunks that are free again are kept for the next slow sink, so many.
_SPARE_CHUNKS = 8


class Pump:
    """What all sessions of a process share: the selector and the chunk that they read into."""

    def __init__(self, selector: RelaySelector) -> None:
        self.selector = selector
        self.sessions: set[Session] = set()
        self.chunk = bytearray(CHUNK)
        self.window = memoryview(self.chunk)  # the part of it that one read may fill
        self._spare: list[bytearray] = []
        self._kept = 0
        self._on_quiet: Callable[[], None] | None = None

    def take_chunk(self) -> bytearray:
        """Give the chunk to a flow that must keep what is in it."""
        taken = self.chunk
        self.chunk = self._spare.pop() if self._spare else bytearray(CHUNK)
        self._kept += 1
        self._set_window()
        return taken

    def return_chunk(self, chunk: bytearray) -> None:
        self._kept -= 1
        if len(self._spare) < _SPARE_CHUNKS:
            self._spare.append(chunk)
        self._set_window()

    def _set_window(self) -> None:
        view = memoryview(self.chunk)
        self.window = view if self._kept < _MAX_KEPT else view[:COPY]

    def drain(self, on_quiet: Callable[[], None]) -> None:
        """Close each session as soon as nothing is in flight in it; call `on_quiet` when none is left."""
        self._on_quiet = on_quiet
        for session in list(self.sessions):
            session.drain()
        self._check_quiet()

    def ended(self, session: Session) -> None:
        self.sessions.discard(session)
        self._check_quiet()

    def _check_quiet(self) -> None:
        if self._on_quiet is not None and not self.sessions:
            self.selector.wake = True
            self._on_quiet()
