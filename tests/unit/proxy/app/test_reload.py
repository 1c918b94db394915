"""A new configuration while kproxy runs: all of it or nothing, and no session ends that it does not concern."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.config import Config, read
from kproxy.proxy.app import reload as module
from kproxy.proxy.app.main import App
from kproxy.proxy.app.reload import ConfigSource, Reloader, watch_files
from kproxy.proxy.cluster.encryption import ClusterTls
from kproxy.proxy.metrics import Metrics
from tests.harness.process import wait_until
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.unit.proxy.app.serving import broker, client_of, put, reload, served, works
from tests.unit.proxy.cluster.doorway import API_VERSIONS, is_closed, until

pytestmark = pytest.mark.usefixtures("hang_ups_reach_children")

ROOT = Path(__file__).parents[4]
GOOD = "bootstrap-servers: a:1\nlisten: 127.0.0.1:0\nadmin: off\n"
SASL = "sasl: PLAIN\nsasl-username: me\n"


def put_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


class Held:
    """A reloader whose configurations are noted instead of applied."""

    def __init__(self, file: Path, **env: str) -> None:
        self.source = ConfigSource.of({}, env, file)
        self.metrics = Metrics()
        self.applied: list[Config] = []
        self.draining = 0
        self.reloader = Reloader(self.source, read({}, env, file).config, self.metrics, self.apply)

    async def apply(self, config: Config, ends: Mapping[str, ClusterTls]) -> int:
        assert set(ends) == {cluster.name for cluster in config.clusters}
        self.applied.append(config)
        return self.draining


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kproxy.yaml"
    path.write_text(GOOD)
    return path


def test_changes_are_logged_and_flags_and_variables_still_win(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def scenario() -> None:
        held = Held(file, KPROXY_CONNECT_TIMEOUT="3s")
        answer = await held.reloader.reload("me")
        assert (answer.outcome, list(answer.lines)) == ("done", ["nothing has changed"])
        since = held.metrics.configured_at
        put(file, GOOD + "map: x=y\nconnect-timeout: 9s\n")
        held.draining = 2
        answer = await held.reloader.reload("me")
        assert list(answer.lines) == ["map: x=y", "2 sessions of the former configuration will end"]
        assert held.applied[-1].clusters[0].connect_timeout == 3.0
        assert (held.metrics.reloads["success"], held.metrics.reloads["failure"]) == (2, 0)
        assert held.metrics.reload_succeeded_at >= held.metrics.configured_at >= since

    asyncio.run(scenario())
    assert "me: reloaded: map: x=y" in caplog.text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "kproxy.yaml: is empty; allowed: KEY: VALUE lines"),
        ("bootstrap-servers: [a:1\n", "kproxy.yaml:2: "),
        ("- a\n", "is not a mapping"),
        (GOOD + "color: red\n", "kproxy.yaml:4: color: no such key"),
        (GOOD + "connect-timeout: soon\n", "kproxy.yaml:4: connect-timeout: 'soon' is not a duration"),
        ("listen: 127.0.0.1:0\nadmin: off\n", "no bootstrap server is given"),
        (GOOD + "client-config: nowhere.properties\n", "nowhere.properties: cannot be read"),
        (GOOD + "tls: true\ntls-ca: nowhere.pem\n", "kproxy.yaml:5: tls-ca: nowhere.pem"),
        (GOOD + SASL + "sasl-password-file: nowhere\n", "kproxy.yaml:6: sasl-password-file: nowhere"),
        (GOOD + SASL, "kproxy.yaml:4: sasl: PLAIN needs a password"),
        (GOOD + "log-format: json\n", "log-format has changed (auto → json): only a restart can change that"),
        (GOOD + "exit-with: there\n", "exit-with has changed (none → there): only a restart can change that"),
        (GOOD.replace("127.0.0.1:0", "127.0.0.1:1234"), "listen has changed (127.0.0.1:0 → 127.0.0.1:1234)"),
        (GOOD + "admin-token: 0123456789abcdef\n", "admin-token has changed: only a restart"),
    ],
)  # fmt: skip
def test_a_mistake_changes_nothing(
    file: Path, text: str, line: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)

    async def scenario() -> None:
        held = Held(file)
        put(file, text)
        answer = await held.reloader.reload("me")
        assert answer.outcome == "refused"
        assert any(line in one for one in answer.lines), answer.lines
        assert held.applied == []
        assert (held.metrics.reloads["success"], held.metrics.reloads["failure"]) == (0, 1)
        logged = [record.getMessage() for record in caplog.records]
        assert logged == [f"me: kproxy keeps the former configuration: {one}" for one in answer.lines]
        put(file, GOOD + "map: x=y\n")
        assert (await held.reloader.reload("me")).outcome == "done"
        assert len(held.applied) == 1

    asyncio.run(scenario())


def test_all_mistakes_are_said_at_once(file: Path) -> None:
    async def scenario() -> None:
        held = Held(file)
        put(file, GOOD + "color: red\nmap: nothing\ntls: true\ntls-ca: /nowhere.pem\n")
        assert len((await held.reloader.reload("me")).lines) == 3

    asyncio.run(scenario())


def test_a_slow_file_read_and_only_one_reload_at_a_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that nobody writes to holds up neither the loop nor the next reload."""
    monkeypatch.setattr(module, "_READ_WITHIN", 0.05)

    async def scenario() -> None:
        held = Held(file)
        put_pipe(file)
        first = asyncio.get_running_loop().create_task(held.reloader.reload("me"))
        await asyncio.sleep(0)
        assert (await held.reloader.reload("you")).outcome == "busy"
        answer = await first
        assert answer.lines == ["the files could not be read within 0.05 s"]
        os.close(os.open(file, os.O_WRONLY))  # lets go of the thread
        assert not held.applied

    asyncio.run(scenario())


def test_who_asks_during_a_reload_gets_one_more(file: Path) -> None:
    async def scenario() -> None:
        held = Held(file)
        during: list[str] = []

        async def apply(config: Config, ends: Mapping[str, ClusterTls]) -> int:
            during.append(",".join(str(one) for one in config.clusters[0].map))
            if len(during) == 1:
                put(file, GOOD + "map: second=y\n")
                await reloader.reload_soon("two")
                await reloader.reload_soon("three")
            return 0

        reloader = Reloader(held.source, read({}, {}, file).config, held.metrics, apply)
        put(file, GOOD + "map: first=y\n")
        await reloader.reload_soon("one")
        assert during == ["first=y", "second=y"]

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["in place", "renamed", "behind a link"])
def test_a_changed_file_is_noticed(tmp_path: Path, how: str) -> None:
    """The last as in volumes of Kubernetes: file → ..data/file, and ..data is swapped."""
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "kproxy.yaml").write_text(f"version {version}")
    file = tmp_path / "kproxy.yaml"
    if how == "behind a link":
        (tmp_path / "..data").symlink_to("..1")
        file.symlink_to("..data/kproxy.yaml")
    else:
        file.write_text("before")

    async def scenario() -> None:
        noticed: list[str] = []
        looks: list[int] = []

        def files() -> list[Path]:
            looks.append(1)
            return [file, tmp_path / "not there"]

        watching = asyncio.get_running_loop().create_task(
            watch_files(files, lambda: noticed.append(file.read_text()), 0.001)
        )
        await until(lambda: len(looks) > 5, "it looks")
        assert not noticed
        if how == "in place":
            put(file, "after, and longer")
        elif how == "renamed":
            (tmp_path / "..2" / "kproxy.yaml").rename(file)
        else:
            (tmp_path / "..tmp").symlink_to("..2")
            (tmp_path / "..tmp").rename(tmp_path / "..data")
        await until(lambda: noticed, "it is noticed")
        before = len(looks)
        await until(lambda: len(looks) > before + 5, "it looks again")
        assert len(noticed) == 1
        watching.cancel()

    asyncio.run(scenario())


# The sessions of a kproxy


def two_clusters(first: str, second: str, **options: str) -> str:
    more = "".join(f"  {key}: {value}\n" for key, value in options.items())
    return (
        "admin: off\nclusters:\n"
        f"- name: one\n  bootstrap-servers: '{first}'\n  listen: 127.0.0.1:0\n{more}"
        f"- name: two\n  bootstrap-servers: '{second}'\n  listen: 127.0.0.1:0\n"
    )


def says_nothing(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def test_only_the_sessions_that_a_change_concerns_end(file: Path) -> None:
    one, two, other = FakeBroker(), FakeBroker(), FakeBroker()
    with Peer(one) as first, Peer(two) as second, Peer(other) as elsewhere:
        for peer, behave in ((first, one), (second, two)):
            broker(peer, behave)
        other.nodes = one.nodes

        async def scenario(running: App) -> None:
            await until(lambda: not running.not_ready("all"), "both are ready")
            ports = [node.local for cluster in running.status().clusters for node in cluster.nodes]
            clients = {
                "bootstrap": client_of(running, "one"), "node": client_of(running, "one", 1),
                "neighbour": client_of(running, "two", 1),
            }  # fmt: skip
            for client in clients.values():
                await works(client)
            # Limits and the like concern nobody.
            text = two_clusters(first.address, second.address, **{"connect-timeout": "4s", "max-connections": "9"})
            assert len((await reload(running, text, file)).lines) == 2
            # A map of node 1 to another address: its session alone.
            mapped = two_clusters(first.address, second.address, map=f"node:1={elsewhere.address}")
            answer = await reload(running, mapped, file)
            assert "1 session of the former configuration will end" in answer.lines
            await until(lambda: is_closed(clients["node"]), "the session of node 1 is drained")
            for name in ("bootstrap", "neighbour"):
                await works(clients[name])
            clients["node"].close()
            await until(lambda: running.status().clusters[0].nodes[0].dial == elsewhere.address, "it is found there")
            before = elsewhere.accepted
            clients["node"] = client_of(running, "one", 1)
            await works(clients["node"])
            assert elsewhere.accepted == before + 1
            # Another bootstrap server, to which the session of node 1 does not go.
            answer = await reload(running, mapped.replace(first.address, elsewhere.address), file)
            await until(lambda: is_closed(clients["bootstrap"]), "the session of the bootstrap server is drained")
            for name in ("node", "neighbour"):
                await works(clients[name])
            assert [node.local for cluster in running.status().clusters for node in cluster.nodes] == ports
            assert running.status().reloads == 3
            for client in clients.values():
                client.close()

        file.write_text(two_clusters(first.address, second.address))
        served(file, scenario)


def test_who_is_being_connected_goes_the_new_way(file: Path) -> None:
    """A client that has spoken while its broker was dialled is not dropped."""
    one = FakeBroker()
    with Peer(one) as good, Peer(says_nothing) as silent:
        broker(good, one)

        async def scenario(running: App) -> None:
            await until(lambda: not running.not_ready("all"), "it is ready")
            await reload(running, GOOD.replace("a:1", f"'{good.address}'") + f"map: node:1={silent.address}\n", file)
            before = silent.accepted
            client = client_of(running, "default", 1)
            client.send(API_VERSIONS)
            await until(lambda: silent.accepted > before, "the broker that says nothing is asked")
            await reload(running, GOOD.replace("a:1", f"'{good.address}'") + "connect-timeout: 20s\n", file)
            async with asyncio.timeout(30):
                assert len(await asyncio.get_running_loop().sock_recv(client, 4096)) > 4
            client.close()

        file.write_text(GOOD.replace("a:1", f"'{good.address}'") + "connect-timeout: 1s\n")
        served(file, scenario)


def test_a_cluster_of_another_id_is_not_served_by_a_reload(file: Path) -> None:
    """Its nodes have the same ids, and clients believe that the ports lead to the former ones."""
    one, stranger = FakeBroker(), FakeBroker()
    stranger.cluster_id = "stranger"
    with Peer(one) as good, Peer(stranger) as bad:
        broker(good, one)
        broker(bad, stranger)

        async def scenario(running: App) -> None:
            await until(lambda: not running.not_ready("all"), "it is ready")
            await reload(running, GOOD.replace("a:1", f"'{bad.address}'"), file)
            await until(lambda: "another cluster" in (running.status().clusters[0].problem or ""), "it is said")
            await reload(running, GOOD.replace("a:1", f"'{good.address}'"), file)
            await until(lambda: running.status().clusters[0].problem is None, "the right one is served again")
            client = client_of(running, "default")
            await works(client)
            client.close()

        file.write_text(GOOD.replace("a:1", f"'{good.address}'"))
        served(file, scenario)


def test_clusters_come_and_go(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An added one is served, a removed one ends when nothing is in flight; the others do not notice."""
    one, two = FakeBroker(), FakeBroker()
    with Peer(one) as first, Peer(two) as second:
        broker(first, one)
        broker(second, two)
        both = two_clusters(first.address, second.address)
        single = both[: both.index("- name: two")]

        async def scenario(running: App) -> None:
            await until(lambda: not running.not_ready("all"), "it is ready")
            stays = client_of(running, "one", 1)
            await works(stays)
            assert "cluster two: added" in (await reload(running, both, file)).lines
            await until(lambda: not running.not_ready("all"), "both are ready")
            assert [cluster.name for cluster in running.status().clusters] == ["one", "two"]
            clients = [client_of(running, "two"), client_of(running, "two", 1)]
            for client in clients:
                await works(client)
            bootstrap = running.bootstrap["two"]
            answer = await reload(running, single, file)
            assert list(answer.lines) == ["cluster two: removed", "2 sessions of the former configuration will end"]
            for client in clients:
                await until(partial(is_closed, client), "its sessions end")
                client.close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((bootstrap.host, bootstrap.port), 30)
            assert [cluster.name for cluster in running.status().clusters] == ["one"]
            put(file, both)
            again = await running._reload()
            assert (again.outcome, "still ending" in again.lines[0]) == ("refused", True)
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
                put(
                    file,
                    both.replace("two", "three")
                    .replace("127.0.0.1:0", f"127.0.0.1:{port}", 2)
                    .replace(f"127.0.0.1:{port}", "127.0.0.1:0", 1),
                )
                again = await running._reload()
                assert (again.outcome, "the port is taken" in again.lines[0]) == ("refused", True)
            assert [cluster.name for cluster in running.status().clusters] == ["one"]
            await works(stays)
            stays.close()

        file.write_text(single)
        served(file, scenario)
    assert "defect" not in caplog.text


# SIGHUP


def test_sighup_reloads_where_there_is_a_file(file: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    file.write_text(GOOD + "log-format: text\n")
    with log.open("wb") as written:
        command = [sys.executable, "-m", "kproxy", "run", "-c", str(file)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=written, cwd=ROOT, start_new_session=True)
    try:
        wait_until(lambda: "listening on" in log.read_text(), "it runs")
        file.write_text(GOOD + "log-format: text\nmap: x=y\n")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "SIGHUP: reloaded: map: x=y" in log.read_text(), "it has reloaded")
        file.write_text("oh: no\n")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "SIGHUP: kproxy keeps the former configuration: " in log.read_text(), "it is refused")
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_the_end_of_its_terminal_ends_it(file: Path, tmp_path: Path) -> None:
    """In the foreground, with a file: SIGHUP means that the terminal is gone. Sent by hand before, it reloads."""
    log = tmp_path / "log"
    file.write_text(GOOD + "log-format: text\n")
    program = (
        f"import os, sys; sys.stderr = open({str(log)!r}, 'w', 1); os.dup2(sys.stderr.fileno(), 2);"
        f"os.execv(sys.executable, [sys.executable, '-m', 'kproxy', 'run', '-c', {str(file)!r}])"
    )
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", program])
    try:
        wait_until(lambda: log.exists() and "listening on" in log.read_text(), "it runs")
        file.write_text(GOOD + "log-format: text\nmap: x=y\n")
        os.kill(pid, signal.SIGHUP)
        wait_until(lambda: "SIGHUP: reloaded: map: x=y" in log.read_text(), "it has reloaded")
        os.close(master)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        pid = 0
        assert "SIGHUP: stopping" in log.read_text()
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_a_source_names_its_files(file: Path) -> None:
    properties = file.parent / "client.properties"
    properties.write_text("bootstrap.servers=a:1\n")
    file.write_text(f"client-config: {properties}\n")
    source = ConfigSource.of({}, {"KPROXY_CONFIG": str(file)}, None)
    assert source.files(source.read()[0]) == [file, properties]
    assert (
        ConfigSource.of({"bootstrap_servers": ("a",)}, {}, None).files(
            read({"bootstrap_servers": "a"}, {}, None).config
        )
        == []
    )
    with pytest.raises(ConfigError):
        ConfigSource.of({}, {}, None).read()
