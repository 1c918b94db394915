"""The requests of one session that have no response yet, in their order. Sans-IO.

A broker answers the requests of a connection in their order, so the first one in flight says what a response is.
Requests that are alike are noted as one run: thousands may be in flight.
"""

from __future__ import annotations

from collections import deque

from kproxy.base.errors import WireError
from kproxy.proxy.relay.calls import Call, LocalCall, OwnCall

# Requests of one connection that wait for their responses. A broker works on one at a time, clients send 5 to
# some hundreds ahead; this bounds what a client can make kproxy remember.
MAX_IN_FLIGHT = 100_000


class Run:
    """Requests of one call that came together with correlation ids in a row. One is made for each read at least, and a
    constructor would cost more than all else that is done with it: `InFlight` sets the attributes."""

    __slots__ = ("beyond", "call", "first", "since")

    first: int  # the id that is answered next
    beyond: int  # the one behind the last
    call: Call
    since: float  # when they came


class InFlight:
    """What one session waits for. `count` is how many requests that are.

    `answered_here` is how many of the runs kproxy answers itself. `tokens`: SASL tokens without headers may be on their
    way as well; nobody counts them.
    """

    __slots__ = ("answered_here", "count", "runs", "tokens")

    def __init__(self) -> None:
        self.runs: deque[Run] = deque()
        self.count = 0
        self.answered_here = 0
        self.tokens = False

    def note(self, call: Call, first: int, beyond: int, now: float) -> None:
        """Note requests with the correlation ids from `first` up to the one before `beyond`. Raises WireError."""
        self.count += beyond - first
        if self.count > MAX_IN_FLIGHT:
            raise _too_many()
        run = Run()
        run.first, run.beyond, run.call, run.since = first, beyond, call, now
        self.runs.append(run)

    def note_answered_here(self, call: LocalCall, correlation_id: int) -> None:
        """Note a request that kproxy answers itself, when it is its turn. Raises WireError."""
        last = self.runs[-1] if self.runs else None
        if last is None or last.call is not call or last.beyond != correlation_id:
            self.note(call, correlation_id, correlation_id + 1, 0.0)
            self.answered_here += 1
            return
        last.beyond += 1
        self.count += 1
        if self.count > MAX_IN_FLIGHT:
            raise _too_many()

    def of_client(self) -> list[tuple[int, int, int, int]]:
        """The client's own requests, in order: API key, version, the first correlation id and the one behind the
        last."""
        return [
            (run.call.key, run.call.version, run.first, run.beyond)
            for run in self.runs if not isinstance(run.call, OwnCall)
        ]  # fmt: skip

    def take_answered_here(self) -> list[bytes]:
        """The answers to the first run, which kproxy gives itself now."""
        run = self.runs.popleft()
        self.answered_here -= 1
        self.count -= run.beyond - run.first
        assert isinstance(run.call, LocalCall)
        return [run.call.answer(correlation_id) for correlation_id in range(run.first, run.beyond)]


def _too_many() -> WireError:
    return WireError("too-many-in-flight", f"the client has over {MAX_IN_FLIGHT} requests without a response")
