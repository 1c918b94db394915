"""What is known of reaching a cluster."""

from __future__ import annotations

import pickle

import pytest

from kproxy.base.address import Address
from kproxy.net.dial.routes import Route, RouteKind
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.proxy.cluster import reachability as known_module
from kproxy.proxy.cluster.reachability import (
    BootstrapAnswer,
    DialOutcome,
    ExplorationState,
    NodeAddress,
    NodeReachability,
    Proof,
    ReachabilityState,
)
from kproxy.proxy.cluster.topology import NodeKey

ONE, TWO = NodeKey(NodeKind.BROKER, 1), NodeKey(NodeKind.BROKER, 2)
THERE, ELSEWHERE = Address("kafka-1", 9092), Address("gate", 1)
ROUTE = Route(THERE, RouteKind.ADVERTISED)
GOOD = NodeReachability(ROUTE, Proof.OWN_WORD)


@pytest.mark.parametrize(
    "fact",
    [
        DialOutcome(ONE, GOOD),
        DialOutcome(ONE, NodeReachability(problem="gone")),
        NodeAddress(THERE, ONE, Proof.LEADER),
        BootstrapAnswer(1),
        ExplorationState(bootstrap_asked=True, answered=True, searched=True, problem=None),
    ],
)
def test_a_fact_is_news_once(fact: known_module.Fact) -> None:
    known = ReachabilityState()
    assert known.note(fact)
    assert not known.note(fact)
    assert pickle.loads(pickle.dumps(known)) == known  # other processes get it


def test_the_route_that_worked_last_outlives_a_problem() -> None:
    known = ReachabilityState()
    known.note(DialOutcome(ONE, GOOD))
    known.note(DialOutcome(ONE, NodeReachability(problem="gone")))
    assert known.of_node(ONE) == NodeReachability(ROUTE, Proof.OWN_WORD, "gone")
    assert known.problems == {ONE: "gone"}
    known.note(DialOutcome(ONE, GOOD))
    assert known.problems == {}


def test_a_node_is_out_of_reach_since_the_first_try_that_failed() -> None:
    known = ReachabilityState()
    assert known.note(DialOutcome(ONE, NodeReachability(problem="gone", since=10.0)))
    assert not known.note(DialOutcome(ONE, NodeReachability(problem="gone", since=20.0)))
    assert known.note(DialOutcome(ONE, NodeReachability(problem="gone in another way", since=30.0)))
    assert known.of_node(ONE).since == 10.0
    known.note(DialOutcome(ONE, GOOD))
    assert known.of_node(ONE).since is None
    known.note(DialOutcome(ONE, NodeReachability(problem="gone", since=40.0)))
    assert known.of_node(ONE).since == 40.0


def test_the_first_who_says_it_settles_which_cluster_is_served() -> None:
    known = ReachabilityState()
    assert known.claim_cluster_id("a", THERE) == "a"
    assert known.claim_cluster_id("b", ELSEWHERE) == "a"
    text = known.other_cluster_text(ELSEWHERE, "b")
    assert text.startswith("gate:1 answers, but it is another cluster (id b): kproxy serves the cluster with the id a,")


def test_an_address_leads_to_one_node_at_a_time() -> None:
    known = ReachabilityState()
    known.note(NodeAddress(THERE, ONE, Proof.OWN_WORD))
    known.note(NodeAddress(THERE, TWO, Proof.OWN_WORD))
    assert known.addresses_of(ONE) == []
    assert [one.address for one in known.addresses_of(TWO)] == [THERE]
    known.forget([TWO])
    assert known.addresses_of(TWO) == []


def test_addresses_without_end_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_module, "_ADDRESSES", 5)
    known = ReachabilityState()
    for port in range(100):
        known.note(NodeAddress(Address("kafka", port), ONE, Proof.OWN_WORD))
    assert list(known.node_addresses) == [Address("kafka", port) for port in range(95, 100)]


UNTOLD = Route(THERE, RouteKind.UNIDENTIFIED)
LEARNED = NodeReachability(Route(THERE, RouteKind.LEARNED), Proof.LEADER)


def test_one_more_connection_does_not_revoke_a_nodes_identity() -> None:
    """Another process, which has not heard of it yet, has opened one."""
    known = ReachabilityState()
    known.note(DialOutcome(ONE, LEARNED))
    assert not known.note(DialOutcome(ONE, NodeReachability(UNTOLD, Proof.UNCHECKED)))
    assert known.of_node(ONE) == LEARNED


@pytest.mark.parametrize(
    ("before", "route"),
    [
        (NodeReachability(), UNTOLD),
        (LEARNED, Route(ELSEWHERE, RouteKind.UNIDENTIFIED)),
        (NodeReachability(LEARNED.route, LEARNED.proof, "it is broker 2"), UNTOLD),
    ],
    ids=["nothing known", "another address", "it was somebody else"],
)
def test_a_connection_shows_nothing_of_what_was_not_shown_before(before: NodeReachability, route: Route) -> None:
    known = ReachabilityState(nodes={ONE: before})
    assert known.note(DialOutcome(ONE, NodeReachability(route, Proof.UNCHECKED)))
    assert known.of_node(ONE) == NodeReachability(route, Proof.UNCHECKED)
