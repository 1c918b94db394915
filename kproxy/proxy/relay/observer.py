"""The observer of one session: which requests and responses pass, their clients, sizes, times and errors. Sans-IO.

An observer sees what the client sends, before the conversation, and what the client receives: also what kproxy answers
itself, and what it has changed. It exists only while someone observes, so that sessions cost nothing more otherwise; it
may begin in the middle of a frame. It reads headers: API,
version, correlation id, client id; of ApiVersions requests the software's name; of a consumer group's requests the
group id; of responses the first error code, as far as it stands in their beginning. If a client asks for metadata again
and again, the observer passes on a response now and then, because it shows the reason. It never reads records, tokens
or other contents.

Its memory is bounded: the beginning of one frame for each direction, and the requests in flight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from struct import Struct

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.endpoints import Endpoints, Localise, rule_for
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.primitives import Buffer, Underflow, read_string, skip_tags
from kproxy.proxy.relay.errorcode import LONGEST, error_code
from kproxy.proxy.relay.introduction import HEAD, NO_INTRODUCTION, Introduction, client_name, read_software

_read_request = Struct(">ihhih").unpack_from  # size, API key, version, correlation id, length of the client id
_read_response = Struct(">ii").unpack_from

_REQUEST_HEAD, _RESPONSE_HEAD = 14, 8
# Behind the header of a response: tags, the throttle time, the error code.
_ERROR_WITHIN = 8
# Requests that wait for a response; those of acks=0 wait until a later one is answered.
_MOST_WAITING = 10_000
# Requests whose first field is the id of a consumer group, and up to which version.
_OF_GROUPS = {
    "OffsetCommit": 99,
    "OffsetFetch": 7,
    "JoinGroup": 99,
    "Heartbeat": 99,
    "LeaveGroup": 99,
    "SyncGroup": 99,
    "ConsumerGroupHeartbeat": 99,
    "ShareGroupHeartbeat": 99,
    "StreamsGroupHeartbeat": 99,
}
# If a client asks for metadata _OFTEN times within _WITHIN seconds, the observer passes on the response, if it is
# at most _LONGEST_METADATA bytes long, at most every _PAUSE seconds.
_OFTEN, _WITHIN, _LONGEST_METADATA, _PAUSE = 3, 10.0, 64 * 1024, 1.0
# The most addresses of one response that are passed on.
_REWRITTEN = 8


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response."""

    at: float
    """When the request came, in seconds of the observer's clock."""
    key: int
    version: int
    client_id: str
    software: str
    request_size: int
    """In bytes, without the size field."""
    response_size: int = 0
    """In bytes, without the size field."""
    seconds: float | None = None
    """The time until the response began; None if there is no response."""
    error: int | None = None
    """Kafka's error code (see `relay.errorcode`); None if the first bytes do not show it."""
    rewritten: tuple[tuple[str, str], ...] = ()
    """Advertised and local addresses."""
    group: str = ""
    """The consumer group, "" if the request names none."""
    metadata: bytes = b""
    """A Metadata response, from behind the correlation id on, if the client asks again and again."""

    @property
    def api(self) -> str:
        """The name of the API, or its number."""
        api = APIS.get(self.key)
        return str(self.key) if api is None else api.name


@dataclass(frozen=True, slots=True)
class ObserverStart:
    """The state of a session from which an observer begins."""

    request_left: int = 0
    """Bytes of a request that is half sent, which pass first."""
    request_head: bytes = b""
    """The beginning of a request that has come already."""
    response_left: int = 0
    """Bytes of a response that is half sent, which pass first."""
    tokens: bool = False
    """True if SASL tokens without headers may come."""
    introduction: Introduction = NO_INTRODUCTION
    """The names that the client has sent."""


class _Frames:
    """The frames of one direction. `left` bytes of a frame pass first; `head` is the beginning of a frame.

    `read` takes a frame that begins at an index, and returns the index behind it, or None if too little of it has come.
    """

    def __init__(self, left: int, head: bytes, read: Callable[[Buffer, int, int, float], int | None]) -> None:
        self._left, self._head, self._read = left, head, read

    def feed(self, chunk: Buffer, now: float) -> None:
        at, end = self._left, len(chunk)
        data: Buffer = chunk
        if self._head and at < end:
            data = self._head + bytes(chunk[at:])
            at, end, self._head = 0, len(data), b""
        while at < end:
            after = self._read(data, at, end, now)
            if after is None:
                self._head, self._left = bytes(data[at:end]), 0
                return
            at = after
        self._left = at - end


class Observer:
    """The observer of both sides of one session.

    `emit` receives each exchange when its response has begun, in the order of the responses.
    """

    def __init__(self, emit: Callable[[Exchange], None], start: ObserverStart = ObserverStart()) -> None:
        self._emit = emit
        self._requests = _Frames(start.request_left, start.request_head, self._request)
        self._responses = _Frames(start.response_left, b"", self._response)
        self._waiting: deque[tuple[int, Exchange]] = deque()  # requests, with their correlation ids
        self._rewritten: tuple[tuple[str, str], ...] = ()
        self._current: Exchange | None = None  # whose response has begun
        self._stopped = start.tokens
        self._asked_for_metadata: deque[float] = deque(maxlen=_OFTEN)
        self._metadata_at = float("-inf")  # when the last response was passed on
        self.client_id = start.introduction.client_id
        self.software = start.introduction.software

    # What passes

    def from_client(self, chunk: Buffer, now: float) -> None:
        """Observe what the client has sent."""
        if not self._stopped:
            self._requests.feed(chunk, now)

    def to_client(self, chunk: Buffer, now: float) -> None:
        """Observe what the client receives."""
        if self._stopped or not chunk:
            return
        self._responses.feed(chunk, now)
        self._emit_current()
        self._rewritten = ()  # of a response that had begun before

    def wrap_localise(self, localise: Localise) -> Localise:
        """Return the same function, which also notes the addresses for the response that the client receives next."""

        def noting(endpoints: Endpoints) -> Sequence[Address]:
            local = localise(endpoints)
            pairs = zip(endpoints.nodes, local, strict=True)
            self._rewritten = tuple((str(endpoint.advertised), str(to)) for endpoint, to in list(pairs)[:_REWRITTEN])
            return local

        return noting

    # One frame

    def _request(self, data: Buffer, at: int, end: int, now: float) -> int | None:
        """Note the request that begins here; return the index behind it, or None if too little of it has come."""
        if end - at < _REQUEST_HEAD:
            return None
        size, key, version, correlation_id, length = _read_request(data, at)
        if size < 10 or length < -1:
            self._stopped = True  # it is not Kafka's, and the session ends
            return end
        after = int(at + 4 + size)
        needs_head = key == ApiKey.API_VERSIONS or version <= _groups().get(key, -1)
        wanted = min(after, at + HEAD if needs_head else at + _REQUEST_HEAD + max(0, length), at + HEAD)
        if end < wanted:
            return None
        self.client_id = client_name(data, at + _REQUEST_HEAD, min(length, wanted - at - _REQUEST_HEAD))
        group = ""
        if key == ApiKey.API_VERSIONS and version >= 3:
            self.software = read_software(bytes(data[at + 12 : wanted])) or self.software
        elif needs_head:
            group = _group(key, version, bytes(data[at + 12 : wanted]))
        if key == ApiKey.SASL_HANDSHAKE and version == 0:
            self._stopped = True  # tokens without headers follow: the observer stops
            return end
        exchange = Exchange(now, key, version, self.client_id, self.software, size, group=group)
        self._waiting.append((correlation_id, exchange))
        if len(self._waiting) > _MOST_WAITING:
            self._emit_unanswered()
        return after

    def _response(self, data: Buffer, at: int, end: int, now: float) -> int | None:
        if end - at < _RESPONSE_HEAD:
            return None
        size, correlation_id = _read_response(data, at)
        if size < 4:
            self._stopped = True
            return end
        after = int(at + 4 + size)
        wanted = min(after, at + _RESPONSE_HEAD + _ERROR_WITHIN)
        if end < wanted:
            return None
        exchange = self._find(correlation_id)
        self._emit_current()
        if exchange is not None:
            head = bytes(data[at + _RESPONSE_HEAD : min(after, end, at + _RESPONSE_HEAD + LONGEST)])
            metadata = b""
            if exchange.key == ApiKey.METADATA and self._asks_too_often(exchange.at) and after <= end:
                metadata = self._metadata(data, at, after, now)
            self._current = replace(
                exchange,
                response_size=size,
                seconds=max(0.0, now - exchange.at),
                error=error_code(exchange.key, exchange.version, head),
                metadata=metadata,
            )
        return after

    def _asks_too_often(self, now: float) -> bool:
        asked = self._asked_for_metadata
        asked.append(now)
        return len(asked) == _OFTEN and now - asked[0] <= _WITHIN

    def _metadata(self, data: Buffer, at: int, after: int, now: float) -> bytes:
        if after - at > _LONGEST_METADATA or now - self._metadata_at < _PAUSE:
            return b""
        self._metadata_at = now
        return bytes(data[at + _RESPONSE_HEAD : after])

    def _find(self, correlation_id: int) -> Exchange | None:
        """Return the request that this response answers; None: one from before the observer has begun.

        Responses come in order, so the requests before it have none (acks=0).
        """
        for position, (waiting_id, _) in enumerate(self._waiting):
            if waiting_id == correlation_id:
                for _ in range(position):
                    self._emit_unanswered()
                return self._waiting.popleft()[1]
        return None

    def _emit_current(self) -> None:
        if self._current is None:
            return
        exchange, self._current = self._current, None
        if self._rewritten and rule_for(exchange.key, exchange.version):
            exchange = replace(exchange, rewritten=self._rewritten)
            self._rewritten = ()
        self._emit(exchange)

    def _emit_unanswered(self) -> None:
        self._emit_current()
        self._emit(self._waiting.popleft()[1])


@cache
def _groups() -> dict[int, int]:
    """Return, by API key, up to which version a request begins with a group id."""
    return {key: _OF_GROUPS[api.name] for key, api in APIS.items() if api.name in _OF_GROUPS}


def _group(key: int, version: int, head: bytes) -> str:
    """Return the group id in a request, from its client id on."""
    flexible = APIS[key].is_flexible(version)
    try:
        _, at = read_string(head, 0, len(head), compact=False, nullable=True)
        if flexible:
            at = skip_tags(head, at, len(head))
        group, _ = read_string(head, at, len(head), compact=flexible, nullable=False)
    except (Underflow, WireError):
        return ""
    return client_name(group or b"", 0, len(group or b""))
