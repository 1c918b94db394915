"""Every version of Kafka with every client, through kproxy."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest

from tests.harness.programs.javac import NotInstalled
from tests.matrix.brokers import VERSIONS, Cluster
from tests.matrix.client import Client
from tests.matrix.clients import CLIENTS, misfit
from tests.matrix.conftest import IDENTITY, Pair, row
from tests.matrix.report import FAILS, WORKS, Report

# The first test of a version may have to fetch it, and starts it.
pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1200)]

each_version = pytest.mark.parametrize("pair", VERSIONS, indirect=True, ids="on-{}".format)


@each_version
def test_identity_of_each_node_is_learned(pair: Pair, report: Report) -> None:
    cluster = started(pair, report, IDENTITY)
    assert pair.kproxy is not None
    report.tell(IDENTITY, pair.version, FAILS)
    nodes = {node["id"]: node for node in pair.kproxy.status()["nodes"]}
    assert {node: one["advertised"] for node, one in nodes.items()} == strings(cluster.advertised)
    assert {node: one["dial"] for node, one in nodes.items()} == strings(cluster.dial)
    report.tell(IDENTITY, pair.version, WORKS)


@each_version
@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_client(pair: Pair, client: Client, report: Report) -> None:
    cluster = started(pair, report, row(client))
    assert pair.kproxy is not None
    report.tell(row(client), pair.version, FAILS)
    name = "matrix-" + uuid.uuid4().hex[:12]
    expected = misfit(client, pair.version)
    seconds = 20 if expected else 300  # some wait for ever for what the broker cannot do
    try:
        outcome = client.run(pair.kproxy.bootstrap, name, seconds)
    except NotInstalled as reason:
        report.tell(row(client), pair.version, "not run", str(reason))
        pytest.skip(str(reason))
    complaint = outcome.complaint(client.transactions)
    if complaint:
        direct = client.run(cluster.direct_bootstrap, name + "-direct", seconds).complaint(client.transactions)
        assert direct, f"works without kproxy, not through it: {complaint}\n{outcome.errors[-4000:]}"
        assert expected, f"fails without kproxy too, which nobody expected: {complaint}\ndirectly: {direct}"
        report.tell(row(client), pair.version, "-", expected)
        pytest.skip(f"{expected}: {direct}")
    assert not expected, f"works, although it should not: {expected}"
    local = {node["id"]: node["local"] for node in pair.kproxy.status()["nodes"]}
    assert outcome.brokers == local
    report.tell(row(client), pair.version, WORKS)


def started(pair: Pair, report: Report, what: str) -> Cluster:
    """The cluster; skips if it did not start."""
    if pair.cluster is None:
        report.tell(what, pair.version, "not started", pair.problem)
        pytest.skip(f"Kafka {pair.version} did not start: {pair.problem}")
    return pair.cluster


def strings(addresses: dict[int, object]) -> dict[int, str]:
    return {node: str(address) for node, address in addresses.items()}


@each_version
def test_doctor_and_ls(pair: Pair, report: Report) -> None:
    """Of each age, with the right verdict; and the old Java client for which a broker is too new."""
    cluster = started(pair, report, "`kproxy doctor`, `kproxy ls`")
    report.tell("`kproxy doctor`, `kproxy ls`", pair.version, FAILS)
    assert kproxy("doctor", cluster.direct_bootstrap) == 0
    assert kproxy("doctor", cluster.bootstrap) == 1
    too_new = int(pair.version.partition(".")[0]) >= 4
    assert kproxy("doctor", cluster.direct_bootstrap, "--client", "java:2.0.0") == int(too_new)
    assert kproxy("ls", cluster.bootstrap, "--groups") == 0
    report.tell("`kproxy doctor`, `kproxy ls`", pair.version, WORKS)


def kproxy(*arguments: str) -> int:
    """The exit code of a command."""
    done = subprocess.run([sys.executable, "-m", "kproxy", *arguments], capture_output=True, text=True, check=False)
    assert "defect" not in done.stderr, done.stderr
    return done.returncode
