"""What an authorizer decides about a request beside the verdicts of `calls`, and responses that are changed. Sans-IO.

An authorizer decides which requests a client may send: see `kproxy.proxy.access`. A session without one has none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kproxy.protocol.rewrite.endpoints import Localise
from kproxy.protocol.rewrite.response import HOLD_LIMIT, Response
from kproxy.protocol.wire.primitives import Buffer
from kproxy.proxy.relay.calls import Call, Calls, GuardVerdict


@dataclass(frozen=True, slots=True)
class SubstitutedRequest:
    """A request that passes in place of the client's, a whole frame. `call` knows what its response becomes."""

    request: bytes
    call: Call


class DiscardedRequest(Protocol):
    """A request that is refused before it has come whole."""

    key: int
    version: int
    correlation_id: int

    def feed(self, chunk: Buffer) -> None:
        """Take the next bytes of the request, from its size field on. Raises WireError."""

    def answer(self) -> bytes:
        """Return the answer to the request, once all its bytes have come. Raises WireError."""
        ...


class Authorizer(Protocol):
    """Decides which requests of one client pass.

    `longest`: the most bytes of a request that it needs before it can judge it.
    """

    longest: int

    def wrap(self, calls: Calls) -> Calls:
        """Return these calls, with those that it judges."""
        ...

    def judge(
        self, call: Call, request: Buffer, size: int, now: float
    ) -> GuardVerdict | bytes | SubstitutedRequest | DiscardedRequest:
        """Judge a request that begins with these bytes, of `size` bytes without its size field. Raises WireError."""
        ...


class Authenticator(Authorizer, Protocol):
    """Takes the login of one client, and decides which requests pass before and after it.

    `longest` is also the most bytes of a token without a header. `awaits_token`: the client sends such a token next.
    """

    awaits_token: bool

    def judge_token(self, size: int, token: Buffer) -> GuardVerdict | bytes:
        """Take a token of `size` bytes; return the answer, a frame, or HOLD. Raises WireError."""
        ...


class JudgedCall(Call):
    """A call whose requests an authorizer judges; `inner` is the call whose place it takes."""

    __slots__ = ("inner",)

    def __init__(self, call: Call, authorizer: Authorizer) -> None:
        self.inner = call
        self.key, self.version, self.api, self.counters = call.key, call.version, call.api, call.counters
        self.guard, self.authorizer = call.guard, authorizer
        self.is_local = False
        self.is_judged = self.special = True
        self.edited, self.plain = call.edited, call.plain

    def respond(self, size: int, available: int, localise: Localise) -> Response:
        return self.inner.respond(size, available, localise)


class ChangedCall(Call):
    """A call whose response `change` receives whole, as the broker sent it; it returns what takes its place.

    `what` names the response in an error.
    """

    __slots__ = ("_call", "_change", "_what")

    def __init__(self, call: Call, change: Callable[[bytes], Buffer], what: str) -> None:
        self._call, self._change, self._what = call, change, what
        self.key, self.version, self.api, self.counters = call.key, call.version, call.api, call.counters
        self.is_local = False
        self.edited = True
        self.plain = None

    def respond(self, size: int, available: int, localise: Localise) -> Response:
        return ChangedResponse(size, self._call, self._change, self._what, localise)


class ChangedResponse(Response):
    """A response that is held whole, and may be changed, before it is rewritten. For `change` see `ChangedCall`."""

    def __init__(self, size: int, call: Call, change: Callable[[bytes], Buffer], what: str, localise: Localise) -> None:
        super().__init__(size)
        self._call = call
        self._change = change
        self._what = what
        self._localise = localise
        self._inner: Response | None = None  # for the bytes that `change` returned,
        self._left = b""  # and the bytes that it has not taken yet

    def _feed(self, chunk: Buffer, ends: bool) -> tuple[int, Buffer]:
        if self._inner is None:
            self._hold(chunk, HOLD_LIMIT, self._what)
            if not ends:
                return len(chunk), b""
            changed = self._change(bytes(self._held))
            if not self._call.edited:
                return len(chunk), changed
            self._inner, self._left = self._call.respond(len(changed) - 4, len(changed), self._localise), bytes(changed)
        inner = self._inner
        taken, out = inner.feed(self._left)
        self._left, self.busy, self.endpoints = self._left[taken:], inner.busy, inner.endpoints
        return len(chunk), out if self.busy else b"".join((out, self._left))
