"""`kproxy`, watched: every byte to a client is searched for forbidden text.

    python -m tests.harness.programs.watched FINDINGS FORBIDDEN[,FORBIDDEN…] -- run -b …

The search is at the socket's own `send`, below all code of kproxy, and over chunk boundaries. A match is written to the
file FINDINGS, which otherwise is never created.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from kproxy.proxy.cluster.listeners import Listeners


def watch(findings: Path, forbidden: list[bytes]) -> None:
    """Search the bytes sent on connections that a listener accepted."""
    overlap = max(map(len, forbidden)) - 1
    tails: WeakKeyDictionary[socket.socket, bytes] = WeakKeyDictionary()
    plain_send = socket.socket.send
    plain_accept = Listeners._accept

    def accept(self: Listeners, *args: Any) -> None:
        original = self._on_accept

        def remember(client: socket.socket, *more: Any) -> None:
            tails[client] = b""
            original(client, *more)

        self._on_accept = remember
        try:
            plain_accept(self, *args)
        finally:
            self._on_accept = original

    def send(self: socket.socket, data: Any, *flags: int) -> int:
        sent = plain_send(self, data, *flags)
        tail = tails.get(self)
        if tail is not None:
            seen = tail + bytes(memoryview(data)[:sent])
            for text in forbidden:
                if text in seen:
                    at = seen.index(text)
                    with findings.open("ab") as file:
                        file.write(text + b" in " + repr(seen[max(0, at - 60) : at + 60]).encode() + b"\n")
            tails[self] = seen[-overlap:] if overlap else b""
        return sent

    Listeners._accept = accept  # type: ignore[method-assign]
    socket.socket.send = send  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    watch(Path(sys.argv[1]), [name.encode() for name in sys.argv[2].split(",")])
    sys.argv = ["kproxy", *sys.argv[4:]]
    from kproxy.cli import main

    main()
