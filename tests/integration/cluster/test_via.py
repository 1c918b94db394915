"""A real cluster through `--via`: every kind of hop, a chain, and an SSH server that goes away while records flow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.flow import Flow
from tests.harness.clients.flow import create_topic as create_flow_topic
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy, wait_logged, wait_until
from tests.harness.servers.ways import PASSWORD, PASSWORD_IN_URL, Sshd, Ways, running
from tests.harness.topics import create_topic, produce, read_topic, unique, values

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]

NODES = (1, 2, 1001)


@pytest.fixture(autouse=True)
def no_secret(ways: Ways, tmp_path: Path) -> Iterator[None]:
    """Nothing that a test's kproxy wrote has the password."""
    yield
    for log in tmp_path.rglob("kproxy.log"):
        assert not secrets_in(log.read_text()), log.read_text()


def secrets_in(text: str) -> list[str]:
    return [secret for secret in (PASSWORD, PASSWORD_IN_URL) if secret in text]


def via(*urls: str) -> list[str]:
    return [word for url in urls for word in ("--via", url)]


@pytest.mark.parametrize(
    "names",
    [["sshd"], ["socks-login"], ["http-login"], ["sshd", "socks"], ["socks-login", "http-login", "sshd"]],
    ids=", ".join,
)
def test_every_broker_through_it(names: list[str], ways: Ways, cluster: DevCluster, own_kproxy: Start) -> None:
    before = {name: ways.servers[name].log for name in names}
    proxy = own_kproxy(cluster.bootstrap, *via(*map(ways.url, names)), "--log-level", "debug")
    for node in NODES:
        assert proxy.node(node)["dial"] == str(cluster.dial[node])
        assert proxy.node(node)["route"] == "learned"
    topic = create_topic(proxy.bootstrap)
    sent = [b"%d" % number + b"x" * 10_000 for number in range(300)]
    produce(proxy.bootstrap, topic, sent)
    assert values(read_topic(proxy.bootstrap, topic)) == sorted(sent)
    for name in names:
        assert len(ways.servers[name].log) > len(before[name]) or name.startswith("socks")  # microsocks says less
    for page in ("/status", "/metrics"):
        assert not secrets_in(proxy.get(page)[1])
    assert len(proxy.status()["via"]) == len(names)


def test_names_at_the_far_end(ways: Ways, cluster: DevCluster, own_kproxy: Start) -> None:
    """A map leads to a name; who resolves it is the far end."""
    maps = [word for node in NODES for word in ("--map", f"node:{node}=localhost:{cluster.dial[node].port}")]
    proxy = own_kproxy(f"localhost:{cluster.dial[1].port}", *via(ways.url("sshd")), *maps)
    for node in NODES:
        with RawClient(proxy.node(node)["local"]) as client:
            assert client.works()


def test_an_ssh_server_goes_away_and_comes_back(
    ways: Ways, cluster: DevCluster, own_kproxy: Start, tmp_path: Path
) -> None:
    sshd = Sshd(tmp_path / "sshd", ways.home)
    ways.home.trusts(sshd)
    with running(sshd):
        proxy = own_kproxy(cluster.bootstrap, *via(f"ssh://127.0.0.1:{sshd.port}"))
        topic = unique("flow")
        create_flow_topic(proxy.bootstrap, topic)
        with Flow(proxy.bootstrap, topic, partitions=3) as flow:
            flow.wait_flowing()
            assert sshd.logins == 1
            sshd.stop()
            wait_until(lambda: "the connection was lost" in proxy.log, "kproxy says that it is lost")
            wait_until(lambda: "cannot be reached: --via ssh://" in proxy.log, "a client could not be served")
            assert proxy.metric("kproxy_upstream_dial_failures_total", reason="ssh") > 0
            sshd.start()
            flow.wait_flowing()
        assert sshd.logins == 2


@pytest.mark.parametrize(
    ("url", "reason", "words"),
    [
        (f"socks5://me:{PASSWORD_IN_URL}x@127.0.0.1:{{}}", "proxy-auth", "the proxy refuses this user and password"),
        ("socks5://127.0.0.1:{}", "proxy-auth", "the proxy requires a user and password"),
    ],
)
def test_a_hop_that_fails_is_named_at_start_and_to_clients(
    url: str, reason: str, words: str, ways: Ways, cluster: DevCluster, own_kproxy: Start
) -> None:
    url = url.format(ways.servers["socks-login"].port)
    proxy = own_kproxy(cluster.bootstrap, *via(url), ready=False)
    shown = url.replace(f"{PASSWORD_IN_URL}x", "***")
    line = f"no bootstrap server answers: --via {shown}: {words}"
    wait_until(lambda: line in proxy.log, line)
    assert proxy.get("/readyz")[0] == 503
    assert words in proxy.get("/readyz")[1]
    with RawClient(proxy.bootstrap) as client:
        assert not client.works()
    wait_logged(proxy, f"the bootstrap server cannot be reached: --via {shown}: {words}")
    assert proxy.metric("kproxy_upstream_dial_failures_total", node="bootstrap", reason=reason) > 0
    for page in ("/status", "/metrics", "/readyz"):
        assert not secrets_in(proxy.get(page)[1])


def test_the_password_is_in_nothing_that_commands_print(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(f"bootstrap-servers: a\nvia: http://me:{PASSWORD_IN_URL}@proxy:3128\n")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(f"bootstrap-servers: a\nvia: http://me:{PASSWORD_IN_URL}@proxy:many\n")
    env = {**os.environ, "KPROXY_DEBUG": "1"}
    for command, code in (
        (["config", "show", "-c", str(file)], 0),
        (["config", "check", str(file)], 0),
        (["config", "check", str(wrong)], 1),
        (["run", "-c", str(wrong)], 2),
        (["config", "show", "-b", "a", "--via", f"ftp://me:{PASSWORD_IN_URL}@proxy:21"], 2),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "kproxy", *command], capture_output=True, text=True, env=env, check=False
        )
        assert done.returncode == code, done.stderr
        assert not secrets_in(done.stdout + done.stderr)
    assert (
        "http://me:***@proxy:3128"
        in subprocess.run(
            [sys.executable, "-m", "kproxy", "config", "show", "-c", str(file)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
