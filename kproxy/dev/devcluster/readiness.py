"""The brokers that one broker lists as alive, from the smallest possible Metadata request.

Version 1, no topics: every broker of every version that the cluster can run answers it, and lists only brokers that the
controller counts as alive (registered and unfenced). This module decodes the few fields itself, so the cluster that
tests kproxy does not depend on kproxy's protocol code.
"""

from __future__ import annotations

import struct

from kproxy.base.address import Address
from kproxy.net.blocking import connect, receive_exactly

# length, API key 3 (Metadata), version 1, correlation id 1, client id null, 0 topics
_REQUEST = struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0)

_TIMEOUT_S = 2.0
_LARGEST = 1 << 20


def live_brokers(address: Address) -> dict[int, Address]:
    """Return the address of each live broker by node id, as the broker at `address` lists them.

    The addresses are those of the listener at `address`. Raises OSError if it cannot be reached or its response is
    invalid.
    """
    with connect(address.host, address.port, _TIMEOUT_S) as connection:
        connection.sendall(_REQUEST)
        (length,) = struct.unpack(">i", receive_exactly(connection, 4))
        if not 0 < length <= _LARGEST:
            raise OSError(f"{address} answered with a frame of {length} bytes")
        response = receive_exactly(connection, length)
    try:
        return _brokers(response)
    except (struct.error, UnicodeDecodeError) as error:
        raise OSError(f"{address} did not answer with Metadata: {error}") from None


def _brokers(response: bytes) -> dict[int, Address]:
    (count,) = struct.unpack_from(">i", response, 4)  # after the correlation id
    at = 8
    brokers: dict[int, Address] = {}
    for _ in range(count):
        node, length = struct.unpack_from(">ih", response, at)
        at += 6
        host = response[at : at + length].decode()
        at += length
        port, rack = struct.unpack_from(">ih", response, at)
        at += 6 + max(rack, 0)
        brokers[node] = Address(host, port)
    return brokers
