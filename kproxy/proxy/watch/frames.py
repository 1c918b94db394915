"""Passes copies of frames to readers of packet captures: `GET /tap/frames` sends them, a line of JSON each.

`kproxy tap --pcap` reads the lines. As with `feed`: nothing is copied while there are no readers, each reader has a
filter and a bounded queue, and frames that do not fit are lost to that reader, and counted. Content that must not be
shown has been left out before.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from kproxy.proxy.watch.feed import Filter, LineFeed, SessionLabels, format_lost

if TYPE_CHECKING:
    from kproxy.protocol.capture.sessioncapture import RedactedFrame

# Frames and bytes that wait for one reader, and readers at the same time.
MOST_WAITING = 20_000
MOST_BYTES = 16 * 1024 * 1024
MOST_READERS = 4
# The memory of a frame beside its bytes.
_EACH = 500
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


class FrameSubscription:
    """A reader of frames, of which so many wait, and so many bytes."""

    def __init__(self, filter_: Filter, most_bytes: int = MOST_BYTES) -> None:
        self._wanted = filter_
        self._most = most_bytes
        self._waiting: deque[CapturedFrame] = deque()
        self._bytes = 0
        self._lost = 0

    @property
    def is_behind(self) -> bool:
        """True if frames still wait."""
        return bool(self._waiting)

    def offer(self, captured: CapturedFrame) -> None:
        """Queue the frame, if the filter matches and there is room."""
        frame = captured.frame
        if not self._wanted.chooses(captured.session.labels, frame.api, frame.client_id, frame.software):
            return
        if self._bytes + captured.cost > self._most or len(self._waiting) >= MOST_WAITING:
            self._lost += 1
            return
        self._waiting.append(captured)
        self._bytes += captured.cost

    def take_lines(self) -> bytes:
        """Return some of the queued frames, as lines."""
        pieces: list[bytes] = []
        size = 0
        while self._waiting and size < _AT_ONCE and len(pieces) < _LINES_AT_ONCE:
            captured = self._waiting.popleft()
            self._bytes -= captured.cost
            pieces.append(format_line(captured))
            size += len(pieces[-1])
        if self._lost:
            pieces.append(format_lost(self._lost))
            self._lost = 0
        return b"".join(pieces)


class FrameFeed(LineFeed):
    """The readers of frames.

    `capture` is called with `publish` when the first reader comes, and with None after the last one has gone.
    """

    def __init__(self, capture: Callable[[EmitFrame | None], None]) -> None:
        super().__init__(lambda on: capture(self.publish if on else None), MOST_READERS, "capture frames already")

    def publish(self, session: CaptureSession, frame: RedactedFrame) -> None:
        """Pass a frame to all readers."""
        self.offer(CapturedFrame.now(session, frame))

    def subscribe(self, filter_: Filter) -> AsyncGenerator[bytes, None]:
        """Return lines of the frames that match, until the generator is closed. Raises TooManyReaders."""
        return self.lines(FrameSubscription(filter_))


def frame_filter(query: Mapping[str, Sequence[str]]) -> Filter:
    """Read the filter from the query of a request. Raises ValueError with a message that says what is allowed."""
    wanted = Filter.from_query(query)
    if wanted.slow is not None or wanted.errors:
        raise ValueError("slow and errors choose responses, not frames; allowed: cluster, node, api, client")
    return wanted
