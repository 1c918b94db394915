"""What happens to kproxy's own processes."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from random import Random

from tests.soak.actor import Actor
from tests.soak.journal import Journal
from tests.soak.proxy import Proxy, signalled


class ProxyFaults(Actor):
    """`mortal` are those that may be killed. So may the `learner`, which must find out again which broker is where. One
    that lives through all of it shows what adds up."""

    name = "kproxy"
    gaps = (4.0, 9.0)

    def __init__(self, journal: Journal, proxies: Sequence[Proxy], *, learner: Proxy, mortal: Sequence[Proxy]) -> None:
        super().__init__(journal)
        self._proxies = proxies
        self._learner = learner
        self._mortal = mortal
        self.acts = {
            "kproxy-kill": self._kill_one,
            "learner-kill": self._kill_learner,
            "kproxy-pause": self._pause,
        }

    def _kill_one(self, chance: Random) -> str:
        return self._kill(chance, chance.choice(self._mortal))

    def _kill_learner(self, chance: Random) -> str:
        return self._kill(chance, self._learner)

    def _kill(self, chance: Random, proxy: Proxy) -> str:
        seconds = chance.uniform(0, 3)
        proxy.kill()
        self.journal.note(self.name, f"{proxy.name} is dead")
        try:
            self.last(seconds)
        finally:
            proxy.start()
        return f"{proxy.name} was started again"

    def _pause(self, chance: Random) -> str:
        proxy = chance.choice(self._proxies)
        return self._stand_still(chance, proxy.kproxy.process.pid, proxy.name)

    def _stand_still(self, chance: Random, pid: int, name: str) -> str:
        seconds = chance.uniform(0.3, 4)
        self.journal.note(self.name, f"{name} stands still")
        if not signalled(pid, signal.SIGSTOP):
            return f"{name} was gone"
        try:
            self.last(seconds)
        finally:
            signalled(pid, signal.SIGCONT)
        return f"{name} goes on"
