"""Reading a broker's answers to what kproxy itself asks, one by one. Sessions do not go through here."""

from __future__ import annotations

from kproxy.dial.stream import Stream
from kproxy.errors import WireError
from kproxy.relay.wrongpeer import wrong_upstream
from kproxy.wire.greeting import ENOUGH, recognise
from kproxy.wire.primitives import INT32


async def read_frame(stream: Stream, limit: int) -> bytes:
    """The next frame of at most `limit` bytes, without its size.

    Raises WireError if it is not Kafka's, EOFError if the broker closes the connection, and OSError.
    """
    head, wanted = b"", 4
    while len(head) < wanted:
        head += await _some(stream, wanted - len(head))
        greeting = recognise(head, from_upstream=True)
        if greeting is not None:
            raise wrong_upstream(greeting)
        if len(head) == 4 and not 0 <= INT32.unpack(head)[0] <= limit:
            wanted = ENOUGH  # not Kafka's; a few bytes more may tell whose
    if wanted > 4:
        raise WireError("malformed", "what answers there is not a Kafka broker")
    size, data = INT32.unpack(head)[0], bytearray()
    while len(data) < size:
        data += await _some(stream, min(size - len(data), 256 * 1024))
    return bytes(data)


async def _some(stream: Stream, most: int) -> bytes:
    data = await stream.receive(most)
    if not data:
        raise EOFError
    return data
