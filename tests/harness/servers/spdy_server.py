"""A node's part of SPDY/3.1 for port-forwards, written after the draft, not after kproxy's code."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable

from kproxy.net.dial.spdy import DICTIONARY  # a test compares its checksum with the draft's

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 1

Send = Callable[[bytes], Awaitable[None]]
Receive = Callable[[], Awaitable[bytes]]


def control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body


def data(stream: int, payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", stream, flags << 24 | len(payload)) + payload


def reset(stream: int, status: int = 5) -> bytes:
    return control(RST_STREAM, struct.pack(">II", stream, status))


class Node:
    """Serves one connection. `passes_ends`: the pod learns that the client's direction has ended."""

    def __init__(self, send: Send, receive: Receive, target: int, *, passes_ends: bool = True) -> None:
        self._send = send
        self._receive = receive
        self._target = target
        self._passes_ends = passes_ends
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._buffer = b""
        self.pings: list[int] = []

    async def frame(self) -> tuple[bytes, bytes] | None:
        """Return a frame's head and body; None at the end."""
        while len(self._buffer) < 8 or len(self._buffer) < 8 + int.from_bytes(self._buffer[5:8]):
            if not (more := await self._receive()):
                return None
            self._buffer += more
        size = 8 + int.from_bytes(self._buffer[5:8])
        frame, self._buffer = self._buffer[:size], self._buffer[size:]
        return frame[:8], frame[8:]

    def headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block)
        words, at = [], 4
        while at < len(plain):
            size = int.from_bytes(plain[at : at + 4])
            words.append(plain[at + 4 : at + 4 + size].decode())
            at += 4 + size
        assert int.from_bytes(plain[:4]) * 2 == len(words)
        return dict(zip(words[::2], words[1::2], strict=True))

    def reply(self, stream: int) -> bytes:
        block = self._deflate.compress(bytes(4)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(SYN_REPLY, stream.to_bytes(4) + block)

    async def accept(self) -> dict[str, int]:
        """Reply to both streams; return their ids."""
        streams: dict[str, int] = {}
        while len(streams) < 2:
            frame = await self.frame()
            assert frame is not None
            head, body = frame
            assert head[:4] == struct.pack(">HH", 0x8003, SYN_STREAM)
            headers = self.headers(body[10:])
            assert headers.keys() == {"streamtype", "port", "requestid"}
            assert headers["port"].isdigit()
            streams[headers["streamtype"]] = int.from_bytes(body[:4])
            await self._send(self.reply(int.from_bytes(body[:4])))
        return streams

    async def serve(self) -> None:
        streams = await self.accept()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            # In the order of kwok, whose end of the data comes first.
            text = b"error forwarding port: dial tcp4 127.0.0.1: connect: connection refused"
            await self._send(data(streams["data"], b"", FIN))
            await self._send(data(streams["error"], text))
            await self._send(reset(streams["data"]) + reset(streams["error"]))
            return
        try:
            async with asyncio.TaskGroup() as both:
                down = both.create_task(self._down(reader, streams["data"]))
                if await self._up(writer, streams["data"]):
                    await down
                    await self._send(data(streams["error"], b"", FIN))
                else:
                    down.cancel()
        finally:
            writer.transport.abort()

    async def _up(self, writer: asyncio.StreamWriter, stream: int) -> bool:
        """Forward the client's data; return whether only this direction has ended."""
        while (frame := await self.frame()) is not None:
            head, body = frame
            if head[:4] == struct.pack(">HH", 0x8003, PING):
                self.pings.append(int.from_bytes(body))
            if int.from_bytes(head[:4]) == stream:
                writer.write(body)
                await writer.drain()
                if head[4] & FIN and self._passes_ends:
                    writer.write_eof()
                    return True
        return False

    async def _down(self, reader: asyncio.StreamReader, stream: int) -> None:
        while some := await reader.read(32 * 1024):
            await self._send(data(stream, some))
        await self._send(data(stream, b"", FIN))


class MultiplexingNode(Node):
    """Serves all forwards of one connection, as kubectl has them: each is two streams with the same request id."""

    async def serve(self) -> None:
        pairs: dict[str, dict[str, int]] = {}
        writers: dict[int, asyncio.StreamWriter] = {}
        async with asyncio.TaskGroup() as tasks:
            down: list[asyncio.Task[None]] = []
            while (frame := await self.frame()) is not None:
                head, body = frame
                if head[:4] == struct.pack(">HH", 0x8003, SYN_STREAM):
                    stream, headers = int.from_bytes(body[:4]), self.headers(body[10:])
                    await self._send(self.reply(stream))
                    pair = pairs.setdefault(headers["requestid"], {})
                    pair[headers["streamtype"]] = stream
                    if len(pair) == 2:
                        reader, writers[pair["data"]] = await asyncio.open_connection("127.0.0.1", self._target)
                        down.append(tasks.create_task(self._down(reader, pair["data"])))
                elif head[:4] == struct.pack(">HH", 0x8003, PING):
                    await self._send(control(PING, body))
                elif (writer := writers.get(int.from_bytes(head[:4]))) is not None:
                    writer.write(body)
                    await writer.drain()
                    if head[4] & FIN:
                        writer.close()
            for task in down:
                task.cancel()
        for writer in writers.values():
            writer.transport.abort()
