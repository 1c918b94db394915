"""The blocks of a pcapng file, and IP packets with TCP in them. Pure: bytes from values.

https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html (options: §3.5), RFC 791, RFC 8200, RFC 9293.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from struct import Struct, pack, unpack

SYN, ACK, PSH = 0x02, 0x10, 0x08

_RAW_IP = 101  # LINKTYPE_RAW: a packet begins with its IPv4 or IPv6 header
_TCP = 6
_BLOCK = Struct("<II")
_LONGEST_OPTION = 60_000
# All connections take as much as comes: 65535 << 14.
_WINDOW, _SCALE = 65535, b"\x01\x03\x03\x0e"

Ip = IPv4Address | IPv6Address


def _block(kind: int, body: bytes) -> bytes:
    size = len(body) + 12
    return _BLOCK.pack(kind, size) + body + pack("<I", size)


def _option(code: int, text: str) -> bytes:
    value = text.encode()[:_LONGEST_OPTION]
    return pack("<HH", code, len(value)) + _padded(value)


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)


_END_OF_OPTIONS = pack("<HH", 0, 0)


def section_block(application: str) -> bytes:
    """Return the block that a file begins with."""
    return _block(0x0A0D0D0A, pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + _option(4, application) + _END_OF_OPTIONS)


def interface_block(name: str) -> bytes:
    """Return the block of one more interface; they are numbered from 0. Times are in microseconds."""
    return _block(1, pack("<HHI", _RAW_IP, 0, 0) + _option(2, name) + _END_OF_OPTIONS)


def packet_block(interface: int, time: float, data: bytes, comment: str = "") -> bytes:
    """Return the block of a packet. `time`: seconds since 1970."""
    at = int(time * 1_000_000) & 0xFFFFFFFFFFFFFFFF
    head = pack("<IIIII", interface, at >> 32, at & 0xFFFFFFFF, len(data), len(data))
    options = _option(1, comment) + _END_OF_OPTIONS if comment else b""
    return _block(6, head + _padded(data) + options)


@dataclass(frozen=True, slots=True)
class TcpEndpoint:
    """One end of a TCP connection."""

    ip: Ip
    port: int


def tcp_packet(
    source: TcpEndpoint, target: TcpEndpoint, sequence: int, acknowledged: int, flags: int, payload: bytes = b""
) -> bytes:
    """Return an IP packet with a TCP segment, including checksums. The payload has at most 65,000 bytes."""
    options = _SCALE if flags & SYN else b""
    words = (20 + len(options)) // 4 << 12 | flags
    ports = source.port, target.port
    head = pack(">HHIIHHHH", *ports, sequence, acknowledged, words, _WINDOW, 0, 0) + options
    size = len(head) + len(payload)
    addresses = source.ip.packed + target.ip.packed
    pseudo = addresses + (pack(">BBH", 0, _TCP, size) if source.ip.version == 4 else pack(">II", size, _TCP))
    checksum = _checksum(pseudo + head + payload)
    segment = head[:16] + pack(">H", checksum) + head[18:] + payload
    if source.ip.version == 6:
        return pack(">IHBB", 6 << 28, size, _TCP, 64) + addresses + segment
    ip = pack(">BBHHHBBH", 0x45, 0, 20 + size, 0, 0x4000, 64, _TCP, 0) + addresses
    return ip[:10] + pack(">H", _checksum(ip)) + ip[12:] + segment


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    data += bytes(len(data) % 2)
    total: int = sum(unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
