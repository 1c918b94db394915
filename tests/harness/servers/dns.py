"""A DNS server that knows a few names, and answers NXDOMAIN for every other name (RFC 1035).

    python -m tests.harness.servers.dns 127.0.0.53:53 kafka0=172.18.0.10 …

It prints `answering` when it listens. It knows IPv4 addresses only; for other types of a name it returns an empty
answer.
"""

from __future__ import annotations

import socket
import struct
import sys

from kproxy.base.address import Address

_ADDRESS, _INTERNET = 1, 1  # QTYPE A, QCLASS IN
_FORMAT_ERROR, _NO_SUCH_NAME = 1, 3
_TTL = 1


def answer(query: bytes, names: dict[str, str]) -> bytes:
    """Return the answer to a query; b"" to bytes that are no query."""
    if len(query) < 12 or query[2] & 0x80:
        return b""
    number, flags = struct.unpack_from(">HH", query)
    try:
        name, end = _name(query, 12)
        kind, family = struct.unpack_from(">HH", query, end)
    except (IndexError, struct.error):
        return struct.pack(">HHHHHH", number, 0x8000 | _FORMAT_ERROR, 0, 0, 0, 0)
    known = names.get(name.lower())
    found = known if (kind, family) == (_ADDRESS, _INTERNET) else None
    # An answer, with recursion as the query wants it, and available.
    status = 0x8080 | (flags & 0x0100) | (0 if known is not None else _NO_SUCH_NAME)
    head = struct.pack(">HHHHHH", number, status, 1, int(found is not None), 0, 0)
    record = b""
    if found is not None:  # 0xC00C: the name is the question's
        record = struct.pack(">HHHIH", 0xC00C, _ADDRESS, _INTERNET, _TTL, 4) + socket.inet_aton(found)
    return head + query[12 : end + 4] + record


def _name(query: bytes, at: int) -> tuple[str, int]:
    """Return the name at this position, and the position after it. A question has no pointers."""
    labels = []
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii", "replace"))
        at += 1 + length
    return ".".join(labels), at + 1


def main(listen: str, *names: str) -> None:
    """Answer until the process is ended."""
    address = Address.parse(listen)
    known = {name.lower(): ip for name, _, ip in (one.partition("=") for one in names)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address.host, address.port))
        print("answering", flush=True)  # noqa: T201  # whoever started it waits for this
        while True:
            query, sender = sock.recvfrom(4096)
            if said := answer(query, known):
                sock.sendto(said, sender)


if __name__ == "__main__":
    main(*sys.argv[1:])
