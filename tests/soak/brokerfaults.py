"""What happens to the brokers' processes. One at a time, for a cluster of three bears no more."""

from __future__ import annotations

import signal
from random import Random

from tests.soak.actor import Actor
from tests.soak.journal import Journal
from tests.soak.proxy import signalled
from tests.soak.site import Site


class BrokerFaults(Actor):
    name = "brokers"
    gaps = (6.0, 14.0)

    def __init__(self, journal: Journal, site: Site) -> None:
        super().__init__(journal)
        self._site = site
        self.acts = {
            "broker-kill": self._kill,
            "broker-pause": self._pause,
            "broker-move": self._move,
            "broker-rename": self._rename,
        }

    def _kill(self, chance: Random) -> str:
        return self._killed(chance)

    def _move(self, chance: Random) -> str:
        return self._killed(chance, moved=True)

    def _rename(self, chance: Random) -> str:
        return self._killed(chance, renamed=True)

    def _killed(self, chance: Random, *, moved: bool = False, renamed: bool = False) -> str:
        node, seconds = chance.choice(self._site.here.node_ids), chance.uniform(0, 6)
        self._site.here.kill(node)
        self.journal.note(self.name, f"broker {node} is dead")
        try:
            self.last(seconds)
        finally:
            advertised = self._site.restart(node, moved=moved, renamed=renamed)
        return f"broker {node} is back, at {advertised}"

    def _pause(self, chance: Random) -> str:
        # A broker that says nothing for four seconds has lost its partitions when it comes to itself.
        node, seconds = chance.choice(self._site.here.node_ids), chance.uniform(0.5, 7)
        pid = self._site.here.pids[node]
        signalled(pid, signal.SIGSTOP)
        self.journal.note(self.name, f"broker {node} stands still")
        try:
            self.last(seconds)
        finally:
            signalled(pid, signal.SIGCONT)
        return f"broker {node} goes on"
