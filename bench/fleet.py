"""The driver of a switch with many simulated kproxies: the time to hold, flip, commit and release.

The work in between (copy, compare, positions) is left out, because it does not depend on the number of kproxies.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.fleetjob import UPSTREAMS
from bench.machine import BenchError, start, stop
from kproxy.migrate.journal.switch_journal import SWITCHING, SwitchEntry
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.drive import Drive, DriveResult
from kproxy.migrate.switch.fleet import open_fleet
from kproxy.proxy.switching.twophase import CoordinatorOutcome, SwitchPlan, driver_id

COUNTS = (3, 50, 100, 200, 1000)
_FIRST_PORT = 20000
# The longest possible hold: clients give up at 30 s.
_HOLD_S = 25.0


class _Journal:
    """A journal that is written nowhere: the target brokers' time is not the driver's time."""

    def write(self, entry: SwitchEntry, seconds: float = 30.0) -> SwitchEntry:
        return entry


def measure(rounds: int, progress: Callable[[str], None], say: Callable[[str], None]) -> dict[str, Any]:
    """Return medians by number of kproxies: seconds of the whole switch, of the hold, and of the driver's CPU."""
    result = {}
    for count in COUNTS:
        taken = []
        for turn in range(rounds):
            progress(f"{count} kproxies {turn + 1}")
            taken.append(_run(count))
        result[str(count)] = {
            name: round(statistics.median(round_result[name] for round_result in taken), 3) for name in taken[0]
        }
        figures = ", ".join(f"{name} {value:.3g}" for name, value in result[str(count)].items())
        say(f"a switch of {count} simulated kproxies: {figures}")
    return result


def _run(count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.fleetjob", str(count), str(_FIRST_PORT)]
    process = start(command, [], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if not process.stdout.readline().strip():
            raise BenchError("the simulated kproxies did not start")
        names = tuple(f"127.0.0.1:{_FIRST_PORT + number}" for number in range(count))
        began, cpu = time.monotonic(), time.process_time()
        driven = _driven(names)
        figures = {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu}
    finally:
        stop(process)
    if driven.end is not CoordinatorOutcome.RELEASED or driven.held_seconds is None:
        raise BenchError(f"a switch of {count} simulated kproxies ended as {driven.end}: {'; '.join(driven.reasons)}")
    return {**figures, "held_seconds": driven.held_seconds}


def _driven(names: tuple[str, ...]) -> DriveResult:
    former, to = UPSTREAMS
    plan = SwitchPlan("bench", driver_id(1, "bench"), names, former, to, _HOLD_S, work=())
    with open_fleet(SwitchSection(KproxySelection(names), to)) as those:
        return Drive(plan, those, _Journal(), SwitchEntry("bench", SWITCHING, "default", former, to, names), {}).run()
