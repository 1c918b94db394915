"""Faults of a running migration: whatever is killed or paused, the copy continues exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import yaml

from kproxy.base.errors import KproxyError
from kproxy.dev.devcluster import DevCluster
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.statetopic import CopiedPartition, read_copied_partitions
from kproxy.migrate.spec.document import read_migration
from kproxy.spark.host import query_proxy
from tests.harness.clients.spark import TWO_EXECUTORS, spark_home
from tests.harness.migration.moving import Copying, Load, compared, loading, rows, topics, until

NAME = "harmed"
PLAIN, TRANSACTIONAL = {"plain": 3}, {"transactional": 2}
# The copy counts as going on when so many records more have come.
_MORE = 1000
_PROPERTIES = {
    "default.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}


class Site:
    """Two clusters, continuous records, and the copy. `copied` is read from the target only."""

    def __init__(self, source: DevCluster, target: DevCluster, copying: Copying, chance: random.Random) -> None:
        self.source, self.target, self.copying, self.chance = source, target, copying, chance
        self.acts: dict[str, Callable[[], None]] = {
            "task": lambda: self._kill(self.copying.tasks),
            "executor": lambda: self._kill(self.copying.executors),
            "driver": self._driver,
            "zombie": self._zombie,
            "kproxy": self._kproxy,
            "source broker": lambda: self._broker(self.source),
            "target broker": lambda: self._broker(self.target),
            "leaders": self._leaders,
        }

    def state(self) -> dict[tuple[str, int], CopiedPartition]:
        """Return the state of each partition, once it exists."""
        said = self.copying.process
        assert said is None or said.poll() is None, self.copying.said()[-5000:]
        with suppress(KproxyError):  # a broker is down
            return read_copied_partitions(self.target.direct_bootstrap, NAME)
        return {}

    def copied(self) -> int:
        return sum(one.records for one in self.state().values())

    def harm(self, act: str) -> None:
        """Cause a fault, and wait until the copy continues."""
        before = self.copied()
        self.acts[act]()
        until(lambda: self.copied() > before + _MORE, f"going on after harm to {act}: {self.copying.said()[-3000:]}")

    def _kill(self, of: Callable[[], Sequence[int]]) -> None:
        pids = until(of, "somebody to kill")
        with suppress(ProcessLookupError):
            os.kill(self.chance.choice(pids), signal.SIGKILL)

    def _driver(self) -> None:
        self.copying.kill()
        self.copying.start("--follow")

    def _zombie(self) -> None:
        """Pause a task while its driver is killed and another task copies the same partitions; then resume it."""
        stopped = list(until(self.copying.tasks, "tasks"))
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        before = self.copied()
        self.copying.kill(but=stopped)
        self.copying.start("--follow")
        until(lambda: self.copied() > before + _MORE, "a second driver copies")
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _kproxy(self) -> None:
        listen = read_migration(self.copying.file).kproxy_config()["clusters"][0]["listen"]
        answer = query_proxy(listen)
        assert answer is not None
        if answer.kproxy is not None:
            os.kill(answer.kproxy, signal.SIGKILL)

    def _broker(self, cluster: DevCluster) -> None:
        node = self.chance.choice(cluster.node_ids)
        cluster.kill(node)
        if self.chance.random() < 0.5:
            cluster.wait_fenced(node)
        cluster.restart(node)

    def _leaders(self) -> None:
        """Move the leader of every partition of both clusters, and back."""
        for cluster in (self.source, self.target):
            node = self.chance.choice(cluster.node_ids)
            cluster.stop_broker(node)
            cluster.restart(node)

    # The end

    def all_copied(self) -> bool:
        """Check whether the copy has reached the end of each partition."""
        with ClusterClient(self.source.direct_bootstrap) as cluster:
            wanted = [(topic, at) for topic, count in (PLAIN | TRANSACTIONAL).items() for at in range(count)]
            ends = cluster.list_offsets(wanted, requests.LATEST)
        state = self.state()
        there = [where in state and state[where].source_next >= ends.get(where, 1 << 63) for where in wanted]
        return all(there)

    def problems(self) -> list[str]:
        """Return the differences between both sides, read by librdkafka."""
        found = []
        state = read_copied_partitions(self.target.direct_bootstrap, NAME)
        for (topic, partition), copied in sorted(state.items()):
            said = compared(
                rows(self.source.direct_bootstrap, topic, partition),
                rows(self.target.direct_bootstrap, topic, partition),
                copied.map,
            )
            if said:
                found.append(f"{topic}/{partition}: {said}")
        return found


def harmed(directory: Path, seed: int, acts: Sequence[str], pause: float = 0.05) -> tuple[list[str], int]:
    """Copy continuous records through one fault after the other; return the problems and the number of records.

    It removes everything that it has created.
    """
    with DevCluster(3, properties=_PROPERTIES) as source, DevCluster(3, properties=_PROPERTIES) as target:
        topics(source.direct_bootstrap, PLAIN | TRANSACTIONAL, 3)
        file = directory / "move.yaml"
        sides = {"source": {"bootstrap-servers": source.bootstrap}, "target": {"bootstrap-servers": target.bootstrap}}
        file.write_text(yaml.safe_dump({"name": NAME, **sides}))
        prepare = [sys.executable, "-m", "kproxy", "migrate", "prepare", str(file)]
        prepared = subprocess.run(prepare, capture_output=True, text=True, cwd=directory)
        assert prepared.returncode == 0, prepared.stdout + prepared.stderr
        copying = Copying(file, spark_home(directory), directory / "copy.log", TWO_EXECUTORS)
        made = Site(source, target, copying, random.Random(seed))
        try:
            with loading(Load(source.direct_bootstrap, PLAIN, TRANSACTIONAL, seed, pause)):
                copying.start("--follow")
                until(lambda: made.copied() > _MORE, "the first records")
                for act in acts:
                    made.harm(act)
            until(made.all_copied, "all is copied")
            assert copying.end() == 130, copying.said()[-5000:]
        finally:
            copying.kill()
        return made.problems(), made.copied()
