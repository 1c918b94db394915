"""A new configuration for a kproxy that carries producers and consumer groups: nothing is lost, nobody is dropped."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.flow import Flow, JavaFlow
from tests.harness.clients.rawclient import METADATA, RawClient
from tests.harness.clients.spark import PASSWORD
from tests.harness.process import Kproxy, free_window, wait_logged, wait_until
from tests.harness.servers.ways import Ways
from tests.harness.signals import not_ignored_by_children
from tests.harness.topics import create_topic as new_topic
from tests.harness.topics import leaders, produce

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]


@contextmanager
def forwarding(target: str) -> Iterator[str]:
    """Another address of a broker."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "tests.harness.servers.forward", f"{listen}={target}"]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "forwarding\n"
        try:
            yield listen
        finally:
            process.kill()


def post(proxy: Kproxy, **headers: str) -> tuple[int, str]:
    """Ask for a reload: HTTP status and text."""
    request = urllib.request.Request(f"http://{proxy.admin}/reload", method="POST", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def dials(proxy: Kproxy, address: str) -> bool:
    """Whether broker 2 is reached there."""
    return bool(proxy.node(2)["dial"] == address)


@pytest.mark.parametrize("rounds", [15, pytest.param(50, marks=pytest.mark.matrix)])
def test_reloads_in_a_row_while_clients_of_every_kind_work(
    cluster: DevCluster, own_kproxy: Start, tmp_path: Path, rounds: int
) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text("")
    librdkafka = new_topic(cluster.direct_bootstrap)
    java = new_topic(cluster.direct_bootstrap)
    file.write_text("connect-timeout: 5s\n")
    options = ("--admin-reload", "--drain-timeout", "1h")
    proxy = own_kproxy(cluster.bootstrap, "-c", str(file), *options)
    ports = {node["node"]: node["local"] for node in proxy.status()["nodes"]}
    with ExitStack() as held:
        way = held.enter_context(forwarding(str(cluster.dial[2])))
        flow = held.enter_context(Flow(proxy.bootstrap, librdkafka, 3))
        programs = held.enter_context(JavaFlow(cluster.programs, proxy.bootstrap, java, tmp_path))
        others = [held.enter_context(RawClient(ports[node])) for node in ("1", "1001") for _ in range(3)]
        assert all(client.works() for client in others)
        for turn in range(rounds):
            second = held.enter_context(RawClient(ports["2"]))
            assert second.works()
            mapped = f"map: node:2={way}\n" if turn % 2 == 0 else ""
            file.write_text(f"{mapped}connect-timeout: {turn + 6}s\nmax-connections: {1000 + turn}\n")
            status, said = post(proxy)
            assert (status, f"connect-timeout: {turn + 6}s" in said) == (200, True), said
            assert "of the former configuration will end" in said
            assert second.wait_closed()  # idle, and on the way that is none any more
            assert all(client.works() for client in others)
            flow.wait_flowing(5)
            wait_until(partial(dials, proxy, way if mapped else str(cluster.dial[2])), "it is said")
        programs.wait_flowing()
        assert {node["node"]: node["local"] for node in proxy.status()["nodes"]} == ports
        assert json.loads(proxy.get("/status")[1])["reloads"] == rounds
        assert proxy.metric("kproxy_config_reloads_total", outcome="success") == rounds
    assert "defect" not in proxy.log


def test_a_cluster_comes_and_goes(cluster: DevCluster, tmp_path: Path) -> None:
    """A fetch in flight of the removed one still gets its answer; the other one does not notice."""
    file = tmp_path / "kproxy.yaml"
    first = free_window(404)
    name = "- name: {}\n  bootstrap-servers: {}\n  listen: 127.0.0.1:{}\n"
    one = "clusters:\n" + name.format("one", cluster.bootstrap, first + 1)
    both = one + name.format("two", cluster.bootstrap, first + 203)
    file.write_text(one)
    topic = new_topic(cluster.direct_bootstrap, partitions=1)
    leader = leaders(cluster.direct_bootstrap, topic)[0]
    command = ["run", "-c", str(file), "--admin", f"127.0.0.1:{first}", "--admin-reload", "--drain-timeout", "60s"]
    log = tmp_path / "log"

    def status() -> dict[str, dict[str, Any]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{first}/status", timeout=60) as answer:
            return {each["name"]: each for each in json.load(answer)["clusters"]}

    def ready(name: str) -> bool:
        with suppress(OSError):
            nodes = status()[name]["nodes"]
            return len(nodes) == 3 and all(node["dial"] for node in nodes)
        return False

    def reload() -> str:
        words = [sys.executable, "-m", "kproxy", "reload", "--admin", f"127.0.0.1:{first}"]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout

    def local(name: str) -> str:
        return str(next(node["local"] for node in status()[name]["nodes"] if node["node"] == str(leader)))

    with log.open("wb") as written:
        words = [sys.executable, "-m", "kproxy", *command]
        process = subprocess.Popen(words, stderr=written, cwd=Path(__file__).parents[3])
    try:
        wait_until(lambda: ready("one"), "it is ready")
        with RawClient(local("one")) as stays:
            assert stays.works()
            file.write_text(both)
            assert reload() == "cluster two: added\n"
            wait_until(lambda: ready("two"), "the other one is ready")
            with RawClient(local("two")) as busy, RawClient(f"127.0.0.1:{first + 203}") as idle:
                assert idle.works()
                busy.send_fetch(topic, 0, 0, 3_600_000)
                wait_until(lambda: status()["two"]["sessions"] == 2, "both have spoken")
                file.write_text(one)
                assert reload() == "cluster two: removed\n2 sessions of the former configuration will end\n"
                assert idle.wait_closed()
                with pytest.raises(ConnectionRefusedError):
                    RawClient(f"127.0.0.1:{first + 203}")
                produce(cluster.direct_bootstrap, topic, [b"what the fetch waits for"])
                assert b"what the fetch waits for" in busy.receive()[1]
                assert busy.wait_closed()
            assert stays.works()
            assert set(status()) == {"one"}
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert "defect" not in log.read_text()


def test_a_config_map_that_is_swapped_is_noticed(cluster: DevCluster, own_kproxy: Start, tmp_path: Path) -> None:
    """As a kubelet does it: kproxy.yaml → ..data/kproxy.yaml, and ..data leads to another directory at once."""
    volume = tmp_path / "volume"
    volume.mkdir()

    def swap(version: str, text: str) -> None:
        (volume / version).mkdir()
        (volume / version / "kproxy.yaml").write_text(text)
        (volume / "..data_tmp").symlink_to(version)
        (volume / "..data_tmp").rename(volume / "..data")

    swap("..1", "connect-timeout: 5s\n")
    (volume / "kproxy.yaml").symlink_to("..data/kproxy.yaml")
    proxy = own_kproxy(cluster.bootstrap, "-c", str(volume / "kproxy.yaml"), "--watch-config")
    with forwarding(str(cluster.dial[1])) as way, RawClient(proxy.node(1)["local"]) as client:
        assert client.works()
        swap("..2", f"connect-timeout: 5s\nmap: node:1={way}\n")
        assert client.wait_closed()
        wait_until(lambda: proxy.node(1)["dial"] == way, "the map is in use")
        with RawClient(proxy.node(1)["local"]) as other:
            assert other.works()
            swap("..3", "connect-timeout: soon\n")
            wait_until(lambda: proxy.metric("kproxy_config_reloads_total", outcome="failure") == 1, "it is refused")
            assert other.works()
    wait_logged(proxy, "--watch-config: kproxy keeps the former configuration: ")
    assert proxy.get("/readyz")[0] == 200


def test_other_credentials_in_a_client_properties(brokers: DevCluster, own_kproxy: Start, tmp_path: Path) -> None:
    """Without a file of kproxy's own: SIGHUP reads the client.properties again."""
    properties = tmp_path / "client.properties"

    def put(password: str, *more: str) -> None:
        login = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=spark")
        properties.write_text("\n".join([*login, f"sasl.password={password}", *more]) + "\n")

    def reloads() -> int:
        return int(json.loads(proxy.get("/status")[1])["reloads"])

    put("wrong")
    with not_ignored_by_children(signal.SIGHUP):
        proxy = own_kproxy(brokers.bootstrap, "--client-config", str(properties), ready=False)
    wait_until(lambda: proxy.get("/status")[0] and proxy.status()["login_refused"], "the login is refused")
    put(PASSWORD)
    proxy.process.send_signal(signal.SIGHUP)
    proxy.wait_ready()
    with RawClient(proxy.node(1)["local"]) as client:
        assert client.works()
        put(PASSWORD, "fetch.max.bytes=1")  # no business of a proxy's
        proxy.process.send_signal(signal.SIGHUP)
        wait_until(lambda: reloads() == 2, "it has reloaded")
        wait_logged(proxy, "SIGHUP: reloaded: nothing has changed")
        assert client.works()
        put("wrong again")
        proxy.process.send_signal(signal.SIGHUP)
        assert client.wait_closed()  # it logged in with what holds no longer
    with RawClient(proxy.node(1)["local"]) as client:
        client.send(METADATA, 1)
        assert client.wait_closed()  # kproxy cannot log in for it
    assert PASSWORD not in proxy.log
    assert "wrong again" not in proxy.log


def test_another_hop(cluster: DevCluster, own_kproxy: Start, tmp_path: Path, ways: Ways) -> None:
    """The sessions through the former one end in good order: it stays open for what is in flight."""
    file = tmp_path / "kproxy.yaml"
    file.write_text(f"via: {ways.url('sshd')}\n")
    proxy = own_kproxy(cluster.bootstrap, "-c", str(file), "--admin-reload", "--drain-timeout", "60s")
    topic = new_topic(cluster.direct_bootstrap, partitions=1)
    leader = leaders(cluster.direct_bootstrap, topic)[0]
    with RawClient(proxy.node(leader)["local"]) as busy, RawClient(proxy.bootstrap) as idle:
        assert idle.works()
        busy.send_fetch(topic, 0, 0, 3_600_000)
        wait_until(lambda: proxy.metric("kproxy_requests_in_flight") == 1, "the fetch is in flight")
        file.write_text("connect-timeout: 6s\n")
        status, said = post(proxy)
        assert (status, said) == (
            200,
            "via: none\nconnect-timeout: 6s\n2 sessions of the former configuration will end\n",
        )
        assert idle.wait_closed()
        with RawClient(proxy.node(leader)["local"]) as direct:
            assert direct.works()
        produce(cluster.direct_bootstrap, topic, [b"what the fetch waits for"])
        assert b"what the fetch waits for" in busy.receive()[1]
        assert busy.wait_closed()


def test_every_refusal(cluster: DevCluster, own_kproxy: Start, tmp_path: Path) -> None:
    """Over HTTP and by command: what kproxy says, the exit code, and nothing has changed."""
    file, token = tmp_path / "kproxy.yaml", tmp_path / "token"
    file.write_text("connect-timeout: 5s\n")
    token.write_text("0123456789abcdef")
    token.chmod(0o600)
    proxy = own_kproxy(cluster.bootstrap, "-c", str(file), "--admin-reload", "--admin-token-file", str(token))
    none = own_kproxy(cluster.bootstrap, "-c", str(file))
    shown = {"Authorization": "Bearer 0123456789abcdef"}
    since = json.loads(proxy.get("/status")[1])["configured_at"]

    def command(*options: str) -> tuple[int, str, str]:
        words = [sys.executable, "-m", "kproxy", "reload", *options]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    with RawClient(proxy.bootstrap) as client:
        assert client.works()
        assert post(none)[0] == 404
        assert post(proxy)[0] == 401
        assert post(proxy, Authorization="Bearer wrong")[0] == 401
        assert post(proxy, Origin="http://evil.example", **shown)[0] == 403
        assert post(proxy, Host="evil.example", **shown)[0] == 421
        assert command("--admin", none.admin)[0] == 1
        assert command("--admin", "127.0.0.1:1")[0] == 1
        assert command("--admin", proxy.admin)[0] == 1
        assert command("--admin", proxy.admin, "--admin-token-file", str(tmp_path / "none"))[0] == 2
        file.write_text("max-connections: none\ncolor: red\nconnect-timeout: soon\n")
        status, said = post(proxy, **shown)
        assert (status, len(said.splitlines())) == (400, 3)
        code, out, err = command("--admin", proxy.admin, "--admin-token-file", str(token))
        assert (code, out, len(err.splitlines())) == (2, "", 3)
        file.write_text("connect-timeout: 9s\nnode-ports: 2000-2009\n")
        status, said = post(proxy, **shown)
        assert (status, "node-ports has changed" in said, "only a restart can change that" in said) == (400, True, True)
        assert json.loads(proxy.get("/status")[1])["reloads"] == 0
        assert json.loads(proxy.get("/status")[1])["configured_at"] == since
        file.write_text("connect-timeout: 9s\n")
        code, out, err = command("--admin", proxy.admin, "--admin-token-file", str(token))
        assert (code, out, err) == (0, "connect-timeout: 9s\n", "")
        assert client.works()
    assert "0123456789abcdef" not in proxy.log
