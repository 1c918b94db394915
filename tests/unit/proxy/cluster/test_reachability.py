"""What is known of reaching a cluster."""

from __future__ import annotations

import pickle

import pytest

from kproxy.base.address import Address
from kproxy.net.dial.routes import Route, RouteKind
from kproxy.protocol.rewrite.endpoints import Kind
from kproxy.proxy.cluster import reachability as known_module
from kproxy.proxy.cluster.reachability import BootstrapAnswered, Explored, Known, LeadsTo, NodeReached, Proof, Reached
from kproxy.proxy.cluster.topology import NodeKey

ONE, TWO = NodeKey(Kind.BROKER, 1), NodeKey(Kind.BROKER, 2)
THERE, ELSEWHERE = Address("kafka-1", 9092), Address("gate", 1)
ROUTE = Route(THERE, RouteKind.ADVERTISED)
GOOD = Reached(ROUTE, Proof.OWN_WORD)


@pytest.mark.parametrize(
    "fact",
    [
        NodeReached(ONE, GOOD),
        NodeReached(ONE, Reached(problem="gone")),
        LeadsTo(THERE, ONE, Proof.LEADER),
        BootstrapAnswered(1),
        Explored(settled=True, answered=True, searched=True, problem=None),
    ],
)
def test_a_fact_is_news_once(fact: known_module.Fact) -> None:
    known = Known()
    assert known.note(fact)
    assert not known.note(fact)
    assert pickle.loads(pickle.dumps(known)) == known  # other processes get it


def test_the_route_that_worked_last_outlives_a_problem() -> None:
    known = Known()
    known.note(NodeReached(ONE, GOOD))
    known.note(NodeReached(ONE, Reached(problem="gone")))
    assert known.reached(ONE) == Reached(ROUTE, Proof.OWN_WORD, "gone")
    assert known.problems == {ONE: "gone"}
    known.note(NodeReached(ONE, GOOD))
    assert known.problems == {}


def test_a_node_is_out_of_reach_since_the_first_try_that_failed() -> None:
    known = Known()
    assert known.note(NodeReached(ONE, Reached(problem="gone", since=10.0)))
    assert not known.note(NodeReached(ONE, Reached(problem="gone", since=20.0)))
    assert known.note(NodeReached(ONE, Reached(problem="gone in another way", since=30.0)))
    assert known.reached(ONE).since == 10.0
    known.note(NodeReached(ONE, GOOD))
    assert known.reached(ONE).since is None
    known.note(NodeReached(ONE, Reached(problem="gone", since=40.0)))
    assert known.reached(ONE).since == 40.0


def test_the_first_who_says_it_settles_which_cluster_is_served() -> None:
    known = Known()
    assert known.claim("a", THERE) == "a"
    assert known.claim("b", ELSEWHERE) == "a"
    text = known.another(ELSEWHERE, "b")
    assert text.startswith("gate:1 answers, but it is another cluster (id b): kproxy serves the cluster with the id a,")


def test_an_address_leads_to_one_node_at_a_time() -> None:
    known = Known()
    known.note(LeadsTo(THERE, ONE, Proof.OWN_WORD))
    known.note(LeadsTo(THERE, TWO, Proof.OWN_WORD))
    assert known.addresses_of(ONE) == []
    assert [one.address for one in known.addresses_of(TWO)] == [THERE]
    known.forget([TWO])
    assert known.addresses_of(TWO) == []


def test_addresses_without_end_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_module, "_ADDRESSES", 5)
    known = Known()
    for port in range(100):
        known.note(LeadsTo(Address("kafka", port), ONE, Proof.OWN_WORD))
    assert list(known.leads_to) == [Address("kafka", port) for port in range(95, 100)]


UNTOLD = Route(THERE, RouteKind.UNTOLD)
LEARNED = Reached(Route(THERE, RouteKind.LEARNED), Proof.LEADER)


def test_one_more_connection_to_where_a_node_was_shown_to_be_does_not_unsay_it() -> None:
    """Another process, which has not heard of it yet, has opened one."""
    known = Known()
    known.note(NodeReached(ONE, LEARNED))
    assert not known.note(NodeReached(ONE, Reached(UNTOLD, Proof.UNCHECKED)))
    assert known.reached(ONE) == LEARNED


@pytest.mark.parametrize(
    ("before", "route"),
    [
        (Reached(), UNTOLD),
        (LEARNED, Route(ELSEWHERE, RouteKind.UNTOLD)),
        (Reached(LEARNED.route, LEARNED.proof, "it is broker 2"), UNTOLD),
    ],
    ids=["nothing known", "another address", "it was somebody else"],
)
def test_a_connection_shows_nothing_of_what_was_not_shown_before(before: Reached, route: Route) -> None:
    known = Known(nodes={ONE: before})
    assert known.note(NodeReached(ONE, Reached(route, Proof.UNCHECKED)))
    assert known.reached(ONE) == Reached(route, Proof.UNCHECKED)
