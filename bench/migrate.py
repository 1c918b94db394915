"""The migration's copier compared with MirrorMaker 2: CPU of both, and of the brokers.

Two clusters of one broker each, dialled directly; once more through kproxy on both sides. The peers copy the same topic
in turn. CPU time between two points of the copy counts, never the start of a process.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import mirrormaker
from bench.clients import memory
from bench.machine import BenchError, cpu_seconds, descendants, start, stop
from bench.mirrormaker import AT_LEAST_ONCE, AT_LEAST_ONCE_TUNED, EXACTLY_ONCE, MODES, TUNED, Worker
from bench.peers import wait_ready
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import LATEST
from kproxy.migrate.copier.state import STATE_PARTITIONS, state_topic_name

COPIER, THROUGH = "copier", "copier-through-kproxy"
_LISTEN, _LISTEN_TARGET = 15000, 15500
_TIMEOUT_S = 900.0
# MirrorMaker is watched so often, seconds; a copy is over when its target has not grown for so long.
_LOOK, _STILL = 0.2, 1.0
# After topics were created, brokers count as idle below this share of a core, or after so many seconds.
_IDLE, _SETTLE_S = 0.1, 30.0
# Records that it copies before this count as its start.
_BEGUN = 0.1
_MANY = 50  # records: from so many on, a batch is a large one

Figures = dict[str, float]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Load:
    """A topic: `size` bytes a record, `per_batch` records a batch, `megabytes` of values in all."""

    size: int
    codec: str
    per_batch: int
    megabytes: int
    partitions: int = 1
    quick: bool = False
    through: bool = False

    @property
    def name(self) -> str:
        size = f"{self.size // 1000}KB" if self.size >= 1000 else f"{self.size}B"
        return f"{size}-{self.codec}-b{self.per_batch}" + (f"-p{self.partitions}" if self.partitions > 1 else "")

    @property
    def records(self) -> int:
        """The number of records, so that every partition has the same number of batches."""
        step = self.per_batch * self.partitions
        return max(1, self.megabytes * 1_000_000 // self.size // step) * step


# Settings of both clusters' brokers beside the defaults.
PROPERTIES = {
    "log.retention.bytes": "-1",
    "log.retention.ms": "-1",
    "message.max.bytes": str(2 << 20),
    "log.segment.bytes": str(1 << 28),
    "broker.session.timeout.ms": "120000",
    "auto.create.topics.enable": "false",
}
# Batches of the size that Kafka's clients make by default, 16 KB, are b160 and b16.
LOADS = (
    Load(100, "none", 1000, 150),
    Load(100, "none", 160, 150, quick=True, through=True),
    Load(100, "lz4", 1000, 150),
    Load(100, "zstd", 1000, 150),
    Load(100, "none", 10, 60),
    Load(100, "none", 1, 20, quick=True, through=True),
    Load(1000, "none", 1000, 200, quick=True, through=True),
    Load(1000, "lz4", 1000, 200),
    Load(1000, "zstd", 1000, 200),
    Load(1000, "none", 10, 100),
    Load(1000, "none", 1, 60),
    *(Load(1000, codec, 1, 60) for codec in ("lz4", "zstd", "snappy", "gzip")),
    Load(100_000, "none", 1, 300),
    Load(100_000, "none", 10, 300),
    *(Load(1000, "none", 16, 128, partitions) for partitions in (1, 10, 100, 1000)),
)


def measure(
    result: dict[str, Any], quick: bool, rounds: int, only: Callable[[str], bool], progress: Say, say: Say
) -> None:
    """Measure CPU-seconds per GB on the source's wire, of each load and peer, as medians; add them to `result`."""
    from kproxy.base.errors import KproxyError
    from kproxy.dev.devcluster import DevCluster

    loads = [load for load in LOADS if only(load.name) and (load.quick or not quick)]
    result["loads"] = {}
    if not loads:
        return
    try:
        with ExitStack() as running:
            enter = running.enter_context
            scratch = Path(enter(tempfile.TemporaryDirectory()))
            source, target = (
                enter(DevCluster(1, properties=PROPERTIES, heap="768m", directory=memory(), progress=progress))
                for _ in range(2)
            )
            workers = [
                enter(mirrormaker.worker(mode, source.direct_bootstrap, target.direct_bootstrap, scratch))
                for mode in MODES
            ]
            proxy = enter(_proxy(source.bootstrap, target.bootstrap, scratch))
            runs = _Runs(source, target, workers, proxy, progress)
            runs.warm_up(sorted({load.codec for load in loads}))
            result["worker_rss_mib"] = runs.bare
            for load in loads:
                entry = result["loads"][load.name] = runs.measure(load, 1 if quick else rounds)
                say(_line(load.name, entry))
    except KproxyError as error:
        raise BenchError(f"migrate: {error}") from None


@contextmanager
def _proxy(source: str, target: str, scratch: Path) -> Iterator[Sequence[int]]:
    """Start one kproxy before both clusters; return its processes."""
    clusters = [
        {"name": name, "bootstrap-servers": servers, "listen": f"127.0.0.1:{port}"}
        for name, servers, port in (("source", source, _LISTEN), ("target", target, _LISTEN_TARGET))
    ]
    config, admin = scratch / "kproxy.yaml", _LISTEN - 1
    config.write_text(json.dumps({"clusters": clusters, "admin": f"127.0.0.1:{admin}"}))
    with (scratch / "kproxy.log").open("wb") as log:
        process = start([sys.executable, "-m", "kproxy", "run", "-c", str(config)], [], stdout=log, stderr=log)
    try:
        wait_ready(process, _LISTEN, admin)
        yield descendants(process.pid)
    finally:
        stop(process)


@dataclass(frozen=True, slots=True)
class _Point:
    """CPU-seconds at a point of a copy, and the offsets on the target at that time."""

    at: float
    copier: float
    brokers: float
    offsets: int


class _Runs:
    """Copies of one load, one after the other."""

    def __init__(
        self, source: Any, target: Any, workers: Sequence[Worker], proxy: Sequence[int], progress: Say
    ) -> None:
        self._source, self._target, self._workers, self._proxy = source, target, workers, proxy
        self._brokers = [cluster.pids[cluster.node_ids[0]] for cluster in (source, target)]
        self._watched = ClusterClient(target.direct_bootstrap)
        self._progress = progress
        self._number = 0
        self.bare = round(job("worker")["rss"] / (1 << 20), 1)

    def warm_up(self, codecs: Sequence[str]) -> None:
        """Run a copy that does not count, because JVMs compile at first."""
        for codec in codecs:
            self.measure(Load(100, codec, 160, 50), 1)
        self.measure(Load(100, "none", 160, 100), 2)

    def measure(self, load: Load, rounds: int) -> dict[str, Any]:
        source = self._source.direct_bootstrap
        taken: dict[str, list[Figures]] = {}
        job("topic", source, load.name, load.partitions, "delete")
        try:
            self._progress(f"migrate {load.name}: filling")
            filled = job(
                "fill", source, load.name, load.partitions, load.size, load.codec, load.per_batch, load.records
            )
            for turn in range(rounds):
                peers = self._peers(load)
                for name in [*peers][:: -1 if turn % 2 else 1]:
                    self._progress(f"migrate {load.name}: {name}")
                    taken.setdefault(name, []).append(peers[name](load, filled))
        finally:
            job("gone", source, load.name)
        return summary(load, taken) | {"wire_mb": round(filled["bytes"] / 1e6, 1), "records": filled["records"]}

    def _peers(self, load: Load) -> Mapping[str, Callable[[Load, Any], Figures]]:
        def direct(load: Load, filled: Any) -> Figures:
            return self._copy(load, filled, self._source.direct_bootstrap, self._target.direct_bootstrap)

        def through(load: Load, filled: Any) -> Figures:
            return self._copy(load, filled, f"127.0.0.1:{_LISTEN}", f"127.0.0.1:{_LISTEN_TARGET}")

        def mirror(worker: Worker, settings: Mapping[str, str]) -> Callable[[Load, Any], Figures]:
            return lambda load, filled: self._mirror(worker, settings, load, filled)

        ours = {COPIER: direct} | ({THROUGH: through} if load.through else {})
        theirs = {worker.mode: mirror(worker, {}) for worker in self._workers}
        return ours | theirs | {AT_LEAST_ONCE_TUNED: mirror(self._workers[0], TUNED)}

    def _name(self) -> str:
        self._number += 1
        return f"r{self._number}"

    def _settle(self) -> None:
        """Wait until the brokers have made the logs of new partitions, of which there may be a thousand."""
        until, busy = time.monotonic() + _SETTLE_S, 1.0
        while busy > _IDLE and time.monotonic() < until:
            before = cpu_seconds(self._brokers)
            time.sleep(_STILL)
            busy = cpu_seconds(self._brokers) - before

    def _copy(self, load: Load, filled: Any, source: str, target: str) -> Figures:
        name, direct = self._name(), self._target.direct_bootstrap
        topic = f"{name}.{load.name}"
        job("topic", direct, topic, load.partitions, "delete")
        job("topic", direct, state_topic_name(name), STATE_PARTITIONS, "compact")
        self._settle()
        try:
            brokers, proxy = cpu_seconds(self._brokers), cpu_seconds(self._proxy)
            done = job("copy", source, target, name, load.name, topic)
            brokers, proxy = cpu_seconds(self._brokers) - brokers, cpu_seconds(self._proxy) - proxy
        finally:
            job("gone", direct, topic, state_topic_name(name))
        if done["records"] != filled["records"]:
            raise BenchError(f"{load.name}: {done['records']} records of {filled['records']} were copied")
        figures = _figures(filled["bytes"], done["cpu"], brokers, done["seconds"])
        figures["rss_mib"] = done["rss"] / (1 << 20)
        figures["over_worker_mib"] = figures["rss_mib"] - self.bare
        if source.endswith(str(_LISTEN)):
            figures["proxy_cpu_s_per_gb"] = proxy / filled["bytes"] * 1e9
        return figures

    def _mirror(self, worker: Worker, settings: Mapping[str, str], load: Load, filled: Any) -> Figures:
        name, direct = self._name(), self._target.direct_bootstrap
        topic = f"{name}.{load.name}"
        job("topic", direct, topic, load.partitions, "delete")
        self._settle()
        worker.start(name, load.name, load.codec, settings)
        try:
            first, last = between(self._points(worker, name, topic, load.partitions, filled["records"]))
        finally:
            worker.end(name)
            job("gone", direct, topic)
        share = (last.offsets - first.offsets) / last.offsets
        return _figures(
            filled["bytes"] * share, last.copier - first.copier, last.brokers - first.brokers, last.at - first.at
        )

    def _points(self, worker: Worker, name: str, topic: str, partitions: int, records: int) -> list[_Point]:
        """Yield points until all records are copied and nothing follows: transaction markers have offsets too."""
        where = [(topic, partition) for partition in range(partitions)]
        points: list[_Point] = []
        until = time.monotonic() + _TIMEOUT_S
        while not points or points[-1].offsets < records or points[-1].at - _reached(points).at < _STILL:
            time.sleep(_LOOK)
            offsets = sum(self._watched.list_offsets(where, LATEST).values())
            now = time.monotonic()
            points.append(_Point(now, cpu_seconds([worker.pid]), cpu_seconds(self._brokers), offsets))
            if now > until:
                raise BenchError(f"{worker.mode} has copied {offsets} of {records} records of {topic}")
            if len(points) % 25 == 0:
                worker.check(name)
        return points


def _reached(points: Sequence[_Point]) -> _Point:
    """Return the first point that has the same offsets as the last one."""
    return next(point for point in points if point.offsets == points[-1].offsets)


def between(points: Sequence[_Point]) -> tuple[_Point, _Point]:
    """Return the first and the last point to measure.

    Measuring starts after a tenth of the records, or earlier if all of them came at once, and ends with the last
    record.
    """
    last = _reached(points)
    begun = [point for point in points if _BEGUN * last.offsets <= point.offsets < last.offsets]
    return (begun or [point for point in points if point.offsets < last.offsets][-1:])[0], last


def _figures(size: float, copier: float, brokers: float, seconds: float) -> Figures:
    return {
        "cpu_s_per_gb": copier / size * 1e9,
        "brokers_cpu_s_per_gb": brokers / size * 1e9,
        "mb_per_s_and_core": size / 1e6 / copier,
        "mb_per_s": size / 1e6 / seconds,
    }


def summary(load: Load, taken: Mapping[str, Sequence[Figures]]) -> dict[str, Any]:
    """Return medians by peer, and the ratio of the copier's CPU to each MirrorMaker's: alone, and with the brokers'."""
    peers = {
        name: {figure: float(f"{statistics.median(run[figure] for run in runs):.4g}") for figure in runs[0]}
        for name, runs in taken.items()
    }
    ours = peers[COPIER]
    ratios = {}
    for mode in (*MODES, AT_LEAST_ONCE_TUNED):
        theirs = peers[mode]
        with_brokers = [peer["cpu_s_per_gb"] + peer["brokers_cpu_s_per_gb"] for peer in (ours, theirs)]
        ratios[mode] = {
            "copier": round(ours["cpu_s_per_gb"] / theirs["cpu_s_per_gb"], 3),
            "with_brokers": round(with_brokers[0] / with_brokers[1], 3),
        }
    return {"batch": load.per_batch, "partitions": load.partitions, "peers": peers, "ratios": ratios}


def ratios(result: Mapping[str, Any], least: int, most: int, peer: str = AT_LEAST_ONCE) -> Mapping[str, float]:
    """Return the ratios for `bars`: of loads with so many records a batch, in one partition."""
    loads = result.get("migrate", {}).get("loads", {})
    return {
        name: entry["ratios"][peer]["copier"]
        for name, entry in loads.items()
        if least <= entry["batch"] <= most and entry["partitions"] == 1
    }


def over_worker(result: Mapping[str, Any]) -> Mapping[str, float]:
    """Return for `bars` the MiB of a task beyond those of Spark's worker."""
    loads = result.get("migrate", {}).get("loads", {})
    return {name: entry["peers"][COPIER]["over_worker_mib"] for name, entry in loads.items()}


def _line(name: str, entry: Mapping[str, Any]) -> str:
    texts = [
        f"{peer} {figures['cpu_s_per_gb']:.3g} (brokers {figures['brokers_cpu_s_per_gb']:.3g})"
        for peer, figures in entry["peers"].items()
    ]
    for mode, short in ((AT_LEAST_ONCE, "mm2"), (EXACTLY_ONCE, "exactly-once"), (AT_LEAST_ONCE_TUNED, "tuned")):
        ratio = entry["ratios"][mode]
        texts.append(f"to {short} {ratio['copier']} / {ratio['with_brokers']}")
    return f"{name:20} CPU-s/GB: " + "  ".join(texts)


def job(*arguments: object) -> Any:
    command = [sys.executable, "-m", "bench.migratejob", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command[2:])}: {done.stderr[-1500:]}")
    return json.loads(done.stdout)
