"""What a person sees at start, as lines: the table has its own tests (test_table)."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from kproxy.proxy.app.nodedisplay import show_nodes
from kproxy.proxy.status.model import ClusterStatus
from kproxy.proxy.status.readiness import Requires
from tests.unit.proxy.status.clusters import cluster


def shown(caplog: pytest.LogCaptureFixture, one: ClusterStatus, requires: Requires = "one") -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.INFO, "kproxy"):
        show_nodes(one, "plain", requires)
    return [record.getMessage() for record in caplog.records]


def test_each_node_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    one = cluster("good", "lost", "new", "assumed", "unchecked", "untold")
    direct = replace(one.nodes[0], dial=one.nodes[0].advertised, route="advertised")
    lines = shown(caplog, replace(one, nodes=(direct, *one.nodes)))
    assert [line.partition(": ")[2].partition(": ")[2] for line in lines[:7]] == [
        "reachable",
        "reachable through gate:1 (learned)",
        "cannot be reached: no way to 2",
        "not tried yet",
        "reachable through gate:4 (learned), assumed",
        "gate:5 answers; kproxy checks which node it is after a client has logged in",
        "one of the bootstrap servers; kproxy finds out which one after a client has logged in",
    ]
    assert lines[0].startswith("broker 1: kafka-1:9092 -> 127.0.0.1:19093: ")


def test_the_last_line_says_what_is_true(caplog: pytest.LogCaptureFixture) -> None:
    assert shown(caplog, cluster("good"))[-1] == "cluster c: ready; bootstrap.servers=127.0.0.1:19092"
    some = cluster("good", "lost")
    assert shown(caplog, some)[-1] == (
        "cluster c: ready with 1 of 2 nodes (--ready-requires one); bootstrap.servers=127.0.0.1:19092"
    )
    assert shown(caplog, some, "all")[-1] == "cluster c: NOT ready: 1 of 2 nodes can be reached (--ready-requires all)"
    published = replace(cluster("good"), bootstrap=None)
    assert shown(caplog, published)[-1].endswith("clients use the port that publishes 127.0.0.1:19092")
