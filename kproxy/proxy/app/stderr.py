"""The stderr of a running kproxy. A thread writes to it, so that a reader that stops delays nothing but the log."""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TextIO

# The most characters that wait for the reader; more are dropped. The lines of a start with a thousand nodes are a
# fifth of it.
MOST = 1024 * 1024
# How long kproxy waits at its end for a slow reader, in seconds.
_PATIENCE = 2.0


class ThreadedStderr(io.TextIOBase):
    """A text stream over the file descriptor of another one. `write` never waits.

    Lines keep their order. Once there is no room, lines are dropped until all that waits is written; then
    `dropped_text` returns the line that stands in the gap for this number of lines. `dropped` counts the lines that
    were never written.
    """

    def __init__(self, stream: TextIO) -> None:
        """Start the thread. Raises OSError if the stream has no file descriptor."""
        self._stream = stream
        self._fd = stream.fileno()
        self._waiting: deque[str] = deque()
        self._size = 0  # characters of those
        self._gap = 0  # lines dropped since the last one that waits
        self._ending = False
        # Reentrant, as Condition's is: a destructor may warn on stderr at any moment.
        self._changed = threading.Condition()
        self.dropped = 0
        self.dropped_text: Callable[[int], str] = lambda lines: f"{lines} lines were dropped\n"
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        with self._changed:
            if self._gap or self._size >= MOST or self._ending:
                lines = text.count("\n")
                self.dropped += lines
                self._gap += lines
            else:
                self._waiting.append(text)
                self._size += len(text)
                self._changed.notify()
        return len(text)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._fd

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute there
        return self._stream.encoding

    def finish(self, seconds: float = _PATIENCE) -> None:
        """Write what waits, for at most this many seconds. What is written to the stream afterwards is dropped."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(seconds)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._gap or self._ending):
                    self._changed.wait()
                if self._waiting:
                    text = self._waiting.popleft()
                    self._size -= len(text)
                elif self._gap:
                    text, self._gap = self.dropped_text(self._gap), 0
                else:
                    return
            self._put(text)

    def _put(self, text: str) -> None:
        data = memoryview(text.encode(self.encoding, "backslashreplace"))
        while data:
            try:
                # Not through the stream: its lock would be held at the interpreter's end.
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:  # another process has made it so
                select.select([], [self._fd], [])
            except OSError:  # the reader has closed, or the disk is full
                with self._changed:
                    self.dropped += text.count("\n")
                return


@contextlib.contextmanager
def threaded_stderr() -> Iterator[ThreadedStderr | None]:
    """Let a thread write everything that this process writes to stderr meanwhile.

    Yields None if stderr is no file, or closed.
    """
    before = sys.stderr
    try:
        before.flush()
        stderr = ThreadedStderr(before)
    except (AttributeError, OSError):  # None if it was closed when Python started
        yield None
        return
    sys.stderr = stderr
    try:
        yield stderr
    finally:
        sys.stderr = before
        stderr.finish()
