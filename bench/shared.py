"""Kproxies that share their ports (`--reuse-port`), compared with a single one, with TLS to the brokers.

It measures the throughput of a few hundred clients, and how evenly the kernel spreads connections. librdkafka's
producers write as fast as they may, Kafka's own perf tests beside them at a fixed rate. No process is pinned to a core.
The clients and the brokers use the same cores, so the measure is the CPU that the kproxies use for a GB.
"""

from __future__ import annotations

import contextlib
import json
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.machine import BenchError, cpu_seconds, rss, start, stop
from bench.peers import wait_ready

_PORT, _ADMIN = 13000, 12900
_SHARING = 4
_SIZE, _SECONDS, _PARTITIONS = 1000, 20, 12
# librdkafka's producers, in how many processes; Kafka's own, and how many records each writes in a second.
_LIBRDKAFKA, _PROCESSES, _JAVA, _RATE = 240, 4, 4, 1000
_CONNECTIONS, _REPEATED = (3, 10, 30, 100, 300), 30
_TIMEOUT_S = 300.0
# ApiVersions v0.
_HELLO = b"\0\0\0\x0d\0\x12\0\0\0\0\0\x01\0\x03raw"
Say = Callable[[str], None]


@contextlib.contextmanager
def _kproxies(count: int, arguments: Sequence[str], directory: Path) -> Iterator[list[int]]:
    """Start so many kproxies at one port; return their process ids."""
    share = ("--reuse-port",) if count > 1 else ()
    listen = ("--listen", f"127.0.0.1:{_PORT}", "--node-ports", f"{_PORT + 1}-{_PORT + 100}")
    with contextlib.ExitStack() as held:
        processes = []
        for number in range(count):
            log = held.enter_context((directory / f"kproxy-shared-{number}.log").open("wb"))
            admin = ("--admin", f"127.0.0.1:{_ADMIN + number}")
            command = [sys.executable, "-m", "kproxy", "run", *listen, *admin, *share, *arguments]
            process = start(command, [], stdout=log, stderr=log)
            held.callback(stop, process)
            processes.append(process)
        for number, process in enumerate(processes):
            wait_ready(process, _PORT, _ADMIN + number)
        yield [process.pid for process in processes]


def _sessions(number: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{_ADMIN + number}/status", timeout=30) as answer:
        return int(json.load(answer)["clusters"][0]["sessions"])


def _clients(topic: str) -> list[subprocess.Popen[str]]:
    """Start producers that write as fast as they may."""
    bootstrap = f"127.0.0.1:{_PORT}"
    job = [sys.executable, "-m", "bench.sharedjob", topic, str(_LIBRDKAFKA // _PROCESSES), str(_SECONDS), bootstrap]
    return [subprocess.Popen(job, stdout=subprocess.PIPE, text=True) for _ in range(_PROCESSES)]


@contextlib.contextmanager
def _java(cluster: Any, topic: str) -> Iterator[None]:
    """Start Kafka's own producers beside them."""
    words = (
        "kafka-producer-perf-test",
        "--topic",
        topic,
        "--num-records",
        str(_RATE * _SECONDS * 3 // 2),
        "--record-size",
        str(_SIZE),
        "--throughput",
        str(_RATE),
        "--bootstrap-server",
        f"127.0.0.1:{_PORT}",
        "--command-property",
        "linger.ms=5",
    )
    with ThreadPoolExecutor(_JAVA) as pool:
        runs = [pool.submit(cluster.tool, *words, timeout=_TIMEOUT_S) for _ in range(_JAVA)]
        yield
        for run in runs:
            if (done := run.result()).returncode:
                raise BenchError(f"kafka-producer-perf-test: {(done.stderr or done.stdout)[-800:]}")


def _load(count: int, cluster: Any, arguments: Sequence[str], directory: Path, topic: str) -> dict[str, Any]:
    """Measure the throughput of all clients through so many kproxies."""
    with _kproxies(count, arguments, directory) as pids, _java(cluster, topic):
        clients = _clients(topic)
        try:
            for client in clients:
                assert client.stdout is not None
                if client.stdout.readline() != "flows\n":
                    raise BenchError("a producer has ended")
            began, used = time.monotonic(), [cpu_seconds([pid]) for pid in pids]
            spread = [_sessions(number) for number in range(count)]
            results = [json.loads(client.communicate(timeout=_TIMEOUT_S)[0]) for client in clients]
            took = time.monotonic() - began
            each = [cpu_seconds([pid]) - before for pid, before in zip(pids, used, strict=True)]
        finally:
            for client in clients:
                client.kill()
                client.wait()
        megabytes = sum(result["bytes"] for result in results) / 1e6
        return {
            "mb_per_s": megabytes / took,
            "cpu_s_per_gb": sum(each) / megabytes * 1000,
            "busiest_share": max(each) / sum(each),
            "sessions": spread,
            "p99_ms": max(result["p99_ms"] for result in results),
            "rss_mib": rss(pids) / (1 << 20),
        }


def _evenness() -> dict[int, dict[str, float]]:
    """Measure how evenly the kernel spreads so many connections to the bootstrap port.

    Returns the share of the kproxy with the most connections, and how often a kproxy has none. An even share is 1 /
    _SHARING.
    """
    shares = {}
    for count in _CONNECTIONS:
        most, none = [], 0
        for _ in range(_REPEATED):
            with contextlib.ExitStack() as held:
                for _ in range(count):
                    client = held.enter_context(socket.create_connection(("127.0.0.1", _PORT), timeout=60))
                    client.sendall(_HELLO)
                    client.recv(65536)
                spread = [_sessions(number) for number in range(_SHARING)]
            most.append(max(spread) / count)
            none += 0 in spread
            while any(_sessions(number) for number in range(_SHARING)):
                time.sleep(0.01)
        shares[count] = {"median": statistics.median(most), "worst": max(most), "one_idle": none / _REPEATED}
    return shares


def measure(rounds: int, progress: Say, say: Say) -> dict[str, Any]:
    """Return MB/s, CPU and latency of one kproxy and of several as medians, and the spread of connections."""
    from kproxy.dev.devcluster import DevCluster, ListenerSpec, certificates
    from tests.harness.topics import create_topic

    directory = Path("build/bench/shared")
    directory.mkdir(parents=True, exist_ok=True)
    ca, store = certificates.write_certificates(directory, ["localhost", "127.0.0.1"])
    of_tls = "listener.name.tls.ssl.keystore"
    tls = {f"{of_tls}.type": "PEM", f"{of_tls}.location": str(store.resolve())}
    listener = ListenerSpec("TLS", "localhost:{port}", "SSL")
    with DevCluster(3, extra_listeners=[listener], properties=tls, progress=progress) as cluster:
        bootstrap = ",".join(str(address) for address in cluster.listener("TLS").values())
        arguments = ("-b", bootstrap, "--tls", "--tls-ca", str(ca))
        taken: dict[int, list[dict[str, Any]]] = {1: [], _SHARING: []}
        topic = create_topic(cluster.direct_bootstrap, _PARTITIONS, 1)
        for _ in range(rounds):
            for count, runs in taken.items():
                runs.append(_load(count, cluster, arguments, directory, topic))
                say(f"shared: {count} kproxies: {runs[-1]}")
        with _kproxies(_SHARING, arguments, directory):
            spread = _evenness()
        for connections, shares in spread.items():
            say(f"shared: {connections} connections: {shares}")
    names = [name for name in taken[1][0] if name != "sessions"]
    load = {
        str(count): {name: statistics.median(result[name] for result in runs) for name in names}
        for count, runs in taken.items()
    }
    return {"load": load, "spread": spread}
