"""The requests of one session that have no response yet, in their order. Sans-IO.

A broker answers the requests of a connection in their order, so the first one in flight determines the type of a
response. Similar requests are noted as one run: thousands may be in flight.
"""

from __future__ import annotations

from collections import deque

from kproxy.base.errors import WireError
from kproxy.proxy.relay.calls import Call, LocalCall, OwnCall

# Requests of one connection that wait for their responses. A broker works on one at a time, clients send 5 to
# some hundreds ahead; this bounds what a client can make kproxy remember.
MAX_IN_FLIGHT = 100_000
MAX_LOCAL_BYTES = 4 * 1024 * 1024
"""The most bytes of kproxy's own answers that wait behind requests without a response."""


class Run:
    """Requests of one call that came together, with consecutive correlation ids.

    There is at least one for each read, and a constructor would cost more than everything else: `InFlight` sets the
    attributes.
    """

    __slots__ = ("call", "end_id", "first", "since")

    first: int  # the id that is answered next
    end_id: int  # the one behind the last
    call: Call
    since: float  # when they came


class InFlight:
    """The requests that one session waits for.

    `count` is their number. `local_runs` is the number of runs that kproxy answers itself, and `local_bytes` what waits
    with these. `tokens`: SASL tokens without headers may be in flight as well; they are not counted. `tokens_end_here`:
    kproxy itself answers them.
    """

    __slots__ = ("count", "local_bytes", "local_runs", "runs", "tokens", "tokens_end_here")

    def __init__(self) -> None:
        self.runs: deque[Run] = deque()
        self.count = 0
        self.local_runs = self.local_bytes = 0
        self.tokens = self.tokens_end_here = False

    def note(self, call: Call, first: int, end_id: int, now: float) -> None:
        """Note requests with the correlation ids from `first` up to the one before `end_id`. Raises WireError."""
        self.count += end_id - first
        if self.count > MAX_IN_FLIGHT:
            raise _too_many()
        run = Run()
        run.first, run.end_id, run.call, run.since = first, end_id, call, now
        self.runs.append(run)

    def note_local(self, call: LocalCall, correlation_id: int) -> None:
        """Note a request that kproxy answers itself, when its turn comes. Raises WireError."""
        self.local_bytes += call.size
        if self.local_bytes > MAX_LOCAL_BYTES:
            raise _too_many()
        last = self.runs[-1] if self.runs else None
        if last is None or last.call is not call or last.end_id != correlation_id:
            self.note(call, correlation_id, correlation_id + 1, 0.0)
            self.local_runs += 1
            return
        last.end_id += 1
        self.count += 1
        if self.count > MAX_IN_FLIGHT:
            raise _too_many()

    def client_runs(self) -> list[tuple[int, int, int, int]]:
        """Return the client's own requests, in order: API key, version, first correlation id, one behind the last."""
        return [
            (run.call.key, run.call.version, run.first, run.end_id)
            for run in self.runs
            if not isinstance(run.call, OwnCall)
        ]

    def take_local_answers(self) -> list[bytes]:
        """Return the answers to the first run, which kproxy answers itself, and remove it."""
        run = self.runs.popleft()
        self.local_runs -= 1
        self.count -= run.end_id - run.first
        assert isinstance(run.call, LocalCall)
        self.local_bytes -= run.call.size * (run.end_id - run.first)
        return [run.call.answer(correlation_id) for correlation_id in range(run.first, run.end_id)]


def _too_many() -> WireError:
    return WireError("too-many-in-flight", f"the client has over {MAX_IN_FLIGHT} requests without a response")
