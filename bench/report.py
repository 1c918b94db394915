"""The result as the JSON file and as text for people."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.loads import Kind, Load
from bench.peers import DIRECT, HAPROXY

Figures = Mapping[str, float]

# Figures whose ratio is meaningful.
_COMPARED = (
    "mb_per_s",
    "frames_per_s",
    "cpu_s_per_gb",
    "cpu_s_per_million",
    "p50_us",
    "p99_us",
    "p999_us",
    "rss_mib",
)
_SHOWN = {
    Kind.BULK: ("mb_per_s", "cpu_s_per_gb"),
    Kind.FRAMES: ("frames_per_s", "cpu_s_per_million"),
    Kind.LATENCY: ("frames_per_s", "cpu_s_per_million", "p50_us", "p99_us", "p999_us"),
    Kind.METADATA: ("frames_per_s", "cpu_s_per_million", "p50_us"),
    Kind.CONNECT: ("frames_per_s", "cpu_s_per_million", "p50_us", "p99_us"),
}
_HEADINGS = {
    "mb_per_s": "MB/s",
    "frames_per_s": "per s",
    "cpu_s_per_gb": "CPU-s/GB",
    "cpu_s_per_million": "CPU-s/million",
    "p50_us": "p50 µs",
    "p99_us": "p99 µs",
    "p999_us": "p99.9 µs",
}


def machine() -> dict[str, Any]:
    """Describe the machine of the measurements."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "congestion_control": Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip(),
    }


def with_ratios(load: Load, peers: Mapping[str, Figures]) -> dict[str, Any]:
    """Return one load's figures by peer, with each peer's ratios to HAProxy's (tuned) and to direct's."""
    result: dict[str, Any] = {"kind": load.kind.value, "peers": rounded(peers)}
    for base, name in ((HAPROXY, "to_haproxy"), (DIRECT, "to_direct")):
        if base in peers:
            result[name] = {peer: _ratios(figures, peers[base]) for peer, figures in peers.items() if peer != base}
    return result


def _ratios(figures: Figures, base: Figures) -> dict[str, float]:
    return {name: round(figures[name] / base[name], 3) for name in _COMPARED if name in figures and base.get(name)}


def rounded(peers: Mapping[str, Figures]) -> dict[str, dict[str, float]]:
    return {
        peer: {name: round(value, 4) if value < 10 else round(value, 1) for name, value in figures.items()}
        for peer, figures in peers.items()
    }


def table(load: Load, peers: Mapping[str, Figures]) -> str:
    """Return a load as text, a line for each peer."""
    columns = [name for name in _SHOWN[load.kind] if any(name in figures for figures in peers.values())]
    heads = "".join(f"{_HEADINGS[name]:>15}" for name in columns)
    lines = [f"{load.name:32}{heads}{'busy':>7}{'load':>6}{'RSS MiB':>9}{'foreign':>9}"]
    base = peers.get(HAPROXY)
    for peer, figures in peers.items():
        cells = "".join(f"{_cell(figures, name, base if peer != HAPROXY else None):>15}" for name in columns)
        memory = f"{figures['rss_mib']:9.1f}" if "rss_mib" in figures else " " * 9
        lines.append(
            f"  {peer:30}{cells}{figures.get('busy', 0):7.2f}{figures['load_busy']:6.2f}{memory}"
            f"{figures['foreign']:9.1%}"
        )
    return "\n".join(lines)


def _cell(figures: Figures, name: str, base: Figures | None) -> str:
    if name not in figures:
        return ""
    value = figures[name]
    text = f"{value:.3f}" if value < 10 else f"{value:,.0f}"
    return f"{text} {value / base[name]:4.2f}x" if base and base.get(name) else text
