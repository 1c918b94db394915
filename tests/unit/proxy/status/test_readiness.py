"""Whether a cluster is ready, and what is said of what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kproxy.proxy.status.readiness import (
    LEVELS,
    Requires,
    advice,
    not_ready_reasons,
    permanent_problems,
    unreachable_nodes,
)
from tests.unit.proxy.status.clusters import cluster


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
    assert {requires for requires in LEVELS if not not_ready_reasons(cluster(*outcomes), requires)} == ready_with


def test_until_a_bootstrap_server_has_answered_nothing_is_ready() -> None:
    for answered, problem, words in (
        (False, "no bootstrap server has been asked yet", "no bootstrap server has been asked yet"),
        (False, "a:1 refuses", "a:1 refuses"),
        (True, None, "looking for an address of each node that works"),
    ):
        shown = replace(cluster("good"), answered=answered, searched=False, problem=problem)
        assert not_ready_reasons(shown, "one") == [f"cluster c: {words}"]
        assert not_ready_reasons(shown, "none") == []


def test_it_is_useless_to_wait_for_a_login_that_is_refused() -> None:
    problem = "no bootstrap server answers: a:1 refuses the login"
    shown = replace(cluster(), answered=False, searched=False, problem=problem)
    assert permanent_problems(shown) == []
    assert permanent_problems(replace(shown, login_refused=True)) == [f"cluster c: {problem}"]


@pytest.mark.parametrize("requires", LEVELS)
def test_without_a_place_or_a_port_nothing_is_ready(requires: Requires) -> None:
    shown = cluster("good", "good", "gone")
    first, second, third = shown.nodes
    assert not_ready_reasons(replace(shown, full="no place is left"), requires) == ["no place is left"]
    shown = replace(shown, nodes=(first, replace(second, bound=False), replace(third, bound=False)))
    assert not_ready_reasons(shown, requires) == ["cluster c: broker 2 has no local port"]


def test_all_that_is_missing_is_named_with_what_to_do() -> None:
    shown = cluster("lost", "good", "new")
    assert unreachable_nodes(shown) == [
        "cluster c: broker 1 (kafka-1:9092) cannot be reached: no way to 1",
        "cluster c: broker 3 (kafka-3:9092) cannot be reached: not tried yet",
        "cluster c: " + advice(shown),
    ]
    assert "--map 'node:1=HOST:PORT' --map 'node:3=HOST:PORT'. Or list" in advice(shown)
    assert unreachable_nodes(cluster("good")) == []


def test_maps_are_advised_where_another_address_may_help() -> None:
    """It mends no certificate and no login."""
    shown = cluster("lost", "lost", "lost")
    reasons = ("tls-name", "resolve", "sasl")
    nodes = tuple(replace(node, reason=reason) for node, reason in zip(shown.nodes, reasons, strict=True))
    assert "Say where these are: --map 'node:2=HOST:PORT'. Or list" in advice(replace(shown, nodes=nodes))
    nodes = tuple(replace(node, reason="ssh-auth") for node in shown.nodes)
    said = "3 of 3 nodes cannot be reached from here. Fix the reason of each first"
    assert advice(replace(shown, nodes=nodes)) == said
