"""Reads what the requests of one session name, and notes it in the record. Sans-IO.

What the client sends comes in any chunks, and may begin in the middle of a request. Between chunks, the reader keeps
the beginning of one request, of at most LONGEST bytes. A request that it cannot read is counted, and passes all the
same: the conversation judges it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct

from kproxy.base.errors import WireError
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.primitives import Buffer, Underflow
from kproxy.proxy.access import names
from kproxy.proxy.access.apis import CHANGES
from kproxy.proxy.access.names import ReadNames
from kproxy.proxy.observation.fetchtopics import read_fetch_topics, read_share_fetch_topics
from kproxy.proxy.observation.produceusage import ProduceUsage
from kproxy.proxy.observation.record import ClientKey, ClientUsage, Topic, UsageRecord, Use
from kproxy.proxy.relay.introduction import HEAD, client_name, read_software
from kproxy.proxy.relay.observer import ObserverStart
from kproxy.proxy.watch.feed import SessionLabels

LONGEST = 64 * 1024
"""The most bytes of a request that are kept until it can be read: a Fetch of 2,000 partitions."""
_REQUEST_HEAD = 14
_SAMPLED = 1.0  # seconds between two requests of a session that both list all topics, which are read
_COST = 1 / 28  # of a byte: a Fetch has so many for each partition
_read_head = Struct(">ihhih").unpack_from  # size, API key, version, correlation id, length of the client id
_LOGIN = frozenset({ApiKey.API_VERSIONS.value, ApiKey.SASL_HANDSHAKE.value, ApiKey.SASL_AUTHENTICATE.value})


class SessionReader:
    """The reader of one session. `read_labels` returns the session's labels; its user may become known later.

    `stopped`: the client sends tokens without headers (SaslHandshake v0), or what is not Kafka's. Another reader may
    begin once requests follow.
    """

    def __init__(self, record: UsageRecord, read_labels: Callable[[], SessionLabels], start: ObserverStart) -> None:
        self._record = record
        self._read_labels = read_labels
        self._left = start.request_left  # bytes of a request that has been read, or need not be
        self._head = bytearray(start.request_head)  # the beginning of a request,
        self._wanted = 0  # which is read when that many bytes have come
        self._software = start.introduction.software
        self._client_id: bytes | None = None  # of `_client`
        self._client: ClientUsage | None = None
        self._produce = ProduceUsage(record)
        self._listed_at = float("-inf")  # when a Fetch with all topics was read last
        self.stopped = start.tokens

    def from_client(self, chunk: Buffer, now: float) -> None:
        """Read what the client has sent."""
        if self._head and not self._left:
            self._head += chunk
            if len(self._head) < self._wanted:
                return
            chunk = memoryview(bytes(self._head))
            self._head.clear()
        at, end = 0, len(chunk)
        while at < end and not self.stopped:
            if self._left:
                taken = min(self._left, end - at)
                self._left -= taken
                self._produce.feed(chunk[at : at + taken], ends=not self._left)
                at += taken
                continue
            after = self._request(chunk, at, end, now)
            if after is None:
                self._head += chunk[at:end]
                return
            self._left, at = max(0, after - end), min(after, end)

    def _request(self, data: Buffer, at: int, end: int, now: float) -> int | None:
        """Read the request that begins here; return the index behind it, or None if `_wanted` bytes must come first."""
        self._wanted = _REQUEST_HEAD
        if end - at < _REQUEST_HEAD:
            return None
        size, key, version, _, length = _read_head(data, at)
        if size < 10 or length < -1 or key not in APIS:
            self.stopped = True  # it is not Kafka's, or unknown to kproxy, and the session ends
            return end
        self._wanted = min(4 + size, _REQUEST_HEAD + max(0, length))
        if end - at < self._wanted:
            return None
        after = int(at + 4 + size)
        client_id = data[at + _REQUEST_HEAD : at + self._wanted]
        if self._client_id is None or client_id != self._client_id:
            self._identify(bytes(client_id), key, now)
        if self._client is not None:
            self._client.last = now
        if key == ApiKey.PRODUCE:  # what it writes is recorded also if there is no room for the client
            self._produce.begin(data, at, after, end, version, now)
            return after
        try:
            self._wanted = self._read(data[at : min(after, end)], size, key, version, now)
        except (Underflow, WireError):
            self._wanted = 0
            self._record.left_out["requests"] += 1
        return None if self._wanted else after

    def _identify(self, client_id: bytes, key: int, now: float) -> None:
        """Find the client of this session; not before its login, as its user is not known, and perhaps its software."""
        self._client_id, self._client = None, None
        if key in _LOGIN:
            return
        labels = self._read_labels()
        client = ClientKey(
            labels.cluster,
            labels.upstream,
            labels.user,
            labels.client.rpartition(":")[0] or labels.client,
            client_name(client_id, 0, len(client_id)),
            self._software,
            labels.broker_user,
        )
        self._client_id, self._client = client_id, self._record.client(client, now)
        self._produce.set_client(self._client, labels.cluster, labels.upstream)

    def _read(self, request: Buffer, size: int, key: int, version: int, now: float) -> int:
        """Note what a request names, as far as it has come; return 0, or how many bytes of it must have come for that.

        Raises Underflow and WireError.
        """
        is_whole = len(request) >= 4 + size
        if key in _LOGIN:
            return self._read_login(request, size, key, version)
        if self._client is None:
            return 0
        if key == ApiKey.FETCH:
            if version < 7 and now - self._listed_at < _SAMPLED:
                return 0  # without fetch sessions, each lists all topics again
        elif _names_of(key, version) is None:
            return 0
        if not self._record.budget.allows(now):
            raise Underflow
        if key in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
            if size > LONGEST:
                raise Underflow
            if not is_whole:
                return 4 + size
        self._record.budget.charge(len(request) * _COST)
        try:
            self._note(self._client, request, key, version, now)
        except Underflow:
            if is_whole or size > names.LONGEST_DECODED:
                raise
            # Either a name stands in its first bytes, or it must be whole. Twice as much each time: so the cost is
            # linear, in whatever chunks it comes.
            return min(4 + size, max(HEAD, 2 * len(request)))
        return 0

    def _read_login(self, request: Buffer, size: int, key: int, version: int) -> int:
        self._client_id = None
        if key == ApiKey.SASL_HANDSHAKE and version == 0:
            self.stopped = True
        elif key == ApiKey.API_VERSIONS and version >= 3:
            if len(request) < min(4 + size, HEAD):
                return min(4 + size, HEAD)
            self._software = read_software(bytes(request[12:HEAD])) or self._software
        return 0

    def _note(self, client: ClientUsage, request: Buffer, key: int, version: int, now: float) -> None:
        record = self._record
        if key == ApiKey.FETCH:
            topics, lists_all = read_fetch_topics(request, version)
            if lists_all:
                self._listed_at = now
            for topic in topics:
                record.note_topic(client, Use.READS, topic, now)
            return
        read = _names_of(key, version)
        assert read is not None
        named = [(family, name) for family, name in read(request, key, version) if isinstance(name, str) and name]
        if key == ApiKey.SHARE_FETCH:
            for topic in read_share_fetch_topics(request):
                record.note_topic(client, Use.READS, topic, now)
        family = CHANGES[key].family if key in CHANGES else "group"
        if family in ("topic", "admin") or key == ApiKey.DELETE_GROUPS:
            record.note_name(client, Use.ADMIN, APIS[key].name, now)
            return
        transaction = next((name for of, name in named if of == "transaction"), None)
        for of, name in named:
            if of == "transaction":
                record.note_name(client, Use.TRANSACTION, name, now)
            elif transaction is not None and of == "produce":
                record.note_transaction(client, transaction, Use.WRITES, Topic(name), now)
            elif of == "group":
                record.note_name(client, Use.GROUP, name, now)
                if transaction is not None:
                    record.note_transaction(client, transaction, Use.GROUP, name, now)


@cache
def _names_of(key: int, version: int) -> ReadNames | None:
    """Return the function that reads the names in requests of an API; None if they name nothing that is recorded."""
    if key == ApiKey.OFFSET_FETCH:
        return names.first("group") if version < 8 else names.of_elements("group", "Groups", "GroupId")
    change = CHANGES.get(key)
    if change is None or key == ApiKey.PRODUCE:
        return None
    # Of those that change more than records and positions, the API is enough.
    return names.none if change.family in ("topic", "admin") else change.read_names
