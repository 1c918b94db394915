"""What is known of reaching a cluster, and what is missing."""

from __future__ import annotations

import pickle

import pytest

from kproxy.address import Address
from kproxy.cluster import known as known_module
from kproxy.cluster.known import BootstrapAnswered, Explored, Known, LeadsTo, NodeReached, Proof, Reached
from kproxy.cluster.readiness import Requires, advice, missing, not_ready, out_of_reach
from kproxy.cluster.topology import Node, NodeKey, Topology
from kproxy.dial.routes import Route, Via
from kproxy.rewrite.endpoints import Kind

ONE, TWO = NodeKey(Kind.BROKER, 1), NodeKey(Kind.BROKER, 2)
THERE, ELSEWHERE = Address("kafka-1", 9092), Address("gate", 1)
ROUTE = Route(THERE, Via.ADVERTISED)
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


def test_the_first_who_says_it_settles_which_cluster_is_served() -> None:
    known = Known()
    assert known.claim("a", THERE) == "a"
    assert known.claim("b", ELSEWHERE) == "a"
    text = known.another(ELSEWHERE, "b")
    assert text.startswith("gate:1 answers, but it is another cluster (id b): kproxy serves the one with the id a, as")


def test_an_address_leads_to_one_node_at_a_time() -> None:
    known = Known()
    known.note(LeadsTo(THERE, ONE, Proof.OWN_WORD))
    known.note(LeadsTo(THERE, TWO, Proof.OWN_WORD))
    assert known.addresses_of(ONE) == []
    assert [one.address for one in known.addresses_of(TWO)] == [THERE]
    known.forget(TWO)
    assert known.addresses_of(TWO) == []


def test_addresses_without_end_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_module, "_ADDRESSES", 5)
    known = Known()
    for port in range(100):
        known.note(LeadsTo(Address("kafka", port), ONE, Proof.OWN_WORD))
    assert list(known.leads_to) == [Address("kafka", port) for port in range(95, 100)]


# Readiness


def cluster(*outcomes: str) -> tuple[Topology, Known]:
    """Nodes 1, 2, …: each `good`, `lost`, `new` (not tried yet), `unchecked` or `gone` (and lost)."""
    topology = Topology(1, 100)
    known = Known(explored=Explored(settled=True, answered=True, searched=True, problem=None))
    for number, outcome in enumerate(outcomes, start=1):
        key = NodeKey(Kind.BROKER, number)
        gone = 1.0 if outcome == "gone" else None
        topology.nodes[key] = Node(key, Address(f"kafka-{number}", 9092), absent_since=gone)
        if outcome in ("lost", "gone"):
            known.note(NodeReached(key, Reached(problem=f"no way to {number}")))
        elif outcome != "new":
            proof = Proof.UNCHECKED if outcome == "unchecked" else Proof.OWN_WORD
            known.note(NodeReached(key, Reached(ROUTE, proof)))
    return topology, known


@pytest.mark.parametrize(
    ("outcomes", "ready_with"),
    [
        (("good", "good"), {"all", "one", "none"}),
        (("good", "lost"), {"one", "none"}),
        (("good", "new"), {"one", "none"}),
        (("unchecked", "unchecked"), {"all", "one", "none"}),
        (("lost", "lost"), {"none"}),
        (("new", "new"), {"none"}),
        (("good", "gone"), {"all", "one", "none"}),
        (("gone",), {"all", "one", "none"}),
        ((), {"all", "one", "none"}),  # brokers name their nodes to clients that have logged in
    ],
)
def test_ready(outcomes: tuple[str, ...], ready_with: set[Requires]) -> None:
    topology, known = cluster(*outcomes)
    every: tuple[Requires, ...] = ("all", "one", "none")
    assert {requires for requires in every if not not_ready("c", topology, known, requires)} == ready_with


def test_until_a_bootstrap_server_has_answered_nothing_is_ready() -> None:
    topology, known = cluster("good")
    for explored, words in (
        (Explored(), "no bootstrap server has been asked yet"),
        (Explored(settled=True, problem="a:1 refuses"), "a:1 refuses"),
        (Explored(settled=True, answered=True, problem=None), "looking for a way to each node"),
    ):
        known.note(explored)
        assert not_ready("c", topology, known, "one") == [f"cluster c: {words}"]
        assert not_ready("c", topology, known, "none") == []


def test_all_that_is_missing_is_named_with_what_to_do() -> None:
    topology, known = cluster("lost", "good", "new")
    assert missing("c", topology, known) == [
        "cluster c: broker 1 (kafka-1:9092) cannot be reached: no way to 1",
        "cluster c: broker 3 (kafka-3:9092) cannot be reached: not tried yet",
        "cluster c: " + advice(out_of_reach(topology, known), 3),
    ]
    assert "--map 'node:1=HOST:PORT' --map 'node:3=HOST:PORT'; or list" in advice(out_of_reach(topology, known), 3)
    assert missing("c", *cluster("good")) == []
