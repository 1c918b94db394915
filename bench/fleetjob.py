"""Simulated kproxies, as a process: their pages /switch on a port each, with the real state machine.

python -m bench.fleetjob COUNT PORT     uses ports from PORT on; prints PORT when all listen; a signal ends it
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from functools import partial

from bench.machine import raise_file_limit
from kproxy import __version__
from kproxy.proxy.admin.requests import MARK
from kproxy.proxy.switching import asjson
from kproxy.proxy.switching.participant import ParticipantState, SwitchConditions, apply, settle

UPSTREAMS = {"blue": "id-of-blue", "green": "id-of-green"}
_FACTS = SwitchConditions(dict.fromkeys(UPSTREAMS, ""))
_MOST = 64 * 1024


class Simulated:
    """One kproxy without clients: its holds are settled at once."""

    def __init__(self) -> None:
        self.state = ParticipantState("blue")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            size = int(head.partition("content-length:")[2].partition("\r\n")[0] or 0)
            status, document = self._answer(await reader.readexactly(min(size, _MOST)))
            body = json.dumps(document).encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{MARK}: 1\r\n"
                "Connection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the driver has hung up
        finally:
            writer.close()

    def _answer(self, body: bytes) -> tuple[str, object]:
        if not body:
            itself = {"version": __version__, "time": time.time(), "state_dir": True}
            return "200 OK", {"kproxy": itself, "clusters": [self._shown()]}
        step = apply(self.state, asjson.parse_command(json.loads(body))[1], _FACTS, time.time())
        self.state = settle(step.state, _FACTS).state
        return "409 Conflict" if step.problem else "200 OK", {"problem": step.problem, "cluster": self._shown()}

    def _shown(self) -> dict[str, object]:
        upstreams = {name: {"cluster_id": cluster_id, "problem": ""} for name, cluster_id in UPSTREAMS.items()}
        return {
            "name": "default",
            **asjson.state_as_json(self.state),
            "unanswered": 0,
            "held": 0,
            "upstreams": upstreams,
            "doubts": [],
            "clients": [],
        }


async def _serve(count: int, first: int) -> None:
    servers = []
    for number in range(count):
        listener = socket.create_server(("127.0.0.1", first + number), backlog=64)
        servers.append(await asyncio.start_server(partial(Simulated.serve, Simulated()), sock=listener))
    sys.stdout.write(f"{first}\n")
    sys.stdout.flush()
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    raise_file_limit()
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
