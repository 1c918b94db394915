"""The pump: the selector, and the memory for reading, which all sessions of a process share."""

from __future__ import annotations

from kproxy.proxy.relay.selector import RelaySelector

# One read takes at most this many bytes. With 1 MB frames, 1 MiB costs up to a quarter less than 256 KiB.
CHUNK = 1024 * 1024
# What a slow sink leaves of a chunk is copied if it is this small; else the chunk is kept and replaced by another.
COPY = 32 * 1024  # the smallest window that a TLS socket can do with
# The size of a chunk while fewer than so many others are kept: 256 of them have 50 MiB. Beyond, reads are so small that
# what is left is copied.
_SIZES: tuple[tuple[int, int], ...] = ((2, CHUNK), (256, 192 * 1024))
# Chunks that are free again are kept for the next slow sink, so many.
_SPARE_CHUNKS = 4


class Pump:
    """The selector of all sessions of a process, and the chunk that they read into."""

    def __init__(self, selector: RelaySelector) -> None:
        self.selector = selector
        self.chunk = bytearray(CHUNK)
        self.window = memoryview(self.chunk)  # the part of it that one read may fill
        self._spare: list[bytearray] = []
        self._kept_chunks = 0  # chunks, and those expected to be

    def take_chunk(self) -> bytearray:
        """Give the chunk to a side that must keep what is in it, and continue with another one."""
        taken = self.chunk
        self._kept_chunks += 1
        self.chunk = self._new_chunk()
        self._set_window()
        return taken

    def return_chunk(self, chunk: bytearray) -> None:
        """Take back a chunk that a side no longer needs."""
        self._kept_chunks -= 1
        if len(self._spare) < _SPARE_CHUNKS:
            self._spare.append(chunk)
        self._fit()

    def expect(self, more: int) -> None:
        """Count this many more sides, or fewer, that may have to keep what one read brings, as if they kept a chunk."""
        self._kept_chunks += more
        self._fit()

    def _size(self) -> int:
        return next((size for most, size in _SIZES if self._kept_chunks < most), _SIZES[-1][1])

    def _new_chunk(self) -> bytearray:
        size = self._size()
        for at, spare in enumerate(self._spare):
            if len(spare) == size:
                return self._spare.pop(at)
        return bytearray(size)

    def _fit(self) -> None:
        if len(self.chunk) < self._size():
            self.chunk = self._new_chunk()  # the other is no spare: what was just read may still be in it
        self._set_window()

    def _set_window(self) -> None:
        self.window = memoryview(self.chunk)[: COPY if self._kept_chunks >= _SIZES[-1][0] else self._size()]
