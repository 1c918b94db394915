"""Name resolution by the system's resolver, without ever blocking the event loop.

Each question has a daemon thread of its own: a resolver that hangs for half a minute then delays no other question, and
does not delay the exit of the process as the threads of an executor do.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Thread
from typing import TypeAlias

from kproxy.base.address import Address
from kproxy.base.errors import NoSuchName, UpstreamError
from kproxy.base.messages.reachability import INVALID_PORT, NAME_NOT_RESOLVED

AddrInfo: TypeAlias = tuple[int, int, int, str, tuple[object, ...]]
"""As getaddrinfo gives them."""

# The lifetime of an answer whose addresses work, in seconds: brokers move.
_LIFETIME = 3.0
# The lifetime of a doubtful answer (no such name, or no connection), in seconds, doubled while it stays the same.
# A missing name may exist a moment later, but hundreds of clients dial it meanwhile.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 5.0
# macOS gives this error also if no name server can be reached, as without a network.
_NO_NAME_IS_UNSURE = sys.platform == "darwin"
# The most names in the cache. A cluster has hundreds at most.
_MAX_NAMES = 1000
# The most questions at a time, each in a thread.
_MAX_THREADS = 32


@dataclass(slots=True)
class _CachedAnswer:
    """The cached result of one question."""

    infos: list[AddrInfo] | None  # empty: the name does not exist; None: no name server has answered
    at: float  # the time of the answer, by the loop's clock
    is_doubtful: bool  # no connection to the addresses has worked
    pause: float  # the lifetime of a doubtful answer, in seconds

    def is_valid(self, now: float) -> bool:
        return now < self.at + (self.pause if self.is_doubtful else _LIFETIME)


class Resolver:
    """Name resolution for one cluster, cached for a few seconds.

    Callers that ask for the same name share one question.
    """

    def __init__(self) -> None:
        self._answers: dict[str, _CachedAnswer] = {}  # the oldest first
        self._pending: dict[str, asyncio.Future[list[AddrInfo] | None]] = {}
        self._slots = asyncio.Semaphore(_MAX_THREADS)

    async def resolve(self, address: Address) -> Sequence[AddrInfo]:
        """Return the addresses of a name, best first.

        Raises UpstreamError; NoSuchName if the name servers have answered that the name does not exist.
        """
        ip_infos = self.parse_ip(address)
        if ip_infos:
            return ip_infos
        infos = await self._ask(address.host)
        if not infos:
            kind = UpstreamError if infos is None else NoSuchName
            raise kind("resolve", NAME_NOT_RESOLVED(address=address, host=address.host))
        return _with_port(infos, address.port)

    def parse_ip(self, address: Address) -> Sequence[AddrInfo]:
        """Return the address if the host is an IP address, nothing if it is a name. Raises UpstreamError."""
        if not 0 < address.port < 65536:  # getaddrinfo takes it modulo 65536
            raise UpstreamError(*INVALID_PORT.with_reason(address=address, port=address.port))
        if "%" in address.host:  # the number of an interface may change
            return _with_port(_look_up(address.host, socket.AI_NUMERICHOST) or (), address.port)
        return _numeric(address)

    def mark_doubtful(self, host: str) -> None:
        """Note that the addresses of a name did not work.

        The resolver asks again soon, but not for each of many callers.
        """
        if host in self._answers:
            self._answers[host].is_doubtful = True

    async def _ask(self, host: str) -> list[AddrInfo] | None:
        cached = self._answers.get(host)
        if cached is not None and cached.is_valid(asyncio.get_running_loop().time()):
            return cached.infos
        if host not in self._pending:
            await self._slots.acquire()
            if host in self._pending:
                self._slots.release()
            else:
                self._pending[host] = asyncio.get_running_loop().create_future()
                Thread(target=self._ask_system, args=(host, asyncio.get_running_loop()), daemon=True).start()
        # A caller that is cancelled must not cancel the question of the others.
        return await asyncio.shield(self._pending[host])

    def _ask_system(self, host: str, loop: asyncio.AbstractEventLoop) -> None:
        infos = _look_up(host)
        with contextlib.suppress(RuntimeError):  # the loop is closed: kproxy has ended
            loop.call_soon_threadsafe(self._store_answer, host, infos)

    def _store_answer(self, host: str, infos: list[AddrInfo] | None) -> None:
        before = self._answers.pop(host, None)
        is_unchanged = before is not None and before.is_doubtful and _has_same_addresses(before.infos, infos)
        pause = min(before.pause * 2, _LONGEST_PAUSE) if before is not None and is_unchanged else _FIRST_PAUSE
        self._answers[host] = _CachedAnswer(infos, asyncio.get_running_loop().time(), not infos, pause)
        if len(self._answers) > _MAX_NAMES:
            del self._answers[next(iter(self._answers))]
        self._slots.release()
        self._pending.pop(host).set_result(infos)


@lru_cache(maxsize=1000)
def _numeric(address: Address) -> Sequence[AddrInfo]:
    return _with_port(_look_up(address.host, socket.AI_NUMERICHOST) or (), address.port)


def _with_port(infos: Iterable[AddrInfo], port: int) -> Sequence[AddrInfo]:
    return tuple((*info[:4], (info[4][0], port, *info[4][2:])) for info in infos)


def _has_same_addresses(first: Iterable[AddrInfo] | None, second: Iterable[AddrInfo] | None) -> bool:
    """Return whether two answers have the same addresses; a server rotates their order."""
    return {info[4][0] for info in first or ()} == {info[4][0] for info in second or ()}


def _look_up(host: str, flags: int = 0) -> list[AddrInfo] | None:
    """Return the addresses of a name, none if it does not exist, and None if no name server answers."""
    # An IP address as bytes: for text, Python would load its tables for IDNA (0.3 MiB).
    name = host.encode() if flags & socket.AI_NUMERICHOST and host.isascii() else host
    try:
        infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=flags)
        return infos  # type: ignore[return-value]  # typeshed's tuple is looser
    except socket.gaierror as error:
        is_unanswered = error.errno == socket.EAI_AGAIN or (_NO_NAME_IS_UNSURE and error.errno == socket.EAI_NONAME)
        return None if is_unanswered else []
    except (OSError, ValueError):  # UnicodeError if the host is not a valid name
        return []
