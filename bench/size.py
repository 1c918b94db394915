"""Start-up, memory, idle connections, slow readers. Each peer starts again, because memory that was used once stays."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.loads import MIB, Kind, Load
from bench.machine import Cores, cpu_seconds, rss
from bench.native import BROKER_PORT, FETCH, SMALL, Holding, LoadGenerator, Request, StubBroker
from bench.peers import Peer, Relay, launch
from bench.windows import Bench, Settings

IDLE = (10, 1_000, 5_000)
STALLED = (16, 64)
_STALLED_REQUEST = Request(FETCH, 17, 50, 16 * MIB)
# The few that are busy beside many that are idle, and those that read beside those that do not.
_ACTIVE = Load("ping", Kind.LATENCY, SMALL, 4, 1, key=True)
_FAST = Load("fast", Kind.BULK, Request(FETCH, 12, 1, MIB), 4, 5, key=True)
_SETTINGS = Settings(warm=0.1, seconds=0.4, windows=3, retries=3)
_QUIET_S = 1.0
# Relays at once, the most connections of each (kproxy's own limit), and relays before a stub broker: a process may have
# so many files, and a relay needs two for a connection.
MANY, _MOST_EACH, _PER_BROKER, _SPARE = 5, 9_900, 2, 200

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Measures one peer after the other. `broker` is the stub broker's process, `files` the limit of open files."""

    directory: Path
    cores: Cores
    broker: int
    files: int
    progress: Callable[[str], None]

    def _launch(self, peer: Peer) -> Relay:
        return launch(peer, 0, BROKER_PORT, self.cores, self.directory, self.files // 2 - 100)

    @property
    def _generator(self) -> LoadGenerator:
        return LoadGenerator(self.directory, self.cores.load)

    def starts(self, peer: Peer, count: int) -> Figures:
        """Measure the seconds from exec until it serves (kproxy: until /readyz is 200), and its memory then."""
        self.progress(f"start-up {peer.name}")
        after, memory = [], []
        for _ in range(count):
            with self._launch(peer) as relay:
                after.append(relay.ready_after)
                memory.append(rss(relay.pids) / MIB)
        return {"ready_after_s": statistics.median(after), "idle_rss_mib": statistics.median(memory)}

    def idle(self, peer: Peer) -> Figures:
        """Measure idle connections: their memory and CPU, and their effect on four busy ones."""
        figures: Figures = {}
        memory: dict[int, int] = {}
        with self._launch(peer) as relay:
            for count in IDLE:
                if count * 2 + 100 > self.files:
                    continue
                self.progress(f"idle {peer.name} {count}")
                with Holding(self._generator, relay.port, SMALL, count):
                    _settle(relay.pids)
                    figures[f"idle_{count}_busy"] = _busy(relay.pids)
                    memory[count] = rss(relay.pids)
                    active = self._measure(relay, _ACTIVE)
                    for name in ("p50_us", "p99_us", "p999_us", "cpu_s_per_million", "rss_mib"):
                        figures[f"idle_{count}_{name}"] = active[name]
            first, last = min(memory), max(memory)
            if last > first:
                figures["kib_per_idle_session"] = (memory[last] - memory[first]) / (last - first) / 1024
        return figures

    def many(self, peer: Peer) -> Figures:
        """Measure idle connections that need more files than a process may have: at several relays, all at once."""
        figures: Figures = {}
        each = min(_MOST_EACH, self.files // _PER_BROKER - _SPARE)
        with ExitStack() as running:
            relays: list[Relay] = []
            held = 0
            for number in range(MANY):
                self.progress(f"idle {peer.name} {MANY} × {each}: {number + 1}")
                upstream = BROKER_PORT + 1 + number // _PER_BROKER
                if number % _PER_BROKER == 0:
                    running.enter_context(StubBroker(self.directory, self.cores.broker, upstream))
                relay = launch(peer, number, upstream, self.cores, self.directory, each)
                relays.append(running.enter_context(relay))
                empty = rss(relay.pids)
                running.enter_context(Holding(self._generator, relay.port, SMALL, each))
                held += each
                _settle(relay.pids)
                figures[f"many_{held}_rss_mib"] = sum(rss(relay.pids) for relay in relays) / MIB
                figures[f"many_{held}_kib_per_session"] = (rss(relay.pids) - empty) / each / 1024
            figures[f"many_{held}_busy"] = sum(_busy(relay.pids) for relay in relays)
        return figures

    def stalled(self, peer: Peer) -> Figures:
        """Measure clients that do not read 16 MB each, beside four that read; then all read and compare each byte."""
        with self._launch(peer) as relay:
            figures = _prefixed("stalled_0_fast", self._measure(relay, _FAST))
            for count in STALLED:
                self.progress(f"stalled readers {peer.name} {count}")
                before = f"stalled_{count}"
                with Holding(self._generator, relay.port, _STALLED_REQUEST, count, "stall") as readers:
                    _settle(relay.pids)
                    figures[f"{before}_rss_mib"] = rss(relay.pids) / MIB
                    figures[f"{before}_busy"] = _busy(relay.pids)
                    figures |= _prefixed(f"{before}_fast", self._measure(relay, _FAST))
                    drained = readers.drain()
                figures[f"{before}_drained"] = drained["frames"]
                figures[f"{before}_drain_mb_per_s"] = drained["bytes"] / drained["seconds"] / 1e6
                figures[f"{before}_peak_rss_mib"] = rss(relay.pids, "VmHWM") / MIB
        return figures

    def _measure(self, relay: Relay, load: Load) -> Figures:
        return Bench(self.directory, self.cores, [self.broker], [relay], _SETTINGS).measure(load)[relay.name]


def _prefixed(prefix: str, figures: Figures) -> Figures:
    return {f"{prefix}_{name}": figures[name] for name in ("mb_per_s", "cpu_s_per_gb", "busy", "rss_mib")}


def _busy(pids: Sequence[int]) -> float:
    """Return the share of a core that processes use, over a second."""
    used = cpu_seconds(pids)
    time.sleep(_QUIET_S)
    return (cpu_seconds(pids) - used) / _QUIET_S


def _settle(pids: Sequence[int]) -> None:
    """Wait until processes have nothing more to do, ten seconds at most."""
    for _ in range(100):
        used = cpu_seconds(pids)
        time.sleep(0.1)
        if cpu_seconds(pids) - used < 0.0005:
            return
