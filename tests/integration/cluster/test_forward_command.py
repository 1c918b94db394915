"""`--forward-command` with OpenSSH's client and server, before the real cluster: the addresses are right, and only the
commands lead to them."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.process import Kproxy, wait_logged, wait_until
from tests.harness.servers.ways import Ways, tool
from tests.harness.topics import create_topic, produce, read_topic, values

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]


def ssh(ways: Ways, *more: str) -> str:
    """Return a command that forwards a port through the test's sshd, and asks for nothing."""
    options = (
        f"-i {shlex.quote(str(ways.home.key))} -F none -o UserKnownHostsFile={shlex.quote(str(ways.home.known_hosts))}"
        " -o BatchMode=yes -o ExitOnForwardFailure=yes"
    )
    words = " ".join(more)
    return f"{tool('ssh')} -N {options} -p {ways.sshd.port} {words} -L {{port}}:{{host}}:{{remote-port}} 127.0.0.1"


def commands(proxy: Kproxy) -> dict[str, Any]:
    return {command["server"] or command["node"]: command for command in proxy.status()["forward_commands"]}


def nodes(proxy: Kproxy) -> dict[str, Any]:
    return {node["node"]: node for node in proxy.status()["nodes"]}


def processes(words: str) -> list[int]:
    """Return the processes whose command line has these words."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            line = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if words in line:
            found.append(int(directory.name))
    return found


def of_kproxy(proxy: Kproxy, ways: Ways) -> list[int]:
    """Return the processes of ssh that this kproxy has started."""
    ports = [f"-L {command['port']}:" for command in commands(proxy).values()]
    return [pid for port in ports for pid in processes(port)]


def test_each_node_and_bootstrap_server_through_a_command_of_its_own(
    ways: Ways, cluster: DevCluster, own_kproxy: Start
) -> None:
    servers = cluster.direct_bootstrap.split(",")
    proxy = own_kproxy(servers[0], "--forward-command", ssh(ways), "--ready-requires", "all")
    topic = create_topic(proxy.bootstrap)
    produce(proxy.bootstrap, topic, [b"through ssh"])
    assert values(read_topic(proxy.bootstrap, topic)) == [b"through ssh"]
    running = commands(proxy)
    assert running.keys() == {"1", "2", "1001", servers[0]}
    assert {command["state"] for command in running.values()} == {"listening"}
    for node in nodes(proxy).values():
        assert (node["route"], node["checked"]) == ("forwarded", True)
        assert node["dial"] == f"127.0.0.1:{running[node['node']]['port']}"
    started = of_kproxy(proxy, ways)
    assert len(started) == 4
    proxy.stop()
    assert not any(Path(f"/proc/{pid}").exists() for pid in started), "they end with kproxy"


def test_a_command_that_is_killed_starts_again(ways: Ways, cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.direct_bootstrap, "--forward-command", ssh(ways), "--ready-requires", "all")
    topic = create_topic(proxy.bootstrap)
    port = commands(proxy)["2"]["port"]
    (pid,) = processes(f"-L {port}:")
    os.kill(pid, signal.SIGKILL)
    wait_logged(proxy, f"127.0.0.1:{port} no longer leads to broker 2, since ")
    wait_logged(proxy, "ended by signal SIGKILL; kproxy starts it again in ")
    wait_until(lambda: commands(proxy)["2"]["starts"] == 2 and nodes(proxy)["2"]["problem"] is None, "it is back")
    wait_logged(proxy, f"broker 2 can be reached again: 127.0.0.1:{port}")
    assert nodes(proxy)["2"]["lost_since"] is None
    produce(proxy.bootstrap, topic, [b"again"])
    assert values(read_topic(proxy.bootstrap, topic)) == [b"again"]


def test_commands_end_with_a_kproxy_that_is_killed(ways: Ways, cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.direct_bootstrap, "--forward-command", ssh(ways), "--ready-requires", "all")
    started = of_kproxy(proxy, ways)
    assert len(started) == 6
    proxy.process.kill()
    proxy.process.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), "the watchdog ends them")
