"""Passwords and tokens from files and commands; what is kept, and for how long."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kproxy.base.errors import UpstreamError
from kproxy.client.sasl import secrets
from kproxy.client.sasl.blockingcalls import BlockingCalls
from kproxy.client.sasl.secrets import CachedSecret, read_file, refresh_time, run_command


@pytest.mark.parametrize("text", ["hunter2", "hunter2\n", "hunter2\r\n", " a b \n", "ä\n", "two\nlines\n"])
async def test_a_file_and_a_command_give_the_same(text: str, tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_bytes(text.encode())
    expected = text.removesuffix("\n").removesuffix("\r")
    assert await read_file(BlockingCalls(), file) == expected
    assert await run_command(f"cat '{file}'") == expected


async def test_a_command_has_no_shell(tmp_path: Path) -> None:
    assert await run_command("echo '$HOME; |' *") == "$HOME; | *"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("sh -c 'echo hunter2; exit 7'", "the command 'sh' ended with code 7"),
        ("true", "the command 'true' contains neither a password nor a token"),
        ("/no/such/command hunter2", "the command '/no/such/command' cannot be run: No such file"),
        ("printf '\\377'", "the command 'printf' has bytes that are not UTF-8"),
        ("printf 'hunter2\\000'", "the command 'printf' contains neither a password"),
        ("head -c 1100000 /dev/zero", "the command 'head' has more than 1024 KiB"),
        ("echo 'hunter2", "check its quotes"),
        ("", "check its quotes"),
    ],
)
async def test_a_command_that_gives_nothing(command: str, text: str) -> None:
    with pytest.raises(UpstreamError, match=text) as caught:
        await run_command(command)
    assert "hunter2" not in str(caught.value)


async def test_a_command_that_takes_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(secrets, "_COMMAND_TIMEOUT", 0.2)
    """And is not left running."""
    with pytest.raises(UpstreamError, match=r"the command 'sh' took more than 0\.2 s"):
        await run_command(f"sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000'")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize(
    ("content", "text"), [(None, "No such file"), (b"", "contains neither a password"), (b"\xff", "not UTF-8")]
)
async def test_a_file_that_gives_nothing(content: bytes | None, text: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(UpstreamError, match=text):
        await read_file(BlockingCalls(), tmp_path / "file")


class Clock:
    """Time that goes on when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(secrets, "time", SimpleNamespace(monotonic=lambda: self.now, time=time.time))


class Source:
    """A number for each fetch, good for 100 s; or a failure."""

    def __init__(self) -> None:
        self.fetched = 0
        self.fails = False

    async def __call__(self) -> tuple[str, float]:
        self.fetched += 1
        await asyncio.sleep(0)
        if self.fails:
            raise UpstreamError("sasl", "it fails")
        return str(self.fetched), secrets.time.monotonic() + 100


async def test_one_fetch_serves_all_until_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source()
    kept = CachedSecret(source)
    assert await asyncio.gather(*(kept.get() for _ in range(10))) == ["1"] * 10
    clock = Clock(monkeypatch)
    clock.now = time.monotonic()
    kept.forget()
    assert await kept.get() == "2"
    clock.now += 99
    assert await kept.get() == "2"
    clock.now += 1
    assert await kept.get() == "3"


async def test_a_source_that_fails_is_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, source = Clock(monkeypatch), Source()
    kept = CachedSecret(source)
    source.fails = True
    asked = []
    for _ in range(400):
        with pytest.raises(UpstreamError, match="it fails"):
            await kept.get()
        asked.append(source.fetched)
        clock.now += 1
    # After 5, 15, 35, 75, 155, 275 and 395 s.
    assert asked[-1] == 8
    assert asked[4] == 1
    source.fails = False
    clock.now += secrets.LONGEST_PAUSE
    assert await kept.get() == "9"


def jwt(claims: object) -> str:
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims, {})
    )


@pytest.mark.parametrize(
    ("token", "expires_in", "life"),
    [
        (jwt({"exp": 0}), 1000, 800),
        (jwt({"exp": 0}), None, 0),
        (jwt({"exp": 10**10}), None, None),
        ("opaque", None, 60),
        ("opaque", "soon", 60),
        (jwt({}), None, 60),
        (jwt([1]), None, 60),
        ("a.%%%.c", None, 60),
        ("opaque", -5, 0),
    ],
)
def test_until_when_a_token_is_used(
    token: str, expires_in: object, life: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    if life is None:
        life = (10**10 - time.time()) * 0.8
    assert refresh_time(token, expires_in) == pytest.approx(clock.now + life, abs=5)


async def test_a_command_that_hangs_is_killed_whatever_its_children_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, script = tmp_path / "child", tmp_path / "script"
    script.write_text(f"sleep 3600 & echo $! > {child}; wait")
    monkeypatch.setattr(secrets, "_COMMAND_TIMEOUT", 2.0)
    with pytest.raises(UpstreamError, match="took more than 2 s"):
        await run_command(f"sh {script}")
    os.kill(int(child.read_text()), signal.SIGKILL)  # it lives, and holds the pipe


async def test_a_file_that_is_a_pipe_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_READ_TIMEOUT", 0.05)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UpstreamError, match=r"pipe was not read within 0.05 s: is it a pipe, or on a network"):
        await read_file(BlockingCalls(), pipe)
    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # the thread goes on
