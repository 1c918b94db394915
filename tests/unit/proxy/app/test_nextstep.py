"""The command lines that help where a broker cannot be reached."""

from __future__ import annotations

import shlex
from dataclasses import replace

from kproxy.base.address import Address
from kproxy.config import ClusterConfig, Config, Map
from kproxy.proxy.app.nextstep import Invocation, bootstrap_hints, fix_lines, node_hints
from kproxy.proxy.cluster.reachability import ExplorationState
from tests.unit.proxy.status.clusters import cluster

TYPED = Invocation(("-b", "gate:1", "--listen", "127.0.0.1:1"), ("-b", "gate:1"))
DOCTOR = "to find out why: kproxy doctor -b gate:1"


def config(*maps: str, clusters: int = 1) -> Config:
    one = [
        ClusterConfig(
            name=f"c{number}",
            bootstrap_servers=(Address("gate", 1),),
            map=tuple(map(Map.parse, maps)),
            listen=Address("127.0.0.1", 0),
        )
        for number in range(clusters)
    ]
    return Config(clusters=tuple(one))


def run_line(lines: list[str]) -> list[str]:
    """The words of the first line's command."""
    return shlex.split(lines[0].partition(": ")[2])


def test_nothing_is_said_where_all_is_well() -> None:
    assert node_hints(TYPED, config(), cluster("good", "assumed", "gone")) == []
    assert bootstrap_hints(TYPED, config(), ExplorationState(answered=True)) == []


def test_lost_nodes_are_mapped_in_the_line() -> None:
    lines = node_hints(TYPED, config(), cluster("good", "lost", "lost"))
    maps = ["--map", "node:2=HOST:PORT", "--map", "node:3=HOST:PORT"]
    assert run_line(lines) == ["kproxy", "run", *TYPED.run_arguments, *maps]
    assert lines[1:] == [DOCTOR]


def test_the_lines_of_a_finding_are_the_same_commands() -> None:
    lost = cluster("good", "lost")
    shown = fix_lines(TYPED, config(), lost)
    other, doctor = (line.partition(": ") for line in node_hints(TYPED, config(), lost))
    assert shown == [f"# {doctor[0]}", doctor[2], f"# {other[0]}", other[2]]
    assert fix_lines(TYPED, config(), cluster()) == [f"# {doctor[0]}", doctor[2]]  # no bootstrap server answers


def test_nothing_is_said_to_work_that_was_not_tried() -> None:
    lines = node_hints(TYPED, config(), cluster("good", "lost"))
    assert "works" not in " ".join(lines)


def test_a_node_that_another_address_does_not_help_is_not_mapped() -> None:
    shown = cluster("lost", "lost")
    first, second = shown.nodes
    mixed = replace(shown, nodes=(replace(first, reason="tls-untrusted"), replace(second, reason="refused")))
    assert run_line(node_hints(TYPED, config(), mixed))[-2:] == ["--map", "node:2=HOST:PORT"]
    assert node_hints(TYPED, config(), replace(mixed, nodes=mixed.nodes[:1])) == [DOCTOR]


def test_the_new_map_comes_before_those_that_were_given() -> None:
    """The first one that matches counts."""
    lines = node_hints(TYPED, config("*=elsewhere:1", "node:2=wrong:1"), cluster("good", "lost"))
    assert run_line(lines)[-4:] == ["--map", "node:2=HOST:PORT", "--map", "*=elsewhere:1"]


def test_a_line_that_nobody_would_read_is_not_said() -> None:
    assert node_hints(TYPED, config(), cluster(*["lost"] * 9)) == [DOCTOR]


def test_of_several_clusters_no_flag_can_name_one() -> None:
    assert node_hints(TYPED, config(clusters=2), cluster("lost")) == [DOCTOR]
    assert bootstrap_hints(
        TYPED, config(clusters=2), tls := ExplorationState(reasons=frozenset({"upstream-speaks-tls-alert"}))
    ) == [DOCTOR]
    assert bootstrap_hints(TYPED, config(), tls)[1:] == [DOCTOR]


def test_a_listener_that_expects_tls() -> None:
    lines = bootstrap_hints(
        TYPED, config(), ExplorationState(reasons=frozenset({"upstream-speaks-tls-alert", "refused"}))
    )
    assert run_line(lines) == ["kproxy", "run", *TYPED.run_arguments, "--tls"]
    assert lines[1:] == [DOCTOR]
    assert bootstrap_hints(TYPED, config(), ExplorationState(reasons=frozenset({"refused"}))) == [DOCTOR]


def test_words_are_quoted_for_a_shell() -> None:
    typed = Invocation((), ("-b", "a:1;id", "--map", "*=b"))
    assert bootstrap_hints(typed, config(), ExplorationState()) == [
        "to find out why: kproxy doctor -b 'a:1;id' --map '*=b'"
    ]
