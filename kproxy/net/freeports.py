"""Free ports on the loopback address, for programs that cannot be handed a bound socket."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection

HOST = "127.0.0.1"

# Below the range from which kernels give source ports to outgoing connections (from 32768 on Linux, 49152
# elsewhere), so that no outgoing connection takes a broker's port while the broker is down; and
# clear of kproxy's own default ports (19091 and the 201 from 19092 on).
_RANGE = range(20000, 32000)

# Two test runs may seed `random` alike; they must still not choose alike.
_choose = random.SystemRandom()


def free_ports(count: int, avoid: Collection[int] = ()) -> list[int]:
    """Return `count` different ports without a listener, none of them in `avoid`.

    Another process may still take one before it is used, so the caller must be ready to ask again.
    """
    sockets: list[socket.socket] = []
    try:
        for port in _choose.sample(_RANGE, len(_RANGE)):
            if len(sockets) == count:
                break
            if port in avoid:
                continue
            candidate = socket.socket()
            try:
                candidate.bind((HOST, port))
            except OSError:
                candidate.close()
                continue
            sockets.append(candidate)
        if len(sockets) < count:
            raise OSError(f"no free port between {_RANGE.start} and {_RANGE.stop - 1} on {HOST}")
        return [candidate.getsockname()[1] for candidate in sockets]
    finally:
        for candidate in sockets:
            candidate.close()


def is_free(host: str, port: int) -> bool:
    """Return whether this process could listen on the port now; connections of a former listener do not count."""
    try:
        socket.create_server((host, port)).close()
    except OSError:
        return False
    return True
