"""Gives copies of frames to those who want a packet capture: what `GET /tap/frames` sends, a line of JSON each, and
`kproxy tap --pcap` reads.

As with `feed`: nothing is copied while nobody wants it, each reader has a filter and a bounded queue, and what does not
fit is lost to that one, and counted. What must not be shown has been left out before it comes here.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, time
from typing import Any

from kproxy.protocol.capture.sessioncapture import RedactedFrame
from kproxy.proxy.watch import lines
from kproxy.proxy.watch.feed import Filter, TooManyReaders
from kproxy.proxy.watch.lines import SessionLabels

# What waits for one reader, in frames and in bytes, and readers at the same time.
MOST_WAITING = 20_000
MOST_BYTES = 16 * 1024 * 1024
MOST_READERS = 4
# What a frame costs beside its bytes.
_EACH = 500
# How often a reader is given what there is, and how often it hears that kproxy is there, in seconds.
_EVERY, _ALIVE = 0.1, 5.0
# Written in one go, in bytes and in lines: the data plane shares this thread.
_AT_ONCE, _LINES_AT_ONCE = 256 * 1024, 500


@dataclass(frozen=True, slots=True)
class CaptureSession:
    """The session in which a frame passes. `local`: the address that the client has connected to. `session`: a text
    that no other captured session of this kproxy has."""

    where: SessionLabels
    local: str
    session: str


EmitFrame = Callable[[CaptureSession, RedactedFrame], None]


@dataclass(frozen=True, slots=True)
class CapturedFrame:
    """A frame, in which session, and when its last byte came: seconds since 1970."""

    time: float
    place: CaptureSession
    frame: RedactedFrame

    @classmethod
    def now(cls, session: CaptureSession, frame: RedactedFrame) -> CapturedFrame:
        """One that passes now, by the clock of `perf_counter`."""
        return cls(time() - (perf_counter() - frame.at), session, frame)

    @property
    def cost(self) -> int:
        """About how many bytes it takes while it waits."""
        return len(self.frame.data) + _EACH


def format_line(captured: CapturedFrame) -> bytes:
    """One line."""
    frame, place = captured.frame, captured.place
    value: dict[str, Any] = {
        "time": round(captured.time, 6),
        "cluster": place.where.cluster,
        "node": place.where.node,
        "client": place.where.client,
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
    """Whether a filter lets this one through; the API of a remark about a whole session is any."""
    where, frame = captured.place.where, captured.frame
    if filter_.cluster not in (None, where.cluster) or filter_.node not in (None, where.node):
        return False
    if filter_.api is not None and frame.api and filter_.api.lower() != frame.api.lower():
        return False
    return filter_.client is None or any(
        filter_.client in text for text in (where.client, frame.client_id, frame.software)
    )


class FrameQueue:
    """Frames that wait, with a limit of bytes; `lost` is how many did not fit since the last `take_lost`."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._waiting: deque[CapturedFrame] = deque()
        self.bytes = 0
        self.lost = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, captured: CapturedFrame) -> None:
        """Keep it, if there is room."""
        if self.bytes + captured.cost > self._most or len(self._waiting) >= MOST_WAITING:
            self.lost += 1
            return
        self._waiting.append(captured)
        self.bytes += captured.cost

    def take(self) -> CapturedFrame:
        """The first one."""
        copied = self._waiting.popleft()
        self.bytes -= copied.cost
        return copied

    def take_lost(self) -> int:
        lost, self.lost = self.lost, 0
        return lost


class _FrameReader:
    def __init__(self, filter_: Filter) -> None:
        self.wanted = filter_
        self.queue = FrameQueue(MOST_BYTES)

    def take(self) -> bytes:
        """Some lines of what there is."""
        pieces: list[bytes] = []
        size = 0
        while self.queue and size < _AT_ONCE and len(pieces) < _LINES_AT_ONCE:
            pieces.append(format_line(self.queue.take()))
            size += len(pieces[-1])
        if self.queue.lost:
            pieces.append(lines.format_lost(self.queue.take_lost()))
        return b"".join(pieces)


class FrameFeed:
    """All who want frames. `capture` is given `publish` when the first one comes, and None after the last."""

    def __init__(self, capture: Callable[[EmitFrame | None], None]) -> None:
        self._capture = capture
        self._readers: set[_FrameReader] = set()

    def publish(self, session: CaptureSession, frame: RedactedFrame) -> None:
        """A frame has passed."""
        copied = CapturedFrame.now(session, frame)
        for reader in self._readers:
            if matches(reader.wanted, copied):
                reader.queue.add(copied)

    def subscribe(self, filter_: Filter) -> AsyncGenerator[bytes, None]:
        """Lines, from the first one that is asked for until the generator is closed. Raises TooMany."""
        self._check_room()
        return self._lines(_FrameReader(filter_))

    def _check_room(self) -> None:
        if len(self._readers) >= MOST_READERS:
            raise TooManyReaders(f"{MOST_READERS} readers capture frames already: kproxy serves no more")

    async def _lines(self, reader: _FrameReader) -> AsyncGenerator[bytes, None]:
        # Here and not in `subscribe`: of a generator that was never begun, nothing hears that it is closed.
        self._check_room()
        self._readers.add(reader)
        try:
            if len(self._readers) == 1:
                self._capture(self.publish)
            quiet = _ALIVE  # the first line says that kproxy looks on
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
    """As the query of a request says. Raises ValueError with a message that says what is allowed."""
    wanted = Filter.of(query)
    if wanted.slow is not None or wanted.errors:
        raise ValueError("slow and errors choose responses, not frames; allowed: cluster, node, api, client")
    return wanted
