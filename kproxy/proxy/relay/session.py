"""The data plane of one session: it moves bytes between the two sides.

    client socket  --recv_into-->  shared chunk  --conversation-->  --send-->  upstream socket     requests
    upstream socket --recv_into-->  shared chunk  --conversation-->  --send-->  client socket       responses

One read, one scan of the frames in the chunk, one write; no task, future, queue or copy for each frame.

Back-pressure is a short write: a side that has not taken everything keeps the rest, and kproxy does not read the other
side until it has. A side keeps at most one chunk, and of a response that is being rewritten what the rewrite room may
hold. The memory for a session is bounded whatever the size of a frame.

The module is longer than others: what runs for each chunk stays together, as a call into another module costs.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection
from functools import partial
from time import perf_counter
from typing import Protocol

from kproxy.base.errors import WireError
from kproxy.base.messages.runtime import DATA_PLANE_DEFECT
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import INT32, Buffer
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.relay.observedconversation import (
    EmitExchange,
    EmitFrame,
    NewRequestReader,
    ObservedConversation,
)
from kproxy.proxy.relay.pump import Pump
from kproxy.proxy.relay.selector import HANGUP, READ, WRITE, Callback
from kproxy.proxy.relay.side import Side, Step
from kproxy.proxy.switching.writes import HARMFUL_IF_REPEATED

log = logging.getLogger(__name__)


class Traffic(Protocol):
    """The counters of one node; the metrics room's NodeCounters."""

    sessions_open: int
    sessions_total: int
    bytes_from_client: int
    bytes_from_upstream: int


class Session:
    """One client connection and its upstream connection, until one of them ends.

    `on_end` is called once, with None for an ordinary end, or the error that ended it. `ended_by` is the side that
    closed first or caused the error: "client", "upstream", or "kproxy". `unacked_writes`: the writes without an answer
    when it ended. They would be doubled if the client repeated them in another cluster. While `on_upstream_end` is set,
    it is called when the broker sends no more, and the client's connection stays as it is: kproxy still has an answer.
    """

    __slots__ = (
        "_busy",
        "_draining",
        "_observation",
        "_on_end",
        "_on_held",
        "_pump",
        "_steps",
        "client",
        "closed",
        "conversation",
        "ended_by",
        "on_upstream_end",
        "traffic",
        "unacked_writes",
        "upstream",
    )

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
        self._steps = conversation.from_client, conversation.from_upstream  # while there is no observer
        self.client = Side("client", client, conversation.from_client, pump)
        self.upstream = Side("upstream", upstream, conversation.from_upstream, pump)
        self.conversation = conversation
        self.traffic = traffic
        self._on_end = on_end
        self._on_held: list[Callable[[], None]] = []  # what to call when the last request has been sent whole
        self._draining = False
        self._observation: ObservedConversation | None = None
        self._busy = False  # while a response takes long
        conversation.set_on_busy(self._defer_response)
        self.closed = False
        self.ended_by = "kproxy"
        self.on_upstream_end: Callable[[], None] | None = None
        self.unacked_writes = 0
        self.client.on_event, self.upstream.on_event = self._reader(of_client=True), self._reader(of_client=False)
        try:
            self.client.watch(READ)
            self.upstream.watch(READ)
        except OSError:  # the system watches no more
            self.client.close()
            self.upstream.close()
            raise
        traffic.sessions_open += 1
        traffic.sessions_total += 1

    def receive_first(self, first: bytes, answer: bytes = b"") -> None:
        """Take what was read from the client before the session existed. To be called once, before the loop turns.

        `answer`: the body of the broker's response to the first request in it, which the broker has received already.
        """
        self.traffic.bytes_from_client += len(first)
        self._pass_requests(partial(self.client.step, first), first, answer)

    def _pass_requests(self, step: Callable[[float], Buffer], requests: Buffer, answer: bytes) -> None:
        """Send on what passes of these requests of the client by this step.

        `answer`: the body of the broker's response to the first of them, which the broker has received already, or b"".
        It is dropped if this request does not pass as it came.
        """
        side = self.client
        try:
            out = step(perf_counter())
            if answer:
                end = 4 + INT32.unpack_from(requests)[0]
                if out[:end] == requests[:end]:
                    out = memoryview(out)[end:]
                else:
                    answer = b""
            self._send(self.upstream, out)
            self._requests_passed()
            if self.closed:
                return
            if answer:
                side = self.upstream
                answer = b"".join((INT32.pack(4 + len(answer)), requests[8:12], answer))
                self.traffic.bytes_from_upstream += len(answer)
                self._send(self.client, side.step(answer, perf_counter()))
            self._update_events()
            if self._draining:
                self._check_drained()
        except Exception as error:  # noqa: BLE001  # as of what is read
            self._failed(error, side)

    def drain(self) -> None:
        """Close as soon as nothing is in flight."""
        self._draining = True
        self._check_drained()

    @property
    def acked(self) -> bool:
        """True if the session is held, nothing is in flight, and the client's system has acknowledged all answers."""
        return self.settled and not self.client.unacked_bytes

    # For observers

    def observe(
        self,
        exchanges: EmitExchange | None,
        frames: EmitFrame | None = None,
        new_reader: NewRequestReader | None = None,
    ) -> None:
        """Emit each exchange, and a copy of each frame, and let requests be read, from now on; all None: stop.

        Observation is free when off: it replaces the two steps of the session, and puts them back.
        """
        if self.closed:
            return
        wanted = exchanges is not None or frames is not None or new_reader is not None
        if wanted and self._observation is None:
            observed = self._observation = ObservedConversation(self.conversation)
            self._set_steps(observed.from_client, observed.from_upstream)
        if self._observation is not None:
            self._observation.set_sinks(exchanges, frames, new_reader)
            if not wanted:
                self._observation = None
                self._set_steps(*self._steps)

    def _set_steps(self, from_client: Step, from_upstream: Step) -> None:
        self.client.step, self.upstream.step = from_client, from_upstream
        self.client.set_callback(self._reader(of_client=True))
        self.upstream.set_callback(self._reader(of_client=False))

    # Between the client's requests

    def hold(self, on_held: Callable[[], None] | None = None) -> None:
        """Stop passing the client's requests on; `on_held` is called when the last has been sent whole.

        From then on, until `release`, `ask` may be called. Nothing is called once the session has ended. Requests pass
        again when each caller has called `release`.
        """
        if self.closed:
            return
        self.conversation.hold()
        if on_held is not None:
            self._on_held.append(on_held)
        if not self.conversation.held:  # the read that ends the request may bring more, which waits then
            self.client.expect_rest()
        self._check_held()

    def hold_before_first_request(self, on_held: Callable[[], None]) -> None:
        """Pass on the client's login; before its first other request, `hold`.

        To be called at once, before any byte has moved.
        """
        self.conversation.hold_before_first_request(partial(self._on_held.append, on_held))

    def hold_writes(self, on_held: Callable[[], None]) -> None:
        """Pass on all requests but writes. Before the next write, `hold`, and call `on_held`.

        Nothing behind the write passes either, as order is Kafka's rule.
        """
        if not self.closed:
            self.conversation.hold_before_write(partial(self._on_held.append, on_held))

    def release_writes(self) -> None:
        """Undo `hold_writes`."""
        if not self.closed and not self.conversation.pass_writes():
            self.release()

    def unanswered(self, keys: Collection[int]) -> int:
        """Return how many requests of these APIs are in flight.

        It is at least 1 if the client has used one, and has not taken all bytes that it was sent: the answer may be
        among these. It is 0 if the use of APIs is not recorded.
        """
        if not self.conversation.has_used(keys):
            return 0
        return self.conversation.unanswered(keys) or int(self._pending or self.client.unacked_bytes > 0)

    def note_used_apis(self) -> None:
        """Record from now on which APIs the client uses, as `unanswered` needs it."""
        conversation = self.conversation
        untaken = self._pending or self.client.unacked_bytes > 0
        # kproxy no longer knows which request an answer in flight belongs to. A client that fetches does not write
        # on the same connection.
        conversation.note_used_apis(unsure=untaken and not conversation.unanswered((ApiKey.FETCH,)))

    def ask(self, request: bytes, on_response: Callable[[bytes], None]) -> None:
        """Send a request of kproxy's own, a whole frame; `on_response` receives its response, without the size."""

        def answered(response: bytes) -> None:
            self._pump.selector.wake = True  # it may schedule something
            on_response(response)

        self._send_now(self.upstream, self.conversation.ask(request, answered))

    def release(self, answer: bytes = b"") -> None:
        """Pass the client's requests on again, unless there is another hold.

        `answer`: as of `receive_first`, for the first request that waits.
        """
        if not self.closed:
            self._pass_requests(self.conversation.release, self.conversation.waiting, answer)

    @property
    def settled(self) -> bool:
        """True if the session is held, and nothing that has passed is in flight in it."""
        return self.conversation.held and self.conversation.settled and not self._pending

    @property
    def _pending(self) -> bool:
        return len(self.client.pending) > 0 or len(self.upstream.pending) > 0

    def _send_now(self, side: Side, data: Buffer) -> None:
        try:
            self._send(side, data)
        except OSError as error:
            self._failed(error, side)

    def _check_held(self) -> None:
        """Call those who wait until no request is half sent to the broker."""
        if not self.conversation.held:
            return
        self.client.expect_no_rest()
        self._update_events()
        waiting, self._on_held = self._on_held, []
        for on_held in waiting:
            self._pump.selector.wake = True  # it may schedule something
            if not self.closed:
                on_held()

    def _check_drained(self) -> None:
        if self.conversation.is_idle and not self._pending:
            self.close()

    def close(self, error: Exception | None = None) -> None:
        """Close both connections now."""
        if self.closed:
            return
        self.unacked_writes = self.unanswered(HARMFUL_IF_REPEATED)
        self.closed = True
        self.conversation.set_on_busy(_nothing)  # the callback refers to the session
        self._pump.selector.wake = True  # `on_end` may schedule something
        self.client.close()
        self.upstream.close()
        self.traffic.sessions_open -= 1
        self._on_end(self, error)

    def _reader(self, *, of_client: bool) -> Callback:
        """Return the selector's callback for a side, which sends its bytes to the other.

        The usual path is this one function: with small frames, calls and attributes are what costs.
        """
        side, other = (self.client, self.upstream) if of_client else (self.upstream, self.client)
        pump, traffic, conversation = self._pump, self.traffic, self.conversation
        recv_into, step = side.sock.recv_into, side.step

        def on_event(mask: int) -> None:
            if mask != READ or other.pending or side.ended:
                self._on_event(mask, side, other)
                return
            try:
                try:
                    count = recv_into(pump.window)
                except (BlockingIOError, InterruptedError):
                    return
                if not count:
                    side.ended = True
                    self._blame(side)
                    self._on_end_of_stream(side, other)
                    return
                if of_client:
                    traffic.bytes_from_client += count
                    data = step(pump.window[:count], perf_counter())
                    if data:
                        self._send(other, data)
                    if conversation.answers or conversation.hold_count:
                        self._requests_passed()
                else:
                    traffic.bytes_from_upstream += count
                    data = step(pump.window[:count], perf_counter())
                    if data:
                        self._send(other, data)
                if self._draining:
                    self._check_drained()
            except Exception as error:  # noqa: BLE001  # a defect must not take the other sessions with it
                self._failed(error, side)

        return on_event

    def _on_event(self, mask: int, side: Side, other: Side) -> None:
        if mask & WRITE and side.pending:
            try:
                self._flush(side, other)
            except Exception as error:  # noqa: BLE001  # likewise
                self._failed(error, side)
        if mask & (READ | HANGUP) and not self.closed:
            if not other.pending and not side.ended and not (self._busy and side is self.upstream):
                side.on_event(READ)
            elif mask & HANGUP:
                self._on_hang_up(side, other)

    def _failed(self, error: Exception, side: Side) -> None:
        """Close because of what the peer at this side did, or the connection to it, or kproxy itself."""
        if isinstance(error, WireError):
            self.ended_by = side.name  # even if the other side ended first
        elif isinstance(error, OSError):
            self._blame(side)
        else:
            log.error(DATA_PLANE_DEFECT(), exc_info=error)
        self.close(error)

    def _blame(self, side: Side) -> None:
        """Note which side ended the session; the first one counts."""
        if self.ended_by == "kproxy":
            self.ended_by = side.name

    def _requests_passed(self) -> None:
        # After a look at what the client has sent, kproxy may have something to say itself. The client must take first
        # what stands before that; until then it is not read.
        if self.conversation.answers:
            if self.client.pending:
                self._update_events()
            else:
                self._send(self.client, self._take_answers())
        self._check_held()

    def _take_answers(self) -> bytearray:
        answers = self.conversation.take_answers()
        if self._observation is not None:
            self._observation.to_client(answers, perf_counter())
        return answers

    def _send(self, side: Side, data: Buffer) -> None:
        if self.closed or not data:
            return
        if side.pending:  # only kproxy's own answers follow other bytes
            side.keep(b"".join((side.pending, data)))
            self._update_events()
            return
        try:
            sent = side.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._blame(side)
            raise
        if sent < len(data):
            side.keep(memoryview(data)[sent:])
            self._update_events()

    def _flush(self, side: Side, other: Side) -> None:
        if not side.flush():
            return
        if side is self.client and self.conversation.answers:
            self._send(side, self._take_answers())
            if side.pending:
                return
        if side is self.client and self._busy:
            self._pump.selector.defer(self._resume_response)
        if other.ended:
            self._on_end_of_stream(other, side)
        if not self.closed:
            self._update_events()
            if self._draining:
                self._check_drained()

    def _defer_response(self) -> None:
        """Continue with a response later; read nothing more from the broker until then."""
        self._busy = True
        self._update_events()
        self._pump.selector.defer(self._resume_response)

    def _resume_response(self) -> None:
        if self.closed or not self._busy or self.client.pending:  # bytes that it has not taken come first, see `_flush`
            return
        self._busy = False
        try:
            self._send(self.client, self.upstream.step(b"", perf_counter()))
            self._update_events()
            if self._draining:
                self._check_drained()
        except Exception as error:  # noqa: BLE001  # as of what is read
            self._failed(error, self.upstream)

    def _on_end_of_stream(self, side: Side, other: Side) -> None:
        """Pass on that a side sends no more, once the other has everything (half-close).

        The session closes when both have ended, or when a client has that waits for nothing: a broker sends nothing
        unasked.
        """
        if side is self.upstream and self.on_upstream_end is not None:
            side.unwatch()
            self.on_upstream_end()
            return
        if not other.pending:
            if (other.ended or (side is self.client and self.conversation.is_finished)) and not side.pending:
                self.close()
                return
            other.sock.shutdown(socket.SHUT_WR)
        self._update_events()

    def _on_hang_up(self, side: Side, other: Side) -> None:
        """Handle a peer that has disconnected in both directions, while its bytes cannot be passed on yet.

        HANGUP comes in any case: forget the socket until it may be read again.
        """
        if side.ended and not other.pending:
            self.close()  # nothing more will come, and no peer is left to take anything
            return
        side.unwatch()

    def _update_events(self) -> None:
        """Watch each side for the events that it waits for now."""
        client, upstream = self.client, self.upstream
        may_ask = not self.conversation.held and not self.conversation.answers
        reads_client = may_ask and not upstream.pending and not client.ended
        reads_upstream = not client.pending and not upstream.ended and not self._busy
        client.watch((READ if reads_client else 0) | (WRITE if client.pending else 0))
        upstream.watch((READ if reads_upstream else 0) | (WRITE if upstream.pending else 0))


def _nothing() -> None: ...
