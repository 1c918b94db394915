"""kproxy's own questions to a cluster, as an ordinary client that has no credentials.

Metadata tells which nodes there are. DescribeConfigs for a node that does not exist tells which node one is
talking to: the broker refuses, and its refusal names its own id. So kproxy finds out by itself which of several
bootstrap addresses (port-forwards, load balancers) leads to which node.
"""

from __future__ import annotations

import asyncio
import re
import socket
from dataclasses import dataclass
from struct import pack

from kproxy.errors import UpstreamError, WireError
from kproxy.relay.wrongpeer import wrong_upstream
from kproxy.rewrite.endpoints import Endpoint
from kproxy.rewrite.plan import plan_for
from kproxy.rewrite.walk import Walk
from kproxy.wire import api
from kproxy.wire.greeting import recognise
from kproxy.wire.primitives import INT32, Underflow, read_string

CLIENT_ID = b"kproxy"
# Answers to these questions are small; a cluster of 10,000 brokers takes 1 MB.
_LIMIT = 16 * 1024 * 1024
# A node id that no cluster uses.
_NOBODY = str(2**31 - 1).encode()
_BROKER_RESOURCE = 4  # ConfigResource.Type.BROKER
# "Unexpected broker id, expected 1 or empty string, but received 2147483647"; Kafka before 2.2 had no "or empty".
_IDENTITY = re.compile(rb"expected (\d+)")


@dataclass(frozen=True, slots=True)
class Answer:
    """What an upstream address told. `nodes` is None if it did not say without credentials, `node_id` likewise."""

    nodes: tuple[Endpoint, ...] | None
    node_id: int | None = None


async def ask_who_is_there(sock: socket.socket) -> Answer:
    """Ask for the nodes of the cluster. Raises UpstreamError or WireError if no Kafka broker answers.

    ApiVersions is answered before authentication, Metadata is not: the broker closes the connection.
    """
    await _ask(sock, api.API_VERSIONS, 0, b"")
    try:
        body = await _ask(sock, api.METADATA, 1, INT32.pack(0))  # no topics
    except UpstreamError:
        return Answer(None)
    plan = plan_for(api.METADATA, 1)
    assert plan is not None
    walk = Walk(plan)
    walk.advance(body, 0, len(body))
    if not walk.done:
        raise WireError("malformed", "the broker's Metadata response ends too early")
    return Answer(tuple(endpoint for endpoint, _, _ in walk.found))


async def ask_who_are_you(sock: socket.socket) -> int | None:
    """The node id of the broker at the other end, None if it does not tell."""
    # v1: resources[type, name, keys (null: all)], include_synonyms
    resource = pack(">bh", _BROKER_RESOURCE, len(_NOBODY)) + _NOBODY + INT32.pack(0)
    try:
        body = await _ask(sock, api.DESCRIBE_CONFIGS, 1, INT32.pack(1) + resource + b"\0")
        # v1: throttle time, results[error code, error message, ...]
        message, _ = read_string(body, 4 + 4 + 2, len(body), compact=False, nullable=True)
    except (UpstreamError, WireError, Underflow):
        return None
    match = _IDENTITY.search(message or b"")
    return int(match[1]) if match else None


async def _ask(sock: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """Send one request with header version 1; return the response's body."""
    loop = asyncio.get_running_loop()
    header = pack(">hhih", key, version, key, len(CLIENT_ID)) + CLIENT_ID
    try:
        await loop.sock_sendall(sock, INT32.pack(len(header) + len(body)) + header + body)
        head = await _exactly(loop, sock, 8)
        greeting = recognise(head)
        if greeting is not None:
            raise wrong_upstream(greeting)
        size, correlation_id = INT32.unpack_from(head)[0], INT32.unpack_from(head, 4)[0]
        if not 4 <= size <= _LIMIT or correlation_id != key:
            raise WireError("malformed", "what answers there is not a Kafka broker")
        return await _exactly(loop, sock, size - 4)
    except OSError as error:
        raise UpstreamError("other", error.strerror or str(error)) from None


async def _exactly(loop: asyncio.AbstractEventLoop, sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = await loop.sock_recv(sock, min(count - len(data), 256 * 1024))
        if not more:
            greeting = recognise(bytes(data))
            if greeting is not None:
                raise wrong_upstream(greeting)
            raise UpstreamError("closed", "the connection was closed without an answer")
        data += more
    return bytes(data)
