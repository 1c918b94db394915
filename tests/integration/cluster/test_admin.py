"""The admin endpoint as operators meet it: on a kproxy that runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kproxy as package
from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy, free_window, wait_until
from tests.harness.servers.peers import Peer, refused, silent, taken

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]


def test_ready_only_when_a_bootstrap_server_has_answered(own_kproxy: Start) -> None:
    with refused() as nobody:
        proxy = own_kproxy(nobody, ready=False)
        wait_until(lambda: proxy.get("/livez") == (200, "ok\n"), "it lives")
        wait_until(lambda: "connection refused" in proxy.get("/readyz")[1], "it says why it is not ready")
        code, why = proxy.get("/readyz")
        assert code == 503
        refusal = f"{nobody}: connection refused: nothing listens on that port"
        assert why == f"cluster default: no bootstrap server answers: {refusal}\n"
        assert proxy.status()["problem"] in why
        assert proxy.status()["answered"] is False


def test_not_ready_while_the_bootstrap_server_is_silent(own_kproxy: Start) -> None:
    with Peer(silent) as peer:
        proxy = own_kproxy(peer.address, "--connect-timeout", "1s", ready=False)
        wait_until(lambda: peer.accepted, "kproxy has asked")
        assert proxy.get("/readyz")[0] == 503
        wait_until(lambda: "no Kafka broker answers there" in proxy.get("/readyz")[1], "it says why it is not ready")


def test_ready_without_upstream(own_kproxy: Start) -> None:
    with refused() as nobody:
        proxy = own_kproxy(nobody, "--ready-requires", "none", ready=False)
        proxy.wait_ready()
        assert proxy.status()["answered"] is False


def test_status_shows_the_cluster(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap)
    whole = json.loads(proxy.get("/status")[1])
    assert whole["version"] == package.__version__
    assert whole["draining"] is False
    status = proxy.status()
    assert status["name"] == "default"
    assert status["listen"] == proxy.bootstrap
    assert status["bootstrap_servers"] == cluster.bootstrap.split(",")
    assert status["answered"] is True
    assert status["problem"] is None
    assert status["sessions"] == 0
    assert [node["id"] for node in status["nodes"]] == [1, 2, 1001]
    for node in status["nodes"]:
        assert node["kind"] == "broker"
        assert node["advertised"] == str(cluster.advertised[node["id"]])
        assert node["dial"] == str(cluster.dial[node["id"]])
        assert (node["bound"], node["present"], node["problem"], node["sessions"]) == (True, True, None, 0)
    with RawClient(proxy.node(1)["local"]) as client:
        assert client.works()
        assert proxy.node(1)["sessions"] == 1
        assert proxy.node(2)["sessions"] == 0
        assert proxy.status()["sessions"] == 1
    wait_until(lambda: proxy.status()["sessions"] == 0, "the session has ended")


def test_every_documented_metric_is_there(cluster: DevCluster, own_kproxy: Start) -> None:
    """Those with labels that nothing has happened for yet have no samples, but their type is there."""
    proxy = own_kproxy(cluster.bootstrap)
    with RawClient(proxy.bootstrap) as client:
        assert client.works()
    text = proxy.get("/metrics")[1]
    documented = set(re.findall(r"\bkproxy_[a-z_]+", (Path(__file__).parents[3] / "docs/metrics.md").read_text()))
    shown = set(re.findall(r"^# TYPE (kproxy_[a-z_]+)", text, re.MULTILINE))
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in documented}
    assert shown <= families
    assert {"kproxy_sessions_total", "kproxy_requests_total", "kproxy_endpoints_rewritten_total"} <= shown
    assert "process_resident_memory_bytes" in text
    assert proxy.metric("kproxy_build_info", version=package.__version__) == 1
    assert proxy.metric("kproxy_listeners", cluster="default") == 4
    assert proxy.metric("kproxy_requests_total", node="bootstrap", api="ApiVersions", version="0") == 1
    assert proxy.metric("kproxy_request_duration_seconds_count", node="bootstrap", api="ApiVersions") == 1
    assert proxy.metric("kproxy_sessions_total", node="bootstrap") == 1


def test_no_admin(cluster: DevCluster, tmp_path: Path) -> None:
    base = free_window(202)
    with (tmp_path / "log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "kproxy", "run", "-b", cluster.bootstrap, "--no-admin",
             "--listen", f"127.0.0.1:{base}"],
            stderr=log,
        )  # fmt: skip
        try:
            wait_until(lambda: "ready; bootstrap.servers" in (tmp_path / "log").read_text(), "kproxy is ready")
            with RawClient(f"127.0.0.1:{base}") as client:
                assert client.works()
            assert "metrics" not in (tmp_path / "log").read_text()
        finally:
            process.terminate()
            assert process.wait(30) == 0


def test_an_admin_port_that_is_taken_is_one_line(cluster: DevCluster) -> None:
    port = free_window(1)
    with taken(port):
        command = ["run", "-b", cluster.bootstrap, "--listen", "127.0.0.1:0", "--admin", f"127.0.0.1:{port}"]
        ended = subprocess.run([sys.executable, "-m", "kproxy", *command], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert f"admin: 127.0.0.1:{port} is taken by another process" in line
    assert "--admin HOST:PORT" in line
    assert "--no-admin" in line
