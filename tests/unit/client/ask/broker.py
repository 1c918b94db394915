"""A broker that answers kproxy's questions without a connection."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Mapping

from kproxy.client.ask.channel import Channel

Answers = Mapping[int, "bytes | Exception | Callable[[bytes], bytes]"]
"""By API key: a body, what is raised instead, or what makes the body of the request's."""


class Broker(Channel):
    """`asked` are the API keys that it was asked for, in order."""

    def __init__(self, answers: Answers) -> None:
        self.answers = dict(answers)
        self.asked: list[int] = []
        self._sent: deque[bytes] = deque()

    def send(self, request: bytes) -> None:
        self.asked.append(*struct.unpack_from(">h", request, 4))
        self._sent.append(request)

    async def receive(self, seconds: float | None = None) -> bytes:
        request = self._sent.popleft()
        key, _, correlation_id, length = struct.unpack_from(">hhih", request, 4)
        answer = self.answers[key]
        if isinstance(answer, Exception):
            raise answer
        body = answer if isinstance(answer, bytes) else answer(request[14 + length :])
        return struct.pack(">i", correlation_id) + body
