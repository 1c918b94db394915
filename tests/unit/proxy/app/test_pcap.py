"""The file that `kproxy tap --pcap` writes, block by block."""

from __future__ import annotations

import base64
import io
import json
import os
import stat
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.errors import AdminError, ConfigError
from kproxy.proxy.app import pcap

REQUEST = struct.pack(">i", 10) + b"0123456789"


def line(**other: object) -> dict[str, Any]:
    value = {
        "time": 1_700_000_000.25, "cluster": "default", "node": "1", "client": "127.0.0.1:40000",
        "local": "127.0.0.1:19092", "session": "1-1", "from": "client", "api": "Metadata", "version": 1, "bytes": 10,
        "left_out": 0, "frame": base64.b64encode(REQUEST).decode(),
    }  # fmt: skip
    return {**value, **other}


def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each block: its type, and what stands in it."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert size % 4 == 0
        assert struct.unpack_from("<I", data, at + size - 4) == (size,)
        yield kind, data[at + 8 : at + size - 4]
        at += size


def packets(data: bytes) -> list[bytes]:
    """What the packets have in them, from the header of IP on."""
    found = []
    for kind, body in blocks(data):
        if kind == 6:
            size, real = struct.unpack_from("<II", body, 12)
            assert size == real
            found.append(body[20 : 20 + size])
    return found


def payload(packet: bytes) -> bytes:
    tcp = packet[20:] if packet[0] >> 4 == 4 else packet[40:]
    return tcp[(tcp[12] >> 4) * 4 :]


def sums_up(data: bytes) -> bool:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    return total % 0xFFFF == 0


def test_a_connection() -> None:
    """A handshake, then frames with the numbers that they have in TCP."""
    capture = pcap.PcapWriter()
    first = packets(capture.header() + capture.add(line()))
    answer = packets(capture.add(line(**{"from": "kproxy"})))
    again = packets(capture.add(line()))
    assert [packet[33] for packet in first] == [0x02, 0x12, 0x10, 0x18]
    assert [payload(packet) for packet in (*first, *answer, *again)] == [b"", b"", b"", REQUEST, REQUEST, REQUEST]
    numbers = [struct.unpack_from(">II", packet, 24) for packet in (first[3], answer[0], again[0])]
    start = numbers[0][0]
    assert numbers == [(start, 1), (1, start + 14), (start + 14, 15)]
    for packet in (*first, *answer):
        assert sums_up(packet[:20])
        pseudo = packet[12:20] + struct.pack(">BBH", 0, 6, len(packet) - 20)
        assert sums_up(pseudo + packet[20:])
    assert (capture.frames, capture.ports) == (3, {19092})


def test_ipv6_and_a_client_that_is_gone() -> None:
    capture = pcap.PcapWriter()
    assert packets(capture.add(line(client="[fd00::1]:40000", local="[fd00::2]:19092")))[0][0] >> 4 == 6
    mapped = packets(capture.add(line(session="2", client="[::ffff:10.0.0.1]:4", local="[::ffff:10.0.0.2]:5")))[0]
    assert mapped[12:20] == bytes([10, 0, 0, 1, 10, 0, 0, 2])
    assert packets(capture.add(line(session="3", client="?")))[0][12:16] == bytes(4)


def test_a_large_frame_comes_in_segments() -> None:
    frame = struct.pack(">i", 1_000_000) + bytes(1_000_000)
    capture = pcap.PcapWriter()
    found = packets(capture.add(line(frame=base64.b64encode(frame).decode())))
    assert b"".join(payload(packet) for packet in found) == frame
    assert max(map(len, found)) < 65_536
    sequence = [struct.unpack_from(">I", packet, 24)[0] for packet in found[3:]]
    sizes = [len(payload(packet)) for packet in found[3:]]
    assert [(after - before) % (1 << 32) for before, after in pairwise(sequence)] == sizes[:-1]


def test_comments() -> None:
    capture = pcap.PcapWriter()
    assert capture.add({"lost": 3}) == b""
    one = capture.add(line(left_out=4))
    assert b"kproxy: 3 frames are missing before this one" in one
    assert b"kproxy: Metadata v1 request of 10 bytes; 4 of them are left out here" in one
    other = capture.add(line(frame="", why="it does not match its definition"))
    assert b"kproxy: Metadata v1 request of 10 bytes, not shown: it does not match its definition" in other
    assert [payload(packet) for packet in packets(other)] == [b""]
    assert capture.lost == 3


def test_nodes_are_interfaces() -> None:
    capture = pcap.PcapWriter()
    data = capture.add(line()) + capture.add(line(session="2", node="2")) + capture.add(line(session="3"))
    named = [body for kind, body in blocks(data) if kind == 1]
    assert [b"default/1" in named[0], b"default/2" in named[1], len(named)] == [True, True, 2]


def test_connections_are_bounded() -> None:
    capture = pcap.PcapWriter()
    for number in range(pcap._MOST_CONNECTIONS + 10):
        capture.add(line(session=str(number), node=str(number)))
    assert len(capture._connections) == pcap._MOST_CONNECTIONS
    assert len(capture._interfaces) == pcap._MOST_INTERFACES + 1


# The file


def written(lines: list[bytes], file: Path) -> str:
    said = io.StringIO()
    pcap.write_capture(iter(lines), file, said)
    return said.getvalue()


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "kafka.pcapng"
    lost = b'{"lost": 2}\n'
    said = written([b"\n", json.dumps(line()).encode(), lost], file)
    assert said == (
        "kproxy: 1 frames; 2 more were lost, because this reader was too slow. To open them: "
        f"wireshark -d tcp.port==19092,kafka {file}\n"
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [kind for kind, _ in blocks(file.read_bytes())] == [0x0A0D0D0A, 1, 6, 6, 6, 6]


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "kafka.pcapng"
    file.write_text("mine")
    with pytest.raises(ConfigError, match="exists: give the name of a new file"):
        written([b"\n"], file)
    assert file.read_text() == "mine"
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        written([b"\n"], tmp_path / "none" / "kafka.pcapng")


def test_a_pipe_may_be_there(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reads = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        written([json.dumps(line()).encode()], pipe)
        assert len(packets(os.read(reads, 1 << 20))) == 4
    finally:
        os.close(reads)


def test_whoever_reads_the_pipe_has_seen_enough(tmp_path: Path) -> None:
    """It ends, and no error is told."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reads = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def lines() -> Iterator[bytes]:
        yield json.dumps(line()).encode()
        os.close(reads)
        for _ in range(2):
            yield json.dumps(line()).encode()
        pytest.fail("it goes on")

    said = io.StringIO()
    pcap.write_capture(lines(), pipe, said)
    assert said.getvalue().startswith("kproxy: 2 frames.")


def test_a_disk_that_is_full() -> None:
    with pytest.raises(ConfigError, match="--pcap: /dev/full cannot be written: No space left on device"):
        written([json.dumps(line()).encode()], Path("/dev/full"))


@pytest.mark.parametrize("said", [
    b"[]", b"{", json.dumps({"frame": "x"}).encode(), json.dumps(line(frame="%%%")).encode(),
    json.dumps(line(time="soon")).encode(), json.dumps(line(time=1e400)).encode(), b'{"lost": "many"}',
])  # fmt: skip
def test_a_server_that_is_not_kproxy(said: bytes, tmp_path: Path) -> None:
    with pytest.raises(AdminError, match="is not a kproxy that captures frames"):
        written([said], tmp_path / "kafka.pcapng")
