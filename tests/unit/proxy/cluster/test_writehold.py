"""Holding the writes of a cluster's clients, over real sockets: what counts as unanswered, who is in doubt."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from kproxy.base.address import Address
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.cluster.writehold import WriteStatus
from kproxy.proxy.relay.side import Side
from kproxy.proxy.switching import doubts
from tests.harness.clusters.switchable import NAME, Switchable, listening
from tests.harness.compiled import replaces_a_method
from tests.harness.process import wait_until
from tests.unit.kafka_frames import request, response, string
from tests.unit.proxy.relay.talking import passes, receive

FETCH_REQUEST = request(ApiKey.FETCH, 4, 8, bytes(50))
FETCHED = response(ApiKey.FETCH, 4, struct.pack(">ii", 0, 0), 8)


def produce(correlation_id: int = 5, acks: int = -1, client_id: str = "me", size: int = 1000) -> bytes:
    body = string(None) + struct.pack(">hi", acks, 1000) + bytes(size)
    return request(ApiKey.PRODUCE, 7, correlation_id, body, client_id)


def produced(correlation_id: int = 5) -> bytes:
    return response(ApiKey.PRODUCE, 7, struct.pack(">ii", 0, 0), correlation_id)


def receive_all(sock: socket.socket) -> bytes:
    """What comes until the end."""
    return b"".join(iter(lambda: sock.recv(4096), b""))


class Lab:
    """Clients, a broker that says what a test lets it say, and the sessions between them."""

    def __init__(self, broker: socket.socket, switchable: Switchable) -> None:
        self.broker = broker
        self.kproxy = switchable
        self.settled = threading.Event()
        self._sockets: list[socket.socket] = []

    def connect(self, first: bytes) -> tuple[socket.socket, socket.socket]:
        """The two far ends of a session whose client has said this."""
        client = socket.create_connection((self.kproxy.address.host, self.kproxy.address.port), 30)
        client.sendall(first)
        there, _ = self.broker.accept()
        there.settimeout(30)
        self._sockets += (client, there)
        return client, there

    def hold(self) -> None:
        self.kproxy.call(lambda: self.kproxy.unit.write_hold.begin_hold(self.settled.set))

    @property
    def writes(self) -> WriteStatus:
        return self.kproxy.call(lambda: self.kproxy.unit.write_hold.status)

    def wait(self, reached: Callable[[WriteStatus], bool], what: str) -> None:
        wait_until(lambda: reached(self.writes), what)

    def close(self) -> None:
        self.kproxy.close()
        for sock in self._sockets:
            sock.close()


@pytest.fixture
def lab() -> Iterator[Lab]:
    with listening() as broker, listening() as front:
        made = Lab(broker, Switchable(front, Address(*broker.getsockname()[:2])))
        yield made
        made.close()


def test_a_hold_without_writes_settles_at_once_and_reads_pass(lab: Lab) -> None:
    client, broker = lab.connect(FETCH_REQUEST)
    assert receive(broker, len(FETCH_REQUEST)) == FETCH_REQUEST
    lab.hold()
    assert lab.settled.wait(30), "an unanswered Fetch is no write"
    passes(broker, client, FETCHED)
    passes(client, broker, FETCH_REQUEST)
    assert lab.writes == WriteStatus(0, 0, ())


def test_a_hold_settles_with_the_last_answer_and_admits_no_write(lab: Lab) -> None:
    client, broker = lab.connect(produce(1))
    receive(broker, len(produce(1)))
    client.sendall(produce(2)[:500])
    receive(broker, 500)
    lab.hold()
    lab.wait(lambda writes: writes.unanswered == 2, "both count, the one that is half sent too")
    client.sendall(produce(2)[500:] + produce(3))
    receive(broker, len(produce(2)) - 500)
    lab.wait(lambda writes: writes.held == 1, "the third waits")
    other, there = lab.connect(FETCH_REQUEST)
    receive(there, len(FETCH_REQUEST))
    other.sendall(produce(9))
    lab.wait(lambda writes: writes.held == 2, "so does that of a session that begins later")
    assert not lab.settled.is_set()
    broker.sendall(produced(1) + produced(2)[:6])
    lab.wait(lambda writes: writes.unanswered == 1, "half an answer is none")
    assert not lab.settled.is_set()
    broker.sendall(produced(2)[6:])
    assert receive(client, 2 * len(produced())) == produced(1) + produced(2)
    assert lab.settled.wait(30)
    assert lab.writes == WriteStatus(0, 2, ())
    lab.kproxy.release()
    assert receive(broker, len(produce(3))) == produce(3)
    assert receive(there, len(produce(9))) == produce(9)


def test_an_answer_that_has_not_arrived_is_none(lab: Lab) -> None:
    """The client's system has not confirmed it: it may be lost with the connection. It is behind more than that system
    takes while the client does not read."""
    client, broker = lab.connect(FETCH_REQUEST)
    receive(broker, len(FETCH_REQUEST))
    client.sendall(produce(1))
    receive(broker, len(produce(1)))
    many = response(ApiKey.FETCH, 4, bytes(16 * 1024 * 1024), 8)
    sender = threading.Thread(target=broker.sendall, args=(many + produced(1),))
    sender.start()
    lab.hold()
    lab.wait(lambda writes: writes.unanswered == 1, "the client takes nothing")
    assert not lab.settled.is_set()
    receive(client, len(produced()) + len(many))
    sender.join(30)
    assert lab.settled.wait(30)


def test_a_cut_ends_all_sessions_and_reroutes_new_ones(lab: Lab) -> None:
    client, broker = lab.connect(produce(1))
    receive(broker, len(produce(1)))
    broker.sendall(produced(1))
    receive(client, len(produced()))
    lab.hold()
    assert lab.settled.wait(30)
    client.sendall(produce(2))
    lab.wait(lambda writes: writes.held == 1, "it waits")
    with listening() as green:
        lab.kproxy.flip(Address(*green.getsockname()[:2]))
        with contextlib.suppress(ConnectionResetError):  # as it has sent what nobody has read
            assert client.recv(1) == b""
        assert broker.recv(1) == b""
        again = socket.create_connection((lab.kproxy.address.host, lab.kproxy.address.port), 30)
        again.sendall(FETCH_REQUEST + produce(2))
        there, _ = green.accept()
        with again, there:
            assert receive(there, len(FETCH_REQUEST)) == FETCH_REQUEST
            lab.wait(lambda writes: writes.held == 1, "still held")
            assert lab.writes.doubts == (), "what was held has not reached any broker"
            lab.kproxy.release()
            assert receive(there, len(produce(2))) == produce(2)


@replaces_a_method
def test_whose_first_write_was_refused_is_not_in_doubt(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a broker that does not lead the partition: the client repeats it elsewhere, and may never write here again.
    Its session ends, but not before the client's system has confirmed that the answer arrived, which may take a while:
    it waits for more to confirm."""
    looks = itertools.count()
    lab.hold()
    assert lab.settled.wait(30)
    with listening() as green:
        lab.kproxy.flip(Address(*green.getsockname()[:2]))
        lab.kproxy.release()
        monkeypatch.setattr(Side, "unacked_bytes", property(lambda _: 60 if next(looks) < 3 else 0))
        client = socket.create_connection((lab.kproxy.address.host, lab.kproxy.address.port), 30)
        client.sendall(produce(1) + produce(2))
        broker, _ = green.accept()
        broker.settimeout(30)
        with client, broker:
            assert receive(broker, len(produce(1))) == produce(1)
            partition = struct.pack(">iihqqq", 1, 0, 6, -1, -1, -1)  # NOT_LEADER_OR_FOLLOWER
            refused = response(ApiKey.PRODUCE, 7, struct.pack(">i", 1) + string("t") + partition + bytes(4), 1)
            passes(broker, client, refused)
            assert broker.recv(1) == b"", "the second one has not followed"
        lab.wait(lambda writes: writes == WriteStatus(), "nobody is in doubt")


@pytest.mark.parametrize("who_ends", ["client", "broker"])
def test_a_lost_answer_leaves_a_doubt_until_the_write_repeats(
    lab: Lab, who_ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doubts, "SETTLED_AFTER", 0.0)
    client, broker = lab.connect(produce(1))
    receive(broker, len(produce(1)))
    (client if who_ends == "client" else broker).close()
    (broker if who_ends == "client" else client).close()
    lab.wait(lambda writes: len(writes.doubts) == 1, "it may send it again")
    (doubt,) = lab.writes.doubts
    assert (doubt.client, doubt.address, doubt.node) == ("me", "127.0.0.1", "1")
    lab.hold()
    other, elsewhere = lab.connect(produce(1, client_id="other")[:-1])
    other.sendall(produce(1, client_id="other")[-1:])
    lab.wait(lambda writes: writes.held == 1, "others wait")
    assert not lab.settled.is_set()
    again, there = lab.connect(produce(1))
    assert receive(there, len(produce(1))) == produce(1), "its write passes, although writes are held"
    lab.wait(lambda writes: not writes.doubts, "it has been repeated")
    assert not lab.settled.is_set(), "and has no answer yet"
    again.sendall(produce(2))
    lab.wait(lambda writes: writes.held == 2, "from then on it waits too")
    there.sendall(produced(1))
    assert lab.settled.wait(30)
    assert receive(again, len(produced())) == produced(1)
    lab.kproxy.release()
    assert receive(there, len(produce(2))) == produce(2)
    assert receive(elsewhere, len(produce(1, client_id="other"))) == produce(1, client_id="other")


@pytest.mark.parametrize("lost", [produce(1, acks=0), request(8, 2, 1, bytes(30)), FETCH_REQUEST])
def test_who_lost_what_does_no_harm_is_not_in_doubt(lab: Lab, lost: bytes) -> None:
    client, broker = lab.connect(lost)
    receive(broker, len(lost))
    client.close()
    broker.close()
    lab.hold()
    assert lab.settled.wait(30)
    assert lab.writes == WriteStatus()


def test_a_session_that_ends_during_the_hold_leaves_its_doubt(lab: Lab) -> None:
    client, broker = lab.connect(produce(1))
    receive(broker, len(produce(1)))
    lab.hold()
    lab.wait(lambda writes: writes.unanswered == 1, "it is under way")
    broker.close()
    client.close()
    lab.wait(lambda writes: len(writes.doubts) == 1 and not writes.unanswered, "nobody will answer it")
    assert not lab.settled.is_set()
    lab.kproxy.release()
    lab.hold()
    assert not lab.settled.is_set(), "nor does another hold settle"


def test_a_cluster_that_is_never_switched_notes_nothing() -> None:
    with listening() as broker, listening() as front:
        lab = Lab(broker, Switchable(front, Address(*broker.getsockname()[:2]), switches=False))
        client, there = lab.connect(produce(1))
        receive(there, len(produce(1)))
        client.close()
        there.close()
        assert lab.kproxy.call(lambda: lab.kproxy.here.unit(NAME)) is None
        lab.close()


@pytest.fixture
def plain_lab() -> Iterator[Lab]:
    """Of a cluster that cannot be switched yet."""
    with listening() as broker, listening() as front:
        made = Lab(broker, Switchable(front, Address(*broker.getsockname()[:2]), switches=False))
        yield made
        made.close()


def test_a_write_from_before_switching_was_possible_counts(plain_lab: Lab) -> None:
    lab = plain_lab
    client, broker = lab.connect(produce(1))
    receive(broker, len(produce(1)))
    lab.kproxy.begin_to_switch()
    lab.hold()
    lab.wait(lambda writes: writes.unanswered == 1, "it is under way")
    client.sendall(produce(2))
    passes(broker, client, produced(1))
    with contextlib.suppress(ConnectionResetError):  # what it has said last was not read
        assert client.recv(1) == b"", "the next one was not passed on: it comes on a connection that is noted"
    assert receive_all(broker) == b""
    lab.wait(lambda writes: writes.unanswered == 0, "it has ended")


@pytest.mark.parametrize("by", ["client", "broker"])
def test_who_loses_the_answer_to_such_a_write_is_in_doubt(plain_lab: Lab, by: str) -> None:
    lab = plain_lab
    client, broker = lab.connect(produce(1))
    receive(broker, len(produce(1)))
    lab.kproxy.begin_to_switch()
    (client if by == "client" else broker).close()
    lab.wait(lambda writes: [one.client for one in writes.doubts] == ["me"], "it may repeat it")
    lab.hold()
    assert not lab.settled.wait(0.1), "it may still do so"


def test_clients_renegotiate_when_switching_becomes_possible(plain_lab: Lab) -> None:
    """A session from before may still use a version that names topics by ids, but it ends as soon as nothing is in
    flight; the next one may not."""
    lab = plain_lab
    fetch = request(ApiKey.FETCH, 13, 1, bytes(50), "me")
    client, broker = lab.connect(fetch)
    receive(broker, len(fetch))
    idle, there = lab.connect(FETCH_REQUEST)
    receive(there, len(FETCH_REQUEST))
    there.sendall(FETCHED)
    receive(idle, len(FETCHED))
    lab.kproxy.begin_to_switch()
    assert idle.recv(1) == b""
    answer = response(ApiKey.FETCH, 13, bytes(20), 1)
    passes(broker, client, answer)
    assert client.recv(1) == b""
    again, _ = lab.connect(fetch)
    assert again.recv(1) == b""


@replaces_a_method
def test_a_pending_answer_is_no_doubt_when_switching_begins(plain_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows any more what the answer on its way answers. So the session ends when the client's system has
    confirmed it, and nothing is left to doubt: a consumer that never writes would be in doubt for minutes."""
    lab = plain_lab
    looks = itertools.count()
    client, broker = lab.connect(FETCH_REQUEST)
    receive(broker, len(FETCH_REQUEST))
    passes(broker, client, FETCHED)
    monkeypatch.setattr(Side, "unacked_bytes", property(lambda _: 60 if next(looks) < 5 else 0))
    lab.kproxy.begin_to_switch()
    assert client.recv(1) == b""
    assert next(looks) > 5, "kproxy has waited for the confirmation"
    lab.wait(lambda writes: writes == WriteStatus(), "nobody is in doubt")
