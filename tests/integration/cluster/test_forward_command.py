"""`--forward-command` with real ssh and kubectl, before the real cluster.

sshd is OpenSSH's. The API server is a stand-in, as a real one needs a node to forward to pods.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy, wait_logged, wait_until
from tests.harness.servers.kube_forward import forwarding
from tests.harness.servers.ways import Ways, free_port, tool
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


@pytest.fixture
def kubeconfig(cluster: DevCluster, tmp_path: Path) -> Iterator[Path]:
    """Of an API server with a pod for each broker: kafka-1, kafka-2 and kafka-1001."""
    tool("kubectl")
    file, serving, ended = tmp_path / "kubeconfig", threading.Event(), threading.Event()

    async def serve() -> None:
        async with forwarding() as api:
            pods = {f"kafka-{node}": (9092, address.port) for node, address in cluster.dial.items()}
            api.serve_kubectl("kafka", pods)
            api.kubeconfig(file)
            serving.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert serving.wait(60)
        yield file
    finally:
        ended.set()
        thread.join()


def test_kubectl_forwards_to_pods_whose_names_the_brokers_advertise(
    kubeconfig: Path, cluster: DevCluster, own_kproxy: Start, tmp_path: Path
) -> None:
    """No name resolves here: kubectl leads to the bootstrap server as well."""
    command = f"kubectl --kubeconfig {kubeconfig} --cache-dir {tmp_path / 'cache'} -n kafka port-forward"
    proxy = own_kproxy(
        "kafka-1.cluster.internal:9092",
        *("--forward-command", f"{command} pod/{{short-host}} {{port}}:{{remote-port}}", "--ready-requires", "all"),
    )
    topic = create_topic(proxy.bootstrap)
    produce(proxy.bootstrap, topic, [b"through kubectl"])
    assert values(read_topic(proxy.bootstrap, topic)) == [b"through kubectl"]
    assert {node["route"] for node in nodes(proxy).values()} == {"forwarded"}
    wait_logged(proxy, "broker 2: kubectl: Forwarding from 127.0.0.1:")


def test_kubectl_says_why_it_cannot(kubeconfig: Path, cluster: DevCluster, own_kproxy: Start, tmp_path: Path) -> None:
    """Bootstrap servers need no command with a node id."""
    command = f"kubectl --kubeconfig {kubeconfig} --cache-dir {tmp_path / 'cache'} -n kafka port-forward"
    template = f"{command} pod/broker-{{node}} {{port}}:9092"
    proxy = own_kproxy(cluster.bootstrap, "--forward-command", template, ready=False)
    wait_logged(proxy, "ended with exit code 1 (")
    wait_until(lambda: all(node["problem"] for node in nodes(proxy).values()), "no broker can be reached")
    assert {node["reason"] for node in nodes(proxy).values()} == {"forward-command"}
    assert commands(proxy).keys() == {"1", "2", "1001"}


def kproxy_command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "kproxy", *words], capture_output=True, text=True, check=False)


def test_doctor_and_ls_use_the_commands_too(kubeconfig: Path, cluster: DevCluster, tmp_path: Path) -> None:
    command = f"kubectl --kubeconfig {kubeconfig} --cache-dir {tmp_path / 'cache'} -n kafka port-forward"
    options = ("--forward-command", f"{command} pod/{{short-host}} {{port}}:{{remote-port}}")
    listed = kproxy_command("ls", "kafka-1.cluster.internal:9092", *options)
    assert listed.returncode == 0, listed.stderr
    assert "kafka-1001.cluster.internal:9092" in listed.stdout
    examined = kproxy_command("doctor", "kafka-1.cluster.internal:9092", *options)
    assert "with --forward-command" in examined.stdout, examined.stdout + examined.stderr
    assert not processes(str(kubeconfig)), "they end with the command"


def test_a_reload_changes_the_commands(ways: Ways, cluster: DevCluster, own_kproxy: Start, tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"

    def write(*lines: str) -> None:
        text = f"bootstrap-servers: {cluster.direct_bootstrap}\nadmin-reload: true\ndrain-timeout: 0.1\n"
        file.write_text(text + "\n".join(lines) + "\n")

    write(f"forward-command: {ssh(ways)}")
    proxy = own_kproxy("", "-c", str(file), "--listen", f"127.0.0.1:{free_port()}")
    wait_until(lambda: len(commands(proxy)) == 6, "all commands run")
    former = of_kproxy(proxy, ways)
    write(f'forward-command: ["{ssh(ways, "-4")}"]')
    assert kproxy_command("reload", "--admin", proxy.admin).returncode == 0
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in former), "the former commands end")
    wait_until(lambda: all(" -4 " in command["command"] for command in commands(proxy).values()), "the new ones run")
    write()
    assert kproxy_command("reload", "--admin", proxy.admin).returncode == 0
    wait_until(lambda: {node["route"] for node in nodes(proxy).values()} == {"advertised"}, "no command any more")
    assert commands(proxy) == {}


@contextmanager
def port_forward(port: int, target: str) -> Iterator[None]:
    """A port-forward that a person has started."""
    command = [sys.executable, "-m", "tests.harness.servers.forward", f"127.0.0.1:{port}={target}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "forwarding\n"
        try:
            yield
        finally:
            process.kill()


def test_a_forward_of_a_person_that_ends_and_leads_elsewhere(cluster: DevCluster, own_kproxy: Start) -> None:
    ports = {node: free_port() for node in cluster.dial}
    with port_forward(ports[1], str(cluster.dial[1])), port_forward(ports[1001], str(cluster.dial[1001])):
        servers = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        with port_forward(ports[2], str(cluster.dial[2])):
            proxy = own_kproxy(servers, "--ready-requires", "all")
            with RawClient(nodes(proxy)["2"]["local"]) as client:
                assert client.works()
        forward = f"127.0.0.1:{ports[2]}"
        wait_logged(proxy, f"{forward} no longer leads to broker 2, since 20")  # no client has asked
        with RawClient(nodes(proxy)["2"]["local"]) as client:
            assert not client.works()
        node = nodes(proxy)["2"]
        assert (node["dial"], node["dial_belongs_to"]) == (forward, None)
        assert node["lost_since"] is not None
        with port_forward(ports[2], str(cluster.dial[1])):
            wait_until(lambda: nodes(proxy)["2"]["dial_belongs_to"] == "1", "kproxy tries it again")
            text = f"{forward} answers, but it is broker 1 of this cluster"
            wait_until(lambda: text in nodes(proxy)["2"]["problem"], "all routes were tried")
            wait_logged(proxy, f"{forward} leads to broker 1 now; it led to broker 2, which cannot be reached since 20")
            examined = " ".join(kproxy_command("doctor", servers, "--admin", proxy.admin).stdout.split())
            assert "No longer leads to broker 2 since 20" in examined
            assert f"says the kproxy at {proxy.admin}: " in examined
            assert "--forward-command 'kubectl port-forward" in examined
