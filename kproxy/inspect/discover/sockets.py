"""Listening sockets of this machine: port-forwards by their program, and Kafka's usual ports. Linux only (/proc).

proc_net_tcp(5), proc_pid_fd(5). Of other users' processes, only the ports are known.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kproxy.base.printable import one_line
from kproxy.inspect.discover.results import ClusterCandidate, PlaceResult

_LISTENS = "0A"
_USUAL = (9092, 9093, 9094, 9095, 9096, 9097, 9098, 19092, 29092, 39092)
_MOST_PROCESSES = 20_000
_FORWARDS = {"kubectl": "port-forward", "oc": "port-forward", "ssh": "-L"}
# The class that begins Apache Kafka: a broker, a controller, or both.
_KAFKA = "kafka.Kafka"
# They are found in other ways, or are kproxy.
_NOT_THESE = ("docker-proxy", "rootlessport")


def search_sockets(proc: Path = Path("/proc")) -> PlaceResult:
    """Search this machine for ports on which a broker may listen."""
    inodes = _listening(proc)
    owners = _owners(proc, inodes) if inodes else {}
    forwards: dict[str, set[int]] = defaultdict(set)
    kafkas: dict[tuple[str, ...], set[int]] = defaultdict(set)
    plain: set[int] = set()
    for inode, port in inodes.items():
        words = owners.get(inode, ())
        if any(item in " ".join(words[:3]) for item in (*_NOT_THESE, "kproxy")):
            continue
        program = os.path.basename(words[0]) if words else ""
        if program in _FORWARDS and any(word.startswith(_FORWARDS[program]) for word in words):
            if _is_kafka(words, port):
                forwards[program].add(port)
        elif _KAFKA in words:
            kafkas[words].add(port)
        elif port in _USUAL:
            plain.add(port)
    return PlaceResult("this machine", tuple(_candidates(forwards, kafkas, plain)))


def _is_kafka(words: Sequence[str], port: int) -> bool:
    """Return True if a port-forward seems to lead to a broker, by its command."""
    command = " ".join(words)
    ports = {int(number) for number in re.findall(r"(?<![\d.]):?(\d{4,5})(?!\d)", command)}
    return "kafka" in command.lower() or port in _USUAL or bool(ports & set(_USUAL))


def _candidates(
    forwards: Mapping[str, set[int]], kafkas: Mapping[tuple[str, ...], set[int]], plain: set[int]
) -> Iterator[ClusterCandidate]:
    for program, ports in sorted(forwards.items(), key=lambda item: min(item[1])):
        servers = ",".join(f"localhost:{port}" for port in sorted(ports))
        note = "kproxy finds out which broker is behind each"
        yield ClusterCandidate(f"port-forwards of {program}: {servers}", ("run", "-b", servers), (note,))
    for ports in sorted(kafkas.values(), key=min):
        description = f"Apache Kafka: a process with the ports {', '.join(str(port) for port in sorted(ports))}"
        first = min(ports, key=lambda port: (port not in _USUAL, port))
        note = "kproxy has not checked which of them is for clients, or for another broker, a controller or JMX"
        yield ClusterCandidate(description, ("doctor", f"localhost:{first}"), (note,))
    for port in sorted(plain):
        note = "kproxy has not checked what listens there"
        yield ClusterCandidate(f"port {port}, which Kafka often has", ("doctor", f"localhost:{port}"), (note,))


def _listening(proc: Path) -> dict[str, int]:
    """Return the ports on which a process listens, by the socket's inode."""
    listening = {}
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENS:
                with contextlib.suppress(ValueError):
                    listening[fields[9]] = int(fields[1].rpartition(":")[2], 16)
    return listening


def _owners(proc: Path, inodes: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Return the command of the process of each socket, if it is visible."""
    owners = {}
    with contextlib.suppress(OSError):
        processes = [path for path in proc.iterdir() if path.name.isdigit()][:_MOST_PROCESSES]
        for process in processes:
            with contextlib.suppress(OSError):
                sockets = [os.readlink(path) for path in (process / "fd").iterdir()]
                own_sockets = [
                    socket_[8:-1] for socket_ in sockets if socket_.startswith("socket:[") and socket_[8:-1] in inodes
                ]
                if own_sockets:
                    raw = (process / "cmdline").read_bytes()[:65536].decode(errors="replace")
                    words = tuple(one_line(word, 500) for word in raw.split("\0") if word)
                    owners.update(dict.fromkeys(own_sockets, words))
    return owners
