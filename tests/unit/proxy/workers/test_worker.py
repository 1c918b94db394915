"""A worker and a main process that answers late, or not at all."""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Iterator

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, Kind
from kproxy.proxy.cluster.known import Explored, Known
from kproxy.proxy.cluster.own import OwnAddresses
from kproxy.proxy.cluster.topology import Node, NodeKey
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.workers import messages, worker
from kproxy.proxy.workers.worker import Cluster, MainProcess

KEY = NodeKey(Kind.BROKER, 1)
THERE, MOVED = Address("kafka-1.internal", 9092), Address("kafka-1.internal", 9192)


def view(advertised: Address, port: int) -> messages.View:
    nodes = {KEY: Node(KEY, advertised, port)}
    return messages.View(
        nodes, Known(explored=Explored(True, True, True, None)), frozenset({Address("127.0.0.1", port)})
    )


def named(advertised: Address) -> Endpoints:
    return Endpoints((Endpoint(Kind.BROKER, 1, advertised),), complete=True)


class Main:
    """The other end."""

    def __init__(self, its_end: socket.socket) -> None:
        self.socket = its_end
        self.socket.settimeout(60)

    def answer(self, number: int, answer: object) -> None:
        self.socket.sendall(messages.framed((number, answer)))

    def heard(self) -> object:
        (size,) = messages.SIZE.unpack(self.socket.recv(messages.SIZE.size, socket.MSG_WAITALL))
        return pickle.loads(self.socket.recv(size, socket.MSG_WAITALL))


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Main, Cluster]]:
    monkeypatch.setattr(worker, "_PATIENCE", 0.05)
    one, other = socket.socketpair()
    with one, other:
        main = Main(one)
        main.answer(1, view(THERE, 19093))
        config = ClusterConfig(bootstrap_servers=(Address("b", 1),))
        cluster = Cluster(config, MainProcess(other), Metrics(), asyncio.TaskGroup(), OwnAddresses())
        assert main.heard() == messages.Asked(1, messages.Look("default"))
        yield main, cluster


def test_what_is_known_is_not_asked(main: tuple[Main, Cluster]) -> None:
    _, cluster = main
    assert cluster.localise("proxy", named(THERE)) == (Address("proxy", 19093),)


def test_what_is_new_is_asked(main: tuple[Main, Cluster]) -> None:
    its_end, cluster = main
    local = Address("proxy", 19094)
    its_end.answer(2, messages.Localised((local,), view(MOVED, 19094)))
    assert cluster.localise("proxy", named(MOVED)) == (local,)
    assert its_end.heard() == messages.Asked(2, messages.Localise("default", "proxy", named(MOVED)))
    assert cluster.localise("proxy", named(MOVED)) == (local,)  # and known from now on


def test_what_was_told_holds_until_the_main_process_says_something_new(main: tuple[Main, Cluster]) -> None:
    """Another port, or another address that is known already, is told at once, and another host as well."""
    its_end, cluster = main
    said = named(THERE)
    assert cluster.localise("proxy", said) is cluster.localise("proxy", said)
    assert cluster.localise("other", said) == (Address("other", 19093),)
    its_end.answer(2, view(THERE, 19095))
    cluster.look()
    assert cluster.localise("proxy", said) == (Address("proxy", 19095),)
    its_end.answer(3, view(MOVED, 19095))
    cluster.look()
    its_end.answer(4, messages.NotLocalised("not-localised", "who is it?"))
    with pytest.raises(WireError, match="who is it"):
        cluster.localise("proxy", said)


def test_without_an_answer_the_response_is_refused(main: tuple[Main, Cluster]) -> None:
    its_end, cluster = main
    with pytest.raises(WireError) as refused:
        cluster.localise("proxy", named(MOVED))
    assert refused.value.reason == "not-localised"
    # It comes late: it is not taken for the answer to the next question.
    its_end.answer(2, messages.Localised((Address("late", 1),), view(THERE, 1)))
    its_end.answer(3, messages.Localised((Address("proxy", 19095),), view(MOVED, 19095)))
    assert cluster.localise("proxy", named(MOVED)) == (Address("proxy", 19095),)


def test_half_an_answer_is_kept_until_the_rest_is_there(main: tuple[Main, Cluster]) -> None:
    its_end, cluster = main
    whole = messages.framed((2, messages.Localised((Address("late", 1),), view(THERE, 1))))
    its_end.socket.sendall(whole[:10])
    with pytest.raises(WireError):
        cluster.localise("proxy", named(MOVED))
    its_end.socket.sendall(whole[10:])
    its_end.answer(3, messages.NotLocalised("too-many-nodes", "the cluster has 9 nodes"))
    with pytest.raises(WireError, match="9 nodes") as refused:
        cluster.localise("proxy", named(MOVED))
    assert refused.value.reason == "too-many-nodes"
