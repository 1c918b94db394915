"""The capture file of `kproxy tap --pcap`: connections that carry the frames which another kproxy sends.

The file looks like a capture at the client: the client's address and port, the local address of the node, and the
frames as the client sees them. What was left out of a frame is in no packet; the size field of each frame gives its
present size, and a comment the original one. The handshakes and sequence numbers of the connections are made up.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import stat
import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, TextIO

from kproxy.base.address import Address
from kproxy.base.errors import AdminError, ConfigError
from kproxy.base.printable import one_line
from kproxy.proxy.app import pcapng
from kproxy.proxy.app.pcapng import ACK, PSH, SYN, Ip, TcpEndpoint
from kproxy.proxy.watch.feed import parse_line

LONGEST_LINE = 4 * 1024 * 1024
"""The most bytes of a line with a frame: base64 of the longest copy that a kproxy makes."""

_SEGMENT = 32 * 1024
# The most connections and interfaces: the sender of the lines is not trusted.
_MOST_CONNECTIONS, _MOST_INTERFACES = 20_000, 1_000
_SAY_EVERY = 5.0
_NOWHERE: Ip = ipaddress.IPv4Address("0.0.0.0")


@dataclass(slots=True)
class _TcpConnection:
    interface: int
    client: TcpEndpoint
    local: TcpEndpoint
    sent: int  # the client's next sequence number
    received: int  # kproxy's


class PcapWriter:
    """The blocks of pcapng for a sequence of lines. `frames` and `lost` count them; `ports` are the local ones."""

    def __init__(self) -> None:
        self._interfaces: dict[str, int] = {}
        self._connections: OrderedDict[str, _TcpConnection] = OrderedDict()
        self._begun = 0
        self._missing = 0  # frames, since the last one
        self.frames = 0
        self.lost = 0
        self.ports: set[int] = set()

    @staticmethod
    def header() -> bytes:
        """Return the beginning of the file."""
        return pcapng.section_block("kproxy tap")

    def add(self, value: Mapping[str, Any]) -> bytes:
        """Return the blocks for one line. Raises ValueError."""
        if "lost" in value:
            self._missing += int(value["lost"])
            self.lost += int(value["lost"])
            return b""
        if "frame" not in value:
            return b""
        time = float(value["time"])
        data = base64.b64decode(str(value["frame"]), validate=True)
        before, connection = self._connection(value, time)
        return before + b"".join(self._packets(connection, time, data, value["from"] == "client", self._comment(value)))

    def _connection(self, value: Mapping[str, Any], time: float) -> tuple[bytes, _TcpConnection]:
        session = str(value["session"])
        connection = self._connections.get(session)
        if connection is not None:
            self._connections.move_to_end(session)
            return b"", connection
        client, local = _endpoints(str(value["client"]), str(value["local"]))
        blocks, interface = self._interface(f"{value['cluster']}/{value['node']}")
        # A sequence number that no other connection of these ports has: a port may be used again.
        self._begun += 1
        first = self._begun * 0x9E3779B1 & 0xFFFFFFFF
        connection = self._connections[session] = _TcpConnection(interface, client, local, _after(first, 1), 1)
        if len(self._connections) > _MOST_CONNECTIONS:
            self._connections.popitem(last=False)
        self.ports.add(local.port)
        handshake = (
            pcapng.tcp_packet(client, local, first, 0, SYN),
            pcapng.tcp_packet(local, client, 0, connection.sent, SYN | ACK),
            pcapng.tcp_packet(client, local, connection.sent, 1, ACK),
        )
        return blocks + b"".join(pcapng.packet_block(interface, time, packet) for packet in handshake), connection

    def _interface(self, name: str) -> tuple[bytes, int]:
        if len(self._interfaces) >= _MOST_INTERFACES and name not in self._interfaces:
            name = "others"
        if name in self._interfaces:
            return b"", self._interfaces[name]
        number = self._interfaces[name] = len(self._interfaces)
        return pcapng.interface_block(one_line(name, 200)), number

    def _comment(self, value: Mapping[str, Any]) -> str:
        comments = []
        if self._missing:
            comments.append(f"kproxy: {self._missing} frames are missing before this one: the reader was too slow")
            self._missing = 0
        frame_text = f"{value['api']} v{value['version']} {'request' if value['from'] == 'client' else 'response'}"
        if value.get("why"):
            size = f"{frame_text} of {value['bytes']} bytes, not shown: " if value["api"] else ""
            comments.append(f"kproxy: {size}{value['why']}")
        elif value["left_out"]:
            comments.append(
                f"kproxy: {frame_text} of {value['bytes']} bytes; {value['left_out']} of them are left out here"
            )
        return one_line("; ".join(comments), 1000)

    def _packets(
        self, connection: _TcpConnection, time: float, data: bytes, from_client: bool, comment: str
    ) -> Iterable[bytes]:
        self.frames += bool(data)
        for at in range(0, max(1, len(data)), _SEGMENT):
            part = data[at : at + _SEGMENT]
            flags = ACK | PSH if part else ACK
            if from_client:
                packet = pcapng.tcp_packet(
                    connection.client, connection.local, connection.sent, connection.received, flags=flags, payload=part
                )
                connection.sent = _after(connection.sent, len(part))
            else:
                packet = pcapng.tcp_packet(
                    connection.local, connection.client, connection.received, connection.sent, flags=flags, payload=part
                )
                connection.received = _after(connection.received, len(part))
            yield pcapng.packet_block(connection.interface, time, packet, comment)
            comment = ""


def _after(number: int, size: int) -> int:
    return (number + size) & 0xFFFFFFFF


def _endpoints(client: str, local: str) -> tuple[TcpEndpoint, TcpEndpoint]:
    """Return both ends, of the same version of IP."""
    ends = []
    for text in (client, local):
        try:
            address = Address.parse(text)
            ip: Ip = ipaddress.ip_address(address.host.partition("%")[0])
            port = address.port
        except ValueError:  # the client had disconnected before kproxy asked
            ip, port = _NOWHERE, 0
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        ends.append(TcpEndpoint(ip, port))
    if ends[0].ip.version != ends[1].ip.version:
        ends = [TcpEndpoint(_NOWHERE, end.port) for end in ends]
    return ends[0], ends[1]


def write_capture(lines: Iterable[bytes], file: Path, messages: TextIO) -> None:
    """Write the capture into the file until the lines end; "-" is the standard output.

    `messages` receives how many frames were lost, and how to open the file. Raises AdminError, ConfigError.
    """
    check_file(file)
    capture = PcapWriter()
    out: BinaryIO | None = None
    reported, reported_at = 0, monotonic()
    try:
        for line in lines:
            try:
                blocks = capture.add(parse_line(line))
            except (KeyError, TypeError, ValueError, OverflowError):
                raise AdminError("the server at --admin is not a kproxy that captures frames") from None
            if out is None:
                out = _open(file)
                _write(out, capture.header())
            _write(out, blocks)
            if capture.lost > reported and monotonic() - reported_at > _SAY_EVERY:
                messages.write(f"kproxy: {capture.lost - reported} frames are missing: this reader is too slow\n")
                reported, reported_at = capture.lost, monotonic()
    except BrokenPipeError:
        pass  # the reader has seen enough
    except OSError as error:
        raise ConfigError(f"--pcap: {file} cannot be written: {error.strerror}") from None
    finally:
        if out is not None:
            messages.write(_summary(capture, file))
            messages.flush()
            out.close()


def _summary(capture: PcapWriter, file: Path) -> str:
    lost = f"; {capture.lost} more were lost, because this reader was too slow" if capture.lost else ""
    text = f"kproxy: {capture.frames} frames{lost}"
    if capture.ports and str(file) != "-":
        first, last = min(capture.ports), max(capture.ports)
        ports = str(first) if first == last else f"{first}-{last}"
        text += f". To open them: wireshark -d tcp.port=={ports},kafka {one_line(str(file), 500)}"
    return text + "\n"


def check_file(file: Path) -> None:
    """Raise ConfigError if a capture cannot be written there."""
    if str(file) == "-":
        if sys.stdout.isatty():
            raise ConfigError("--pcap -: a capture is not for a terminal: pipe it, as into 'wireshark -k -i -'")
    elif file.exists() and not _is_stream(file):
        raise ConfigError(f"--pcap: {file} exists: give the name of a new file, or remove it")


def _is_stream(file: Path) -> bool:
    mode = file.stat().st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _open(file: Path) -> BinaryIO:
    if str(file) == "-":
        return open(sys.stdout.fileno(), "wb", buffering=0, closefd=False)
    new = 0 if file.exists() and _is_stream(file) else os.O_CREAT | os.O_EXCL
    return open(os.open(file, os.O_WRONLY | os.O_CLOEXEC | new, 0o600), "wb", buffering=0)


def _write(out: BinaryIO, blocks: bytes) -> None:
    """Write all blocks at once, so that an interruption leaves whole blocks."""
    remaining = memoryview(blocks)
    while remaining:
        remaining = remaining[out.write(remaining) :]
