"""The tables of docs/performance.md: `python -m bench.tables build/bench.json` writes them in place.

A table stands between `<!-- bench NAME -->` and `<!-- end -->`; tables without new figures stay.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.migrate import COPIER, THROUGH
from bench.mirrormaker import AT_LEAST_ONCE, AT_LEAST_ONCE_TUNED, EXACTLY_ONCE
from bench.peers import DIRECT, HAPROXY, HAPROXY_DEFAULT, KPROXY, PORTABLE
from bench.size import IDLE, STALLED

Result = Mapping[str, Any]
Row = Sequence[str]

DOCUMENT = Path(__file__).parents[1] / "docs" / "performance.md"
_VARIANTS = (HAPROXY_DEFAULT, KPROXY, PORTABLE)


def _markdown(heads: Row, rows: Sequence[Row]) -> str:
    """Return a table, or nothing without rows."""
    if not rows:
        return ""
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _machine(result: Result) -> str:
    if not result["loads"]:
        return ""  # of another run than the tables that the text stands above
    machine = result["machine"]
    foreign = [figures["foreign"] for entry in result["loads"].values() for figures in entry["peers"].values()]
    return (
        f"Measured on {machine['cores']} cores of {machine['cpu']}, Linux {machine['kernel'].split('-')[0]}, "
        f"Python {machine['python']}, in {result['seconds'] / 60:.0f} minutes.\n"
        f"Other processes took {statistics.median(foreign or [0.0]):.1%} of the CPU time of a window (median).\n"
    )


def _bars(*, migration: bool) -> Callable[[Result], str]:
    def table(result: Result) -> str:
        rows = [
            (
                bar["bar"],
                bar["limit"],
                _number(bar["figure"]),
                "met" if bar["met"] else "**missed**",
                f"`{bar['where']}`",
            )
            for bar in result.get("bars", ())
            if bar["bar"].startswith("migration") == migration
        ]
        return _markdown(("target", "limit", "figure", "", "worst load"), rows)

    return table


def _loads(
    patterns: Sequence[str], main: tuple[str, str], *more: tuple[str, str], part: str = "loads"
) -> Callable[[Result], str]:
    """Return the loads whose names match: `main`, a figure and its heading, of three peers; `more` of the relays."""

    def table(result: Result) -> str:
        rows = []
        for name, entry in result.get(part, {}).items():
            if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                continue
            row = [f"`{name}`", _number(_figure(entry, DIRECT, main[0]))]
            for figure, _ in (main, *more):
                ratio = entry.get("to_haproxy", {}).get(KPROXY, {}).get(figure)
                row += [
                    _number(_figure(entry, HAPROXY, figure)),
                    _number(_figure(entry, KPROXY, figure)),
                    _times(ratio),
                ]
            rows.append([*row, _number(_figure(entry, KPROXY, "rss_mib"))])
        heads = [f"load; {main[1]}:", DIRECT, HAPROXY, KPROXY, "ratio"]
        for _, title in more:
            heads += [f"{title}: {HAPROXY}", KPROXY, "ratio"]
        return _markdown([*heads, "RSS, MiB"], rows)

    return table


def _figure(entry: Mapping[str, Any], peer: str, name: str) -> float | None:
    figure: float | None = entry["peers"].get(peer, {}).get(name)
    return figure


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _variants(result: Result) -> str:
    """Return variants compared with their base: throughput (or frames) and CPU as ratios to HAProxy's."""
    rows = []
    for name, entry in result["loads"].items():
        ratios = entry.get("to_haproxy", {})
        if PORTABLE in ratios:
            pairs = [ratios.get(peer, {}) for peer in _VARIANTS]
            rows.append(
                [f"`{name}`"]
                + [f"{_times(pair.get('frames_per_s'))} / {_times(pair.get('cpu_s_per_million'))}" for pair in pairs]
            )
    return _markdown(("load; to HAProxy's throughput / CPU:", *_VARIANTS), rows)


def _sizes(result: Result, rows: Sequence[tuple[str, str]]) -> str:
    sizes = result.get("size", {})
    peers = [peer for peer, figures in sizes.items() if any(name in figures for name, _ in rows)]
    return _markdown(
        ("", *peers),
        [
            (title, *(_number(sizes[peer].get(name)) for peer in peers))
            for name, title in rows
            if any(name in sizes[peer] for peer in peers)
        ],
    )


def _start(result: Result) -> str:
    return _sizes(
        result,
        [
            ("ready_after_s", "seconds from exec to ready"),
            ("idle_rss_mib", "RSS, MiB"),
            ("kib_per_idle_session", "RSS of an idle session, KiB"),
        ],
    )


def _idle(result: Result) -> str:
    figures = {
        "busy": "CPU when all are idle, share of a core",
        "p50_us": "p50 of four busy ones, µs",
        "p99_us": "p99, µs",
        "p999_us": "p99.9, µs",
        "cpu_s_per_million": "CPU-s per million frames",
        "rss_mib": "RSS, MiB",
    }
    return _sizes(result, [(f"idle_{n}_{name}", f"{n:,}: {title}") for n in IDLE for name, title in figures.items()])


def _stalled(result: Result) -> str:
    beside = {"fast_mb_per_s": "MB/s of four fast readers", "fast_cpu_s_per_gb": "their CPU-s per GB"}
    alone = {
        "rss_mib": "RSS while they stall, MiB",
        "busy": "CPU while they stall, share of a core",
        "peak_rss_mib": "peak RSS while they drain, MiB",
        "drained": "drained byte-exact",
    }
    rows = [(f"stalled_0_{name}", f"0: {title}") for name, title in beside.items()]
    rows += [(f"stalled_{n}_{name}", f"{n}: {title}") for n in STALLED for name, title in (beside | alone).items()]
    return _sizes(result, rows)


def _clients(result: Result) -> str:
    clients = result.get("clients", {})
    rows = [
        (
            f"`{what}`",
            *(_number(entry["mb_per_s"].get(peer)) for peer in (DIRECT, HAPROXY, KPROXY)),
            *(_times(entry.get(f"kproxy_to_{peer}")) for peer in (HAPROXY, DIRECT)),
            *(_number(entry["proxy_cpu_s_per_gb"].get(peer)) for peer in (HAPROXY, KPROXY)),
        )
        for what, entry in clients.items()
    ]
    heads = ("client; MB/s:", DIRECT, HAPROXY, KPROXY, "to HAProxy's", "to direct's", "CPU-s/GB: haproxy", "kproxy")
    return _markdown(heads, rows)


def _spark(result: Result) -> str:
    rows = [
        (what, _number(entry.get(DIRECT)), _number(entry.get(KPROXY)), _times(entry.get("ratio")))
        for what, entry in result.get("spark", {}).items()
    ]
    return _markdown(("seconds:", DIRECT, KPROXY, "ratio"), rows)


def _migrate(figure: str, ratio: str) -> Callable[[Result], str]:
    """Return one figure of each peer, by load, and the copier's as a ratio to each MirrorMaker's."""

    theirs = (AT_LEAST_ONCE, EXACTLY_ONCE, AT_LEAST_ONCE_TUNED)

    def table(result: Result) -> str:
        rows = []
        for name, entry in result.get("migrate", {}).get("loads", {}).items():
            ours = [_figure(entry, COPIER, "mb_per_s_and_core"), _figure(entry, COPIER, "over_worker_mib")]
            rows.append(
                [f"`{name}`"]
                + [_number(_figure(entry, peer, figure)) for peer in (COPIER, *theirs)]
                + [f"{entry['ratios'][mode][ratio]:.3f}" for mode in theirs]
                + ([_number(peer) for peer in ours] if ratio == "copier" else [])
            )
        heads = ["load; CPU-s/GB:", COPIER, *theirs, "to mm2's", "to exactly-once", "to tuned"]
        return _markdown(heads + (["MB/s and core", "MiB"] if ratio == "copier" else []), rows)

    return table


def _migrate_through(result: Result) -> str:
    rows = [
        (
            f"`{name}`",
            *(_number(_figure(entry, peer, "cpu_s_per_gb")) for peer in (COPIER, THROUGH)),
            _number(_figure(entry, THROUGH, "proxy_cpu_s_per_gb")),
        )
        for name, entry in result.get("migrate", {}).get("loads", {}).items()
        if THROUGH in entry["peers"]
    ]
    return _markdown(("load; CPU-s/GB:", "copier, direct", "copier, through kproxy", "kproxy"), rows)


def _migrate_verify(result: Result) -> str:
    verify_result = result.get("migrate", {}).get("verify", {})
    figures = ("cpu_s_per_gb", "first_cpu_s_per_gb", "us_per_record", "mb_per_s")
    rows = [
        (f"`{name}`", *(_number(entry[figure]) for figure in figures))
        for name, entry in verify_result.get("loads", {}).items()
    ]
    if rows:
        rows.append(("Spark's start, CPU-s", _number(verify_result["start_cpu_s"]), "", "", ""))
        rows.append(("a first verification of 50 MB, CPU-s", _number(verify_result["first_cpu_s"]), "", "", ""))
    return _markdown(("load", "CPU-s/GB", "at first", "µs a record", "MB/s"), rows)


_THROUGHPUT, _CPU_GB = ("mb_per_s", "MB/s"), ("cpu_s_per_gb", "CPU-s/GB")
_FRAMES, _CPU_MILLION = ("frames_per_s", "frames/s"), ("cpu_s_per_million", "CPU-s/million")
TABLES: Mapping[str, Callable[[Result], str]] = {
    "machine": _machine,
    "bars": _bars(migration=False),
    "bulk": _loads(("fetch-[0-9]*", "produce-[0-9]*"), _THROUGHPUT, _CPU_GB),
    "partitions": _loads(("fetch-v*", "produce-v*"), _THROUGHPUT, _CPU_GB),
    "ping": _loads(("ping-*",), ("p50_us", "p50 µs"), ("p99_us", "p99 µs"), ("p999_us", "p99.9 µs"), _CPU_MILLION),
    "frames": _loads(("pipelined-*", "connect-*", "metadata-*"), _FRAMES, _CPU_MILLION),
    "variants": _variants,
    "tls": _loads(("*",), _FRAMES, _CPU_MILLION, part="tls"),
    "start": _start,
    "idle": _idle,
    "stalled": _stalled,
    "clients": _clients,
    "spark": _spark,
    "migrate": _migrate("cpu_s_per_gb", "copier"),
    "migratebars": _bars(migration=True),
    "migratebrokers": _migrate("brokers_cpu_s_per_gb", "with_brokers"),
    "migratethrough": _migrate_through,
    "migrateverify": _migrate_verify,
}


# A whole run takes hours: one with --only writes its rows, and the others keep what stood there.
_ROW_BY_ROW = ("migrate", "migratebrokers", "migratethrough", "migrateverify")


def _merged(old: str, new: str) -> str:
    """Merge the rows of both by their first cells; those of `new` win."""
    if old.splitlines()[:2] != new.splitlines()[:2]:
        return new
    rows = {line.split("|")[1]: line for line in [*old.splitlines(), *new.splitlines()]}
    return "".join(line + "\n" for line in rows.values())


def fill(text: str, result: Result) -> str:
    """Return the document with the tables of this run. Raises KeyError for a name that no table has."""

    def replace(match: re.Match[str]) -> str:
        table = TABLES[match["name"]](result)
        if table and match["name"] in _ROW_BY_ROW:
            table = _merged(match["table"], table)
        return f"{match['open']}\n{table}{match['close']}" if table else match[0]

    pattern = r"(?P<open><!-- bench (?P<name>\w+) -->)\n(?P<table>.*?)(?P<close><!-- end -->)"
    return re.sub(pattern, replace, text, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tables", description=__doc__)
    parser.add_argument("result", type=Path, help="build/bench.json")
    result = json.loads(parser.parse_args().result.read_text())
    DOCUMENT.write_text(fill(DOCUMENT.read_text(), result))


if __name__ == "__main__":
    main()
