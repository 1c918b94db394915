"""What a user reads when kproxy starts, and what it does until the cluster answers."""

from __future__ import annotations

import codecs
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.readiness import live_brokers
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy, free_window, wait_logged, wait_until
from tests.harness.servers.peers import black_hole, refused

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]

NODES = (1, 2, 1001)


@contextmanager
def on_a_terminal(*args: str, columns: int = 140, **variables: str) -> Iterator[Callable[[str], str]]:
    """kproxy with a terminal for stderr; the callable reads until a text has come."""
    primary, secondary = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", **variables}
    process = subprocess.Popen([sys.executable, "-m", "kproxy", "run", *args], stderr=secondary, env=env)
    os.close(secondary)
    screen = ""
    decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a character

    def read_until(text: str) -> str:
        nonlocal screen

        def shown() -> bool:
            nonlocal screen
            if select.select([primary], [], [], 0.1)[0]:
                screen += decoder.decode(os.read(primary, 65536))
            return text in screen

        try:
            wait_until(shown, text)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen:\n{screen}") from None
        return screen

    try:
        yield read_until
    finally:
        process.terminate()
        assert process.wait(30) == 0
        os.close(primary)


def plain(screen: str) -> str:
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", screen)


def test_a_table_on_a_terminal(cluster: DevCluster) -> None:
    port = free_window(202)
    with on_a_terminal("-b", cluster.bootstrap, "--listen", f"127.0.0.1:{port}", "--no-admin") as read_until:
        rows = plain(read_until(f"ready; bootstrap.servers=127.0.0.1:{port}")).splitlines()
    (heading,) = (row for row in rows if "advertised by the broker" in row)
    assert re.split(r"\s{2,}", heading.strip()) == [
        "node",
        "advertised by the broker",
        "for clients",
        "kproxy connects to",
    ]
    assert not [row for row in rows if "kproxy 0." in row or "listening on" in row]
    for node in NODES:
        (row,) = (row for row in rows if str(cluster.advertised[node]) in row)
        cells = re.split(r"\s{2,}", row.strip())
        assert cells[:2] == [str(node), str(cluster.advertised[node])]
        assert re.fullmatch(r"127\.0\.0\.1:\d+", cells[2])
        assert cells[3] == f"{cluster.dial[node]} (learned)"


def test_ctrl_c_on_a_terminal_is_quiet() -> None:
    """Nothing is in flight, so there is nothing to say; only `^C` gets a line of its own."""
    primary, secondary = pty.openpty()
    log = ["--listen", f"127.0.0.1:{free_window(202)}", "--no-admin", "--ready-requires", "none"]
    with refused() as server:
        command = [sys.executable, "-m", "kproxy", "run", "-b", server, *log]
        process = subprocess.Popen(command, stderr=secondary, env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"})
        os.close(secondary)
        screen = ""
        while "to find out why" not in screen:
            screen += os.read(primary, 65536).decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    rest = os.read(primary, 65536).decode()
    os.close(primary)
    assert (screen + rest).endswith(f"kproxy doctor -b {server}\r\n\r\n"), screen + rest


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=lambda one: next(iter(one)))
def test_no_colours_where_nobody_wants_them(cluster: DevCluster, variables: dict[str, str]) -> None:
    port = free_window(202)
    given = ("-b", str(cluster.dial[2]), "--listen", f"127.0.0.1:{port}", "--no-admin")  # so that there are warnings
    with on_a_terminal(*given, **variables) as read_until:
        screen = read_until(f"bootstrap.servers=127.0.0.1:{port}")
    assert "cannot be reached" in screen
    assert "\x1b" not in screen


def test_no_host_name_is_broken_in_80_columns() -> None:
    name = "b-{id}.mskcluster.abc123.c2.kafka.eu-central-1.cluster.internal"
    port = free_window(202)
    with (
        DevCluster(brokers=2, advertised=f"{name}:9098") as cloud,
        on_a_terminal(
            "-b", str(cloud.dial[1]), "--listen", f"127.0.0.1:{port}", "--no-admin", columns=80
        ) as read_until,
    ):
        lines = plain(read_until(f"bootstrap.servers=127.0.0.1:{port}")).splitlines()
    for node in (1, 2):
        assert any(line.endswith(f"{name.format(id=node)}:9098") for line in lines), node


def test_the_table_says_what_cannot_be_reached(cluster: DevCluster) -> None:
    """A name that resolves nowhere and only one bootstrap address: two of three brokers are out of reach."""
    port = free_window(202)
    one = str(cluster.dial[2])
    with on_a_terminal("-b", one, "--listen", f"127.0.0.1:{port}", "--no-admin") as read_until:
        screen = plain(read_until(f"; bootstrap.servers=127.0.0.1:{port}"))
    assert "ready with 1 of 3 nodes (--ready-requires one); bootstrap.servers" in screen
    text = " ".join(screen.split())
    assert f"{one} (learned)" in text
    assert text.count("cannot be reached:") == 2
    assert "2 of 3 nodes cannot be reached from here" in text


def test_plain_lines_elsewhere(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap)
    wait_until(lambda: f"ready; bootstrap.servers={proxy.bootstrap}" in proxy.log, "it says that it is ready")
    assert "\x1b" not in proxy.log
    for line in proxy.log.splitlines():
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} INFO    ", line), line
    for node in NODES:
        local = proxy.node(node)["local"]
        wait_logged(proxy, f"broker {node}: {cluster.advertised[node]} -> {local}: reachable through")


def test_json_lines(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap, "--log-format", "json")
    wait_until(lambda: "ready; bootstrap.servers" in proxy.log, "it says that it is ready")
    with RawClient(proxy.bootstrap) as client:
        client.socket.sendall(b"SSH-2.0-x\r\n")
        client.wait_closed()
    assert proxy.stop() == 0
    lines = [json.loads(line) for line in proxy.log.splitlines()]
    assert all({"time", "level", "message", "logger"} <= line.keys() for line in lines)
    assert {line["level"] for line in lines} == {"info", "warning"}
    assert sum("reachable through" in line["message"] for line in lines) == len(NODES)


def in_log(proxy: Kproxy, text: str) -> bool:
    return text in proxy.log


def test_brokers_out_of_reach_are_named_with_what_to_do(cluster: DevCluster, own_kproxy: Start) -> None:
    one = cluster.dial[2]
    proxy = own_kproxy(str(one))
    for node in (1, 1001):
        advertised = cluster.advertised[node]
        problem = f"{advertised}: the name '{advertised.host}' cannot be resolved here"
        line = f"broker {node}: {advertised} -> {proxy.node(node)['local']}: cannot be reached: {problem}"
        wait_until(partial(in_log, proxy, line), f"the log has the problem of broker {node}")
        assert proxy.node(node)["problem"] == problem
        with RawClient(proxy.node(node)["local"]) as client:
            assert not client.works()
    assert proxy.node(2)["dial"] == str(one)
    wait_logged(proxy, "--map 'node:1=HOST:PORT' --map 'node:1001=HOST:PORT'. Or")
    wait_logged(proxy, "list one reachable address of each broker in --bootstrap-servers")
    with RawClient(proxy.node(2)["local"]) as client:
        assert client.works()


def test_what_the_advice_says_helps(cluster: DevCluster, own_kproxy: Start) -> None:
    maps = [word for node in (1, 1001) for word in ("--map", f"node:{node}={cluster.dial[node]}")]
    proxy = own_kproxy(str(cluster.dial[2]), *maps)
    for node in NODES:
        with RawClient(proxy.node(node)["local"]) as client:
            assert client.works()
    assert "cannot be reached" not in proxy.log


def test_a_map_that_matches_nothing_is_mentioned(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap, "--map", "*.other.example=127.0.0.1")
    wait_until(lambda: "--map *.other.example=127.0.0.1 matches no node" in proxy.log, "the log mentions it")


def test_a_lone_broker_is_dialled_at_the_bootstrap_address(own_kproxy: Start) -> None:
    with DevCluster(brokers=1) as lone:
        proxy = own_kproxy(lone.bootstrap)
        assert (proxy.node(1)["route"], proxy.node(1)["dial"]) == ("learned", str(lone.dial[1]))
        wait_until(lambda: f"reachable through {lone.dial[1]} (learned)" in proxy.log, "it is shown")
        with RawClient(proxy.node(1)["local"]) as client:
            assert client.works()
        proxy.stop()


# Bootstrap servers


def test_dead_bootstrap_servers_are_passed_over(cluster: DevCluster, own_kproxy: Start) -> None:
    alive = str(cluster.dial[1])
    with refused() as nobody, black_hole() as hole:
        servers = [nobody, "no-such-host.invalid:9092", hole, alive]
        proxy = own_kproxy(",".join(servers), "--connect-timeout", "1s")
        assert set(live_brokers(Address.parse(proxy.bootstrap))) == set(NODES)
        with RawClient(proxy.bootstrap) as client:
            assert client.works()
        for reason in ("refused", "resolve", "timeout"):
            failures = proxy.metric("kproxy_upstream_dial_failures_total", node="bootstrap", reason=reason)
            assert failures > 0, reason


def test_when_no_bootstrap_server_answers_each_is_named(own_kproxy: Start) -> None:
    with refused() as nobody, black_hole() as hole:
        proxy = own_kproxy(f"{nobody},no-such-host.invalid:9092,{hole}", "--connect-timeout", "1s", ready=False)
        wait_until(lambda: "no bootstrap server answers" in proxy.log, "the log says so")
        (line,) = (line for line in proxy.log.splitlines() if "no bootstrap server answers" in line)
        assert f"{nobody}: connection refused" in line
        assert "the name 'no-such-host.invalid' cannot be resolved here" in line
        assert f"{hole}: no answer within 1 s (a firewall drops the packets, or the host is down)" in line


def test_a_name_with_several_addresses(
    cluster: DevCluster, own_kproxy: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the three refuse: brokers listen on 127.0.0.1 alone. The resolver is told so by a file that every Python
    process reads at its start; the rest is real."""
    (tmp_path / "sitecustomize.py").write_text(
        "import socket\n"
        "plain = socket.getaddrinfo\n"
        "def getaddrinfo(host, port, *args, **named):\n"
        "    if host != 'several.example':\n"
        "        return plain(host, port, *args, **named)\n"
        "    found = ['::1', '127.0.0.9', '127.0.0.1']\n"
        "    return [one for each in found for one in plain(each, port, *args, **named)]\n"
        "socket.getaddrinfo = getaddrinfo\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    port = cluster.dial[1].port
    proxy = own_kproxy(f"several.example:{port}", "--map", f"node:1=several.example:{port}")
    for address in (proxy.bootstrap, proxy.node(1)["local"]):
        with RawClient(address) as client:
            assert client.works()
    assert proxy.node(1)["dial"] == f"several.example:{port}"


def test_the_line_that_is_printed_works_with_the_addresses_in_it(cluster: DevCluster, own_kproxy: Start) -> None:
    """One server is given, so that two brokers cannot be reached."""
    first = min(cluster.node_ids)
    proxy = own_kproxy(str(cluster.dial[first]))
    wait_logged(proxy, "to try other addresses, write them into this: ")  # the last one of the lines that say it
    (doctor,) = re.findall(r"to find out why: kproxy (.*)", proxy.log)
    assert shlex.split(doctor) == ["doctor", "-b", str(cluster.dial[first])]
    (line,) = re.findall(r"to try other addresses, write them into this: kproxy run (.*)", proxy.log)
    proxy.stop()
    words = shlex.split(line)
    for node in cluster.node_ids:
        words = [word.replace(f"node:{node}=HOST:PORT", f"node:{node}={cluster.dial[node]}") for word in words]
    assert words[:2] == ["-b", str(cluster.dial[first])]
    command = [sys.executable, "-m", "kproxy", "run", *words]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        wait = ["wait", "--admin", words[words.index("--admin") + 1], "--timeout", "60s"]
        try:
            assert subprocess.run([sys.executable, "-m", "kproxy", *wait], check=False).returncode == 0
        finally:
            process.terminate()
