"""Measuring: short windows, the peers in turn, again where another program used the cores, medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.loads import Kind, Load
from bench.machine import Cores, forget_peak, rss
from bench.native import LoadGenerator
from bench.peers import Relay

# A window with a larger share of foreign CPU time than this is measured again.
_FOREIGN = 0.03
# /proc/stat counts in ticks of 10 ms, and a window cuts one at each end.
_TICKS_S = 0.02


@dataclass(frozen=True, slots=True)
class Settings:
    """Lengths and numbers: seconds before a window and in it, windows of each peer, and their maximum."""

    warm: float
    seconds: float
    windows: int
    retries: int


@dataclass(frozen=True, slots=True)
class Window:
    """Figures of one window, and the share of its time that other programs used."""

    figures: dict[str, float]
    foreign: float


class Bench:
    """The running peers, and how to measure them."""

    def __init__(
        self, directory: Any, cores: Cores, brokers: Sequence[int], relays: Sequence[Relay], settings: Settings
    ) -> None:
        self.cores = cores
        self.brokers = list(brokers)  # process ids: the broker's, and of what stands before it
        self.relays = relays
        self.settings = settings
        self.generator = LoadGenerator(directory, cores.load)
        # With nothing in between, the client has the proxy's core.
        self._beside = LoadGenerator(directory, cores.proxy)

    def measure(self, load: Load, progress: Callable[[str], None] = lambda text: None) -> dict[str, dict[str, float]]:
        """Return the medians of each peer's windows, by its name; of variants only with key loads."""
        relays = [relay for relay in self.relays if load.key or not relay.peer.variant]
        taken: dict[str, list[Window]] = {relay.name: [] for relay in relays}
        for turn in range(self.settings.windows + self.settings.retries):
            # Each peer comes first in some turn.
            first = turn % len(relays)
            for relay in (*relays[first:], *relays[:first]):
                windows = taken[relay.name]
                if sum(window.foreign <= _FOREIGN for window in windows) < self.settings.windows:
                    progress(f"{load.name} {relay.name} {turn + 1}")
                    windows.append(self._window(load, relay))
        return {name: _median(windows, self.settings.windows) for name, windows in taken.items()}

    def _window(self, load: Load, relay: Relay) -> Window:
        pids = relay.pids
        forget_peak(pids)
        generator = self.generator if pids else self._beside
        raw = generator.measure(
            relay.port,
            load.request,
            mode=load.mode,
            connections=load.connections,
            depth=load.depth,
            warm=self.settings.warm,
            seconds=self.settings.seconds,
            pids=[*self.brokers, *pids],
        )
        figures = _figures(load, raw, len(self.brokers))
        if pids:
            figures["rss_mib"] = rss(pids, "VmHWM") / 2**20
        used = {self.cores.proxy, self.cores.load, self.cores.broker}
        return Window(figures, _foreign(raw, used, len(self.brokers), relayed=bool(pids)))


def _figures(load: Load, raw: dict[str, Any], brokers: int) -> dict[str, float]:
    seconds, frames, size = raw["seconds"], raw["frames"], raw["bytes"]
    cpu = sum(raw["cpu"][brokers:])
    figures = {"mb_per_s": size / seconds / 1e6, "frames_per_s": frames / seconds}
    if len(raw["cpu"]) > brokers:
        figures["busy"] = cpu / seconds
        if size:
            figures["cpu_s_per_gb"] = cpu / size * 1e9
        if frames:
            figures["cpu_s_per_million"] = cpu / frames * 1e6
    # How busy the other core is: near 1, the load generator or the stub broker was the limit.
    figures["load_busy"] = (raw["own_cpu"] + sum(raw["cpu"][:brokers])) / seconds
    if load.kind in (Kind.LATENCY, Kind.CONNECT, Kind.METADATA):
        figures |= {f"{name}_us": raw[name] for name in ("p50", "p99", "p999")}
    return figures


def _foreign(raw: dict[str, Any], used: set[int], brokers: int, *, relayed: bool) -> float:
    """Return the share of the window in which another program used one of the cores."""
    seconds = raw["seconds"]
    waited = sum(raw["waited"][brokers:])
    if not relayed:
        waited = raw["own_waited"]
    elif len(raw["waited"]) > brokers + 1:
        waited = 0.0  # several processes wait for each other
    idle = raw["idle"]
    if max(used) >= len(idle):  # a container that shows other cores than it has
        return float(waited / seconds)
    busy = len(used) * seconds - sum(idle[core] for core in used)
    ours = raw["own_cpu"] + sum(raw["cpu"])
    elsewhere = max(0.0, busy - ours - len(used) * _TICKS_S)
    return float(max(waited, elsewhere, raw["stolen"] - _TICKS_S) / seconds)


def _median(windows: list[Window], count: int) -> dict[str, float]:
    best = sorted(windows, key=lambda window: window.foreign)[:count]
    names = best[0].figures
    medians = {name: statistics.median(window.figures.get(name, 0.0) for window in best) for name in names}
    medians["foreign"] = statistics.median(window.foreign for window in best)
    return medians
