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
from functools import partial
from time import perf_counter
from typing import Protocol

from kproxy.errors import WireError
from kproxy.relay.conversation import Conversation
from kproxy.relay.pump import COPY, Pump
from kproxy.relay.selector import HANGUP, READ, WRITE, Callback
from kproxy.wire.primitives import Buffer

log = logging.getLogger(__name__)


class Traffic(Protocol):
    """What is counted of one node; the metrics room's NodeCounters."""

    sessions_open: int
    sessions_total: int
    bytes_from_client: int
    bytes_from_upstream: int


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


def _ignore(mask: int) -> None: ...


class Session:
    """One client connection and its upstream connection, moved by a pump until one of them ends.

    `on_end` is called once, with None for an ordinary end, or the error that ended it. `ended_by` is the side that
    closed first or made the error: "client", "upstream", or "kproxy".
    """

    __slots__ = (
        "_client_mask", "_closed", "_draining", "_flows", "_on_client", "_on_end", "_on_held", "_on_upstream", "_pump",
        "_upstream_mask", "client", "conversation", "ended_by", "traffic", "upstream",
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
        self._on_held: list[Callable[[], None]] = []  # whom to call when the last request has left whole
        self._closed = False
        self._draining = False
        self.ended_by = "kproxy"
        # What the selector was asked to watch for; None: the socket is not registered.
        self._client_mask: int | None = READ
        self._upstream_mask: int | None = READ
        traffic.sessions_open += 1
        traffic.sessions_total += 1
        pump.sessions.add(self)
        requests, responses = self._flows
        self._on_client = self._reader(requests, responses)
        self._on_upstream = self._reader(responses, requests)
        pump.selector.relay(client.fileno(), READ, self._on_client)
        pump.selector.relay(upstream.fileno(), READ, self._on_upstream)

    def drain(self) -> None:
        """Close as soon as nothing is in flight."""
        self._draining = True
        self._check_drained()

    # Between the client's requests

    def hold(self, on_held: Callable[[], None]) -> None:
        """Stop passing the client's requests on; `on_held` is called when the last has left whole. From then on, until
        `release`, `ask` may be called. Nothing is called once the session has ended. Requests pass again when each who
        has called this has called `release`."""
        if self._closed:
            return
        self.conversation.hold()
        self._on_held.append(on_held)
        self._check_held()

    def hold_before_first_request(self, on_held: Callable[[], None]) -> None:
        """Pass on what a client asks to log in; before its first other request, `hold`. To be called at once, before
        any byte has moved."""
        self.conversation.hold_before_first_request(partial(self._on_held.append, on_held))

    def ask(self, request: bytes, on_response: Callable[[bytes], None]) -> None:
        """Send a request of kproxy's own, a whole frame; `on_response` is given its response, without the size."""

        def answered(response: bytes) -> None:
            self._pump.selector.wake = True  # it may schedule something
            on_response(response)

        self._send_now(self._flows[0], self.conversation.ask(request, answered))

    def release(self) -> None:
        """Pass the client's requests on again, unless somebody else holds them."""
        if self._closed:
            return
        try:
            out = self.conversation.release(perf_counter())
        except WireError as error:
            self.ended_by = "client"
            self.close(error)
            return
        self._send_now(self._flows[0], out)
        if not self._flows[1].pending:
            self._send_now(self._flows[1], self.conversation.take_answers())
        if not self._closed:
            self._update()
            self._check_held()

    def _send_now(self, flow: _Flow, data: Buffer) -> None:
        try:
            self._send(flow, data)
        except OSError as error:
            self._failed(error, flow.sink)

    def _check_held(self) -> None:
        if not self._on_held or not self.conversation.held:
            return
        self._pump.selector.wake = True  # they may schedule something
        self._update()
        waiting = self._on_held[:]
        self._on_held.clear()
        for on_held in waiting:
            if not self._closed:
                on_held()

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
        self._on_client = self._on_upstream = _ignore  # they refer to the session
        self.client.close()
        self.upstream.close()
        self.traffic.sessions_open -= 1
        self._on_end(self, error)
        self._pump.ended(self)

    def _reader(self, inbound: _Flow, outbound: _Flow) -> Callback:
        """What the selector calls for the socket that is the source of `inbound` and the sink of `outbound`.

        What is usual is this one function: with small frames, calls and attributes are what costs.
        """
        pump, traffic, conversation = self._pump, self.traffic, self.conversation
        recv_into, step = inbound.source.recv_into, inbound.step
        of_client = inbound is self._flows[0]

        def on_event(mask: int) -> None:
            if mask != READ or inbound.pending or inbound.ended:
                self._on_event(mask, inbound, outbound)
                return
            try:
                try:
                    count = recv_into(pump.window)
                except (BlockingIOError, InterruptedError):
                    return
                if not count:
                    inbound.ended = True
                    self._blame(inbound.source)
                    self._end_of(inbound)
                    return
                if of_client:
                    traffic.bytes_from_client += count
                    data = step(pump.window[:count], perf_counter())
                    if data:
                        self._send(inbound, data)
                    if conversation.answers or self._on_held:
                        self._requests_passed()
                else:
                    traffic.bytes_from_upstream += count
                    data = step(pump.window[:count], perf_counter())
                    if data:
                        self._send(inbound, data)
                if self._draining:
                    self._check_drained()
            except Exception as error:  # noqa: BLE001  # a defect must not take the other sessions with it
                self._failed(error, inbound.source)

        return on_event

    def _on_event(self, mask: int, inbound: _Flow, outbound: _Flow) -> None:
        if mask & WRITE and outbound.pending:
            try:
                self._flush(outbound)
            except Exception as error:  # noqa: BLE001  # likewise
                self._failed(error, outbound.sink)
        if mask & (READ | HANGUP) and not self._closed:
            if not inbound.pending and not inbound.ended:
                (self._on_client if inbound.source is self.client else self._on_upstream)(READ)
            elif mask & HANGUP:
                self._hung_up(inbound)

    def _failed(self, error: Exception, side: socket.socket) -> None:
        """Close because of what the peer at `side` did, or the connection to it, or kproxy itself."""
        if isinstance(error, WireError):
            self.ended_by = self._side(side)  # whoever may have ended its side before
        elif isinstance(error, OSError):
            self._blame(side)
        else:
            log.error("defect in the data plane, please report it: a session was closed", exc_info=error)
        self.close(error)

    def _blame(self, side: socket.socket) -> None:
        """Note who ended the session; the first one counts."""
        if self.ended_by == "kproxy":
            self.ended_by = self._side(side)

    def _side(self, sock: socket.socket) -> str:
        return "client" if sock is self.client else "upstream"

    def _requests_passed(self) -> None:
        # After a look at what the client has sent, kproxy may have something to say itself. The client must take first
        # what stands before that; until then it is not read.
        if self.conversation.answers:
            if self._flows[1].pending:
                self._update()
            else:
                self._send(self._flows[1], self.conversation.take_answers())
        self._check_held()

    def _send(self, flow: _Flow, data: Buffer) -> None:
        if self._closed or not data:
            return
        if flow.pending:  # only kproxy's own words come behind something else
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
        if len(rest) <= COPY:
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
        if sent < len(flow.pending):
            flow.pending = memoryview(flow.pending)[sent:]
            return
        self._release(flow)
        if self.conversation.answers and flow.sink is self.client:
            self._send(flow, self.conversation.take_answers())
            if flow.pending:
                return
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
        mask = 0 if inbound.pending or inbound.ended or self._is_held(inbound) else READ
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

    def _is_held(self, inbound: _Flow) -> bool:
        return (self.conversation.held or len(self.conversation.answers) > 0) and inbound.source is self.client

    def _set_mask(self, inbound: _Flow, mask: int | None) -> None:
        if inbound.source is self.client:
            self._client_mask = mask
        else:
            self._upstream_mask = mask

    def _check_drained(self) -> None:
        requests, responses = self._flows
        if self.conversation.quiet and not requests.pending and not responses.pending:
            self.close()
