"""A port-forward of Kubernetes: bytes to and from a pod, through kproxy, through kubectl, and direct.

The API server is real, kwok plays the kubelet, and both relays are its clients. The pod is a process of this machine
that sends or receives bytes as fast as it can.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SIZE = 1_000_000_000
"""Bytes of one transfer."""
QUICK_SIZE = 100_000_000
_PORT = 9000
_BLOCK = bytes(1 << 20)
_DIRECT, _KUBECTL, _KPROXY = "direct", "kubectl", "kproxy"
_PATIENCE = 60.0


def measure(quick: bool, rounds: int, progress: Callable[[str], None], say: Callable[[str], None]) -> dict[str, Any]:
    """Return MB/s of each relay in each direction, the median of some rounds, and the ratios to kubectl's."""
    from tests.harness.process import free_window, wait_until
    from tests.matrix.kubernetes import programs, running

    size = QUICK_SIZE if quick else SIZE
    with tempfile.TemporaryDirectory(prefix="kproxy-bench-") as name, _pod() as pod:
        directory = Path(name)
        progress("port-forward: builds and starts Kubernetes")
        with running(directory, {"kafka/source": {_PORT: pod}}) as cluster:
            cluster.add_node("one")
            cluster.add_namespace("kafka")
            container = {"name": "source", "image": "none", "ports": [{"containerPort": _PORT}]}
            document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "source"}}
            cluster.api.create({**document, "spec": {"containers": [container]}}, "kafka")

            def runs() -> bool:
                status = cluster.api.get("v1", "Pod", "source", "kafka")["status"]
                return bool(status.get("phase") == "Running")

            wait_until(runs, "the pod runs")
            first = free_window(204)
            own = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
            kubectl = [str(programs() / "kubectl"), "-n", "kafka", "port-forward", "pod/source", f"{first}:{_PORT}"]
            kproxy = [
                sys.executable,
                "-m",
                "kproxy",
                "run",
                "--via",
                "k8s://kafka",
                "-b",
                "nobody:9092",
                "--no-admin",
                "--listen",
                f"127.0.0.1:{first + 2}",
                "--forward",
                f"127.0.0.1:{first + 1}=source:{_PORT}",
            ]
            with _running(kubectl, own, first), _running(kproxy, own, first + 1):
                ports = {_DIRECT: pod, _KUBECTL: first, _KPROXY: first + 1}
                return _compared(ports, size, rounds, progress, say)


def _compared(
    ports: Mapping[str, int], size: int, rounds: int, progress: Callable[[str], None], say: Callable[[str], None]
) -> dict[str, Any]:
    result: dict[str, Any] = {"bytes": size}
    for what, move in (("from the pod", _get), ("to the pod", _put)):
        seen: dict[str, list[float]] = {name: [] for name in ports}
        for number in range(rounds):
            for name, port in ports.items():  # in turn, so that what else the machine does meets all of them
                progress(f"port-forward: {what}, {name}, round {number + 1} of {rounds}")
                seen[name].append(size / 1e6 / move(port, size))
        rates = {name: statistics.median(values) for name, values in seen.items()}
        result[what] = {
            "mb_per_s": {name: round(rate, 1) for name, rate in rates.items()},
            "to_kubectl": round(rates[_KPROXY] / rates[_KUBECTL], 2),
        }
        shown = ", ".join(f"{name} {rate:,.0f} MB/s" for name, rate in rates.items())
        say(f"port-forward {what}: {shown}; kproxy to kubectl {rates[_KPROXY] / rates[_KUBECTL]:.2f}")
    return result


def _get(port: int, size: int) -> float:
    """Return the seconds until so many bytes have arrived."""
    buffer = bytearray(1 << 20)
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(b"GET %d\n" % size)
        got = 0
        while got < size:
            count = sock.recv_into(buffer)
            if not count:
                raise RuntimeError(f"the connection ended after {got} of {size} bytes")
            got += count
    return time.perf_counter() - began


def _put(port: int, size: int) -> float:
    """Return the seconds until the other end has confirmed so many bytes."""
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(b"PUT %d\n" % size)
        left = size
        while left:
            left -= sock.send(_BLOCK[:left] if left < len(_BLOCK) else _BLOCK)
        if sock.recv(1) != b".":
            raise RuntimeError("the other end has not taken all")
    return time.perf_counter() - began


@contextmanager
def _pod() -> Iterator[int]:
    """Listen in place of the pod; return the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=_served, args=[sock], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def _served(sock: socket.socket) -> None:
    with sock, suppress(OSError, ValueError):
        line = b""
        while not line.endswith(b"\n"):
            if len(line) > 30 or not (data := sock.recv(1)):
                return
            line += data
        word, left = line.split()[0], int(line.split()[1])
        if word == b"GET":
            while left:
                left -= sock.send(_BLOCK[:left] if left < len(_BLOCK) else _BLOCK)
            return
        buffer = bytearray(1 << 20)
        while left:
            count = sock.recv_into(buffer)
            if not count:
                return
            left -= count
        sock.sendall(b".")


@contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str], port: int) -> Iterator[None]:
    """Start a relay, and yield once it forwards a byte."""
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + _PATIENCE
        while True:
            with suppress(OSError, RuntimeError):
                _get(port, 1)
                break
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{command[0]} does not forward")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)
