"""`python -m bench`: all of it, `--quick`: under 50 seconds. The last line is one JSON object."""

from __future__ import annotations

import argparse
import fnmatch
import json
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import clients, report, tls
from bench.loads import LOADS, Load
from bench.machine import BenchError, Cores, enter_namespace, raise_file_limit
from bench.native import BROKER_PORT, StubBroker, build
from bench.peers import DIRECT, HAPROXY_DEFAULT, Peer, launch, standard_peers
from bench.size import Sizes
from bench.windows import Bench, Settings

_FULL = Settings(warm=0.15, seconds=0.6, windows=5, retries=10)
_QUICK = Settings(warm=0.05, seconds=0.2, windows=5, retries=1)


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
    parser.add_argument("--peers", metavar="NAMES", help="of the standard peers only these, with commas")
    parser.add_argument("--only", metavar="GLOB", help="only the loads whose names fit, as 'fetch-*'")
    parser.add_argument("--parts", default="loads,tls,size,clients", help="of loads, tls, size, clients; with commas")
    parser.add_argument("--windows", type=int, help="windows of each load and peer")
    parser.add_argument("--seconds", type=float, help="seconds of a window")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each real client and path")
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
    return [load for load in LOADS if load.quick or not options.quick]


def _peers(options: argparse.Namespace) -> list[Peer]:
    names = options.peers.split(",") if options.peers else None
    peers = standard_peers(names)
    if options.quick and names is None:
        peers = [peer for peer in peers if peer.name != HAPROXY_DEFAULT]
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
    """One run, from the first process to the last; `result` is what goes to the JSON file."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._directory = options.output.parent / "bench"
        self._peers = _peers(options)
        self._files = raise_file_limit()
        self._cores = Cores.of_this_machine()
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
            if "size" in parts:
                self._size()
        if "clients" in parts and not self._options.quick:
            self.result["clients"] = clients.compare(self._directory, self._options.rounds, _progress, _say)

    def _loads(self, broker: StubBroker) -> None:
        with ExitStack() as running:
            relays = [
                running.enter_context(
                    launch(peer, at, BROKER_PORT, self._cores.proxy, self._directory, self._files // 2 - 100)
                )
                for at, peer in enumerate(self._peers)
            ]
            bench = Bench(self._directory, self._cores, [broker.pid], relays, self._settings)
            for load in _chosen(self._options):
                figures = bench.measure(load, _progress)
                self.result["loads"][load.name] = report.with_ratios(load, figures)
                _say(report.table(load, figures))
        self.result["summary"] = {
            peer.name: report.summary(self.result["loads"], peer.name) for peer in self._peers if peer.name != DIRECT
        }

    def _size(self) -> None:
        sizes = Sizes(self._directory, self._cores, self._files, _progress)
        self.result["size"] = {}
        for peer in self._peers:
            if peer.name == DIRECT:
                continue
            figures = sizes.starts(peer, 3 if self._options.quick else 5) if peer.command else {}
            if not self._options.quick:
                figures |= sizes.idle(peer) | sizes.stalled(peer)
            self.result["size"][peer.name] = report.rounded({peer.name: figures})[peer.name]
            _say(f"{peer.name}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))


def _interrupted(number: int, _: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Measure, print, write the file; the exit code."""
    options = _options()
    if options.list:
        _say("\n".join(load.name for load in LOADS))
        return 0
    signal.signal(signal.SIGTERM, _interrupted)
    began = time.monotonic()
    try:
        enter_namespace()
        run = _Run(options)
        run.all_parts()
    except BenchError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    run.result["seconds"] = round(time.monotonic() - began, 1)
    text = json.dumps(run.result)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text + "\n")
    _say(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
