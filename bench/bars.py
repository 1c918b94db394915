"""Targets for kproxy, and whether a run meets them. A missed target fails nothing."""

from __future__ import annotations

import fnmatch
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench import migrate, verify
from bench.peers import HAPROXY, KPROXY
from bench.size import IDLE, STALLED

Result = Mapping[str, Any]
"""What goes to the JSON file."""

Figures = Callable[[Result], Mapping[str, float]]
"""Where in a result → the figure there; the worst of them counts."""

_AT_MOST, _AT_LEAST = "≤", "≥"


@dataclass(frozen=True, slots=True)
class Bar:
    """A target: the worst of some figures must be at most, or at least, a limit."""

    what: str
    sense: str
    limit: float
    figures: Figures
    unit: str = ""

    def judge(self, result: Result) -> dict[str, Any] | None:
        """Return the target with its figure, and whether it is met; None if it was not measured."""
        figures = self.figures(result)
        if not figures:
            return None
        at_most = self.sense == _AT_MOST
        where = (max if at_most else min)(figures, key=figures.__getitem__)
        figure = figures[where]
        return {
            "bar": self.what,
            "limit": f"{self.sense} {self.limit:g}{self.unit}",
            "figure": round(figure, 3),
            "where": where,
            "met": figure <= self.limit if at_most else figure >= self.limit,
        }


def _ratios(figure: str, *loads: str) -> Figures:
    """Return kproxy's ratio to HAProxy for each load whose name matches."""
    return lambda result: dict(_each_ratio(result, figure, loads))


def _median_ratio(figure: str, *loads: str) -> Figures:
    def median(result: Result) -> Mapping[str, float]:
        ratios = [ratio for _, ratio in _each_ratio(result, figure, loads)]
        return {f"median of {len(ratios)}": statistics.median(ratios)} if ratios else {}

    return median


def _each_ratio(result: Result, figure: str, loads: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    for name, entry in result["loads"].items():
        ratios = entry.get("to_haproxy", {}).get(KPROXY, {})
        if figure in ratios and any(fnmatch.fnmatch(name, load) for load in loads):
            yield name, ratios[figure]


def _size(*names: str, factor: float = 1.0) -> Figures:
    return lambda result: {
        name: figure * factor for name, figure in result.get("size", {}).get(KPROXY, {}).items() if name in names
    }


def _clients(result: Result) -> Mapping[str, float]:
    ratio = f"kproxy_to_{HAPROXY}"
    ratios = [entry[ratio] for entry in result.get("clients", {}).values() if ratio in entry]
    return {f"median of {len(ratios)}": statistics.median(ratios)} if ratios else {}


def _metadata_cpu(result: Result) -> Mapping[str, float]:
    """Return milliseconds for each answer beyond those that HAProxy takes to move it."""
    added = {}
    for name, entry in result["loads"].items():
        peers = entry["peers"]
        if name.startswith("metadata-100000-") and {HAPROXY, KPROXY} <= peers.keys():
            added[name] = (peers[KPROXY]["cpu_s_per_million"] - peers[HAPROXY]["cpu_s_per_million"]) / 1000
    return added


def _memory(result: Result) -> Mapping[str, float]:
    """Return MiB under every load, with idle and stalled clients too."""
    loads = {
        name: entry["peers"][KPROXY]["rss_mib"] for name, entry in result["loads"].items() if KPROXY in entry["peers"]
    }
    return loads | _size(*_PEAKS)(result)


def _held(figure: str, *loads: str) -> Figures:
    """Return a figure of the switches with each of these loads."""
    return lambda result: {
        name: entry[figure]
        for name, entry in result.get("held", {}).items()
        if any(fnmatch.fnmatch(name, load) for load in loads)
    }


_PEAKS = (*(f"idle_{count}_rss_mib" for count in IDLE), *(f"stalled_{count}_peak_rss_mib" for count in STALLED))
_BULK = ("fetch-[0-9]*", "produce-[0-9]*")
_MB = 1.048576  # MiB → MB

_at_most, _at_least = partial(Bar, sense=_AT_MOST), partial(Bar, sense=_AT_LEAST)
BARS = (
    _at_most("bulk, CPU per GB, to HAProxy's", limit=1.1, figures=_ratios("cpu_s_per_gb", *_BULK)),
    _at_most("bulk, CPU per GB, to HAProxy's, median", limit=1.0, figures=_median_ratio("cpu_s_per_gb", *_BULK)),
    _at_least("bulk, throughput, to HAProxy's", limit=0.95, figures=_ratios("mb_per_s", *_BULK)),
    _at_least("bulk, throughput, to HAProxy's, median", limit=1.0, figures=_median_ratio("mb_per_s", *_BULK)),
    _at_most("Fetch v17, CPU per GB, to HAProxy's", limit=1.1, figures=_ratios("cpu_s_per_gb", "fetch-v17-*")),
    _at_least("Fetch v17, throughput, to HAProxy's", limit=0.95, figures=_ratios("mb_per_s", "fetch-v17-*")),
    _at_most("ping-pong, 1 connection, p50, to HAProxy's", limit=1.0, figures=_ratios("p50_us", "ping-c1")),
    _at_most("ping-pong, 1 connection, p99, to HAProxy's", limit=1.05, figures=_ratios("p99_us", "ping-c1")),
    _at_least(
        "ping-pong, 64 connections, frames, to HAProxy's", limit=0.95, figures=_ratios("frames_per_s", "ping-c64")
    ),
    _at_least("pipelined small frames, to HAProxy's", limit=0.8, figures=_ratios("frames_per_s", "pipelined-*")),
    _at_most("new connections, CPU, to HAProxy's", limit=1.9, figures=_ratios("cpu_s_per_million", "connect-*")),
    _at_most(
        "metadata, ten brokers, CPU, to HAProxy's", limit=3, figures=_ratios("cpu_s_per_million", "metadata-10-*")
    ),
    _at_most("64 stalled readers, RSS", limit=60, unit=" MB", figures=_size("stalled_64_rss_mib", factor=_MB)),
    _at_most("64 stalled readers, CPU, share of a core", limit=0.005, figures=_size("stalled_64_busy")),
    _at_least("64 stalled readers, drained byte-exact", limit=64, figures=_size("stalled_64_drained")),
    _at_least("real clients, throughput, to HAProxy's, median", limit=0.97, figures=_clients),
    _at_most("metadata, 100,000 partitions, CPU beyond HAProxy's", limit=2, unit=" ms", figures=_metadata_cpu),
    _at_most("RSS, idle", limit=45, unit=" MiB", figures=_size("idle_rss_mib")),
    _at_most("RSS, per idle session", limit=20, unit=" KiB", figures=_size("kib_per_idle_session")),
    _at_most("RSS, under every load", limit=80, unit=" MiB", figures=_memory),
    _at_most(
        "migration, batches over 50, copier's CPU, to MM2's",
        limit=0.25,
        figures=partial(migrate.ratios, least=51, most=10**9),
    ),
    _at_most(
        "migration, batches of 1, copier's CPU, to MM2's", limit=1.0, figures=partial(migrate.ratios, least=1, most=1)
    ),
    _at_most("migration, a task, RSS beyond Spark's worker", limit=150, unit=" MiB", figures=migrate.over_worker),
    _at_most(
        "migration, verify, 1 KB, CPU of both sides per GB",
        limit=15,
        unit=" CPU-s",
        figures=partial(verify.figures, names=("verify-1KB-none-b16", "verify-1KB-lz4-b16")),
    ),
    _at_most("switch, 10 producers, writes held, median", limit=1.0, unit=" s", figures=_held("held", "c10-*")),
    _at_most("switch, 10 producers, writes held, longest", limit=2.0, unit=" s", figures=_held("held_max", "c10-*")),
    _at_most("switch, 100 producers, writes held, longest", limit=2.0, unit=" s", figures=_held("held_max", "c100-*")),
    _at_most("switch, dry-run, median", limit=15, unit=" s", figures=_held("dry_run", "*")),
    _at_most("switch, records failed, lost or doubled", limit=0, figures=_held("wrong", "*")),
    _at_most("ready after exec", limit=0.7, unit=" s", figures=_size("ready_after_s")),
)


def judge(result: Result) -> list[dict[str, Any]]:
    """Judge every target that the result has figures for, in order."""
    return [judged for bar in BARS if (judged := bar.judge(result)) is not None]


def table(judged: list[dict[str, Any]]) -> str:
    """Return the targets as text, a line for each."""
    lines = [f"{'bar':54}{'':>12}{'figure':>10}"]
    for bar in judged:
        verdict = "met   " if bar["met"] else "MISSED"
        lines.append(f"{bar['bar']:54}{bar['limit']:>12}{bar['figure']:10.3f}  {verdict}  {bar['where']}")
    return "\n".join(lines)
