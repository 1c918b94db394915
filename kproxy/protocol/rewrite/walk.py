"""Walking a response by its plan, over chunks of any size.

The walk decodes nothing but endpoints: it hops over everything else by its size. Every step is taken whole or not at
all, so a walk can stop anywhere and continue with the next chunk; its state is a step, a stack of loops and a number of
bytes to hop over. The time is linear in the bytes, and the memory does not depend on them, apart from the endpoints
themselves.

Offsets are counted from the first byte after the correlation id.
"""

from __future__ import annotations

from typing import Any

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.protocol.rewrite import walkplan as op
from kproxy.protocol.rewrite.endpoints import Endpoint, NodeKind
from kproxy.protocol.rewrite.walkplan import WalkPlan
from kproxy.protocol.wire.primitives import INT32, Buffer, Underflow, malformed, read_size, read_string, read_uvarint

# More nodes than any cluster has: the largest that are known have about a thousand brokers. A response that lists nodes
# names each of them once.
MAX_NODES = 5_000
# A FindCoordinator response names a node for each of its keys, and a cluster may have tens of thousands of groups.
MAX_ENDPOINTS = 100_000
# The most steps in one turn. They take half a millisecond, so other sessions do not wait for a long walk.
MAX_STEPS = 2_000


class Walk:
    """The walk over one response."""

    __slots__ = (
        "_after_tags",
        "_field_end",
        "_hop",
        "_known",
        "_loops",
        "_most",
        "_outer",
        "_step",
        "_steps",
        "_tags_left",
        "_wanted",
        "done",
        "endpoints",
        "field_at",
        "kind",
        "locations",
        "mark",
        "offset",
        "paused",
        "size_at",
        "tag_count",
        "tag_numbers",
        "tags_at",
    )

    def __init__(self, plan: WalkPlan) -> None:
        self._steps = plan.steps
        self._step = 0
        self._hop = 0  # bytes still to hop over
        self._loops: list[int] = []  # elements left, of each array that the walk is in
        self._tags_left = 0
        self._wanted = -1
        self._after_tags = 0
        self._field_end = 0
        self._outer: Any = None  # the tag section with the endpoints' field, while the walk is inside that field
        self._known: dict[bytes, int] = {}  # the index in `endpoints` of each, by its bytes
        self._most = MAX_NODES if plan.rule.complete or plan.rule.last else MAX_ENDPOINTS
        self.kind = NodeKind.BROKER  # of the endpoints
        self.offset = 0  # of the next byte
        self.done = False  # nothing that follows matters
        self.paused = False  # the most steps of one turn are taken; the walk can continue without more bytes
        self.mark: int | None = None  # the start of the endpoints' section, if it is at the end, once it is known
        self.endpoints: list[Endpoint] = []  # the different ones, in order of appearance
        self.locations: list[tuple[int, int, int]] = []
        """Each occurrence: its index in `endpoints`, and `[start, end)` of its host and port."""
        # The last tag section: `[start, end)` of its count, the count, and a bit for each number below 128.
        self.tags_at = (0, 0)
        self.tag_count = 0
        self.tag_numbers = 0
        # The endpoints' tagged field: `[start, end)` of the whole field, and of its size.
        self.field_at: tuple[int, int] | None = None
        self.size_at = (0, 0)

    def advance(self, buffer: Buffer, start: int, end: int) -> int:
        """Walk over buffer[start:end], which continues at `offset`; return the index reached.

        Bytes behind that index must be offered again, with more bytes after them unless the walk is `paused`. Raises
        WireError when no further bytes can make a valid response.
        """
        at = start
        self.paused = False
        if self._hop:
            at += min(self._hop, end - start)
            self._hop -= at - start
        if not self._hop and not self.done:
            at = self._take_steps(buffer, at, end, self.offset - start)
        self.offset += at - start
        return at

    def advance_all(self, buffer: Buffer, start: int, end: int) -> int:
        """Walk as `advance` does, without a pause: for responses to kproxy itself, and a few bytes."""
        while (start := self.advance(buffer, start, end)) >= 0 and self.paused:
            pass
        return start

    def _take_steps(self, buffer: Buffer, at: int, end: int, base: int) -> int:  # noqa: C901  # a branch per op
        """Take steps until one needs more bytes than there are; return the index of the next one."""
        steps = self._steps
        step = self._step
        try:
            for _ in range(MAX_STEPS):
                code, a, b = steps[step]
                size = 0
                if code == op.SKIP:
                    size = a
                elif code == op.SIZED:
                    size, at = read_size(buffer, at, end, a, b)
                    if size < 0:
                        size = 0
                elif code == op.TAG:
                    if not self._tags_left:
                        step = self._after_tags
                        continue
                    at, size = self._tag(buffer, at, end, base)
                    if size >= 0:
                        self._tags_left -= 1
                        step -= 1  # the step after this one is this one again
                    else:
                        size = 0
                elif code == op.NEXT:
                    if self._loops[-1] > 1:
                        self._loops[-1] -= 1
                        step = a
                        continue
                    self._loops.pop()
                elif code == op.PLAIN:
                    before = at
                    self._loops[-1], at = a.hop(buffer, at, end, self._loops[-1])
                    if at != before:
                        step = b - 1  # one more below
                elif code == op.TAGS:
                    at = self._tag_section(buffer, at, end, base, a, b)
                elif code == op.ARRAY:
                    nullable, after = b
                    count, at = read_size(buffer, at, end, 0 if a else 4, nullable)
                    if count <= 0:
                        step = after
                        continue
                    self._loops.append(count)
                elif code == op.ENDPOINT:
                    at = self._endpoint(buffer, at, end, base, a)
                elif code == op.KIND:
                    if at >= end:
                        raise Underflow
                    # 1 = brokers, 2 = controllers (KIP-919)
                    self.kind = NodeKind.CONTROLLER if buffer[at] == 2 else NodeKind.BROKER
                    size = 1
                elif code == op.MARK:
                    self.mark = base + at
                elif code == op.TAG_END:
                    if base + at != self._field_end:
                        raise malformed("a tagged field does not end where its size says")
                    left, self._wanted, self._after_tags, self.tags_at, self.tag_count, self.tag_numbers = self._outer
                    self._tags_left = left - 1
                    step = a
                    continue
                else:  # STOP
                    self.done = True
                    return at
                step += 1
                at += size
                if at > end:
                    self._hop = at - end
                    return end
            self.paused = True
            return at
        except Underflow:  # every branch above reads before it changes anything
            return at
        finally:
            self._step = step

    def _tag_section(self, buffer: Buffer, at: int, end: int, base: int, wanted: int, after_tags: int) -> int:
        count, after = read_uvarint(buffer, at, end)
        self.tags_at = (base + at, base + after)
        self.tag_count = self._tags_left = count
        self.tag_numbers = 0
        self._wanted, self._after_tags = wanted, after_tags
        return after

    def _tag(self, buffer: Buffer, at: int, end: int, base: int) -> tuple[int, int]:
        """Return the index after a tagged field's number and size, and its size; -1 if it contains the endpoints."""
        number, after_number = read_uvarint(buffer, at, end)
        size, after_size = read_uvarint(buffer, after_number, end)
        if number < 128:
            self.tag_numbers |= 1 << number
        if number != self._wanted:
            return after_size, size
        if self.field_at is not None:
            raise malformed("a tagged field occurs twice")
        self._field_end = base + after_size + size
        self.field_at = (base + at, self._field_end)
        self.size_at = (base + after_number, base + after_size)
        # Its elements have tag sections of their own.
        self._outer = (
            self._tags_left,
            self._wanted,
            self._after_tags,
            self.tags_at,
            self.tag_count,
            self.tag_numbers,
        )
        return after_size, -1

    def _endpoint(self, buffer: Buffer, at: int, end: int, base: int, compact: bool) -> int:
        if end - at < 4:
            raise Underflow
        raw, after = read_string(buffer, at + 4, end, compact=compact, nullable=False)
        after += 4
        if end < after:
            raise Underflow
        if raw:  # an empty host is "no address", as FindCoordinator's errors have it
            key = bytes(buffer[at:after])
            index = self._known.get(key)
            if index is None:
                index = self._known[key] = self._new_endpoint(key, raw)
            if len(self.locations) >= self._most:
                raise WireError("too-many-endpoints", f"a response names nodes more than {self._most} times")
            self.locations.append((index, base + at + 4, base + after))
        return after

    def _new_endpoint(self, key: bytes, raw: bytes) -> int:
        """Add an endpoint that was not named before, and return its index. `key` has its node id, host and port."""
        if len(self.endpoints) >= MAX_NODES:
            raise WireError("too-many-endpoints", f"a response names more than {MAX_NODES} nodes")
        try:
            host = raw.decode()
        except UnicodeDecodeError:
            raise malformed("a broker's host name is not valid UTF-8") from None
        (node_id,) = INT32.unpack_from(key)
        (port,) = INT32.unpack_from(key, len(key) - 4)
        self.endpoints.append(Endpoint(self.kind, node_id, Address(host, port)))
        return len(self.endpoints) - 1
