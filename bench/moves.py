"""The commands of one migration as processes, what each of them took, and producers that write meanwhile."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.machine import BenchError, cpu_seconds, descendants, rss, start, stop

ROOT = Path(__file__).parents[1]
_POLL_S, _TIMEOUT_S = 0.1, 3600.0
# A value that `heldjob` has written.
_WRITTEN = re.compile(rb"\d+-[\d.]+")

Figures = dict[str, float]


class Commands:
    """The commands of a migration, and what each took. `prefix` are words in front of each, as of `nsenter`."""

    def __init__(
        self,
        scratch: Path,
        brokers: Sequence[int],
        progress: Callable[[str], None],
        say: Callable[[str], None],
        prefix: Sequence[str] = (),
    ) -> None:
        from tests.harness.clients.spark import bare_environment, connector, settings, spark_home

        self.figures: dict[str, Figures] = {}
        self._scratch, self._brokers, self._progress, self._say = scratch, brokers, progress, say
        self._prefix, self._file = prefix, scratch / "move.yaml"
        home = spark_home(scratch, defaults=settings(spark_jars=connector(), spark_master="local[2,2]"))
        self._env = bare_environment(home) | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}

    def write_migration(self, addresses: tuple[str, str], kproxies: Sequence[str]) -> None:
        """Write the file of a migration of all topics with a name as `topic-1`."""
        from tests.harness.migration.switched import GREEN, TOKEN

        token = self._scratch / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        source, target = ({"bootstrap-servers": address} for address in addresses)
        value = {
            "name": "large",
            "source": source,
            "target": target,
            "topics": {"include": ["topic-*"]},
            "switch": {
                "kproxies": list(kproxies),
                "token-file": str(token),
                "target-upstream": GREEN,
                "hold-seconds": 25,
            },
        }
        self._file.write_text(json.dumps(value))  # which is YAML as well

    def run(self, command: str, *more: str, step: str = "") -> str:
        """Run a command, and return its output. Raises BenchError if it fails."""
        step = step or " ".join((command, *(word for word in more if word != "--json")))
        self._progress(step)
        output, errors = self._scratch / "output", self._scratch / "errors"
        words = [*self._prefix, sys.executable, "-m", "kproxy", "migrate", command, str(self._file), *more]
        began, brokers = time.monotonic(), cpu_seconds(self._brokers)
        with output.open("wb") as out, errors.open("wb") as err:
            process = start(words, [], stdout=out, stderr=err, cwd=self._scratch, env=self._env)
        watched = _Watched(process.pid)
        try:
            while process.poll() is None:
                watched.look()
                time.sleep(_POLL_S)
                if time.monotonic() - began > _TIMEOUT_S:
                    raise BenchError(f"{step}: not over after {_TIMEOUT_S:g} s")
        finally:
            stop(process)
        brokers_cpu = cpu_seconds(self._brokers) - brokers
        figures = {"seconds": time.monotonic() - began, **watched.figures(), "brokers_cpu_seconds": brokers_cpu}
        self.add(step, {name: round(value, 2) for name, value in figures.items()})
        text = output.read_text(errors="replace")
        if process.returncode:
            end = (text + errors.read_text(errors="replace"))[-3000:]
            raise BenchError(f"{step}: exit code {process.returncode}: {end}")
        return text

    def add(self, step: str, figures: Figures) -> None:
        """Add figures to those of a step."""
        self.figures[step] = self.figures.get(step, {}) | figures
        self._say(f"{step}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))


class _Watched:
    """A process and its descendants: their CPU time and memory so far."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu: dict[int, float] = {}
        self._own = self._all = 0

    def look(self) -> None:
        pids = descendants(self._pid)
        self._cpu |= {pid: used for pid in pids if (used := cpu_seconds([pid]))}
        self._own = max(self._own, rss([self._pid], "VmHWM"))
        self._all = max(self._all, rss(pids))

    def figures(self) -> Figures:
        """Return CPU-seconds, and the peaks in MiB of the process itself and of all."""
        return {"cpu_seconds": sum(self._cpu.values()), "own_mib": self._own / (1 << 20), "mib": self._all / (1 << 20)}


@contextmanager
def writing(
    topic: str, partitions: int, count: int, bootstraps: Sequence[str], prefix: Sequence[str] = ()
) -> Iterator[Callable[[], Mapping[str, Any]]]:
    """Let so many producers write during the context; yields a function that ends them and returns the outcome."""
    words = [*prefix, sys.executable, "-m", "bench.heldjob", topic, str(partitions), str(count), *bootstraps]
    process = start(words, [], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"flows\n":
            raise BenchError("the producers do not write")

        def end() -> Mapping[str, Any]:
            outcome: Mapping[str, Any] = json.loads(process.communicate(b"end\n", timeout=_TIMEOUT_S)[0])
            return outcome

        yield end
    finally:
        stop(process)


def hold_of(output: str, outcome: Mapping[str, Any], target: str, topic: str, partitions: int) -> Figures:
    """Return for how long `switch --json` held writes, the parts of it, and what the producers noticed.

    `wrong` is the number of records that failed, were lost or were duplicated.
    """
    from tests.harness.topics import read_topic

    switch = json.loads(output[output.index("{") :])
    values = [
        value for message in read_topic(target, topic, partitions) if _WRITTEN.fullmatch(value := message.value())
    ]
    return {
        "held": switch["held_seconds"],
        **switch["work_seconds"],
        "longest": outcome["longest_s"],
        "records": outcome["acked"],
        "wrong": len(outcome["failed"]) + abs(outcome["acked"] - len(values)) + len(values) - len(set(values)),
    }
