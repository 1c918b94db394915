"""Passwords and tokens from where they are kept. Each error says where, and never what was found there."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import os
import shlex
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable
from io import RawIOBase
from pathlib import Path

from kproxy.base.errors import UpstreamError
from kproxy.client.sasl.backoff import Backoff
from kproxy.client.sasl.blockingcalls import BlockingCalls

# How long a command may take, in seconds; one that logs in somewhere itself takes a few.
_COMMAND_TIMEOUT = 30.0
# How long a file may take, in seconds: one on a network file system, or a pipe that somebody fills.
_READ_TIMEOUT = 10.0
# A token with groups in it has some KiB; this stops a wrong path from filling the memory.
_MOST = 1024 * 1024
# A token whose end is not known is used for so long, in seconds; others for so much of their time, as Java does.
_UNKNOWN_LIFE, _USED_FOR = 60.0, 0.8


async def read_file(blocking_calls: BlockingCalls, path: Path) -> str:
    """The text of a file, without the line's end. Raises UpstreamError."""
    try:
        return await blocking_calls.run(_READ_TIMEOUT, read_file_blocking, path)
    except TimeoutError:
        text = f"{path} was not read within {_READ_TIMEOUT:g} s: is it a pipe, or on a network file system?"
        raise UpstreamError("sasl", text) from None


def read_file_blocking(path: Path) -> str:
    """The same, without an event loop to hold up."""
    try:
        with path.open("rb") as file:
            return _text(file.read(_MOST + 1), str(path))
    except OSError as error:
        raise UpstreamError("sasl", f"{path} cannot be read: {error.strerror}") from None


async def run_command(command: str) -> str:
    """What a command prints, without the line's end. Without a shell; its stderr is kproxy's. Raises UpstreamError."""
    words = split_command(command)
    name = words[0]
    try:
        # A pipe of our own: asyncio waits for the end of its pipes too, which children of a killed command may hold.
        reads, writes = os.pipe()
        with os.fdopen(reads, "rb", buffering=0) as read_end, os.fdopen(writes, "wb", buffering=0) as write_end:
            process = await asyncio.create_subprocess_exec(*words, stdin=DEVNULL, stdout=write_end)
            write_end.close()
            output, code = await _read_output(process, read_end)
    except TimeoutError:
        raise UpstreamError("sasl", f"the command '{name}' took more than {_COMMAND_TIMEOUT:g} s") from None
    except OSError as error:
        raise UpstreamError("sasl", f"the command '{name}' cannot be run: {error.strerror}") from None
    if code:
        raise UpstreamError("sasl", f"the command '{name}' ended with code {code}; run it by hand to see why")
    return _text(output, f"the command '{name}'")


async def _read_output(process: Process, pipe: RawIOBase) -> tuple[bytes, int]:
    """What it prints, as much as may be, and its exit code. Raises TimeoutError; it has ended in any case."""
    output, reader = b"", asyncio.StreamReader()
    try:
        async with asyncio.timeout(_COMMAND_TIMEOUT):
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            with contextlib.closing(transport):
                while chunk := await reader.read(65536):
                    output = (output + chunk)[: _MOST + 1]
                return output, await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def split_command(command: str) -> list[str]:
    """A program and its arguments. Raises UpstreamError."""
    with contextlib.suppress(ValueError):
        if words := shlex.split(command):
            return words
    raise UpstreamError("sasl", "the command for the password or token is not one: look at its quotes")


def _text(data: bytes, place: str) -> str:
    if len(data) > _MOST:
        raise UpstreamError("sasl", f"{place} has more than {_MOST // 1024} KiB, which is no password and no token")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UpstreamError("sasl", f"{place} has something that is not UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or "\0" in text:
        raise UpstreamError("sasl", f"{place} has no password and no token")
    return text


class CachedSecret:
    """A secret that all logins of a cluster share. It is fetched by one of them while the others wait: at first, when
    its time is over, and when it was refused. `fetch` returns it and when that time is over (`time.monotonic`)."""

    def __init__(self, fetch: Callable[[], Awaitable[tuple[str, float]]]) -> None:
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._value: str | None = None
        self._until = 0.0
        self._backoff = Backoff()
        self._problem = ""

    async def get(self) -> str:
        """Raises UpstreamError: the one that `fetch` raises, for a while without asking again."""
        async with self._lock:
            if self._value is None or time.monotonic() >= self._until:
                if self._backoff.is_waiting:
                    raise UpstreamError("sasl", self._problem)
                try:
                    self._value, self._until = await self._fetch()
                except UpstreamError as error:
                    self._backoff.record_failure()
                    self._problem = str(error)
                    raise
                self._backoff.record_success()
            return self._value

    def forget(self) -> None:
        """It was refused."""
        self._value = None


def refresh_time(token: str, expires_in: object = None) -> float:
    """Until when to use a token, as of `time.monotonic`: by what came with it (seconds), or by its own claim if it is
    a JWT (RFC 7519 §4.1.4)."""
    life = float(expires_in) if isinstance(expires_in, int | float) else _claimed_life(token)
    return time.monotonic() + (_UNKNOWN_LIFE if life is None else max(0.0, life) * _USED_FOR)


def _claimed_life(token: str) -> float | None:
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"]) - time.time()
    except (LookupError, ValueError, TypeError, binascii.Error):
        return None
