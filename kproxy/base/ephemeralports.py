"""Local ports that the system has given to outgoing connections.

kproxy cannot listen on such a port until the connection ends. Only Linux shows which connection has a port, in
proc(5)'s /proc/net/tcp. Elsewhere, and where that file is hidden, the connection is unknown.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from kproxy.base.address import Address

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
# A machine may have a million connections, and the event loop waits for this.
_MOST_LINES = 20_000
_LISTENS = "0A"


def find_connection(port: int, tables: Sequence[Path] = _TABLES) -> Address | None:
    """Return the remote address of the connection that has this local port.

    Return None if a program listens on the port, or if the system does not show its connections.
    """
    remote_address = None
    for table in tables:
        try:
            with table.open() as lines:
                for line in islice(lines, 1, _MOST_LINES):
                    _, local, remote, state, *_ = line.split()
                    if int(local.rpartition(":")[2], 16) != port:
                        continue
                    if state == _LISTENS:
                        return None
                    remote_address = _address(remote)
        except (OSError, ValueError):
            continue
    return remote_address


def _address(text: str) -> Address:
    """Parse an address of /proc/net/tcp: 32-bit hexadecimal words in the machine's byte order, and the port."""
    host, _, port = text.partition(":")
    order = -1 if sys.byteorder == "little" else 1
    words = (bytes.fromhex(host[at : at + 8])[::order] for at in range(0, len(host), 8))
    ip = ipaddress.ip_address(b"".join(words))
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return Address(str(mapped or ip), int(port, 16))
