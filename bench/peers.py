"""The relays to compare: none, HAProxy, kproxy, and any other relay that a command starts."""

from __future__ import annotations

import contextlib
import http.client
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.machine import BenchError, Cores, descendants, start, stop

# In the private namespace every port is free.
_FIRST_PORT = 11000
_READY_TIMEOUT_S = 30.0
_POLL_S = 0.002

DIRECT, HAPROXY, HAPROXY_DEFAULT = "direct", "haproxy", "haproxy-default"
KPROXY, PORTABLE = "kproxy", "kproxy-portable"

# kproxy as on a platform without epoll: over one of Python's own selectors.
_PORTABLE = """\
from kproxy.cli import main
from kproxy.proxy.relay import selector
selector.best_poller = selector.PortablePoller
main()
"""

# HAProxy's documentation and its users tune this for bulk transfers: large buffers. It logs and counts nothing.
TUNED = """
    tune.bufsize 262144
    tune.maxrewrite 1024"""
HAPROXY_FLAGS = ("-db", "-q", "-f")  # in the foreground, without warnings
_HAPROXY = """\
global
    nbthread 1
    maxconn {connections}{tuning}
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
"""
_HAPROXY_LISTEN = """\
listen kafka-{number}
    bind {listen}
    server broker {upstream} maxconn {connections} {server}
"""


def haproxy_configuration(pairs: Sequence[tuple[str, str]], tuning: str, connections: int, server: str = "") -> str:
    """Return HAProxy's configuration for pairs of its listening address and the broker's address, HOST:PORT.

    `server` has further options for the broker.
    """
    parts = [_HAPROXY.format(tuning=tuning, connections=connections)]
    for number, (listen, upstream) in enumerate(pairs):
        places = {"number": number, "listen": listen, "upstream": upstream}
        parts.append(_HAPROXY_LISTEN.format(**places, connections=connections, server=server))
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Peer:
    """A relay to measure. `command` has {listen} and {upstream}; None for a direct connection."""

    name: str
    command: tuple[str, ...] | None = None
    tuning: str | None = None  # lines of HAProxy's configuration
    admin: bool = False  # has kproxy's admin endpoint
    server: str = ""  # what else HAProxy should know of the broker
    variant: bool = False  # of another peer: measured with the key loads only

    @classmethod
    def parse(cls, text: str) -> Peer:
        """Parse NAME=COMMAND. Raises BenchError."""
        name, _, command = text.partition("=")
        if not name or "{upstream}" not in command or "{listen}" not in command:
            raise BenchError(f"--peer {text!r}: write NAME='COMMAND with {{upstream}} and {{listen}}'")
        return cls(name, tuple(shlex.split(command)))


def standard_peers() -> list[Peer]:
    """Return the peers that need no configuration and can be measured here."""
    run = ("run", "--bootstrap-servers", "{upstream}", "--listen", "{listen}", "--admin", "{admin}")
    kproxy = (sys.executable, "-m", "kproxy", *run)
    peers = [
        Peer(DIRECT),
        Peer(KPROXY, kproxy, admin=True),
        Peer(PORTABLE, (sys.executable, "-c", _PORTABLE, *run), admin=True, variant=True),
    ]
    haproxy = find_haproxy()
    if haproxy is not None:
        command = (haproxy, *HAPROXY_FLAGS, "{configuration}")
        peers[1:1] = [Peer(HAPROXY, command, TUNED), Peer(HAPROXY_DEFAULT, command, "", variant=True)]
    return peers


def find_haproxy() -> str | None:
    """Return the path of HAProxy; Debian installs it where only root's PATH leads."""
    return shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/bin")


class Relay:
    """A running peer. `port` is where clients connect; `pids` are its processes, none for direct."""

    def __init__(self, peer: Peer, port: int, process: subprocess.Popen[bytes] | None, ready_after: float) -> None:
        self.peer = peer
        self.name = peer.name
        self.port = port
        self.ready_after = ready_after  # seconds from exec
        self._process = process

    @property
    def pids(self) -> list[int]:
        return [] if self._process is None else descendants(self._process.pid)

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            stop(self._process)


def launch(peer: Peer, at: int, upstream: int, cores: Cores, directory: Path, connections: int) -> Relay:
    """Start a peer before 127.0.0.1:`upstream` and wait until it serves. `at` distinguishes peers."""
    if peer.command is None:
        return Relay(peer, upstream, None, 0.0)
    port = _FIRST_PORT + 400 * at  # kproxy's node ports are the 200 after it
    places = {
        "listen": f"127.0.0.1:{port}",
        "upstream": f"127.0.0.1:{upstream}",
        "admin": f"127.0.0.1:{port - 1}",
        "configuration": str(directory / f"{peer.name}.cfg"),
    }
    if peer.tuning is not None:
        text = haproxy_configuration([(places["listen"], places["upstream"])], peer.tuning, connections, peer.server)
        Path(places["configuration"]).write_text(text)
    log = directory / f"{peer.name}.log"
    with log.open("wb") as output:
        began = time.perf_counter()
        command = [part.format(**places) for part in peer.command]
        process = start(command, [cores.proxy], stdout=output, stderr=output)
    try:
        wait_ready(process, port, port - 1 if peer.admin else None)
    except BenchError as error:
        stop(process)
        raise BenchError(f"{peer.name}: {error}: {log.read_text(errors='replace')[-2000:]}") from None
    except BaseException:
        stop(process)
        raise
    return Relay(peer, port, process, time.perf_counter() - began)


def wait_ready(process: subprocess.Popen[bytes], port: int, admin: int | None) -> None:
    """Wait until it accepts connections, or its admin endpoint reports that it is ready. Raises BenchError."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while not (_is_ready(admin) if admin else _accepts(port)):
        if process.poll() is not None:
            raise BenchError(f"ended with code {process.returncode}")
        if time.monotonic() > deadline:
            raise BenchError(f"is not ready after {_READY_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
