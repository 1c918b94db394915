"""Hosts on this machine with separate networks and name resolution.

    with (
        Network() as network,
        network.host("broker", "10.0.0.11/24") as broker,
        network.host("gateway", "10.0.0.1/24", "203.0.113.1/24") as gateway,
        network.host("laptop", "203.0.113.50/24", names={"gateway.example": "203.0.113.1"}) as laptop,
    ):
        laptop.run("kcat", "-b", "gateway.example:9092", "-L")

Hosts with addresses in the same network are on the same wire. They reach each other over it; no host forwards packets.
A host is three Linux namespaces (network, mounts, host name) and the process that holds them. It ends when this process
does, however it ends, and ends the programs that run there, with their addresses and wires. None of this has a name on
the machine, so two runs at once cannot collide. `names` is the host's /etc/hosts, and `dns` its DNS server; without it,
the host has no DNS.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import IO, Any, ParamSpec, TypeVar

from tests.harness.process import wait_until

P = ParamSpec("P")
T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
KPROXY = (PYTHON, "-m", "kproxy")

_NAMESPACES = ("--net", "--mount", "--uts")
_CLONE_NEWNET = 0x40000000
# Arguments: the host's name, a directory with files for /etc. stdin ends when whoever started this closes it or is
# gone; then whatever is in this network is ended.
_HOLD = """
hostname "$1" && ip link set lo up && for file in "$2"/*; do mount --bind "$file" "/etc/${file##*/}"; done || exit
rm -r "$2"
echo ready
cat
number=$(readlink /proc/$$/ns/net | tr -dc 0-9)
for one in $(find /proc/[0-9]*/ns/net -lname "*$number*" 2>/dev/null); do
  pid=$(echo "$one" | cut -d/ -f3)
  [ "$pid" = $$ ] || kill -KILL "$pid" 2>/dev/null
done
"""


def unavailable() -> str:
    """Return the reason why this machine cannot have such hosts; empty if it can."""
    missing = [tool for tool in ("ip", "unshare", "nsenter") if shutil.which(tool) is None]
    if missing:
        return f"network namespaces need {', '.join(missing)} (apt-get install iproute2 util-linux)"
    script = "ip link add type veth && ip link add type bridge"
    done = subprocess.run(["unshare", *_NAMESPACES, "sh", "-c", script], capture_output=True, text=True, check=False)
    said = (done.stderr.strip().splitlines() or ["it is not said why"])[-1]
    return f"network namespaces cannot be made here: {said}" if done.returncode else ""


class Network:
    """The wires between some hosts."""

    def __init__(self) -> None:
        self._wires: dict[IPv4Network, str] = {}
        self._count = 0
        self._switch = self.host("switch")

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self._switch.close()

    def host(
        self, name: str, *addresses: str, names: Mapping[str, str] | None = None, gateway: str = "", dns: str = ""
    ) -> Host:
        """Create a host with these addresses (`10.0.0.11/24`) and names; the caller closes it.

        Addresses that no wire reaches fail at once with `no route`, or go to `gateway`, which drops packets like a
        firewall.
        """
        self._count += 1
        files = Path(tempfile.mkdtemp(prefix="kproxy-network-"))  # the host removes it
        lines = ["127.0.0.1 localhost", *(f"{address} {known}" for known, address in (names or {}).items())]
        (files / "hosts").write_text("".join(f"{line}\n" for line in lines))
        sources = "files dns" if dns else "files"
        (files / "nsswitch.conf").write_text(f"passwd: files\ngroup: files\nhosts: {sources}\n")
        if dns:
            (files / "resolv.conf").write_text(f"nameserver {dns}\noptions timeout:5 attempts:2\n")
        made = Host(name, files)
        # A machine with Docker forwards, and a new namespace does as the first one.
        made.sh("echo 0 > /proc/sys/net/ipv4/ip_forward")
        for address in map(IPv4Interface, addresses):
            if address.network not in made.devices:
                made.devices[address.network] = self._plug(made, address)
            made.sh(f"ip address add {address} dev {made.devices[address.network]}")
        if gateway:
            made.sh(f"ip route add default via {gateway}")
        return made

    def _plug(self, host: Host, address: IPv4Interface) -> str:
        wire = self._wires.get(address.network)
        if wire is None:
            wire = self._wires[address.network] = f"wire{len(self._wires)}"
            self._switch.sh(f"ip link add {wire} type bridge && ip link set {wire} up")
        device, plug = f"eth{len(host.devices)}", f"plug{self._count}-{len(host.devices)}"
        # A later host with the same address has the same hardware address: nobody remembers a wrong one.
        mac = "02:00:" + ":".join(f"{byte:02x}" for byte in address.packed)
        host.sh(
            f"ip link add {device} address {mac} type veth peer name {plug} netns {self._switch.pid} &&"
            f" ip link set {device} up"
        )
        self._switch.sh(f"ip link set {plug} master {wire} && ip link set {plug} up")
        return device


class Host:
    """A host; `pid` is that of the process that holds its namespaces. `Network.host` creates it."""

    def __init__(self, name: str, files: Path) -> None:
        self.name = name
        self.devices: dict[IPv4Network, str] = {}
        self._holder = subprocess.Popen(
            ["unshare", *_NAMESPACES, "sh", "-c", _HOLD, "sh", name, str(files)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self.pid = self._holder.pid
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n", f"no namespaces for {name}"
        self._threads = ThreadPoolExecutor(thread_name_prefix=name, initializer=self._enter)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unplug the host, and end all programs on it."""
        self._threads.shutdown()
        for device in self.devices.values():
            self.sh(f"ip link del {device}")
        self._holder.communicate()

    def run(
        self, *command: str, env: Mapping[str, str] | None = None, input: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on this host to its end; the caller checks `returncode`."""
        return subprocess.run(
            self._command(command), env={**os.environ, **(env or {})},
            input=input, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def sh(self, script: str) -> None:
        """Run a line of shell that must not fail."""
        done = self.run("sh", "-c", script)
        assert done.returncode == 0, f"{self.name}: {script}: {done.stderr}"

    def start(self, *command: str, log: IO[bytes], env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a command on this host; the caller ends it. Its output goes to `log`."""
        return subprocess.Popen(
            self._command(command), env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    @contextlib.contextmanager
    def running(
        self, *command: str, until: str = "", listening: str = "", env: Mapping[str, str] | None = None
    ) -> Iterator[Callable[[], str]]:
        """Run a command on this host for the time of the block.

        The block starts when the command has printed `until`, or accepts connections at `listening`; the callable
        returns the output so far.
        """
        with tempfile.TemporaryFile() as log:
            process = self.start(*command, log=log, env=env)

            def said() -> str:
                return os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace")

            def there() -> bool:
                assert process.poll() is None, f"{self.name}: {command[0]} ended: {said()}"
                return until in said() and (not listening or self.call(_accepts, listening))

            try:
                try:
                    wait_until(there, f"{self.name}: {' '.join(command)} runs")
                except AssertionError as error:
                    raise AssertionError(f"{error}; it says: {said()}") from None
                yield said
            finally:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()
                process.wait()

    def submit(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> Future[T]:
        """Call a function in a thread whose sockets are in this host's network.

        The sockets of processes and threads that it starts are there too. Its names are not: they belong to processes.
        """
        return self._threads.submit(function, *args, **named)

    def call(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Call a function in such a thread, and return its result."""
        return self.submit(function, *args, **named).result()

    def _command(self, command: tuple[str, ...]) -> list[str]:
        return ["nsenter", f"--target={self.pid}", *_NAMESPACES, f"--wd={ROOT}", *command]

    def _enter(self) -> None:
        libc: Any = ctypes.CDLL(None, use_errno=True)
        with open(f"/proc/{self.pid}/ns/net") as namespace:
            if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter the network of {self.name}")


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) == 0
