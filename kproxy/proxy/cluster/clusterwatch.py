"""The watch over which Kafka cluster answers at the bootstrap servers, once a broker of another one has answered.

The bootstrap servers are not asked for as long as only brokers of the served cluster answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kproxy.base.messages.start import FORMER_CLUSTER_ANSWERS, NEW_CLUSTER_AWAITED
from kproxy.base.repeats import about
from kproxy.config.kinds import show_duration
from kproxy.proxy.cluster.explorer import Explorer
from kproxy.proxy.cluster.identity import BrokerIdentity
from kproxy.proxy.cluster.newcluster import Answers, NewCluster, NewClusterClock, NotAccepted, new_cluster
from kproxy.proxy.cluster.nodedialer import NodeDialer

log = logging.getLogger(__name__)

# Between two rounds of asking the bootstrap servers, in seconds: doubled each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
# After so many seconds without an answer of another cluster, the pauses begin again with the first.
_QUIET = 60.0
# With accept-new-cluster-after, kproxy asks so many times in that time, and at least once in so many seconds.
_ROUNDS, _LONGEST_ROUND = 5, 1.0


class ClusterWatch:
    """The watch of one upstream. `received` returns how many bytes the sessions have received from brokers."""

    def __init__(self, dialer: NodeDialer, explorer: Explorer, received: Callable[[], int]) -> None:
        self._dialer = dialer
        self._explorer = explorer
        self._received = received
        self._received_before = 0
        self._noticed = asyncio.Event()
        self._is_replaced = False  # at the last round, no bootstrap server belonged to the served cluster
        self._clock = NewClusterClock()

    def notice(self) -> None:
        """Ask the bootstrap servers soon: a broker of another cluster has answered."""
        self._noticed.set()

    async def wait_for_new_cluster(self) -> NewCluster:
        """Watch until `accept-new-cluster-after` allows kproxy to serve a new cluster, and return it."""
        now, pause, ended = asyncio.get_running_loop().time, _FIRST_PAUSE, 0.0
        while True:
            if not self._is_replaced:
                await self._noticed.wait()
                pause = _FIRST_PAUSE if now() - ended > _QUIET else pause
            self._noticed.clear()
            new = await self._ask()
            if new is not None:
                return new
            ended = now()
            after = self._explorer.config.accept_new_cluster_after
            if self._is_replaced and after is not None:
                await asyncio.sleep(min(after / _ROUNDS, _LONGEST_ROUND))
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def _ask(self) -> NewCluster | None:
        """Ask the bootstrap servers, and note which cluster answers; return it if kproxy may serve it."""
        config, reachability = self._explorer.config, self._dialer.reachability
        answers = await self._explorer.ask_bootstrap_servers(config.connect_timeout)
        try:
            new = new_cluster(reachability.cluster_id, answers)
        except NotAccepted as error:
            self._clock.reset()
            if _has_answered(reachability.cluster_id, answers):
                self._note_served()
            elif any(isinstance(answer, BrokerIdentity) for answer in answers.values()):
                self._note_replaced(str(error), None)
            return None
        self._note_replaced(reachability.replaced_text(new.cluster_id), new)
        if config.accept_new_cluster_after is None:
            return None
        waits_for = await self._waits_for(new)
        if waits_for:
            log.info(NEW_CLUSTER_AWAITED(cluster=config.title, problem=waits_for), extra=about(config.title, waits_for))
        seconds = self._clock.observe(new, asyncio.get_running_loop().time())
        return new if not waits_for and seconds >= config.accept_new_cluster_after else None

    async def _waits_for(self, new: NewCluster) -> str:
        """Return why the time of the new cluster has not begun yet, or ""."""
        if new.silent:
            return f"no answer from {', '.join(map(str, new.silent))}"
        # Open sessions lead to brokers of the served cluster only.
        received, before = self._received(), self._received_before
        self._received_before = received
        reached = await self._explorer.reach_present_nodes()
        if reached or received != before:
            self._clock.reset()
        return FORMER_CLUSTER_ANSWERS(node=reached[0]) if reached else ""

    def _note_replaced(self, text: str, new: NewCluster | None) -> None:
        self._is_replaced = True
        exploration, config = self._dialer.reachability.exploration, self._explorer.config
        if exploration.conflict is not None or exploration.problem == text:
            return  # the explorer, which has found it first, says so
        # The servers may answer otherwise each time.
        log.warning("cluster %s: %s", config.title, text, extra=about(config.title, "replaced"))
        if config.accept_new_cluster_after is not None:
            allowed = show_duration(config.accept_new_cluster_after)
            log.info(
                "cluster %s: accept-new-cluster-after: kproxy waits for %s",
                config.title,
                allowed,
                extra=about(config.title, "waits"),
            )
        self._explorer.note(answered=False, problem=text, replaced_by=None if new is None else new.cluster_id)

    def _note_served(self) -> None:
        """Note that a bootstrap server belongs to the served cluster."""
        if not self._is_replaced:
            return
        self._is_replaced = False
        if self._dialer.reachability.exploration.conflict is None:
            title = self._explorer.config.title
            log.info("cluster %s: its bootstrap servers answer again", title, extra=about(title, "served"))
            self._explorer.note(answered=True, problem=None, replaced_by=None)


def _has_answered(cluster_id: str | None, answers: Answers) -> bool:
    return any(isinstance(answer, BrokerIdentity) and answer.cluster_id == cluster_id for answer in answers.values())
