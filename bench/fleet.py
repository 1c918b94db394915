"""The driver of a switch with many kproxies, which are simulated: how long it takes to hold, flip, commit and release.

The work in between (copy, compare, positions) is left out, as it does not depend on how many kproxies there are.
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

COUNTS = (3, 100, 1000)
_FIRST_PORT = 20000
# The longest hold that there is: clients give up at 30 s.
_HOLD_S = 25.0


class _Journal:
    """Nowhere: what the target's brokers take for it is not the driver's time."""

    def write(self, entry: SwitchEntry, seconds: float = 30.0) -> SwitchEntry:
        return entry


def measure(rounds: int, progress: Callable[[str], None], say: Callable[[str], None]) -> dict[str, Any]:
    """Medians by how many kproxies there are: seconds of all, of the hold, and of CPU of the driver."""
    result = {}
    for count in COUNTS:
        taken = []
        for turn in range(rounds):
            progress(f"{count} kproxies {turn + 1}")
            taken.append(_run(count))
        result[str(count)] = {name: round(statistics.median(one[name] for one in taken), 3) for name in taken[0]}
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
