"""What is done to brokers, kproxies and connections while clients are routed to another cluster."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from kproxy.proxy.switching.participant import Phase
from tests.harness.clients.kafka_python import KafkaAdminClient, TopicPartition
from tests.harness.migration.switched import Switched
from tests.soak.switchclients import PARTITIONS
from tests.soak.switchsite import Site

_PIDFD_GETFD = 438  # the number of the system call


class Harm:
    """`acts`: by name, what can be done at any moment."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.acts: Mapping[str, Callable[[], None]] = {
            "kproxy": self._kill_kproxy,
            "broker": self._kill_broker,
            "pause": self._pause_broker,
            "leaders": self._move_leaders,
            "answers": self._lose_answers,
        }

    def _kill_kproxy(self) -> None:
        """One of them is killed, and begun again."""
        site = self._site
        kproxy, wait = site.chance.choice(site.kproxies), site.chance.choice((0.0, 0.0, 3.0, 8.0))
        phases = {Phase(one["phase"]) for one in kproxy.ask()[1]["clusters"]}
        phase = next(iter(phases - {Phase.SERVING}), Phase.SERVING)
        kproxy.kill()
        site.killed.add(kproxy)
        site.note(f"kproxy killed while {phase}")
        time.sleep(wait)
        kproxy.start()

    def _kill_broker(self) -> None:
        """One of either cluster is killed, and begun again."""
        side = self._site.chance.choice(sorted(self._site.sides))
        cluster, wait = self._site.sides[side], self._site.chance.choice((0.0, 1.0, 5.0))
        node = self._site.chance.choice(cluster.node_ids)
        cluster.kill(node)
        self._site.note(f"broker of {side} killed")
        time.sleep(wait)
        cluster.restart(node)

    @contextmanager
    def _stopped(self, seconds: float) -> Iterator[None]:
        """A broker of either cluster stands still, for so long at least."""
        site = self._site
        cluster = site.sides[site.chance.choice(sorted(site.sides))]
        pid = cluster.pids[site.chance.choice(cluster.node_ids)]
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _pause_broker(self) -> None:
        with self._stopped(self._site.chance.uniform(1, 6)):
            self._site.note("broker stood still")

    def _lose_answers(self) -> None:
        """Connections of clients end while a broker has their requests and does not answer."""
        with self._stopped(self._site.chance.uniform(0.3, 1)):
            cut = sum(self._cut(kproxy) for kproxy in self._site.kproxies)
            self._site.note("connections cut before the answer", cut)

    def _cut(self, kproxy: Switched) -> int:
        count = 0
        for client in _sockets(kproxy.process.pid):
            with client, suppress(OSError):
                port = client.getsockname()[1]
                client.getpeername()  # a listener has none
                if kproxy.first_port <= port < kproxy.first_port + 200 and self._site.chance.random() < 0.5:
                    client.shutdown(socket.SHUT_RDWR)
                    count += 1
        return count

    def _move_leaders(self) -> None:
        """Other brokers lead, on both clusters."""
        topics = [kind.topic for kind in self._site.clients.producers]
        places = [TopicPartition(topic, at) for topic in topics for at in range(PARTITIONS)]
        for cluster in self._site.sides.values():
            order = list(cluster.node_ids)
            self._site.chance.shuffle(order)
            admin = KafkaAdminClient(bootstrap_servers=cluster.direct_bootstrap)
            try:
                admin.alter_partition_reassignments(dict.fromkeys(places, order))
                admin.elect_leaders(0, {topic: list(range(PARTITIONS)) for topic in topics}, raise_errors=False)
            finally:
                admin.close()
        self._site.note("leaders moved")


def _sockets(pid: int) -> Iterator[socket.socket]:
    """Copies of the TCP sockets of another process."""
    process = os.pidfd_open(pid)
    call = ctypes.CDLL(None, use_errno=True).syscall
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
                copy = call(_PIDFD_GETFD, process, int(name), 0)
                if copy < 0:
                    continue
                made = socket.socket(fileno=copy)
                if made.family in (socket.AF_INET, socket.AF_INET6):
                    yield made
                else:
                    made.close()
    finally:
        os.close(process)
