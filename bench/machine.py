"""The machine under the benchmark: a private network namespace, the cores, and processes that end with this one."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG = 1
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_CONGESTION_CONTROL = "reno"
# Kernel settings in the new namespace. Closed connections must not use up the ports.
_SETTINGS = {
    "net/ipv4/tcp_congestion_control": _CONGESTION_CONTROL,
    "net/ipv4/ip_local_port_range": "33000 65535",
    "net/ipv4/tcp_max_tw_buckets": "64",
    "net/core/somaxconn": "4096",
}
_NICE = -20
_libc = ctypes.CDLL(None, use_errno=True)


class BenchError(Exception):
    """The benchmark cannot continue; the text has the reason, for people."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The core that each part runs on.

    Relays have the core `proxy` alone. The load generator and the stub broker share one if there are only two.
    """

    proxy: int
    load: int
    broker: int

    @classmethod
    def of_this_machine(cls) -> Cores:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise BenchError("the benchmark needs two cores: one for the proxy alone")
        # The first core often has the interrupts.
        return cls(
            proxy=cores[1],
            load=cores[0],
            broker=cores[2] if len(cores) > 2 else cores[0],
        )


def enter_namespace() -> None:
    """Move this process and its children to a private network namespace with only loopback.

    Congestion control is reno there: a host whose default is BBR paces loopback, and that distorts every figure. The
    namespace ends with its last process. Raises BenchError if the system does not allow it.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise BenchError("the benchmark needs Linux")
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWNET) != 0:
        if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise BenchError(f"no private network namespace could be made ({reason}): run as root")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    _bring_loopback_up()
    for name, value in _SETTINGS.items():
        try:
            Path("/proc/sys", name).write_text(value)
        except OSError as error:
            if name.endswith("congestion_control"):
                raise BenchError(f"{name} could not be set to {value}: {error.strerror}") from None


def _bring_loopback_up() -> None:
    with socket.socket() as sock:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(sock, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def raise_file_limit() -> int:
    """Raise the limit of open files as far as the system allows; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def start(
    command: Sequence[str],
    cores: Sequence[int],
    *,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process on these cores (any if none) that gets SIGKILL when this process ends, however it ends.

    Where the system allows it, the process has priority over other programs on the machine.
    """

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()  # Ctrl-C on the terminal is for the first process to answer
        if cores:
            os.sched_setaffinity(0, cores)
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, _NICE)
                # A session is a scheduling group of its own, and the group's weight counts first (sched(7)).
                Path("/proc/self/autogroup").write_text(str(_NICE))

    try:
        return subprocess.Popen(
            list(command),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
            preexec_fn=prepare,  # this process has one thread
        )
    except OSError as error:
        raise BenchError(f"{command[0]} cannot be started: {error.strerror}") from None


def stop(process: subprocess.Popen[bytes], timeout: float = 3) -> None:
    """End a process, with SIGKILL if it does not end in `timeout` seconds."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def descendants(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text()
                parent = int(stat[stat.rindex(")") + 2 :].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    pids = [pid]
    for process in pids:
        pids += children.get(process, [])
    return pids


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return the CPU time of processes so far."""
    clock = ctypes.c_int()
    total = 0.0
    for pid in pids:
        if _libc.clock_getcpuclockid(pid, ctypes.byref(clock)) == 0:
            with contextlib.suppress(OSError):
                total += time.clock_gettime(clock.value)
    return total


def rss(pids: Sequence[int], what: str = "VmRSS") -> int:
    """Return resident bytes of processes; with "VmHWM" the maximum since `forget_peak`."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith(what + ":"):
                    total += int(line.split()[1]) * 1024
    return total


def forget_peak(pids: Sequence[int]) -> None:
    """Reset VmHWM."""
    for pid in pids:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")
