"""kproxy's own questions to a cluster, as an ordinary client that has no credentials.

Metadata tells which brokers there are; of controllers, which have no Metadata, DescribeCluster tells (KIP-919).
DescribeConfigs for a node that does not exist tells which node one is
talking to: the broker refuses, and its refusal names its own id. So kproxy finds out by itself which of several
bootstrap addresses (port-forwards, load balancers) leads to which node.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from struct import pack

from kproxy.dial import tlserrors
from kproxy.dial.stream import Stream
from kproxy.errors import UpstreamError, WireError
from kproxy.relay.answer import read_frame
from kproxy.rewrite.endpoints import Endpoint
from kproxy.rewrite.plan import plan_for
from kproxy.rewrite.walk import Walk
from kproxy.wire import api
from kproxy.wire.primitives import INT16, INT32, Underflow, read_string
from kproxy.wire.request import request

# Answers to these questions are small; a cluster of 10,000 brokers takes 1 MB.
_LIMIT = 16 * 1024 * 1024
# A node id that no cluster uses.
_NOBODY = str(2**31 - 1).encode()
_BROKER_RESOURCE = 4  # ConfigResource.Type.BROKER
_CONTROLLERS = 2  # DescribeCluster's EndpointType
# What is known of an upstream address that hangs up on the first request.
NO_ANSWER = (
    "closed the connection without answering: its listener may expect TLS (SSL, SASL_SSL): use --tls; or a client"
    " certificate: --tls-cert; or it is no Kafka broker"
)
# "Unexpected broker id, expected 1 or empty string, but received 2147483647"; Kafka before 2.2 had no "or empty".
_IDENTITY = re.compile(rb"expected (\d+)")


@dataclass(frozen=True, slots=True)
class Answer:
    """What an upstream address told. `nodes` is None if it did not say without credentials, `node_id` likewise."""

    nodes: tuple[Endpoint, ...] | None
    node_id: int | None = None


async def ask_who_is_there(stream: Stream) -> Answer:
    """Ask for the nodes of the cluster. Raises UpstreamError or WireError if no Kafka broker answers.

    ApiVersions is answered before authentication, the rest is not: the broker closes the connection.
    """
    versions = await _ask(stream, api.API_VERSIONS, 0, b"")
    try:
        if _serves(versions, api.METADATA) or not _serves(versions, api.DESCRIBE_CLUSTER):
            return Answer(await _ask_nodes(stream, api.METADATA, 1, INT32.pack(0)))  # no topics
        # v1: include_cluster_authorized_operations, endpoint_type, tags
        return Answer(await _ask_nodes(stream, api.DESCRIBE_CLUSTER, 1, pack(">?bB", False, _CONTROLLERS, 0)))
    except UpstreamError:
        return Answer(None)


def _serves(versions: bytes, key: int) -> bool:
    """Whether an ApiVersions response, version 0, names the API."""
    # error code, ranges[API key, lowest, highest]
    return any(INT16.unpack_from(versions, at)[0] == key for at in range(6, len(versions) - 5, 6))


async def _ask_nodes(stream: Stream, key: int, version: int, question: bytes) -> tuple[Endpoint, ...]:
    body = await _ask(stream, key, version, question)
    plan = plan_for(key, version)
    assert plan is not None
    walk = Walk(plan)
    walk.advance(body, 0, len(body))
    if not walk.done:
        raise WireError("malformed", f"the broker's {plan.api} response ends too early")
    return tuple(endpoint for endpoint, _, _ in walk.found)


async def ask_who_are_you(stream: Stream) -> int | None:
    """The node id of the broker at the other end, None if it does not tell."""
    # v1: resources[type, name, keys (null: all)], include_synonyms
    resource = pack(">bh", _BROKER_RESOURCE, len(_NOBODY)) + _NOBODY + INT32.pack(0)
    try:
        body = await _ask(stream, api.DESCRIBE_CONFIGS, 1, INT32.pack(1) + resource + b"\0")
        # v1: throttle time, results[error code, error message, ...]
        message, _ = read_string(body, 4 + 4 + 2, len(body), compact=False, nullable=True)
    except (UpstreamError, WireError, Underflow):
        return None
    match = _IDENTITY.search(message or b"")
    return int(match[1]) if match else None


async def _ask(stream: Stream, key: int, version: int, body: bytes) -> bytes:
    """Send one request; return what follows the correlation id in its response."""
    try:
        await stream.send(request(key, version, key, body))
        frame = await read_frame(stream, _LIMIT)
    except (ConnectionError, EOFError):
        raise UpstreamError("closed", NO_ANSWER) from None
    except ssl.SSLError as error:  # a broker checks the client's certificate after the handshake (RFC 8446 §4.4.2.4)
        raise UpstreamError(*tlserrors.of_broker(error)) from None
    except OSError as error:
        raise UpstreamError("other", error.strerror or str(error)) from None
    if len(frame) < 4 or INT32.unpack_from(frame)[0] != key:
        raise WireError("malformed", "what answers there is not a Kafka broker")
    return frame[4:]
