"""Real clients and real brokers: Kafka's own perf tests and librdkafka, directly, through HAProxy and kproxy.

One cluster of three brokers serves all paths, with a listener for each. HAProxy changes no address, so the brokers
advertise its ports on HAPROXY; on CLIENT they advertise names that resolve nowhere, which only kproxy rewrites. No
process is pinned to a core here.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.machine import BenchError, cpu_seconds, descendants, start, stop
from bench.peers import DIRECT, HAPROXY, HAPROXY_FLAGS, KPROXY, TUNED, find_haproxy, haproxy_configuration, wait_ready

_TIMEOUT_S = 300.0
_PARTITIONS = 6
_HAPROXY_PORT = 12000
_KPROXY_PORT = 13000
# Records of each size, in bytes: so many that a producer's run takes seconds.
_RECORDS = {100: 400_000, 1_000: 150_000, 100_000: 2_000}
# Consumers are faster: they get the records of so many of the six runs that fill a topic.
_CONSUMED = 3
# Where brokers keep their logs, if there is room for two full topics of three replicas: a disk's speed varies.
_MEMORY = Path("/dev/shm")
_ROOM = 8 << 30
_PRODUCED = re.compile(r"([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency.*? ([\d.]+) ms 99th")


@dataclass(frozen=True, slots=True)
class _Path:
    """One path to the brokers."""

    name: str
    bootstrap: str
    pids: tuple[int, ...]


class _Clients:
    """Kafka's Java clients and librdkafka, each as a process; a run returns MB of records per second."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def java_produce(self, path: _Path, topic: str, size: int, count: int, acks: str) -> float:
        output = self._java(
            "kafka-producer-perf-test",
            "--topic",
            topic,
            "--num-records",
            str(count),
            "--record-size",
            str(size),
            "--throughput",
            "-1",
            "--warmup-records",
            str(count // 3),
            "--bootstrap-server",
            path.bootstrap,
            "--command-property",
            f"acks={acks}",
            "batch.size=131072",
            "linger.ms=5",
            f"max.request.size={2 << 20}",
        )
        throughputs = _PRODUCED.findall(output)
        if not throughputs:
            raise BenchError(f"kafka-producer-perf-test through {path.name}: {output[-500:]}")
        return float(throughputs[-1][0]) * size / 1e6

    def java_consume(self, path: _Path, topic: str, size: int, count: int) -> float:
        output = self._java(
            "kafka-consumer-perf-test",
            "--bootstrap-server",
            path.bootstrap,
            "--topic",
            topic,
            "--num-records",
            str(count),
            "--timeout",
            "60000",
        )
        rows = [line.split(",") for line in output.splitlines() if line.count(",") >= 9]
        if len(rows) < 2:
            raise BenchError(f"kafka-consumer-perf-test through {path.name}: {output[-500:]}")
        row = dict(zip((name.strip() for name in rows[-2]), rows[-1], strict=False))
        # Without the time to join the group.
        return float(row["fetch.nMsg.sec"]) * size / 1e6

    def librdkafka_produce(self, path: _Path, topic: str, size: int, count: int, acks: str) -> float:
        return self._librdkafka("produce", path, topic, size, count, acks)

    def librdkafka_consume(self, path: _Path, topic: str, size: int, count: int) -> float:
        return self._librdkafka("consume", path, topic, size, count, "-")

    def _java(self, *arguments: str) -> str:
        done = self._cluster.tool(*arguments, timeout=_TIMEOUT_S)
        if done.returncode:
            raise BenchError(f"{arguments[0]}: {(done.stderr or done.stdout)[-800:]}")
        return str(done.stdout)

    def _librdkafka(self, what: str, path: _Path, topic: str, size: int, count: int, acks: str) -> float:
        seconds = float(self._run(what, path.bootstrap, topic, str(size), str(count), acks))
        return count * size / 1e6 / seconds

    @staticmethod
    def _run(*arguments: str) -> str:
        command = [sys.executable, "-m", "bench.librdkafka", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode:
            raise BenchError(f"librdkafka, {' '.join(arguments)}: {done.stderr[-800:]}")
        return done.stdout

    def replace_topic(self, old: str, new: str) -> None:
        """Delete a topic, if it exists, and create another: a deleted name is free again only after a while."""
        self._run("topic", self._cluster.direct_bootstrap, new, str(_PARTITIONS), old)


@contextmanager
def _haproxy(cluster: Any, directory: Path) -> Iterator[_Path | None]:
    program = find_haproxy()
    if program is None:
        yield None
        return
    bound = cluster.listener("HAPROXY")
    pairs = [(f"127.0.0.1:{_HAPROXY_PORT + node}", str(address)) for node, address in bound.items()]
    configuration = directory / "haproxy-clients.cfg"
    configuration.write_text(haproxy_configuration(pairs, TUNED, 4000))
    process = start([program, *HAPROXY_FLAGS, str(configuration)], [])
    try:
        wait_ready(process, int(pairs[0][0].split(":")[1]), None)
        yield _Path(HAPROXY, ",".join(listen for listen, _ in pairs), tuple(descendants(process.pid)))
    finally:
        stop(process)


@contextmanager
def _kproxy(cluster: Any, directory: Path) -> Iterator[_Path]:
    command = [
        sys.executable,
        "-m",
        "kproxy",
        "run",
        "--bootstrap-servers",
        cluster.bootstrap,
        "--listen",
        f"127.0.0.1:{_KPROXY_PORT}",
        "--admin",
        f"127.0.0.1:{_KPROXY_PORT - 1}",
    ]
    with (directory / "kproxy-clients.log").open("wb") as log:
        process = start(command, [], stdout=log, stderr=log)
    try:
        wait_ready(process, _KPROXY_PORT, _KPROXY_PORT - 1)
        yield _Path(KPROXY, f"127.0.0.1:{_KPROXY_PORT}", tuple(descendants(process.pid)))
    finally:
        stop(process)


def memory() -> Path | None:
    """Return a directory in memory for a cluster's data if the machine has room; else None, and the data is on disk."""
    return _MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM else None


def compare(
    directory: Path, rounds: int, progress: Callable[[str], None], say: Callable[[str], None]
) -> dict[str, Any]:
    """Return MB of records per second of each client and path, medians, and ratios to HAProxy's and direct's."""
    from kproxy.base.errors import KproxyError
    from kproxy.dev.devcluster import DevCluster, ListenerSpec

    listener = ListenerSpec("HAPROXY", advertised=f"127.0.0.1:{_HAPROXY_PORT // 1000}00{{id}}")
    properties = {"log.retention.bytes": "-1", "message.max.bytes": str(2 << 20), "log.segment.bytes": str(1 << 28)}
    try:
        with ExitStack() as running:
            enter = running.enter_context
            cluster = enter(
                DevCluster(
                    3,
                    extra_listeners=[listener],
                    properties=properties,
                    heap="512m",
                    directory=memory(),
                    progress=progress,
                )
            )
            haproxy, kproxy = enter(_haproxy(cluster, directory)), enter(_kproxy(cluster, directory))
            direct = _Path(DIRECT, cluster.direct_bootstrap, ())
            paths = [path for path in (direct, haproxy, kproxy) if path is not None]
            runs = _Rounds(_Clients(cluster), paths, progress)
            runs.warm_up()
            result = {}
            for size, count in _RECORDS.items():
                for turn in range(rounds):
                    runs.turn(turn, size, count)
                for what, taken in runs.take().items():
                    result[what] = _medians(taken)
                    say(_line(what, result[what]))
            return result
    except KproxyError as error:
        raise BenchError(f"real clients: {error}") from None


_Taken = dict[str, dict[str, list[tuple[float, float]]]]
"""What was run and through which path → MB/s and the proxy's CPU-seconds per GB, of each run."""


class _Rounds:
    """Runs every client over every path, in turn."""

    def __init__(self, clients: _Clients, paths: Sequence[_Path], progress: Callable[[str], None]) -> None:
        self._clients = clients
        self._paths = paths
        self._progress = progress
        self._topics = 0
        self._taken: _Taken = {}

    def warm_up(self) -> None:
        """Run one short turn that does not count, because brokers are slow at first."""
        size = 1_000
        self.turn(0, size, _RECORDS[size] // 5)
        self.take()

    def turn(self, first: int, size: int, count: int) -> None:
        """Run everything once with `count` records of `size` bytes; `first` selects the first path."""
        first %= len(self._paths)
        order = [*self._paths[first:], *self._paths[:first]]
        clients = self._clients
        for name, produce, consume in (
            ("java", clients.java_produce, clients.java_consume),
            ("librdkafka", clients.librdkafka_produce, clients.librdkafka_consume),
        ):
            topic = self._new_topic()
            for acks in ("1", "all"):
                for path in order:
                    run = partial(produce, path, topic, size, count, acks)
                    self._note(f"{name}-produce-{size}B-acks-{acks}", path, run, size * count)
            consumed = _CONSUMED * count
            for path in order:
                run = partial(consume, path, topic, size, consumed)
                self._note(f"{name}-consume-{size}B", path, run, size * consumed)

    def take(self) -> _Taken:
        """Return the measurements since the last call."""
        taken, self._taken = self._taken, {}
        return taken

    def _new_topic(self) -> str:
        """Create a topic for all runs of one client in one turn."""
        old, new = f"bench-{self._topics}", f"bench-{self._topics + 1}"
        self._topics += 1
        self._clients.replace_topic(old, new)
        return new

    def _note(self, what: str, path: _Path, run: Callable[[], float], size: int) -> None:
        self._progress(f"{what} {path.name}")
        used = cpu_seconds(path.pids)
        speed = run()
        used = cpu_seconds(path.pids) - used
        self._taken.setdefault(what, {}).setdefault(path.name, []).append((speed, used / size * 1e9))


def _medians(runs: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    speeds = {name: statistics.median(speed for speed, _ in all_of) for name, all_of in runs.items()}
    entry: dict[str, Any] = {"mb_per_s": {name: round(speed, 1) for name, speed in speeds.items()}}
    entry["proxy_cpu_s_per_gb"] = {
        name: round(statistics.median(cpu for _, cpu in all_of), 3) for name, all_of in runs.items() if name != DIRECT
    }
    for base in (HAPROXY, DIRECT):
        if base in speeds and KPROXY in speeds:
            entry[f"kproxy_to_{base}"] = round(speeds[KPROXY] / speeds[base], 3)
    return entry


def _line(what: str, entry: dict[str, Any]) -> str:
    speeds = "  ".join(f"{name} {speed:,.1f} MB/s" for name, speed in entry["mb_per_s"].items())
    ratios = "  ".join(f"{name} {value}" for name, value in entry.items() if name.startswith("kproxy_to"))
    return f"{what:36} {speeds}  {ratios}"
