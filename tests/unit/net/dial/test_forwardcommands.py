"""Forward commands as processes of this machine: those that work, and each way in which one may not."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.config.forwardcommand import ForwardCommand
from kproxy.net.dial import forwardcommands, forwardprocess
from kproxy.net.dial.forwardcommands import CommandState, ForwardCommands, RunningCommand

THERE = Address("kafka.example", 9092)
LISTENS = "s = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
WAITS = "signal.pause()"


def program(text: str, *more: str) -> ForwardCommand:
    """Return the command of a Python program that gets the port, and `more`."""
    code = f"import os, signal, socket, subprocess, sys, time; {text}".replace('"', '\\"')
    return ForwardCommand.parse(f'{sys.executable} -S -c "{code}" {{port}} {" ".join(more)}')


@asynccontextmanager
async def running(*templates: ForwardCommand, **more: Callable[[str], object]) -> AsyncIterator[ForwardCommands]:
    async with asyncio.TaskGroup() as tasks:
        commands = ForwardCommands(templates, tasks, os.environ, **more)  # type: ignore[arg-type]
        try:
            yield commands
        finally:
            await commands.close()


async def prepared(commands: ForwardCommands, label: str = "3", advertised: Address = THERE) -> RunningCommand:
    """Do what a dial does."""
    address = commands.dial_address(label, advertised)
    assert address is not None
    await commands.prepare(address)
    return next(command for command in commands if command.port == address.port)


async def failure(commands: ForwardCommands, label: str = "3", advertised: Address = THERE) -> str:
    with pytest.raises(UpstreamError) as caught:
        await prepared(commands, label, advertised)
    assert caught.value.reason == "forward-command"
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - other processes set no event
        await asyncio.sleep(0.01)


def is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def accepts(port: int) -> bool:
    return await forwardprocess.accepts(port)


async def test_it_runs_from_the_first_dial_to_the_end() -> None:
    async with running(program(LISTENS + WAITS)) as commands:
        assert commands.dial_address("3", THERE) == commands.dial_address("3", THERE)
        assert list(commands) == [], "nothing runs before it is dialled"
        first, again = await asyncio.gather(prepared(commands), prepared(commands))
        assert (first, first.state, first.starts, first.problem) == (again, CommandState.LISTENING, 1, None)
        other = await prepared(commands, "4")
        server = await prepared(commands, "", Address("boot", 1))
        assert len({first.port, other.port, server.port}) == 3
        assert [command.name for command in commands] == ["broker 3", "broker 4", "bootstrap server boot:1"]
    assert not any([await accepts(command.port) for command in (first, other, server)])


async def test_other_addresses_are_not_concerned() -> None:
    async with running(ForwardCommand.parse("kubectl {node} {port}")) as commands:
        assert commands.dial_address("", THERE) is None
        await commands.prepare(THERE)
        await commands.prepare(Address("127.0.0.1", 1))


async def test_one_that_ends_at_once_says_why_and_is_not_started_without_pause() -> None:
    async with running(program("print('error: no pod of that name', file=sys.stderr); sys.exit(3)")) as commands:
        text = await failure(commands)
        assert "ended with exit code 3 (error: no pod of that name); kproxy starts it again in 0.5 s" in text
        assert await failure(commands) == text, "the next one who dials does not wait"
        (command,) = commands
        assert command.starts == 1


async def test_its_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwardcommands, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(forwardcommands, "_SECOND_PAUSE", 0.02)
    monkeypatch.setattr(forwardcommands, "_LONGEST_PAUSE", 0.05)
    pauses, ports = [], set()

    def on_end(label: str) -> None:
        pauses.append(command.pause)
        ports.add(command.port)

    async with running(program("sys.exit(1)"), on_end=on_end) as commands:
        address = commands.dial_address("3", THERE)
        command = next(iter(commands._commands.values()))
        assert address is not None
        with pytest.raises(UpstreamError):
            await commands.prepare(address)
        await until(lambda: len(pauses) >= 5)
    assert pauses[:5] == [0.01, 0.02, 0.04, 0.05, 0.05]
    assert len(ports) > 3, "one that never listened gets another port: something else may have had it"


async def test_one_that_has_listened_starts_again_at_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    async with running(program(LISTENS + "c, _ = s.accept(); c, _ = s.accept()"), on_end=ended.append) as commands:
        command = await prepared(commands)
        port = command.port
        assert await accepts(port), "it ends with its second connection"
        await until(lambda: ended)
        assert "ended with exit code 0; kproxy starts it again in 0.5 s" in await failure(commands)
        await until(lambda: command.state is CommandState.LISTENING)
        assert (command.port, command.starts, command.problem, ended) == (port, 2, None, ["3"])


async def test_a_node_that_is_gone_gets_no_new_command() -> None:
    async with running(program("sys.exit(1)"), is_present=lambda label: False) as commands:
        await failure(commands)
        (command,) = commands
        await until(lambda: command.task is None)
        assert command.starts == 1


async def test_a_program_that_does_not_exist() -> None:
    async with running(ForwardCommand.parse("/no/such/program {port}")) as commands:
        text = await failure(commands)
    assert "the forward command '/no/such/program " in text
    assert "cannot be run: No such file or directory; kproxy tries again in 0.5 s" in text


async def test_one_that_never_listens_runs_on_and_one_that_listens_late_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forwardcommands, "_LISTENS_WITHIN", 0.2)
    go = tmp_path / "go"
    text = "[time.sleep(0.01) for _ in iter(lambda: os.path.exists(sys.argv[2]), True)];"
    async with running(program(text + LISTENS + WAITS, str(go))) as commands:
        assert "does not listen on port " in await failure(commands)
        (command,) = commands
        assert (command.state, command.starts) == (CommandState.STARTING, 1)
        go.touch()
        await until(lambda: command.state is CommandState.LISTENING)
        assert (await prepared(commands)).starts == 1


async def test_a_flood_of_words_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    text = LISTENS + "[print(number, 'x' * 9000) for number in range(300)]; print(chr(27) + '[31mlast', flush=True);"
    async with running(program(text + WAITS)) as commands:
        command = await prepared(commands)
        await until(lambda: command.last_line == "\\x1b[31mlast")
    lines = [record.getMessage() for record in caplog.records if ": python" in record.getMessage()]
    assert len(lines) == forwardprocess._LINES
    assert max(map(len, lines)) < 400
    assert any(" lines of the forward command of broker 3 were left out" in text for text in caplog.messages)


async def test_a_line_without_end_takes_no_memory() -> None:
    text = LISTENS + "[sys.stdout.write('x' * 65536) for _ in range(40)]; print('end', flush=True);"
    async with running(program(text + WAITS)) as commands:
        command = await prepared(commands)
        await until(lambda: command.last_line)
        assert len(command.last_line) < 400


async def test_one_that_ignores_the_end_is_killed_with_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forwardprocess, "_ENDS_WITHIN", 0.1)
    child = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    text = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "p = subprocess.Popen([sys.executable, '-S', '-c', sys.argv[2]]); print(os.getpid(), p.pid, flush=True);"
    )
    async with running(program(text + LISTENS + WAITS, f"'{child}'")) as commands:
        command = await prepared(commands)
        await until(lambda: command.last_line)
        pids = [int(word) for word in command.last_line.split()]
        assert all(map(is_there, pids))
    assert not any(map(is_there, pids))


async def test_what_a_command_leaves_behind_ends_before_it_starts_again() -> None:
    child = "subprocess.Popen([sys.executable, '-S', '-c', 'import signal; signal.pause()'])"
    async with running(program(f"print({child}.pid); sys.exit(5)")) as commands:
        assert "exit code 5" in await failure(commands)
        (command,) = commands
        await until(lambda: not is_there(int(command.last_line)))


async def test_a_node_that_moves_gets_another_command() -> None:
    async with running(program(LISTENS + WAITS, "{host}")) as commands:
        command = await prepared(commands)
        assert "kafka.example" in command.words
        assert (await prepared(commands, "3", Address("elsewhere", 9092))) is command
        assert (command.words[-1], command.state) == ("elsewhere", CommandState.LISTENING)
        assert len(commands._commands) == 1


async def test_a_host_that_no_command_gets_starts_nothing() -> None:
    async with running(program(LISTENS + WAITS, "{host}")) as commands:
        text = await failure(commands, "3", Address("-oProxyCommand=reboot", 9092))
        assert text.startswith("no forward command: the advertised host '-oProxyCommand=reboot' is no host name")
        assert [command.starts for command in commands] == [0]


async def test_there_is_a_most_and_those_of_absent_nodes_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwardcommands, "_MOST", 2)
    present = {"1", "2", "3", "4"}
    async with running(program(LISTENS + WAITS), is_present=present.__contains__) as commands:
        first, _ = await prepared(commands, "1"), await prepared(commands, "2")
        assert "2 forward commands run already" in await failure(commands, "3")
        present.remove("1")
        await until(lambda: not commands._ending)
        await prepared(commands, "3")
        await until(lambda: not commands._ending)
        assert not await accepts(first.port)
        commands.release("2")
        await until(lambda: not commands._ending)
        await prepared(commands, "4")
        assert "2 forward commands run already" in await failure(commands, "5")


async def test_slow_ones_do_not_keep_others_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwardcommands, "_LISTENS_WITHIN", 0.2)
    monkeypatch.setattr(forwardcommands, "_AT_ONCE", 1)
    async with running(
        program("signal.pause() if sys.argv[2] == '3' else None;" + LISTENS + WAITS, "{node}")
    ) as commands:
        await failure(commands, "3")
        while True:
            try:
                assert (await prepared(commands, "4")).state is CommandState.LISTENING
                return
            except UpstreamError:
                continue


async def test_a_signal_from_outside_is_named() -> None:
    async with running(program(LISTENS + "print(os.getpid(), flush=True);" + WAITS)) as commands:
        command = await prepared(commands)
        await until(lambda: command.last_line)
        os.kill(int(command.last_line), signal.SIGKILL)
        await until(lambda: command.state is CommandState.ENDED)
        assert "ended by signal SIGKILL" in str(command.problem)


async def test_a_port_that_something_else_has_taken_is_not_used() -> None:
    async with running(program(LISTENS + WAITS)) as commands:
        address = commands.dial_address("3", THERE)
        assert address is not None
        with socket.create_server((address.host, address.port)):
            await commands.prepare(address)
            (command,) = commands
            assert command.port != address.port
            assert command.words[-1] == str(command.port)
            assert commands.dial_address("3", THERE) == Address(address.host, command.port)
            assert await accepts(command.port)
