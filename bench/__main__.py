"""`python -m bench` runs all benchmarks, `--quick` a few in under 50 seconds. The last line is one JSON object."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import functools
import json
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import (
    bars,
    clients,
    fleet,
    growth,
    held,
    hosts,
    large,
    migrate,
    mirrormaker,
    portforward,
    records,
    report,
    shared,
    spark,
    tls,
    upstreams,
    verify,
)
from bench.loads import LOADS, Load
from bench.machine import BenchError, Cores, enter_namespace, raise_file_limit
from bench.native import BROKER_PORT, StubBroker, build
from bench.peers import DIRECT, HAPROXY, KPROXY, Peer, launch, standard_peers
from bench.size import Sizes
from bench.windows import Bench, Settings

_FULL = Settings(warm=0.15, seconds=0.5, windows=5, retries=5)
_QUICK = Settings(warm=0.05, seconds=0.15, windows=5, retries=0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="kproxy beside other relays, in one run")
    parser.add_argument("--quick", action="store_true", help="a few loads, short windows: under 50 seconds")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME='COMMAND'",
        help="another relay; COMMAND has {listen} and {upstream}, both HOST:PORT. Repeatable",
    )
    parser.add_argument(
        "--peers", metavar="NAMES", help="of the standard peers only these, with commas, and with every load"
    )
    parser.add_argument("--only", metavar="GLOB", help="only the loads whose names fit, as 'fetch-*'")
    parser.add_argument(
        "--parts",
        default="loads,tls,size,clients,spark",
        help="of loads, tls, size, clients, spark, records, migrate, fleet, held, portforward, shared, upstreams,"
        " growth, large, hosts",
    )
    parser.add_argument("--windows", type=int, help="windows of each load and peer")
    parser.add_argument("--seconds", type=float, help="seconds of a window")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each real client, job of Spark, and path")
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"), help="where the JSON goes")
    parser.add_argument("--list", action="store_true", help="name the loads")
    return parser.parse_args()


def _settings(options: argparse.Namespace) -> Settings:
    base = _QUICK if options.quick else _FULL
    windows = options.windows or base.windows
    return Settings(base.warm, options.seconds or base.seconds, windows, min(base.retries, 2 * windows))


def _chosen(options: argparse.Namespace) -> list[Load]:
    if options.only:
        return [load for load in LOADS if fnmatch.fnmatch(load.name, options.only)]
    return [load for load in LOADS if load.key or not options.quick]


def _peers(options: argparse.Namespace) -> list[Peer]:
    """Return the peers and the loads to measure them with.

    Peers that are asked for by name run every load; variants run a few, and none with --quick.
    """
    peers = standard_peers()
    present = {peer.name for peer in peers}
    if HAPROXY not in present:
        sys.stderr.write("bench: haproxy was not found (Debian package haproxy): no ratios to it\n")
    if options.peers:
        names = options.peers.split(",")
        peers = [dataclasses.replace(peer, variant=False) for peer in peers if peer.name in names]
    elif options.quick:
        peers = [peer for peer in peers if not peer.variant]
    return [*peers, *(Peer.parse(text) for text in options.peer)]


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def _say(text: str) -> None:
    _progress("")
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class _Run:
    """One run, from the first process to the last; `result` becomes the JSON file."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._directory = options.output.parent / "bench"
        self._files = raise_file_limit()
        self._cores = Cores.of_this_machine()
        self._peers = _peers(options)
        self._settings = _settings(options)
        self.result: dict[str, Any] = {"machine": report.machine(), "quick": options.quick, "loads": {}}

    def all_parts(self) -> None:
        parts = self._options.parts.split(",")
        build(self._directory)
        with StubBroker(self._directory, self._cores.broker) as broker:
            if "loads" in parts:
                self._loads(broker)
            if "tls" in parts and not self._options.quick:
                files = self._files // 2 - 100
                self.result["tls"] = tls.measure(
                    self._directory, self._cores, broker, self._settings, files, _progress, _say
                )
            if "upstreams" in parts:
                self._upstreams(broker)
            if "size" in parts:
                self._size(broker)
        if "clients" in parts and not self._options.quick:
            self.result["clients"] = clients.compare(self._directory, self._options.rounds, _progress, _say)
        if "spark" in parts and not self._options.quick:
            self.result["spark"] = spark.compare(self._options.rounds, _progress, _say)
        if "records" in parts:
            self.result["records"] = records.measure(_progress, _say)
        if "migrate" in parts:
            self._migrate()
        if "portforward" in parts:
            rounds = self._options.rounds
            self.result["portforward"] = portforward.measure(self._options.quick, rounds, _progress, _say)
        wanted = functools.partial(fnmatch.fnmatch, pat=self._options.only or "*")
        moves = (("held", held.measure), ("large", large.measure), ("hosts", hosts.measure))
        simulated = (("shared", shared.measure), ("fleet", fleet.measure), ("growth", growth.measure))
        for name, measure in (*((name, functools.partial(move, wanted)) for name, move in moves), *simulated):
            if name in parts:
                self.result[name] = measure(self._options.rounds, _progress, _say)

    def save(self, seconds: float) -> str:
        """Write and return the results so far."""
        self.result["bars"] = bars.judge(self.result)
        self.result["seconds"] = round(seconds, 1)
        text = json.dumps(self.result)
        self._options.output.parent.mkdir(parents=True, exist_ok=True)
        self._options.output.write_text(text + "\n")
        return text

    def _loads(self, broker: StubBroker) -> None:
        with ExitStack() as running:
            relays = [
                running.enter_context(
                    launch(peer, at, BROKER_PORT, self._cores, self._directory, self._files // 2 - 100)
                )
                for at, peer in enumerate(self._peers)
            ]
            bench = Bench(self._directory, self._cores, [broker.pid], relays, self._settings)
            for load in _chosen(self._options):
                figures = bench.measure(load, _progress)
                self.result["loads"][load.name] = report.with_ratios(load, figures)
                _say(report.table(load, figures))

    def _upstreams(self, broker: StubBroker) -> None:
        wanted = functools.partial(fnmatch.fnmatch, pat=self._options.only or "*")
        self.result["upstreams"] = upstreams.measure(
            self._directory, self._cores, broker, self._settings, self._files // 2 - 100, wanted, _progress, _say
        )

    def _migrate(self) -> None:
        glob, result = self._options.only or "*", self.result.setdefault("migrate", {})
        wanted = functools.partial(fnmatch.fnmatch, pat=glob)
        migrate.measure(result, self._options.quick, self._options.rounds, wanted, _progress, _say)
        verify_result = result.setdefault("verify", {})
        verify.measure(verify_result, self._options.quick, self._options.rounds, wanted, _progress, _say)

    def _size(self, broker: StubBroker) -> None:
        sizes = Sizes(self._directory, self._cores, broker.pid, self._files, _progress)
        self.result["size"] = {}
        for peer in self._peers:
            if peer.name == DIRECT:
                continue
            figures = sizes.starts(peer, 3 if self._options.quick else 5)
            if not self._options.quick:
                figures |= sizes.idle(peer) | sizes.stalled(peer) | (sizes.many(peer) if peer.name == KPROXY else {})
            self.result["size"][peer.name] = report.rounded({peer.name: figures})[peer.name]
            _say(f"{peer.name}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))


def _interrupted(number: int, _: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Measure, print, and write the file; return the exit code."""
    options = _options()
    if options.list:
        _say("\n".join(load.name for load in LOADS))
        return 0
    signal.signal(signal.SIGTERM, _interrupted)
    began = time.monotonic()
    try:
        if "migrate" in options.parts.split(","):
            mirrormaker.jars(_progress)  # there is no network later
            verify.jars(_progress)
        if {"large", "hosts"} & {*options.parts.split(",")}:
            large.jars(_progress)
        enter_namespace()
        run = _Run(options)
        try:
            run.all_parts()
        finally:  # a part that fails, or Ctrl-C, does not cost what was measured before
            text = run.save(time.monotonic() - began)
    except BenchError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    if run.result["bars"]:
        _say(bars.table(run.result["bars"]))
    _say(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
