"""A broker that answers kproxy's questions without a connection."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from kproxy.ask.asking import Ask

Answers = Mapping[int, "bytes | Exception | Callable[[bytes], bytes]"]
"""By API key: a body, what is raised instead, or what makes the body of the request's."""


class Broker:
    """`ask` is an `Ask`; `asked` are the API keys that it was asked for, in order."""

    def __init__(self, answers: Answers) -> None:
        self.answers = dict(answers)
        self.asked: list[int] = []

    @property
    def ask(self) -> Ask:
        async def ask(request: bytes, seconds: float) -> bytes:
            key, _, correlation_id, length = struct.unpack_from(">hhih", request, 4)
            self.asked.append(key)
            answer = self.answers[key]
            if isinstance(answer, Exception):
                raise answer
            body = answer if isinstance(answer, bytes) else answer(request[14 + length :])
            return struct.pack(">i", correlation_id) + body

        return ask
