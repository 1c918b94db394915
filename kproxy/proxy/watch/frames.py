"""Passes copies of frames to readers of packet captures: `GET /tap/frames` sends them, a line of JSON each.

`kproxy tap --pcap` reads the lines. As with `feed`: nothing is copied while there are no readers, each reader has a
filter and a bounded queue, and frames that do not fit are lost to that reader, and counted. Content that must not be
shown has been left out before.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from kproxy.proxy.watch.feed import Filter, SessionLabels, TooManyReaders, format_lost

if TYPE_CHECKING:
    from kproxy.protocol.capture.sessioncapture import RedactedFrame

# Frames and bytes that wait for one reader, and readers at the same time.
MOST_WAITING = 20_000
MOST_BYTES = 16 * 1024 * 1024
MOST_READERS = 4
# The memory of a frame beside its bytes.
_EACH = 500
# How often a reader gets the queued lines, and how often a sign of life, in seconds.
_EVERY, _ALIVE = 0.1, 5.0
# Written in one go, in bytes and in lines: the data plane shares this thread.
_AT_ONCE, _LINES_AT_ONCE = 256 * 1024, 500


@dataclass(frozen=True, slots=True)
class CaptureSession:
    """The session in which a frame passes."""

    labels: SessionLabels
    local: str
    """The address to which the client has connected."""
    session: str
    """A text that no other captured session of this kproxy has."""


EmitFrame = Callable[[CaptureSession, "RedactedFrame"], None]


@dataclass(frozen=True, slots=True)
class CapturedFrame:
    """A frame, its session, and the Unix time of its last byte."""

    time: float
    session: CaptureSession
    frame: RedactedFrame

    @classmethod
    def now(cls, session: CaptureSession, frame: RedactedFrame) -> CapturedFrame:
        """Return a frame that passes now, by the clock of `perf_counter`."""
        return cls(time() - (perf_counter() - frame.at), session, frame)

    @property
    def cost(self) -> int:
        """About how many bytes the frame takes while it waits."""
        return len(self.frame.data) + _EACH


def format_line(captured: CapturedFrame) -> bytes:
    """Return the frame as one line."""
    frame, place = captured.frame, captured.session
    value: dict[str, Any] = {
        "time": round(captured.time, 6),
        "cluster": place.labels.cluster,
        "node": place.labels.node,
        "client": place.labels.client,
        "local": place.local,
        "session": place.session,
        "client_id": frame.client_id,
        "software": frame.software,
        "from": "kproxy" if frame.to_client else "client",
        "api": frame.api,
        "version": frame.version,
        "bytes": frame.size,
        "left_out": frame.left_out,
        "frame": base64.b64encode(frame.data).decode(),
    }
    if frame.why:
        value["why"] = frame.why
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def matches(filter_: Filter, captured: CapturedFrame) -> bool:
    """Return True if a filter lets this frame through.

    A remark about a whole session passes for any API.
    """
    labels, frame = captured.session.labels, captured.frame
    if filter_.cluster not in (None, labels.cluster) or filter_.node not in (None, labels.node):
        return False
    if filter_.api is not None and frame.api and filter_.api.lower() != frame.api.lower():
        return False
    return filter_.client is None or any(
        filter_.client in text for text in (labels.client, frame.client_id, frame.software)
    )


class FrameQueue:
    """Frames that wait, with a limit of bytes.

    `lost` is the number of frames that did not fit since the last `take_lost`.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._waiting: deque[CapturedFrame] = deque()
        self.bytes = 0
        self.lost = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, captured: CapturedFrame) -> None:
        """Queue the frame, if there is room."""
        if self.bytes + captured.cost > self._most or len(self._waiting) >= MOST_WAITING:
            self.lost += 1
            return
        self._waiting.append(captured)
        self.bytes += captured.cost

    def take(self) -> CapturedFrame:
        """Remove and return the first frame."""
        copied = self._waiting.popleft()
        self.bytes -= copied.cost
        return copied

    def take_lost(self) -> int:
        lost, self.lost = self.lost, 0
        return lost


class _FrameReader:
    def __init__(self, filter_: Filter) -> None:
        self.filter = filter_
        self.queue = FrameQueue(MOST_BYTES)

    def take(self) -> bytes:
        """Return some of the queued frames, as lines."""
        pieces: list[bytes] = []
        size = 0
        while self.queue and size < _AT_ONCE and len(pieces) < _LINES_AT_ONCE:
            pieces.append(format_line(self.queue.take()))
            size += len(pieces[-1])
        if self.queue.lost:
            pieces.append(format_lost(self.queue.take_lost()))
        return b"".join(pieces)


class FrameFeed:
    """All readers of frames.

    `capture` is called with `publish` when the first reader comes, and with None after the last one has gone.
    """

    def __init__(self, capture: Callable[[EmitFrame | None], None]) -> None:
        self._capture = capture
        self._readers: set[_FrameReader] = set()

    def publish(self, session: CaptureSession, frame: RedactedFrame) -> None:
        """Pass a frame to all readers."""
        copied = CapturedFrame.now(session, frame)
        for reader in self._readers:
            if matches(reader.filter, copied):
                reader.queue.add(copied)

    def subscribe(self, filter_: Filter) -> AsyncGenerator[bytes, None]:
        """Return lines of the frames that match, until the generator is closed.

        Raises TooManyReaders.
        """
        self._check_room()
        return self._lines(_FrameReader(filter_))

    def _check_room(self) -> None:
        if len(self._readers) >= MOST_READERS:
            raise TooManyReaders(f"{MOST_READERS} readers capture frames already: kproxy serves no more")

    async def _lines(self, reader: _FrameReader) -> AsyncGenerator[bytes, None]:
        # Not in `subscribe`: a generator that was never started does not notice that it is closed.
        self._check_room()
        self._readers.add(reader)
        try:
            if len(self._readers) == 1:
                self._capture(self.publish)
            quiet = _ALIVE  # the first line is a sign of life
            while True:
                data = reader.take()
                if not data and quiet >= _ALIVE:
                    data = b"\n"
                if data:
                    quiet = 0.0
                    yield data
                wait = 0.0 if reader.queue else _EVERY
                await asyncio.sleep(wait)
                quiet += wait
        finally:
            self._readers.discard(reader)
            if not self._readers:
                self._capture(None)


def frame_filter(query: Mapping[str, Sequence[str]]) -> Filter:
    """Read the filter from the query of a request.

    Raises ValueError with a message that says what is allowed.
    """
    wanted = Filter.from_query(query)
    if wanted.slow is not None or wanted.errors:
        raise ValueError("slow and errors choose responses, not frames; allowed: cluster, node, api, client")
    return wanted
