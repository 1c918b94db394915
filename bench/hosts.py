"""A move with many real kproxies, each on a host of its own: a network namespace, with its own address.

Two clusters on a host, and the driver and ten producers on another. Needs root. What `fleet` simulates in one process
is real here: processes, sockets, and the network between the hosts, which is a bridge of Linux.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from bench.clients import memory
from bench.growth import growth
from bench.large import HEAP, PROPERTIES, VERSION
from bench.machine import BenchError, cpu_seconds, descendants, rss
from bench.migratejob import make
from bench.moves import Commands, Figures, hold_of, writing

COUNTS = (3, 50, 200)
_TOPIC, _PARTITIONS, _PRODUCERS = "topic-1", 50, 10
_BROKERS, _DRIVER = "10.0.0.2", "10.0.0.3"
_LISTEN, _ADMIN = 9092, 9091
# Kproxies that start at the same time; how long a start may take, and how long an idle fleet is watched, in seconds.
_AT_ONCE, _START_S, _IDLE_S = 8, 180.0, 10.0


def measure(
    wanted: Callable[[str], bool], rounds: int, progress: Callable[[str], None], say: Callable[[str], None]
) -> dict[str, Any]:
    """Measure each command of a move by number of kproxies, and how much the largest exceeds n log n.

    `fleet` has the MiB of a kproxy (median), and the share of a core that all of them use while clients are idle.
    """
    from kproxy.base.errors import KproxyError
    from tests.harness.network import unavailable

    if problem := unavailable():
        raise BenchError(problem)
    del rounds
    counts = [count for count in COUNTS if wanted(str(count))]
    taken: dict[int, dict[str, Figures]] = {}
    try:
        for count in counts:
            taken[count] = _measure(count, progress, say)
    except (KproxyError, AssertionError) as error:
        raise BenchError(f"hosts: {error}") from None
    result: dict[str, Any] = {str(count): figures for count, figures in taken.items()}
    if len(counts) > 1:
        result["held_to_n_log_n"] = growth({count: taken[count]["switch"]["held"] for count in counts})
        say(f"the hold, to n log n: {result['held_to_n_log_n']:.2f}")
    return result


def _measure(count: int, progress: Callable[[str], None], say: Callable[[str], None]) -> dict[str, Figures]:
    from kproxy.dev.devcluster import DevCluster
    from kproxy.dev.devcluster.jars import DEFAULT_VERSION
    from tests.harness.network import Network

    with ExitStack() as running:
        enter = running.enter_context
        scratch = Path(enter(tempfile.TemporaryDirectory()))
        network = enter(Network())
        site = enter(network.host("brokers", f"{_BROKERS}/16"))
        clusters = []
        for version in (VERSION, DEFAULT_VERSION):
            cluster = DevCluster(
                1,
                version=version,
                advertised=f"{_BROKERS}:{{port}}",
                client_bound=f"{_BROKERS}:{{port}}",
                properties=PROPERTIES,
                heap=HEAP,
                directory=memory(),
                progress=progress,
            )
            running.callback(cluster.stop, timeout=0)
            clusters.append(site.call(cluster.start))
        addresses = clusters[0].bootstrap, clusters[1].bootstrap
        site.call(make, addresses[0], _TOPIC, _PARTITIONS, "delete")
        driver = enter(network.host("driver", f"{_DRIVER}/16"))
        fleet = [_Host(network, running, scratch, number, addresses) for number in range(count)]
        began = time.monotonic()
        for first in range(0, count, _AT_ONCE):
            progress(f"kproxies: {first} of {count}")
            for kproxy in fleet[first : first + _AT_ONCE]:
                kproxy.start(running)
            for kproxy in fleet[first : first + _AT_ONCE]:
                driver.call(kproxy.wait)
        figures = {"start_seconds": time.monotonic() - began}
        prefix = ["nsenter", f"--target={driver.pid}", "--net"]
        brokers = [pid for cluster in clusters for pid in cluster.pids.values()]
        commands = Commands(scratch, brokers, progress, lambda text: say(f"{count} kproxies: {text}"), prefix)
        commands.add("fleet", figures | _idle([pid for kproxy in fleet for pid in kproxy.pids]))
        commands.write_migration(addresses, [kproxy.admin for kproxy in fleet])
        commands.run("prepare")
        step = max(1, count // _PRODUCERS)
        with writing(_TOPIC, _PARTITIONS, _PRODUCERS, [each.bootstrap for each in fleet[::step]], prefix) as end:
            commands.run("plan")
            commands.run("observe", "--for", "10s")
            commands.run("copy")
            output = commands.run("switch", "--json")
            outcome = end()
        hold = driver.call(hold_of, output, outcome, addresses[1], _TOPIC, _PARTITIONS)
        commands.add("switch", hold)
        commands.run("status")
        commands.run("finish", "--dry-run")
        return commands.figures


class _Host:
    """A kproxy on a host."""

    def __init__(
        self, network: Any, running: ExitStack, scratch: Path, number: int, addresses: tuple[str, str]
    ) -> None:
        from kproxy.proxy.switching import asjson
        from kproxy.proxy.switching.asjson import SavedState
        from kproxy.proxy.switching.participant import ParticipantState
        from tests.harness.migration.switched import BLUE, GREEN, TOKEN

        address = f"10.0.{1 + number // 250}.{1 + number % 250}"
        self.admin, self.bootstrap = f"{address}:{_ADMIN}", f"{address}:{_LISTEN}"
        self._host = running.enter_context(network.host(f"kp{number}", f"{address}/16"))
        directory = scratch / f"kp{number}"
        (directory / "state").mkdir(parents=True)
        token = directory / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        # Without this, a hold would wait until clients of a former kproxy have given up.
        state = SavedState(ParticipantState(BLUE), ended=True, fetched=())
        (directory / "state" / "cluster-default.json").write_bytes(asjson.encode_state_file("default", state))
        upstreams = {
            name: {"bootstrap-servers": servers} for name, servers in zip((BLUE, GREEN), addresses, strict=True)
        }
        config = {
            "listen": self.bootstrap,
            "admin": self.admin,
            "admin-token-file": str(token),
            "state-dir": str(directory / "state"),
            "active": BLUE,
            "upstreams": upstreams,
        }
        self._config, self._log = directory / "kproxy.yaml", directory / "kproxy.log"
        self._config.write_text(json.dumps(config))  # which is YAML as well
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pids(self) -> Sequence[int]:
        return [] if self._process is None else descendants(self._process.pid)

    def start(self, running: ExitStack) -> None:
        """Start kproxy; it ends with its host."""
        from tests.harness.network import KPROXY

        log = running.enter_context(self._log.open("wb"))
        self._process = self._host.start(*KPROXY, "run", "--config", str(self._config), log=log)
        running.callback(self._end)

    def wait(self) -> None:
        """Wait until it knows both clusters; call it on a host. Raises BenchError."""
        until = time.monotonic() + _START_S
        while not self._knows_clusters():
            if time.monotonic() > until:
                raise BenchError(f"{self.admin} is not ready: {self._log.read_text(errors='replace')[-1000:]}")
            time.sleep(0.1)

    def _knows_clusters(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://{self.admin}/status", timeout=5) as answer:
            return all(upstream["cluster_id"] for upstream in json.load(answer)["clusters"][0]["upstreams"])
        return False

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _idle(pids: Sequence[int]) -> Figures:
    used = cpu_seconds(pids)
    time.sleep(_IDLE_S)
    return {
        "idle_cores": (cpu_seconds(pids) - used) / _IDLE_S,
        "mib_each": statistics.median(rss([pid]) for pid in pids) / (1 << 20),
    }
