"""Start-up, memory, idle connections, slow readers. Each peer is started anew: memory that was used once stays."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.loads import MIB
from bench.machine import Cores, cpu_seconds, forget_peak, rss
from bench.native import BROKER_PORT, FETCH, SMALL, Holding, LoadGenerator, Request
from bench.peers import Peer, Relay, launch

_IDLE = (10, 1_000, 5_000)
_STALLED = 64
_STALLED_REQUEST = Request(FETCH, 17, 50, 16 * MIB)
_FAST_REQUEST = Request(FETCH, 12, 1, MIB)
_QUIET_S = 1.0
_STARTS = 5

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Measures one peer after the other."""

    directory: Path
    cores: Cores
    files: int
    progress: Callable[[str], None]

    def _launch(self, peer: Peer) -> Relay:
        return launch(peer, 0, BROKER_PORT, self.cores.proxy, self.directory, self.files // 2 - 100)

    @property
    def _generator(self) -> LoadGenerator:
        return LoadGenerator(self.directory, self.cores.load)

    def starts(self, peer: Peer, count: int = _STARTS) -> Figures:
        """Seconds from exec until it serves (kproxy: until /readyz says so), and its memory then."""
        self.progress(f"start-up {peer.name}")
        after, memory = [], []
        for _ in range(count):
            with self._launch(peer) as relay:
                after.append(relay.ready_after)
                memory.append(rss(relay.pids) / MIB)
        return {"ready_after_s": statistics.median(after), "idle_rss_mib": statistics.median(memory)}

    def idle(self, peer: Peer) -> Figures:
        """Connections that do nothing: memory of each, CPU of all, and what another connection feels of them."""
        figures: Figures = {}
        with self._launch(peer) as relay:
            pids = relay.pids
            memory: dict[int, int] = {}
            for count in _IDLE:
                if count * 2 + 100 > self.files:
                    continue
                self.progress(f"idle {peer.name} {count}")
                with Holding(self._generator, relay.port, SMALL, count):
                    used = cpu_seconds(pids)
                    time.sleep(_QUIET_S)
                    figures[f"idle_{count}_busy"] = (cpu_seconds(pids) - used) / _QUIET_S
                    memory[count] = rss(pids)
                    figures[f"idle_{count}_rss_mib"] = memory[count] / MIB
                    ping = self._generator.measure(
                        relay.port, SMALL, connections=1, depth=1, warm=0.1, seconds=0.5, pids=pids
                    )
                    figures[f"idle_{count}_ping_p50_us"] = ping["p50"]
                    figures[f"idle_{count}_ping_p99_us"] = ping["p99"]
            first, last = min(memory), max(memory)
            if last > first:
                figures["kib_per_idle_session"] = (memory[last] - memory[first]) / (last - first) / 1024
        return figures

    def stalled(self, peer: Peer) -> Figures:
        """64 clients that read nothing of 16 MB each, beside one that reads; then all read, and every byte counts."""
        self.progress(f"stalled readers {peer.name}")
        with self._launch(peer) as relay:
            pids = relay.pids
            forget_peak(pids)
            with Holding(self._generator, relay.port, _STALLED_REQUEST, _STALLED, "stall") as readers:
                self._settle(pids)
                figures = {"stalled_rss_mib": rss(pids) / MIB}
                used = cpu_seconds(pids)
                time.sleep(_QUIET_S)
                figures["stalled_busy"] = (cpu_seconds(pids) - used) / _QUIET_S
                fast = self._generator.measure(
                    relay.port, _FAST_REQUEST, connections=1, depth=5, warm=0.1, seconds=0.5, pids=pids
                )
                figures["fast_mb_per_s"] = fast["bytes"] / fast["seconds"] / 1e6
                drained = readers.drain()
            figures["drained_mb_per_s"] = drained["bytes"] / drained["seconds"] / 1e6
            figures["drained_frames"] = drained["frames"]
            figures["stalled_peak_rss_mib"] = rss(pids, "VmHWM") / MIB
            return figures

    @staticmethod
    def _settle(pids: list[int]) -> None:
        """Wait until a peer has nothing more to do, ten seconds at most."""
        for _ in range(100):
            used = cpu_seconds(pids)
            time.sleep(0.1)
            if cpu_seconds(pids) - used < 0.0005:
                return
