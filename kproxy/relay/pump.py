"""The data plane: moving bytes between the two sockets of each session.

    client socket  --recv_into-->  shared chunk  --conversation-->  --send-->  upstream socket     requests
    upstream socket --recv_into-->  shared chunk  --conversation-->  --send-->  client socket       responses

One read, one look at the frames in the chunk, one write; no task, future, queue or copy for each frame.

Back-pressure is a short write: that flow keeps what could not be sent, stops reading its source, and goes on when
its sink takes bytes again. What a flow keeps is at most one chunk, and for a response that is being rewritten
what the rewrite room may hold. Memory for a session is bounded whatever the size of a frame.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from kproxy.errors import WireError
from kproxy.relay.conversation import Conversation
from kproxy.relay.selector import HANGUP, READ, WRITE, RelaySelector
from kproxy.wire.primitives import Buffer

log = logging.getLogger(__name__)

# One read takes at most this many bytes. Larger chunks save system calls, but fall out of the cache; 256 KiB was the
# best of 64 KiB to 1 MiB with 1 MB frames.
CHUNK = 256 * 1024
# What a slow sink leaves of a chunk is copied if it is this small; else the chunk is kept and replaced by another.
_COPY = 16 * 1024
# So many chunks may be kept at once (64 MiB); beyond that, reads are so small that what is left is copied.
_MAX_KEPT = 256
# Chunks that are free again are kept for the next slow sink, so many.
_SPARE_CHUNKS = 8


class Traffic(Protocol):
    """What is counted of one node; the metrics room's NodeCounters."""

    sessions_open: int
    sessions_total: int
    bytes_from_client: int
    bytes_from_upstream: int


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
        self.window = view if self._kept < _MAX_KEPT else view[:_COPY]

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


class _Flow:
    """One direction of a session: from `source` through `step` to `sink`."""

    __slots__ = ("ended", "kept", "pending", "sink", "source", "step")

    def __init__(self, source: socket.socket, sink: socket.socket, step: Callable[[Buffer, float], Buffer]) -> None:
        self.source = source
        self.sink = sink
        self.step = step
        self.pending: Buffer = b""  # what the sink has not taken
        self.kept: bytearray | None = None  # the chunk that `pending` is a part of
        self.ended = False  # the source has said that it sends no more


class Session:
    """One client connection and its upstream connection, moved by a pump until one of them ends.

    `on_end` is called once, with None for an ordinary end, or the error that ended it. `ended_by` is the side that
    closed first or made the error: "client", "upstream", or "kproxy".
    """

    __slots__ = (
        "_client_mask", "_closed", "_draining", "_flows", "_on_end", "_pump", "_upstream_mask",
        "client", "conversation", "ended_by", "traffic", "upstream",
    )  # fmt: skip

    def __init__(
        self,
        pump: Pump,
        client: socket.socket,
        upstream: socket.socket,
        conversation: Conversation,
        traffic: Traffic,
        on_end: Callable[[Session, Exception | None], None],
    ) -> None:
        self._pump = pump
        self.client = client
        self.upstream = upstream
        self.conversation = conversation
        self.traffic = traffic
        self._on_end = on_end
        self._flows = (
            _Flow(client, upstream, conversation.from_client),
            _Flow(upstream, client, conversation.from_upstream),
        )
        self._closed = False
        self._draining = False
        self.ended_by = "kproxy"
        # What the selector was asked to watch for; None: the socket is not registered.
        self._client_mask: int | None = READ
        self._upstream_mask: int | None = READ
        traffic.sessions_open += 1
        traffic.sessions_total += 1
        pump.sessions.add(self)
        pump.selector.relay(client.fileno(), READ, self._on_client)
        pump.selector.relay(upstream.fileno(), READ, self._on_upstream)

    def drain(self) -> None:
        """Close as soon as nothing is in flight."""
        self._draining = True
        self._check_drained()

    def close(self, error: Exception | None = None) -> None:
        """Close both connections now."""
        if self._closed:
            return
        self._closed = True
        selector = self._pump.selector
        selector.wake = True  # `on_end` may schedule something
        for flow in self._flows:
            if flow.source.fileno() >= 0:
                selector.end_relay(flow.source.fileno())
            self._release(flow)
        self.client.close()
        self.upstream.close()
        self.traffic.sessions_open -= 1
        self._on_end(self, error)
        self._pump.ended(self)

    def _on_client(self, mask: int) -> None:
        requests, responses = self._flows
        self._on_event(mask, requests, responses)

    def _on_upstream(self, mask: int) -> None:
        requests, responses = self._flows
        self._on_event(mask, responses, requests)

    def _on_event(self, mask: int, inbound: _Flow, outbound: _Flow) -> None:
        try:
            if mask & WRITE and outbound.pending:
                self._flush(outbound)
            if mask & (READ | HANGUP) and not self._closed:
                if not inbound.pending and not inbound.ended:
                    self._read(inbound)
                elif mask & HANGUP:
                    self._hung_up(inbound)
        except WireError as error:
            self.ended_by = self._side(inbound.source)  # whoever may have ended its side before
            self.close(error)
        except OSError as error:
            self._blame(inbound.source)
            self.close(error)
        except Exception as error:  # a defect must not take the other sessions with it
            log.exception("defect in the data plane, please report it: a session was closed")
            self.close(error)

    def _blame(self, side: socket.socket) -> None:
        """Note who ended the session; the first one counts."""
        if self.ended_by == "kproxy":
            self.ended_by = self._side(side)

    def _side(self, sock: socket.socket) -> str:
        return "client" if sock is self.client else "upstream"

    def _read(self, flow: _Flow) -> None:
        pump = self._pump
        try:
            count = flow.source.recv_into(pump.window)
        except (BlockingIOError, InterruptedError):
            return
        if not count:
            flow.ended = True
            self._blame(flow.source)
            self._end_of(flow)
            return
        requests, responses = self._flows
        if flow is requests:
            self.traffic.bytes_from_client += count
            out = flow.step(pump.window[:count], perf_counter())
            answers = self.conversation.take_answers()
            if answers:
                self._send(responses, answers)
        else:
            self.traffic.bytes_from_upstream += count
            out = flow.step(pump.window[:count], perf_counter())
        if out and not self._closed:
            self._send(flow, out)
        if self._draining:
            self._check_drained()

    def _send(self, flow: _Flow, data: Buffer) -> None:
        if flow.pending:  # only kproxy's own answers come while a flow is blocked
            self._keep(flow, b"".join((flow.pending, data)))
            return
        try:
            sent = flow.sink.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._blame(flow.sink)
            raise
        if sent < len(data):
            self._keep(flow, memoryview(data)[sent:])

    def _keep(self, flow: _Flow, rest: Buffer) -> None:
        if len(rest) <= _COPY:
            self._release(flow)
            flow.pending = bytes(rest)
        elif isinstance(rest, memoryview) and rest.obj is self._pump.chunk:
            flow.kept = self._pump.take_chunk()
            flow.pending = rest
        else:
            self._release(flow)
            flow.pending = rest
        self._update()

    def _flush(self, flow: _Flow) -> None:
        try:
            sent = flow.sink.send(flow.pending)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._blame(flow.sink)
            raise
        if sent < len(flow.pending):
            flow.pending = memoryview(flow.pending)[sent:]
            return
        self._release(flow)
        if flow.ended:
            self._end_of(flow)
        if not self._closed:
            self._update()
            if self._draining:
                self._check_drained()

    def _release(self, flow: _Flow) -> None:
        flow.pending = b""
        if flow.kept is not None:
            self._pump.return_chunk(flow.kept)
            flow.kept = None

    def _end_of(self, flow: _Flow) -> None:
        """The source sends no more: tell the sink once it has everything (half-close); close when both have."""
        if not flow.pending:
            requests, responses = self._flows
            if requests.ended and responses.ended and not requests.pending and not responses.pending:
                self.close()
                return
            flow.sink.shutdown(socket.SHUT_WR)
        self._update()

    def _hung_up(self, inbound: _Flow) -> None:
        """The peer is gone in both directions, while what it sent cannot be passed on yet.

        HANGUP comes whether asked for or not: forget the socket until it may be read again.
        """
        if inbound.ended and not inbound.pending:
            self.close()  # nothing is left to come, and nobody to take anything
            return
        self._pump.selector.end_relay(inbound.source.fileno())
        self._set_mask(inbound, None)

    def _update(self) -> None:
        """Ask the selector for what each socket waits for now."""
        requests, responses = self._flows
        self._want(requests, responses, self._client_mask, self._on_client)
        self._want(responses, requests, self._upstream_mask, self._on_upstream)

    def _want(self, inbound: _Flow, outbound: _Flow, old: int | None, callback: Callable[[int], None]) -> None:
        mask = 0 if inbound.pending or inbound.ended else READ
        if outbound.pending:
            mask |= WRITE
        if mask == old or (old is None and not mask):
            return
        fd = inbound.source.fileno()
        if old is None:
            self._pump.selector.relay(fd, mask, callback)
        else:
            self._pump.selector.modify_relay(fd, mask)
        self._set_mask(inbound, mask)

    def _set_mask(self, inbound: _Flow, mask: int | None) -> None:
        if inbound.source is self.client:
            self._client_mask = mask
        else:
            self._upstream_mask = mask

    def _check_drained(self) -> None:
        requests, responses = self._flows
        if self.conversation.quiet and not requests.pending and not responses.pending:
            self.close()
