"""One response that must be rewritten, on its way through.

Endpoints at the beginning (Metadata, FindCoordinator, DescribeCluster): the frame is held up to its last address,
rewritten at a new length, and the rest streams. A known prefix is recognised by its bytes (`prefixcache`).

Endpoints at the end (Produce, Fetch, ShareFetch, ShareAcknowledge), behind records of any size: a frame that is small,
or arrives in one chunk, is rewritten whole at a new length; any other streams, is walked as it passes, and its last
section is rewritten at the same length.

ApiVersions: the frame is held whole and capped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.base.messages.sessions import RESPONSE_TOO_LARGE, RESPONSE_TOO_SHORT
from kproxy.protocol.rewrite import apiversions, splice
from kproxy.protocol.rewrite.endpoints import Endpoints, ListenersPending, Localise
from kproxy.protocol.rewrite.prefixcache import PREFIXES, ResponsePrefix
from kproxy.protocol.rewrite.walk import MAX_STEPS, Walk
from kproxy.protocol.rewrite.walkplan import WalkPlan
from kproxy.protocol.wire.primitives import INT32, Buffer, malformed

# A frame with endpoints at its end is held whole up to this size, in bytes. Answers that name new leaders are
# small (their partitions carry no records); the limit bounds what a session may hold.
HOLD_WHOLE = 64 * 1024
# The most bytes held of any frame: the addresses of tens of thousands of brokers or coordinators.
HOLD_LIMIT = 4 * 1024 * 1024
# The size field is an int32.
MAX_FRAME = 0x7FFFFFFF
# Every step of a walk but those over endpoints reads fewer bytes than this.
_LONGEST_STEP = 16


class Response(ABC):
    """A frame of `size` bytes (without its size field), from its size field on.

    `left` counts the bytes that it has not taken yet. Once `passing` is true, they may leave as they arrive. While it
    is `busy`, it has done as much as it may in one turn: call `feed` again, first with the bytes that it has not taken,
    perhaps none. `endpoints` counts the rewritten ones; `unknown_apis` has the keys of APIs that were left out because
    they are newer than kproxy.
    """

    def __init__(self, size: int) -> None:
        self.left = size + 4
        self.passing = self.busy = False
        self.endpoints = 0
        self.unknown_apis: list[int] = []
        self._size = size
        self._held = bytearray()

    def feed(self, chunk: Buffer) -> tuple[int, Buffer]:
        """Take the next bytes of the frame, at most `left`; return their number, and the bytes that may leave instead.

        These are `chunk` itself if nothing changes. Bytes that were not taken pass as they arrive: `passing` is true
        then, unless it is `busy`. Raises WireError if the response must not be passed on.
        """
        taken, out = self._feed(chunk, len(chunk) == self.left)
        self.left -= taken
        return taken, out

    @abstractmethod
    def _feed(self, chunk: Buffer, ends: bool) -> tuple[int, Buffer]:
        """Take bytes as `feed` does; `ends` is true if the frame ends with the chunk."""

    @property
    def held_bytes(self) -> int:
        """The number of bytes that wait for others."""
        return len(self._held)

    def _hold(self, chunk: Buffer, limit: int, what: str) -> None:
        self._held += chunk
        if len(self._held) > limit:
            raise WireError(*RESPONSE_TOO_LARGE.with_reason(part=what, kib=limit >> 10))


class ApiVersionsResponse(Response):
    """An ApiVersions response to a request of `version`. For `highest`, see `apiversions.cap`."""

    def __init__(self, version: int, size: int, highest: Mapping[int, int] = apiversions.TABLE_VERSIONS) -> None:
        super().__init__(size)
        self._highest = highest
        self._version = version

    def _feed(self, chunk: Buffer, ends: bool) -> tuple[int, Buffer]:
        self._hold(chunk, apiversions.LIMIT, "an ApiVersions response")
        if not ends:
            return len(chunk), b""
        return len(chunk), apiversions.cap(self._held, self._version, self._highest, self.unknown_apis)


class _WalkedResponse(Response):
    def __init__(self, plan: WalkPlan, size: int, localise: Localise) -> None:
        super().__init__(size)
        self._plan = plan
        self._walk = Walk(plan)
        self._localise = localise
        self._steps: Iterator[None] = iter(())  # to take before the local addresses are asked for again

    def _local(self) -> Sequence[Address] | None:
        """Return the bound local addresses of the endpoints found; None if that takes longer, see `busy`."""
        walk = self._walk
        if not walk.locations:
            return ()
        self.endpoints = len(walk.locations)
        return self._ask(Endpoints(tuple(walk.endpoints), self._plan.rule.complete))

    def _ask(self, endpoints: Endpoints) -> Sequence[Address] | None:
        try:
            if next(self._steps, self) is not self:
                self.busy = True
                return None
            return self._localise(endpoints)
        except ListenersPending as not_yet:
            self._steps, self.busy = not_yet.steps, True
            return None

    def _check_complete(self) -> None:
        if not self._walk.done:
            raise malformed(RESPONSE_TOO_SHORT(api=self._plan.api, size=self._size))


class HeldResponse(_WalkedResponse):
    """A response that is held until its addresses are known, and takes any length."""

    _walked = 8  # index in the held bytes; the size and the correlation id are not walked over
    _rewriting: Iterator[bytes | None] | None = None  # once all addresses are known, if they stand at many places

    def _feed(self, chunk: Buffer, ends: bool) -> tuple[int, Buffer]:
        self.busy = False
        if self._rewriting is not None:
            return self._continue_rewrite(self._rewriting)
        walk = self._walk
        if not self._held and len(chunk) > 8:
            # The usual case: all addresses are in one chunk, which need not be copied.
            taken = self._take_at_once(chunk, ends)
            if taken is not None:
                return taken
        self._hold(chunk, HOLD_LIMIT, f"the part of a {self._plan.api} response before its last address")
        if walk.paused or len(self._held) > self._walked:
            self._walked = walk.advance(self._held, self._walked, len(self._held))
        if walk.paused:
            self.busy = True
            return len(chunk), b""
        if ends:
            self._check_complete()
        elif not walk.done:
            return len(chunk), b""
        if len(walk.locations) > MAX_STEPS:
            self._rewriting, self.busy = self._rewrite_in_steps(), True
            return len(chunk), b""
        local = self._local()
        if local is None:
            return len(chunk), b""
        held, self._held = self._held, bytearray()
        self.passing = True
        return len(chunk), self._rewrite_frame(held, local)

    def _take_at_once(self, chunk: Buffer, ends: bool) -> tuple[int, Buffer] | None:
        """Take the first chunk as `feed` does; return None if it must be held, as far as it was walked over."""
        walk = self._walk
        prefix = PREFIXES.find(self._plan, chunk)
        if prefix is None:
            self._walked = walk.advance(chunk, 8, len(chunk))
            if ends and not walk.paused:
                self._check_complete()
            if not walk.done or len(walk.locations) > MAX_STEPS:
                return None
            prefix = PREFIXES.add(self._plan, chunk, walk)
            if prefix is None:
                local = self._local()
                if local is None:
                    return None
                self.passing = True
                head = chunk[: self._walked]
                rewritten = self._rewrite_frame(head, local)
                return (len(chunk), chunk) if rewritten is head else (self._walked, rewritten)
        local = self._ask(prefix.endpoints)
        if local is None:
            if not walk.done:
                self._walked = walk.advance_all(chunk, 8, len(chunk))
            return None
        return self._replace_prefix(prefix, chunk, local)

    def _replace_prefix(self, prefix: ResponsePrefix, chunk: Buffer, local: Sequence[Address]) -> tuple[int, Buffer]:
        """Take a frame that begins with a known prefix, as `feed` does."""
        self.passing = True
        self.endpoints = prefix.location_count
        rewritten = prefix.rewrite(local)
        if rewritten is prefix.data:
            return len(chunk), chunk
        return prefix.end, b"".join(
            (self._new_size(len(rewritten) - len(prefix.data)), chunk[4 : prefix.begin], rewritten)
        )

    def _continue_rewrite(self, rewriting: Iterator[bytes | None]) -> tuple[int, Buffer]:
        """Continue to replace addresses, as `feed` does; all bytes so far are held."""
        out = next(rewriting)
        if out is None:
            self.busy = True
            return 0, b""
        self._held = bytearray()
        self.passing = True
        return 0, out

    def _rewrite_in_steps(self) -> Iterator[bytes | None]:
        """Yield None while there is more to do, and finally the held bytes with local addresses."""
        walk, held = self._walk, self._held
        while (local := self._local()) is None:
            yield None
        yield None
        if self._plan.rule.last:  # a few thousand places at most
            yield bytes(self._rewrite_frame(held, local))
            return
        instead = splice.replacements(self._plan, walk, local)
        parts: list[bytes] = []
        at, grown = 4, 0
        for begin in range(0, len(walk.locations), MAX_STEPS):
            pieces: list[Buffer] = []
            for index, start, end in walk.locations[begin : begin + MAX_STEPS]:
                replacement = instead[index]
                if replacement is not None:
                    pieces += (held[at : start + 8], replacement)
                    at = end + 8
                    grown += len(replacement) - (end - start)
            parts.append(b"".join(pieces))
            yield None
        yield b"".join((self._new_size(grown), *parts, held[at:]))

    def _rewrite_frame(self, frame: Buffer, local: Sequence[Address]) -> Buffer:
        edits = [(a + 8, b + 8, new) for a, b, new in splice.edits(self._plan, self._walk, local)]
        if not edits:
            return frame
        size = self._new_size(sum(len(new) - (b - a) for a, b, new in edits))
        return b"".join([size, *splice.apply(frame, edits, 4, len(frame))])

    def _new_size(self, grown: int) -> bytes:
        """Return the size field of a frame that has grown by `grown` bytes."""
        size = self._size + grown
        if size > MAX_FRAME:
            raise WireError(
                "response-too-large", f"a {self._plan.api} response with local addresses is larger than 2 GiB"
            )
        return INT32.pack(size)


class StreamedResponse(_WalkedResponse):
    """A response that streams up to the section with its endpoints, which is held and keeps its length."""

    def __init__(self, plan: WalkPlan, size: int, localise: Localise) -> None:
        super().__init__(plan, size, localise)
        self._partial_step = b""  # the beginning of a step that is not complete: has left, is not walked over yet
        self._has_begun = False
        self._walked = 0  # index in the held bytes

    @property
    def held_bytes(self) -> int:
        return len(self._held) + len(self._partial_step)

    def _feed(self, chunk: Buffer, ends: bool) -> tuple[int, Buffer]:
        walk = self._walk
        self.busy = False
        if walk.mark is not None:
            return len(chunk), self._section(chunk, ends)
        header = 0 if self._has_begun else 8
        self._has_begun = True
        first = walk.offset + len(self._partial_step) - header  # the offset of chunk[0]
        at = walk.advance(chunk, self._catch_up(chunk, header), len(chunk))
        if walk.mark is None:
            if walk.paused:
                self.busy = True
                return at, chunk[:at]
            self._partial_step = self._partial_step or bytes(chunk[at:])
            if ends:
                self._check_complete()
            return len(chunk), chunk
        if walk.done and not walk.locations and ends:
            return len(chunk), chunk  # the usual case: no partition has moved, and nothing need be copied
        cut = walk.mark - first
        self._walked = at - cut
        return len(chunk), b"".join((chunk[:cut], self._section(chunk[cut:], ends)))

    def _catch_up(self, chunk: Buffer, at: int) -> int:
        """Complete the step whose beginning has left already; return the index in chunk at which to continue."""
        if not self._partial_step:
            return at
        joined = self._partial_step + bytes(chunk[at : at + _LONGEST_STEP])
        reached = self._walk.advance_all(joined, 0, len(joined))
        if reached < len(self._partial_step):  # still not complete, so this chunk was shorter than a step
            self._partial_step = joined[reached:]
            return len(chunk)
        at += reached - len(self._partial_step)
        self._partial_step = b""
        return at

    def _section(self, chunk: Buffer, ends: bool) -> Buffer:
        """Hold the endpoints' section; once it is complete, return it with local addresses."""
        self._hold(chunk, HOLD_LIMIT, f"the endpoints of a {self._plan.api} response")
        held, walk = self._held, self._walk
        if walk.paused or len(held) > self._walked:
            self._walked = walk.advance(held, self._walked, len(held))
        if walk.paused:
            self.busy = True
        if walk.paused or not ends:
            return b""
        self._check_complete()
        local = self._local()
        if local is None:
            return b""
        return splice.same_length(self._plan, walk, held, local) if local else held


def response_for(plan: WalkPlan, size: int, available: int, localise: Localise) -> Response:
    """Return the response object for a frame of `size`, of which `available` bytes have arrived."""
    if plan.rule.last and size > HOLD_WHOLE and available < size + 4:
        return StreamedResponse(plan, size, localise)
    return HeldResponse(plan, size, localise)
