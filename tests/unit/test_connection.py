"""`kproxy.connect`: a real kproxy as the child of this process, before a broker that answers what it is asked."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kproxy
from kproxy.base.errors import ConfigError
from kproxy.connection import Connection, NotReadyError
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import wait_until
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer, black_hole, refused

ROOT = Path(__file__).parents[2]


@pytest.fixture
def broker() -> Iterator[str]:
    """The address of a cluster of one broker, which advertises a name that resolves nowhere."""
    fake = FakeBroker()
    fake.nodes = [(1, "kafka-1.prod.internal", 9092)]
    with Peer(fake) as peer:
        yield peer.address


def process(connection: Connection) -> subprocess.Popen[bytes]:
    assert connection._child is not None
    return connection._child._process


def is_open(bootstrap: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 30).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_kproxy_runs_for_as_long_as_the_block(broker: str) -> None:
    connection = kproxy.connect(broker)
    for _ in range(2):  # it can be used again
        with connection as bootstrap:
            child = process(connection)
            with RawClient(bootstrap) as client:
                assert client.works()
        assert child.returncode == 0
        assert not is_open(bootstrap)


async def test_the_same_with_async(broker: str) -> None:
    connection = kproxy.connect({"bootstrap-servers": broker})
    async with connection as bootstrap:
        child = process(connection)
        assert await asyncio.to_thread(is_open, bootstrap)
    assert child.returncode == 0


def test_a_file_is_read(broker: str, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(f"bootstrap-servers: [{broker}]\n")
    for source in (file, str(file)):
        with kproxy.connect(source) as bootstrap:
            assert is_open(bootstrap)


def test_two_at_once_have_ports_of_their_own(broker: str) -> None:
    with kproxy.connect(broker) as one, kproxy.connect(broker) as other:
        assert one != other


def test_an_error_in_the_block_ends_kproxy(broker: str) -> None:
    with pytest.raises(ZeroDivisionError), kproxy.connect(broker) as bootstrap:
        _ = 1 / 0
    assert not is_open(bootstrap)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"bootstrap-server": "a"}, r"^bootstrap-server: no such key; did you mean bootstrap-servers\?$"),
        ({"bootstrap-servers": "a", "listen": "b"}, "^listen: 'b' has no port"),
        ({}, "no bootstrap server"),
        ("", "bootstrap"),
        (3, "^kproxy.connect takes bootstrap servers, the path of a file, or a dict, and not of type int$"),
        (None, "and not None$"),
        ("/no/such.yaml", r"^/no/such\.yaml: cannot be read: No such file or directory$"),
        (Path("/"), "^/: cannot be read: Is a directory$"),
    ],
)
def test_a_mistake_is_one_line(source: object, text: str) -> None:
    connection = kproxy.connect(source)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=text) as caught, connection:
        pass
    assert "\n" not in str(caught.value)
    assert connection._child is None


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="it is no text"), kproxy.connect(tmp_path / "k.yaml"):
        pass


def test_the_error_has_the_reason_and_the_verdict_of_the_doctor() -> None:
    with refused() as server:
        connection = kproxy.connect(server, timeout=0.5)
        with pytest.raises(NotReadyError) as caught, connection:
            pass
    reason, finding, advice, *_ = str(caught.value).splitlines()
    assert "is not ready after 0.5 s" in reason or server in reason
    assert finding.startswith(f"{server}: ")
    assert finding.endswith("[port-closed]")
    assert "Start the broker or the port-forward" in advice
    assert connection._child is None


async def test_a_cancelled_task_leaves_no_kproxy() -> None:
    with black_hole() as server:
        connection = kproxy.connect(server, timeout=600)
        task = asyncio.get_running_loop().create_task(connection.__aenter__())
        child = await asyncio.to_thread(wait_until, lambda: connection._child, "kproxy is started")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert child._process.returncode is not None
    assert connection._child is None


def test_it_cannot_be_entered_twice_at_once(broker: str) -> None:
    connection = kproxy.connect(broker)
    with connection as bootstrap:
        with pytest.raises(ConfigError, match="runs already"):
            connection.__enter__()
        assert is_open(bootstrap)


def test_kproxy_ends_with_a_program_that_is_killed(broker: str) -> None:
    program = f"import kproxy\nwith kproxy.connect({broker!r}) as b:\n    print(b, flush=True); input()\n"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as running:
        assert running.stdout is not None
        bootstrap = running.stdout.readline().decode().strip()
        assert is_open(bootstrap)
        running.kill()
    wait_until(lambda: not is_open(bootstrap), "kproxy has ended")


def test_a_kproxy_that_ends_by_itself_is_logged(broker: str, caplog: pytest.LogCaptureFixture) -> None:
    connection = kproxy.connect(broker)
    with connection:
        process(connection).kill()
        text = f"kproxy has ended with exit code -{int(signal.SIGKILL)}"
        wait_until(lambda: text in caplog.text, "it is logged")


def test_warnings_of_kproxy_are_logged(broker: str, caplog: pytest.LogCaptureFixture) -> None:
    with kproxy.connect({"bootstrap-servers": broker, "map": ["x.example=127.0.0.1"]}):
        wait_until(lambda: "matches no node" in caplog.text, "the warning")
    assert {record.levelno for record in caplog.records if "matches no node" in record.message} == {logging.WARNING}


def test_variables_and_files_of_the_program_do_not_matter(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notebooks lie in directories with any names; a name there is no module of the standard library."""
    monkeypatch.setenv("KPROXY_LISTEN", "nonsense")
    monkeypatch.chdir(tmp_path)
    for name in ("json", "socket", "kproxy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    with kproxy.connect(broker) as bootstrap:
        assert is_open(bootstrap)


def test_the_import_is_cheap() -> None:
    program = (
        "import sys, kproxy\n"
        "assert not {'asyncio', 'click', 'kproxy.connection'} & sys.modules.keys()\n"
        "kproxy.connect('a')\n"
        "print(*[name for name in sys.modules if name.startswith(('kproxy.', 'click', 'rich', 'kafka'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.count(".") == 1}
    assert loaded == {"kproxy.base", "kproxy.connection", "kproxy.spark"}
