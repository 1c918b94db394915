"""Clients that are none, or bad ones: greetings of other protocols, noise, floods, silence, readers that do not read.

Each has a few connections, sends little and goes after a few seconds. What kproxy does with it meanwhile is its own
business; that nothing is left of it is looked at in the end.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator, Sequence
from random import Random

from tests.harness.clients import frames
from tests.soak.actor import Actor
from tests.soak.journal import Journal
from tests.soak.proxy import Proxy

_CONNECTIONS = 8
_SECONDS = 3.0
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER that turns a close into a reset
_GREETINGS = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /x HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"x" * 3000,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(505),
    b"\x15\x03\x03\x00\x02\x02\x28",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\1\x0a\0\0\2\0\1\0\2",
    b"\x05\x01\x00",
    b"\x04\x01\x23\x84\x0a\x00\x00\x01me\x00",
)


class Strangers(Actor):
    gaps = (0.8, 3.0)

    def __init__(self, journal: Journal, name: str, proxies: Sequence[Proxy], topics: Sequence[str]) -> None:
        super().__init__(journal)
        self.name = name
        self._proxies = proxies
        self._topics = topics
        self.acts = {
            "greeting": self._greeting,
            "noise": self._noise,
            "hostile": self._hostile,
            "flood": self._flood,
            "silence": self._silence,
            "slow-reader": self._slow_reader,
            "half-close": self._half_close,
            "client-reset": self._client_reset,
        }

    def _greeting(self, chance: Random) -> str:
        return self._each(chance, [chance.choice(_GREETINGS) for _ in range(_CONNECTIONS)], read=True)

    def _noise(self, chance: Random) -> str:
        return self._each(chance, [chance.randbytes(chance.choice((1, 4, 11, 100, 50_000))) for _ in range(3)])

    def _hostile(self, chance: Random) -> str:
        """Frames that are none of Kafka's, or begin well."""
        size = struct.pack(">i", chance.choice((-1, -(2**31), 2**31 - 1, 0, 1, 7, 104_857_601, 99_999_999)))
        unknown = frames.request(chance.choice((-1, 99, 1000, 32767)), 0, 1)
        version = frames.request(chance.choice((0, 1, 3, 10, 11)), chance.choice((-1, 99, 32767)), 1, bytes(20))
        metadata = frames.metadata(1)
        return self._each(
            chance,
            [
                size + chance.randbytes(chance.randrange(2000)),
                unknown,
                version,
                frames.request(18, 99, 1),
                metadata[: chance.randrange(1, len(metadata))],
                metadata + size + bytes(100),
                frames.api_versions(1) + unknown,
                frames.request(3, 12, 1, chance.randbytes(50)),
            ],
            read=chance.random() < 0.5,
        )

    def _flood(self, chance: Random) -> str:
        """Many questions at once, and no look at the answers, or only late."""
        questions = b"".join(frames.api_versions(number) for number in range(chance.choice((100, 5000))))
        return self._each(chance, [questions] * 3, read=chance.random() < 0.5)

    def _silence(self, chance: Random) -> str:
        return self._each(chance, [b""] * _CONNECTIONS)

    def _slow_reader(self, chance: Random) -> str:
        """Asks for everything there is, over and over, and reads next to nothing."""
        topic = chance.choice(self._topics)
        asked = b"".join(frames.fetch(number, topic, 0, 0, 8 << 20) for number in range(40))
        return self._each(chance, [asked] * 4)

    def _half_close(self, chance: Random) -> str:
        asked = b"".join(frames.metadata(number) for number in range(chance.choice((1, 50))))
        return self._each(chance, [asked, frames.api_versions(1), b""], half=True, read=True)

    def _client_reset(self, chance: Random) -> str:
        asked = frames.fetch(1, chance.choice(self._topics), 0, 0, 1 << 20) * 5
        return self._each(chance, [asked, asked[: chance.randrange(1, 40)], b""], resets=True)

    def _each(
        self, chance: Random, said: Sequence[bytes], *, read: bool = False, half: bool = False, resets: bool = False
    ) -> str:
        """A connection for each of these. They are held a while, or not."""
        proxy = chance.choice(self._proxies)
        port, seconds = chance.choice(proxy.ports), chance.choice((0.0, 0.2, _SECONDS))
        answered = 0
        with contextlib.ExitStack() as held:
            clients = [held.enter_context(_connected(port, resets or chance.random() < 0.3)) for _ in said]
            for client, words in zip(clients, said, strict=True):
                if client is not None:
                    answered += _say(client, words, read, half)
            self.last(seconds)
        connected = sum(client is not None for client in clients)
        return f"{connected} connections to {port} ({proxy.name}), {answered} answered, {seconds:g} s"


@contextlib.contextmanager
def _connected(where: str, resets: bool) -> Iterator[socket.socket | None]:
    """A connection; None if there is none to be had now."""
    try:
        client = socket.create_connection(frames.address(where), timeout=_SECONDS)
    except OSError:
        yield None
        return
    with client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
        client.settimeout(0.2)
        yield client
        if resets:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _say(client: socket.socket, words: bytes, read: bool, half: bool) -> bool:
    """Say something, perhaps that it is all, and listen a moment; whether there was an answer."""
    try:
        if words:
            client.sendall(words)
        if half:
            client.shutdown(socket.SHUT_WR)
        return read and bool(client.recv(4096))
    except OSError:  # it is slow, stands still, or has closed the connection
        return False
