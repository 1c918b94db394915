"""Passwords and tokens from files and commands, and the pauses after a failure.

Error texts name the file or the command, and never its contents.
"""

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
from collections.abc import Awaitable, Callable, Sequence
from io import RawIOBase
from pathlib import Path

from kproxy.base.errors import UpstreamError
from kproxy.base.messages.logins import (
    SECRET_COMMAND_FAILED,
    SECRET_COMMAND_TIMEOUT,
    SECRET_READ_TIMEOUT,
    SECRET_UNREADABLE,
)
from kproxy.client.sasl.blockingcalls import BlockingCalls

# The time limit of a command, in seconds; a command that itself logs in takes a few.
_COMMAND_TIMEOUT = 30.0
# The time limit of reading a file, in seconds: it may be on a network file system, or a pipe.
_READ_TIMEOUT = 10.0
# A token with groups in it has some KiB; this stops a wrong path from filling the memory.
_MOST = 1024 * 1024
# The lifetime of a token without an expiry, in seconds; the used part of the lifetime of others, as in Java.
_UNKNOWN_LIFE, _USED_FOR = 60.0, 0.8
# Between two attempts, in seconds, doubled each time. Five attempts in the first 75 s, and then one every two minutes:
# a directory that locks accounts does so at five to ten in a quarter of an hour.
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 120.0


async def read_file(blocking_calls: BlockingCalls, path: Path) -> str:
    """Return the text of a file, without the line's end. Raises UpstreamError."""
    try:
        return await blocking_calls.run(_READ_TIMEOUT, read_file_blocking, path)
    except TimeoutError:
        raise UpstreamError(*SECRET_READ_TIMEOUT.with_reason(path=path, seconds=_READ_TIMEOUT)) from None


def read_file_blocking(path: Path) -> str:
    """Return the text of a file, without the line's end; for callers without an event loop. Raises UpstreamError."""
    try:
        with path.open("rb") as file:
            return _text(file.read(_MOST + 1), str(path))
    except OSError as error:
        raise UpstreamError(*SECRET_UNREADABLE.with_reason(path=path, error=error.strerror)) from None


async def run_command(command: str) -> str:
    """Return the output of a command, without the line's end. Raises UpstreamError.

    The command runs without a shell; its stderr is that of kproxy.
    """
    return await run_program(split_command(command))


async def run_program(words: Sequence[str], *, shows_errors: bool = True) -> str:
    """Return the output of a program, without the line's end. Raises UpstreamError.

    `words` are the program and its arguments. Its stderr is that of kproxy if it `shows_errors`.
    """
    name = words[0]
    try:
        # A pipe of our own: asyncio waits for the end of its pipes too, which children of a killed command may hold.
        reads, writes = os.pipe()
        with os.fdopen(reads, "rb", buffering=0) as read_end, os.fdopen(writes, "wb", buffering=0) as write_end:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=DEVNULL, stdout=write_end, stderr=None if shows_errors else DEVNULL
            )
            write_end.close()
            output, code = await _read_output(process, read_end)
    except TimeoutError:
        raise UpstreamError(*SECRET_COMMAND_TIMEOUT.with_reason(name=name, seconds=_COMMAND_TIMEOUT)) from None
    except OSError as error:
        raise UpstreamError("sasl", f"the command '{name}' cannot be run: {error.strerror}") from None
    if code:
        raise UpstreamError(*SECRET_COMMAND_FAILED.with_reason(name=name, code=code))
    return _text(output, f"the command '{name}'")


async def _read_output(process: Process, pipe: RawIOBase) -> tuple[bytes, int]:
    """Return the output of a process, at most `_MOST` + 1 bytes, and its exit code.

    Raises TimeoutError. The process has ended in any case.
    """
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
    """Split a command into the program and its arguments. Raises UpstreamError."""
    with contextlib.suppress(ValueError):
        if words := shlex.split(command):
            return words
    raise UpstreamError("sasl", "the command for the password or token cannot be parsed: check its quotes")


def _text(data: bytes, place: str) -> str:
    if len(data) > _MOST:
        raise UpstreamError("sasl", f"{place} has more than {_MOST // 1024} KiB: neither a password nor a token")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UpstreamError("sasl", f"{place} has bytes that are not UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or "\0" in text:
        raise UpstreamError("sasl", f"{place} contains neither a password nor a token")
    return text


class Backoff:
    """A pause that doubles with each failure.

    `record_failure` and `record_success` note the result of an attempt; `is_waiting` is true while it is too early for
    another.
    """

    def __init__(self) -> None:
        self._pause = 0.0
        self._not_before = 0.0

    def record_failure(self) -> None:
        self._pause = min(self._pause * 2 or FIRST_PAUSE, LONGEST_PAUSE)
        self._not_before = time.monotonic() + self._pause

    def record_success(self) -> None:
        self._pause = self._not_before = 0.0

    @property
    def is_waiting(self) -> bool:
        return time.monotonic() < self._not_before


class CachedSecret:
    """A secret that all logins of a cluster share.

    One login fetches it while the others wait: at first, when it has expired, and after a refusal. `fetch` returns the
    secret and the time of its expiry (`time.monotonic`).
    """

    def __init__(self, fetch: Callable[[], Awaitable[tuple[str, float]]]) -> None:
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._value: str | None = None
        self._until = 0.0
        self._backoff = Backoff()
        self._problem = ""

    async def get(self) -> str:
        """Return the secret. Raises the UpstreamError of `fetch`, for a while without calling `fetch` again."""
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
        """Drop the secret, because the broker has refused it."""
        self._value = None


def refresh_time(token: str, expires_in: object = None) -> float:
    """Return the time (`time.monotonic`) at which to fetch the next token.

    It follows from `expires_in`, seconds from now, or from the token's own claim if it is a JWT (RFC 7519 §4.1.4).
    """
    life = float(expires_in) if isinstance(expires_in, int | float) else _claimed_life(token)
    return time.monotonic() + (_UNKNOWN_LIFE if life is None else max(0.0, life) * _USED_FOR)


def _claimed_life(token: str) -> float | None:
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"]) - time.time()
    except (LookupError, ValueError, TypeError, binascii.Error):
        return None
