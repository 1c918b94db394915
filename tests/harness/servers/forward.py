"""Forwards TCP connections, as a load balancer, a published container port or a port-forward does.

    python -m tests.harness.servers.forward 203.0.113.1:9092=10.0.0.11:9092 …

With several targets, separated by commas, each new connection goes to the next one. It prints `forwarding` when it
listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from itertools import cycle

from kproxy.base.address import Address


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _listen(listen: Address, targets: list[Address]) -> asyncio.Server:
    turns = cycle(targets)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = next(turns)
        try:
            far_reader, far_writer = await asyncio.open_connection(target.host, target.port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    return await asyncio.start_server(pass_on, listen.host, listen.port)


async def _main(pairs: list[str]) -> None:
    servers = []
    for pair in pairs:
        listen, _, target = pair.partition("=")
        servers.append(await _listen(Address.parse(listen), [Address.parse(one) for one in target.split(",")]))
    print("forwarding", flush=True)  # noqa: T201  # whoever started it waits for this
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
