"""The guard of one session after a switch: it limits the client's first writes, and checks its positions. Sans-IO.

A session in a Kafka cluster that was created again has only what librdkafka needs of it (`EpochGuard`).

A guard judges requests before they pass, and inspects responses, of a few APIs only. As soon as it no longer needs one
of these, the API costs what it costs in other sessions. Frames are read in `switching`.

 * **The first Produce requests** pass one at a time. The cluster does not know the producer yet, so it takes any batch
   of it for the first: if it refused one, and accepted the one behind, the refused one could never follow. So what
   stands behind a batch waits for its answer; after a refusal the session ends, and the client repeats all in order.
 * **DeleteRecords** is refused at first: it may have been held, and have an offset of the former cluster. Here that
   would delete unread records. Kafka Streams asks again, every 30 s, with the offset that it has by then.
 * **A consumer's position** must be one that the new cluster has sent it: see `switching.positions`. A Fetch from
   another position waits, and is answered that there is nothing new. Kafka Streams is answered that it is out of
   range, and rebuilds its store; so are the consumers with which a worker of Kafka Connect reads its own topics, which
   begin again. A position from the former cluster is neither examined (OffsetForLeaderEpoch) nor committed: no broker
   fences a client that is no member of a group, and a member may repeat a commit after it has joined the group again.
 * **A member of a group that the new cluster does not know** joins it again. So does a member that waits although its
   group knows it: a kproxy that was restarted does not know what the member was sent, and lets it ask again. Once in a
   session, since another client may have the same identity.
 * **A librdkafka client** receives no leaders' epochs at first, in each session the first time that a topic is named:
   by those of the former cluster it would refuse the leaders of this one. With none it asks a leader as of epoch 0, is
   refused if that is wrong (FENCED_LEADER_EPOCH), asks for metadata again, and receives the epochs.
 * **A transaction that was begun in the former cluster** ends with an abort: see `switching.transactions`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from kproxy.base.messages.switches import REQUEST_TOO_LARGE_TO_EXAMINE
from kproxy.protocol.rewrite.endpoints import Localise
from kproxy.protocol.rewrite.response import Response
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import Buffer, Underflow, malformed
from kproxy.proxy.relay.calls import LONGEST_REQUEST, Call, Calls, GuardVerdict, SelectedCalls
from kproxy.proxy.relay.judged import ChangedResponse
from kproxy.proxy.switching import requests, responses
from kproxy.proxy.switching.clientsoftware import is_franz_go, is_librdkafka, rebuilds_store, sibling_consumers
from kproxy.proxy.switching.doubts import ClientIdentity
from kproxy.proxy.switching.positions import Position, PositionTracker, SessionPositions
from kproxy.proxy.switching.transactions import TRANSACTIONAL, is_commit, needs_substitute, substitute_errors

_HEARTBEATS = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT})
_POSITION_SOURCES = frozenset({ApiKey.OFFSET_FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH})
_OF_POSITIONS = frozenset({ApiKey.FETCH, ApiKey.HEARTBEAT, *_POSITION_SOURCES})
_EXAMINED = (ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.END_TXN, ApiKey.DELETE_RECORDS)
GUARDED = frozenset({ApiKey.PRODUCE, ApiKey.METADATA, *_EXAMINED, *_OF_POSITIONS, *_HEARTBEATS, *TRANSACTIONAL})

LONGEST_METADATA = 1024 * 1024
"""The most bytes of a Metadata response in which epochs are removed: about 25,000 partitions, or 0.1 s."""
# A Fetch that may not pass is answered after as long as it would wait for records, within these bounds, in seconds.
_SHORTEST_WAIT, _LONGEST_WAIT = 0.1, 1.0


class GuardRules:
    """The state that the guards of one unit share.

    `first_writes_until`: until when first writes pass one at a time, and records are not deleted, in seconds of the
    clock that requests come with; infinite while all writes are held.
    """

    def __init__(self, positions: PositionTracker) -> None:
        self.positions = positions
        self.first_writes_until = float("inf")


class EpochGuard:
    """What a librdkafka client needs alone: the guard of a session in a cluster that was created again.

    Its positions and transactions are those of a client without kproxy.
    """

    def __init__(self, software: Callable[[], str]) -> None:
        self._software = software
        self.keys: frozenset[int] = frozenset({ApiKey.METADATA})
        self.holds = False
        self._shown_topics: set[bytes] = set()  # topics in the metadata that librdkafka has received

    def wrap(self, calls: Calls) -> GuardedCalls:
        """Return these calls, as the guard judges them."""
        return GuardedCalls(calls, self)

    def judge(self, call: Call, request: Buffer, size: int, now: float) -> GuardVerdict | bytes:
        """Judge a request that begins with these bytes, of `size` bytes without its size field. Raises WireError."""
        if call.key == ApiKey.METADATA and not is_librdkafka(self._software()):
            self.keys -= {ApiKey.METADATA}
        return GuardVerdict.PASS

    def resume(self) -> None:
        """End the wait: the requests that wait are judged again."""
        self.holds = False

    def inspects(self, key: int) -> bool:
        """Check whether the guard inspects responses of this API."""
        return key not in (ApiKey.FETCH, ApiKey.DELETE_RECORDS)

    def inspects_response(self, key: int, size: int) -> bool:
        """Check whether the guard inspects a response of this API and size."""
        return self.inspects(key) and not (key == ApiKey.METADATA and size > LONGEST_METADATA)

    def on_response(self, key: int, version: int, response: bytes) -> Buffer:
        """Inspect a response; return what passes to the client. Raises WireError."""
        try:
            return self._on_response(key, version, response)
        except Underflow:
            raise malformed("a response ends before its last field") from None

    def _on_response(self, key: int, version: int, response: bytes) -> Buffer:
        if key == ApiKey.METADATA and is_librdkafka(self._software()):
            return responses.remove_leader_epochs(response, version, self._shown_topics)
        return response


class Guard(EpochGuard):
    """The guard of one session after a switch.

    `judge_again` is called with seconds if requests wait and must be judged again then. `end_session` is called if the
    session must end as soon as the client has all answers. `on_waiting` receives the position of a client that begins
    to wait.
    """

    def __init__(
        self,
        rules: GuardRules,
        identify: Callable[[], ClientIdentity],
        software: Callable[[], str],
        judge_again: Callable[[float], None],
        end_session: Callable[[], None],
        on_waiting: Callable[[ClientIdentity, Position], None],
    ) -> None:
        super().__init__(software)
        self._rules = rules
        self._identify = identify
        self._judge_again, self._end_session, self._on_waiting = judge_again, end_session, on_waiting
        self.keys = GUARDED
        self._producing = False
        self._accepted = False  # a Produce was answered without an error
        self._refused = False
        self._commits: deque[bool] = deque()  # of the EndTxn requests without a response, whether they commit
        self._fetch_until: float | None = None  # until when a Fetch waits
        self._was_made_to_rejoin = False  # it was answered that its group does not know it
        self.followed: SessionPositions | None = None

    def judge(self, call: Call, request: Buffer, size: int, now: float) -> GuardVerdict | bytes:
        """Judge a request that begins with these bytes, of `size` bytes without its size field. Raises WireError."""
        if call.key == ApiKey.PRODUCE:
            return self._judge_produce(now)
        if call.key == ApiKey.METADATA:
            return super().judge(call, request, size, now)
        if call.key == ApiKey.DELETE_RECORDS and now >= self._rules.first_writes_until:
            self.keys -= {ApiKey.DELETE_RECORDS}
            return GuardVerdict.PASS
        if call.key not in _EXAMINED:
            return GuardVerdict.PASS
        if call.key not in (ApiKey.END_TXN, ApiKey.DELETE_RECORDS) and self._followed_client() is None:
            return GuardVerdict.PASS
        if len(request) < 4 + size:
            if size > LONGEST_REQUEST:
                raise malformed(REQUEST_TOO_LARGE_TO_EXAMINE(api=call.api, size=size))
            return GuardVerdict.MORE
        try:
            if call.key == ApiKey.END_TXN:
                self._commits.append(is_commit(request))
                return GuardVerdict.PASS
            if call.key == ApiKey.DELETE_RECORDS:
                return requests.deletion_refusal(request)
            return self._judge_position(call.key, request, now)
        except Underflow:
            raise malformed(f"a {call.api} request ends before its last field") from None

    def _hold(self) -> GuardVerdict:
        self.holds = True
        return GuardVerdict.HOLD

    # First writes

    def _judge_produce(self, now: float) -> GuardVerdict:
        if self._refused or self._producing:
            return self._hold()
        if self._accepted and now >= self._rules.first_writes_until:
            self.keys -= {ApiKey.PRODUCE}
        else:
            self._producing = True
        return GuardVerdict.PASS

    def _on_produce_response(self, refused: bool) -> None:
        self._producing = False
        if refused:
            self._refused = True
            self._end_session()
            return
        self._accepted = True
        if self.holds:
            self._judge_again(0.0)

    def _on_transaction_response(self, key: int, version: int, response: bytes) -> Buffer:
        if key == ApiKey.PRODUCE and self._producing:
            self._on_produce_response(responses.has_retriable_error(response, version))
        aborts = key == ApiKey.END_TXN and not self._commits.popleft()
        if not needs_substitute(self._software(), self._identify().client_id):
            return response
        return substitute_errors(response, key, version, aborts=aborts)

    # Positions

    def _followed_client(self) -> SessionPositions | None:
        """Return what the client has followed in this session; None if it has never fetched in the former cluster."""
        if self.followed is None:
            client = self._rules.positions.client(self._identify())
            if client is None:
                self.keys -= _OF_POSITIONS
                return None
            self.followed = SessionPositions(client)
        return self.followed

    def _judge_position(self, key: int, request: Buffer, now: float) -> GuardVerdict | bytes:
        followed = self._followed_client()
        assert followed is not None
        if key == ApiKey.FETCH:
            return self._judge_fetch(followed, request, now)
        if key == ApiKey.OFFSET_COMMIT:
            commit = requests.read_commit(request)
            if followed.may_commit(commit.positions):
                return GuardVerdict.PASS
            return requests.commit_refusal(commit, keeps_positions=is_franz_go(self._software()))
        epochs = requests.read_epochs(request)
        if not followed.lacks_offsets(epochs.positions):
            return GuardVerdict.PASS
        self._note_waiting(epochs.positions[0], now)
        return requests.epochs_refusal(epochs, for_good=self._rebuilds)

    def _judge_fetch(self, followed: SessionPositions, request: Buffer, now: float) -> GuardVerdict | bytes:
        named = requests.read_fetch_positions(request)
        if named is None:
            fetch = requests.read_fetch(request)
            named, forgotten = (fetch.positions, fetch.in_session), fetch.forgotten
        else:
            forgotten = ()
        positions, in_session = named
        stale = followed.first_stale(positions, now)
        if stale is None:
            if in_session:
                followed.note_fetch_all(forgotten, now)
            self._fetch_until = None
            if self._rules.positions.has_waiting:
                self._rules.positions.note_served(self._identify())
            return GuardVerdict.PASS
        fetch = requests.read_fetch(request)
        if self._fetch_until is None:
            wait = min(max(fetch.max_wait / 1000, _SHORTEST_WAIT), _LONGEST_WAIT)
            self._fetch_until = now + wait
            # Otherwise it may be the same client, at the partition's next leader.
            if not followed.is_followed_elsewhere(stale):
                self._note_waiting(stale, now)
            self._judge_again(wait)
            return self._hold()
        self._fetch_until = None
        return requests.empty_fetch_response(fetch, stale if self._rebuilds else None)

    @property
    def _rebuilds(self) -> bool:
        identity, software = self._identify(), self._software()
        names = sibling_consumers(software, identity.client_id)
        of_a_worker = names and all(
            self._rules.positions.is_tracked(ClientIdentity(identity.address, name)) for name in names
        )
        return bool(of_a_worker) or rebuilds_store(software, identity.client_id)

    def _note_waiting(self, position: Position, now: float) -> None:
        identity = self._identify()
        if self._rules.positions.note_waiting(identity, position, now):
            self._on_waiting(identity, position)

    # Responses

    def _on_response(self, key: int, version: int, response: bytes) -> Buffer:
        if key == ApiKey.METADATA:
            return super()._on_response(key, version, response)
        if key in TRANSACTIONAL:
            return self._on_transaction_response(key, version, response)
        if key in _POSITION_SOURCES:
            client = self._rules.positions.client(self._identify())
            for position in responses.read_offsets(response, key, version) if client is not None else ():
                assert client is not None
                client.note_offset(*position)
            return response
        if key == ApiKey.OFFSET_COMMIT:
            return responses.replace_unknown_group(response, key, version)
        return self._on_heartbeat_response(response, key, version)

    def _on_heartbeat_response(self, response: bytes, key: int, version: int) -> Buffer:
        """Return the response to a heartbeat, changed if the member must join its group again."""
        if self._was_made_to_rejoin or not self._rules.positions.waits_without_offsets(self._identify()):
            return responses.replace_unknown_group(response, key, version)
        changed = responses.replace_success_by_unknown_member(response, key, version)
        self._was_made_to_rejoin = changed != response
        return changed


class GuardedCalls(SelectedCalls):
    """The calls of a session that has a guard."""

    def __init__(self, calls: Calls, guard: EpochGuard) -> None:
        super().__init__(calls)
        self._guard = guard
        self._guarded_keys: Collection[int] = guard.keys

    def __missing__(self, code: int) -> Call | None:
        call = self._all[code]
        if call is None or call.key not in self._guard.keys:
            return call
        guarded = self[code] = GuardedCall(call, self._guard)
        return guarded

    def keep_only(self, keys: Collection[int]) -> None:
        """Guard only these APIs from now on."""
        if keys is self._guarded_keys:
            return
        self._guarded_keys = keys
        for code in [code for code in self if code >> 16 not in keys]:
            del self[code]


class GuardedCall(Call):
    """A call whose requests a guard judges, and whose responses it may inspect."""

    __slots__ = ("_call",)

    def __init__(self, call: Call, guard: EpochGuard) -> None:
        self._call = call
        self.key, self.version, self.api, self.counters = call.key, call.version, call.api, call.counters
        self.guard = guard
        self.authorizer = None
        self.is_judged = self.special = True
        self.is_local = False
        looks = guard.inspects(call.key)
        self.edited = looks or call.edited
        self.plain = None if looks else call.plain

    def respond(self, size: int, available: int, localise: Localise) -> Response:
        assert self.guard is not None
        if self.guard.inspects_response(self.key, size):
            inspect = partial(self.guard.on_response, self.key, self.version)
            what = f"a {self.api} response that must be examined"
            return ChangedResponse(size, self._call, inspect, what, localise)
        return self._call.respond(size, available, localise)
