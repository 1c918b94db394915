"""`kproxy doctor` and `kproxy run` without arguments: commands are proposed; nothing is contacted before a choice."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kproxy.cli import invoke
from kproxy.inspect.discover.environment import further_searches, search_environment


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory of a user for whom nothing is configured."""
    for name in list(os.environ):
        if name.startswith("KPROXY_") or "KAFKA" in name or name.endswith("SERVERS"):
            monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    monkeypatch.setenv("KUBECONFIG", "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def door() -> Iterator[socket.socket]:
    """A port at which a connection would be noticed."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def address(door: socket.socket) -> str:
    return f"127.0.0.1:{door.getsockname()[1]}"


def is_untouched(door: socket.socket) -> bool:
    with suppress(BlockingIOError):
        door.accept()[0].close()
        return False
    return True


@pytest.mark.parametrize("command", ["doctor", "run"])
def test_without_a_terminal_they_are_printed(
    command: str, here: Path, door: socket.socket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", address(door))
    (here / "client.properties").write_text(f"bootstrap.servers={address(door)}\n")
    (here / "compose.yaml").write_text("services:\n  kafka:\n    image: apache/kafka:4.0.0\n    ports: ['9092:9092']\n")
    assert invoke([command]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    commands = [line.strip() for line in err.splitlines() if line.strip().startswith("kproxy ")]
    assert f"kproxy {command} -b {address(door)}" in commands
    assert f"kproxy {command} --client-config client.properties" in commands
    assert err.splitlines()[-1].startswith(f"kproxy: no bootstrap server is given; allowed: kproxy {command} HOST:PORT")
    assert is_untouched(door)


@pytest.mark.parametrize("command", ["doctor", "run"])
def test_where_nothing_is_configured_the_mistake_is_the_usual_one(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([command]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "no bootstrap server is given; allowed: -b HOST:PORT" in err


@pytest.mark.parametrize("words", [["doctor", "--topic", "t"], ["run", "--tls"], ["run", "--no-admin"]])
def test_who_gives_arguments_gets_no_proposals(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "a:1")
    assert invoke(words) == 2
    assert "kproxy run -b a:1" not in capsys.readouterr().err


def test_a_variable_of_kproxy_is_an_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "a:1")
    monkeypatch.setenv("KPROXY_BOOTSTRAP_SERVERS", "nonsense:port")
    assert invoke(["doctor"]) == 2
    assert "is not a port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "code", "contacts"), [("\n", 2, False), ("0\n", 2, False), ("x\n7\n\n", 2, False), ("1\n", 1, True)]
)
def test_at_a_terminal_the_user_chooses(
    answer: str, code: int, contacts: bool, door: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", address(door))
    monkeypatch.setenv("KPROXY_CONNECT_TIMEOUT", "200ms")
    root = Path(__file__).parents[3]
    main, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "kproxy", "doctor"], stdin=terminal, stdout=terminal, stderr=terminal,
        env=os.environ | {"PYTHONPATH": str(root)},
    ) as process:  # fmt: skip
        os.close(terminal)
        os.write(main, answer.encode())
        printed = b""
        with suppress(OSError):  # Linux reports the end of a terminal so
            while data := os.read(main, 65536):
                printed += data
        os.close(main)
    assert (process.returncode, is_untouched(door)) == (code, not contacts), printed.decode()
    assert f"1. variables: KAFKA_BOOTSTRAP_SERVERS={address(door)}" in printed.decode()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"KAFKA_BOOTSTRAP_SERVERS": "a:1, b"}, [("run", "-b", "a:1", "-b", "b:9092")]),
        ({"KAFKA_URL": "kafka+ssl://a:1,kafka+ssl://b:2"}, [("run", "-b", "a:1", "-b", "b:2", "--tls")]),
        ({"KAFKA_BROKERS": "a:1", "KAFKA_SECURITY_PROTOCOL": "sasl_ssl"}, [("run", "-b", "a:1", "--tls")]),
        ({"BOOTSTRAP_SERVERS": "a:1", "KAFKA_BOOTSTRAP_SERVERS": "a:1"}, [("run", "-b", "a:1")]),
        *(
            ({"KAFKA_BOOTSTRAP_SERVERS": text}, [])
            for text in ("", " , ", "a:x", "u:secret@a:1", "$(id):1;", "a" * 999)
        ),
    ],
)
def test_variables(variables: dict[str, str], words: list[tuple[str, ...]]) -> None:
    found = search_environment(variables).candidates
    assert [one.words for one in found] == words
    assert any("ask for a login" in note for one in found for note in one.notes) is ("sasl_ssl" in variables.values())


def test_what_would_contact_a_server_is_only_named() -> None:
    engines = iter([("Docker", Path("/a")), ("Podman", Path("/b")), ("Podman", Path("/c"))])
    found = further_searches(engines, has_kubeconfig=True).candidates
    assert [one.words for one in found] == [("discover", "--in", "docker"), ("discover", "--in", "kubernetes")]
    assert found[0].description.startswith("Docker and Podman: ")
    assert further_searches(iter([]), has_kubeconfig=False).candidates == []
