"""The main process: what one cluster's brokers say ends neither kproxy nor another cluster's sessions."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.config import ClusterConfig, Config
from kproxy.proxy.app import clusters, main
from kproxy.proxy.app.main import App
from kproxy.proxy.app.nextstep import Invocation
from kproxy.proxy.cluster import explorer
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.cluster.explorer import Explorer
from kproxy.proxy.cluster.nodedialer import NodeDialer
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.unit.proxy.cluster.doorway import API_VERSIONS, in_loop, is_closed, until

pytestmark = pytest.mark.usefixtures("hang_ups_reach_children")

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(clusters, "_LONGEST_PAUSE", 0.02)
    monkeypatch.setattr(explorer, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(explorer, "_LONGEST_PAUSE", 0.02)


def one(peer: Peer, name: str) -> ClusterConfig:
    listen = Address("127.0.0.1", 0)
    return ClusterConfig(name=name, bootstrap_servers=(Address.parse(peer.address),), listen=listen)


def serve(config: Config, scenario: Callable[[App], Awaitable[None]]) -> None:
    async def errand(running: App) -> int:
        await scenario(running)
        return 0

    async def main(selector: RelaySelector) -> None:
        assert await App(config, selector, ConnectionLimit()).run(errand) == 0

    in_loop(main)()


def naming(peer: Peer, behave: FakeBroker) -> None:
    host, port = peer.address.split(":")
    behave.nodes = [(1, host, int(port))]


def works(running: App, name: str) -> socket.socket:
    client = socket.create_connection((running.bootstrap[name].host, running.bootstrap[name].port), 30)
    client.setblocking(False)
    client.send(API_VERSIONS)
    return client


async def answered(client: socket.socket) -> None:
    async with asyncio.timeout(30):
        assert len(await asyncio.get_running_loop().sock_recv(client, 4096)) > 4


def problem(running: App, name: str) -> str:
    return next((reason for reason in running.not_ready() if f"cluster {name}:" in reason), "")


def test_a_cluster_that_names_too_many_nodes_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    bad, good = FakeBroker([(node, "b", 9092) for node in range(3000)]), FakeBroker()
    with Peer(bad) as bad_peer, Peer(good) as good_peer:
        naming(good_peer, good)

        async def scenario(running: App) -> None:
            await until(lambda: "3000 nodes" in problem(running, "bad"), "one is refused")
            await until(lambda: not problem(running, "good"), "the other one is ready")
            assert "3000 nodes" in (running.status().clusters[0].problem or "")
            client = works(running, "good")
            await answered(client)
            await until(lambda: bad.asked > 3, "kproxy tries again")
            naming(bad_peer, bad)
            await until(lambda: not running.not_ready(), "the other one is ready too")
            client.send(API_VERSIONS)
            await answered(client)
            client.close()

        serve(Config(clusters=(one(bad_peer, "bad"), one(good_peer, "good")), admin=None), scenario)
    assert len([record for record in caplog.records if "3000 nodes" in record.getMessage()]) == 1


def test_what_to_do_next_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Where no bootstrap server answers, and where a node cannot be reached."""
    lost = FakeBroker([(1, "nowhere.invalid", 1), (2, "nowhere.invalid", 2)])
    typed = Invocation(("-b", "x", "--listen", "y"), ("-b", "x"))
    with Peer(lambda connection: None) as silent, Peer(lost) as peer:
        config = Config(clusters=(one(silent, "dark"), one(peer, "lost")), admin=None)

        async def errand(running: App) -> int:
            await until(lambda: silent.accepted > 3, "kproxy tries again")
            await until(lambda: len(said()) == 2, "both are said")
            return 0

        def said() -> list[str]:
            messages = [record.getMessage() for record in caplog.records]
            return sorted(message for message in messages if "kproxy doctor" in message)

        async def main(selector: RelaySelector) -> None:
            assert await App(config, selector, ConnectionLimit(), typed).run(errand) == 0

        in_loop(main)()
    line = "to find out why: kproxy doctor -b x"
    assert said() == [f"cluster dark: {line}", f"cluster lost: {line}"]


def test_a_refusal_with_an_endless_number_names_nobody() -> None:
    """Two nodes that cannot be reached make kproxy ask who is who."""
    behave = FakeBroker([(1, "nowhere.invalid", 1), (2, "nowhere.invalid", 2)], "expected " + "9" * 5000)
    with Peer(behave) as peer:

        async def scenario(running: App) -> None:
            await until(lambda: "broker 2" in "".join(running.not_ready()), "kproxy has looked for a way")
            assert "kproxy cannot tell which broker it is" in "".join(running.not_ready())

        serve(Config(clusters=(one(peer, "only"),), admin=None), scenario)


def test_a_defect_in_a_cluster_is_its_own(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    plain = Explorer.explore

    async def fails(self: Explorer) -> None:
        if self.config.name == "bad":
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(asyncio.sleep(0))
                raise ZeroDivisionError("what nobody has thought of")
        await plain(self)

    monkeypatch.setattr(Explorer, "explore", fails)
    bad, good = FakeBroker(), FakeBroker()
    with Peer(bad) as bad_peer, Peer(good) as good_peer:
        naming(good_peer, good)
        naming(bad_peer, bad)

        async def scenario(running: App) -> None:
            await until(lambda: problem(running, "bad") and not problem(running, "good"), "one is ready, one is not")
            assert "ZeroDivisionError: what nobody has thought of" in problem(running, "bad")
            client = works(running, "good")
            await answered(client)
            monkeypatch.setattr(Explorer, "explore", plain)
            await until(lambda: not running.not_ready(), "the other one is ready too")
            client.close()

        serve(Config(clusters=(one(bad_peer, "bad"), one(good_peer, "good")), admin=None), scenario)
    assert [r.exc_info is not None for r in caplog.records if "defect, please report it" in r.getMessage()] == [True]


def test_a_defect_of_a_session_is_its_own(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    behave = FakeBroker()
    with Peer(behave) as peer:
        naming(peer, behave)

        async def scenario(running: App) -> None:
            await until(lambda: not running.not_ready(), "kproxy is ready")
            settled = works(running, "only")
            await answered(settled)

            async def fails(self: NodeDialer, key: object) -> None:
                raise ZeroDivisionError

            (gateway,) = running._gateways
            with monkeypatch.context() as patched:
                patched.setattr(NodeDialer, "_dial_bootstrap", lambda self, _request: fails(self, None))
                client = works(running, "only")
                await until(lambda: is_closed(client), "its connection is closed")
                client.close()
            await until(lambda: gateway.slots.sessions == 1, "its place is free")
            settled.send(API_VERSIONS)
            await answered(settled)
            settled.close()

        serve(Config(clusters=(one(peer, "only"),), admin=None), scenario)
    assert any("defect in a session, please report it: ZeroDivisionError" in r.getMessage() for r in caplog.records)


# Mistakes


def test_a_token_that_cannot_be_used_is_one_config_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(main.logs, "set_up", lambda *_: None)
    monkeypatch.setattr(main, "raise_file_limit", lambda: None)
    cluster = ClusterConfig(bootstrap_servers=(Address("127.0.0.1", 1),), listen=Address("127.0.0.1", 0))
    (tmp_path / "token").write_text("hunter2\n")
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigError, match=r"^--admin-token-file: .*token has no token; allowed: 16 to ") as caught:
        main.run(Config(clusters=(cluster,), admin_token_file=tmp_path / "token"))
    assert "hunter2" not in str(caught.value)


KPROXY = Path(main.__file__).parent.parent


def test_a_port_that_is_taken_is_one_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not a group of one, which would be no user's mistake but a defect (exit code 1)."""
    monkeypatch.setattr(main.logs, "set_up", lambda *_: None)
    monkeypatch.setattr(main, "raise_file_limit", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = Address(*taken.getsockname()[:2])
        cluster = ClusterConfig(bootstrap_servers=(Address("127.0.0.1", 1),), listen=listen)
        with pytest.raises(ConfigError, match="the port is taken") as caught:
            main.run(Config(clusters=(cluster,), admin=None))
    assert len(caught.value.problems) == 1


def test_nothing_is_raised_where_python_would_wrap_it() -> None:
    """Python before 3.11.4 wraps what is raised within `except*` in a group again (gh-103590)."""
    blocks = [
        (path, handler)
        for path in KPROXY.rglob("*.py")
        for block in ast.walk(ast.parse(path.read_text()))
        if isinstance(block, ast.TryStar)
        for handler in block.handlers
    ]
    raised = [
        f"{path}:{one.lineno}" for path, handler in blocks for one in ast.walk(handler) if isinstance(one, ast.Raise)
    ]
    assert raised == []


# Signals


@contextlib.contextmanager
def started(*before: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[str], None]]]:
    """`kproxy run` for a broker that answers, and what waits for words in its log."""
    behave = FakeBroker()
    with Peer(behave) as peer:
        naming(peer, behave)
        command = [*before, sys.executable, "-m", "kproxy", "run", "-b", peer.address]
        options = ["--listen", "127.0.0.1:0", "--no-admin", "--log-format", "text"]
        with subprocess.Popen(
            [*command, *options], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT
        ) as process:
            assert process.stderr is not None
            lines = process.stderr

            def wait_for(words: str) -> None:
                assert any(words in line for line in lines), words

            try:
                wait_for("ready; bootstrap.servers=")
                yield process, wait_for
            finally:
                process.kill()


def test_sighup_stops_it_gracefully_and_a_second_is_no_hurry() -> None:
    """A terminal that closes may send it, and the shell in it too."""
    with started() as (process, wait_for):
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        wait_for("SIGHUP: stopping")
        assert process.wait(60) == 0


def test_sighup_stays_ignored_under_nohup() -> None:
    with started("nohup") as (process, wait_for):
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        wait_for("SIGTERM: stopping")
        assert process.wait(60) == 0
