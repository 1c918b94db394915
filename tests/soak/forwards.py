"""One run of forwards that change their target under load, and nothing else: kproxies reach brokers by them alone.

A forward to a broker leads to another broker, another cluster, a controller, something else or nothing, and back. The
lines themselves record what arrives where (`arrivals`). For each kproxy and each broker, a producer and a consumer use
a topic that this broker alone has: so each of their writes and reads may arrive there only. Java clients name the node
that they expect by themselves (KIP-1242).

In a long run only Java reads: a consumer of librdkafka 2.16 may deadlock when a connection breaks while it validates
its position (its threads wait for each other in rd_kafka_toppar_handle_OffsetForLeaderEpoch and
rd_kafka_toppar_undelegate; seen after ten minutes in one of nine consumers).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from tests.harness.clients.flow import JavaFlow
from tests.harness.clusters.steady import STEADY
from tests.harness.process import wait_until
from tests.harness.topics import unique
from tests.soak.arrivals import client_id_for
from tests.soak.clients import Reader, Sender, flowing
from tests.soak.journal import Journal
from tests.soak.ports import Ports
from tests.soak.proxy import Proxy
from tests.soak.records import Account
from tests.soak.roadfaults import RoadFaults
from tests.soak.site import DOMAIN, Site, site
from tests.soak.timetable import timetable
from tests.soak.watch import Watch

_LONGER = 2.0  # in seconds: so long a run continues, until forwards have led to each kind of server
_RECOVERY = 120.0  # in seconds: a bound for clients to find the way again after the last fault


@dataclass(frozen=True, slots=True)
class Settings:
    """`brokers` are the node ids of the cluster, `twins` those that the other cluster has too.

    `java`: Java clients use each kproxy, and librdkafka only writes.
    """

    seconds: float
    brokers: Sequence[int]
    twins: Sequence[int]
    java: bool
    seed: int


class QuickRoadFaults(RoadFaults):
    gaps = (0.5, 2.5)


def run(settings: Settings, directory: Path) -> str:
    """Do it, and return the figures in one line. Raises AssertionError with what is wrong, and the journal."""
    journal = Journal()
    try:
        with ExitStack() as held:
            made = held.enter_context(site(settings.brokers, settings.twins, STEADY))
            return _Run(settings, directory, journal, made, held).whole()
    except BaseException as error:
        head = f"To have the same faults again: FORWARDS_SEED={settings.seed}. The logs of kproxy are in {directory}."
        error.add_note("\n".join([head, *journal.lines]))
        raise


class _Run:
    """All that is alive in a run; `held` ends it."""

    def __init__(self, settings: Settings, directory: Path, journal: Journal, where: Site, held: ExitStack) -> None:
        self._settings, self._directory, self._journal, self._site = settings, directory, journal, where
        self._proxies = _proxies(directory, held.enter_context(Ports()), where)
        for proxy in self._proxies:
            held.callback(proxy.end)
            proxy.start()
        self._accounts: list[Account] = []
        self._senders: list[Sender] = []
        self._readers: list[Reader] = []
        self._flows: dict[str, JavaFlow] = {}
        self._roads = QuickRoadFaults(journal, where)

    def whole(self) -> str:
        watch = Watch([self._wrong], [self._site.strays], seldom_every=5)
        with ExitStack() as clients:
            for proxy, node in zip(self._proxies, cycle(self._settings.brokers), strict=False):
                wait_until(proxy.ready, f"{proxy.name} is ready", _RECOVERY)
                wait_until(proxy.serves, f"{proxy.name} serves", _RECOVERY)
                self._start_clients(clients, proxy)
                if self._settings.java:
                    self._start_java(clients, proxy, node)
            self._wait_flowing("before the first fault")
            self._change_forwards(watch)
            self._wait_flowing("after the last fault")
            for sender in self._senders:
                sender.finish(_RECOVERY)
            if self._readers:
                wait_until(lambda: not any(a.unread() for a in self._accounts), "each group has read all", _RECOVERY)
            watch.check()
            for account in self._accounts:
                assert not (problems := self._site.audit(account)), "\n".join(problems)
        for topic, flow in self._flows.items():
            self._site.check_java(flow, topic, 1)
        watch.check()
        for proxy in self._proxies:
            proxy.stop()
        records = sum(sum(account.acknowledged) for account in self._accounts)
        return self._figures(records + sum(flow.log.count for flow in self._flows.values()))

    def _start_clients(self, clients: ExitStack, proxy: Proxy) -> None:
        for node in self._settings.brokers:
            account, client_id = Account(f"{proxy.name}-{node}", 1), client_id_for(node)
            self._site.create_topic(account.topic, 1, node)
            self._accounts.append(account)
            self._senders.append(clients.enter_context(Sender(proxy.bootstrap, account, client_id)))
            if not self._settings.java:
                only, group = {account.topic: account}, unique(account.topic)
                reader = Reader(proxy.bootstrap, group, proxy.name, only, client_id)
                self._readers.append(clients.enter_context(reader))

    def _start_java(self, clients: ExitStack, proxy: Proxy, node: int) -> None:
        """Start Java clients of the newest version, which use one broker."""
        topic, named = f"java-{proxy.name}", f"client.id={client_id_for(node)}-java"
        self._site.create_topic(topic, 1, node)
        programs = self._site.here.programs
        flow = JavaFlow(programs, proxy.bootstrap, topic, self._directory, named, consumer_properties=[named])
        self._flows[topic] = clients.enter_context(flow)

    def _wait_flowing(self, when: str) -> None:
        wait_until(flowing(self._accounts, read=bool(self._readers)), f"records flow {when}", _RECOVERY)
        for flow in self._flows.values():
            flow.wait_flowing()

    def _change_forwards(self, watch: Watch) -> None:
        """Change forwards for the time of the run, and until they have led to each kind of server."""
        settings, began = self._settings, self._journal.seconds
        events = timetable(settings.seed, settings.seconds + _RECOVERY, {self._roads.name: self._roads.rhythm})
        with self._roads.playing([event.after(began) for event in events]):
            watch.over(settings.seconds)
            while not self._is_complete and self._journal.seconds < events[-1].at + began:  # a busy machine
                watch.over(_LONGER)
        assert self._is_complete, self._site.arrivals.detours
        self._journal.note("chaos", "the last fault is over")
        self._site.heal()

    @property
    def _is_complete(self) -> bool:
        """Whether connections led to another broker, to another cluster, to a controller and to something else."""
        names = list(self._site.arrivals.detours)
        kinds = ("own broker", "other cluster's broker", "controller", "impostor")
        return all(any(kind in name for name in names) for kind in kinds)

    def _wrong(self) -> list[str]:
        found = [problem for account in self._accounts for problem in account.problems]
        found += [problem for worker in (*self._senders, *self._readers) for problem in worker.problems]
        found += [problem for proxy in self._proxies for problem in proxy.problems()]
        return found + self._site.arrivals.problems() + self._roads.problems

    def _figures(self, records: int) -> str:
        """Return what has happened in words."""
        settings, arrivals = self._settings, self._site.arrivals
        home = {f"the own broker {node}" for node in settings.brokers}
        checks, questions = (
            sum(count for name, count in counted.items() if name not in home)
            for counted in (arrivals.checks, arrivals.questions)
        )
        elsewhere = ", ".join(f"{count} to {name}" for name, count in sorted(arrivals.detours.items()))
        return (
            f"forwards: seed {settings.seed}, {settings.seconds:g} s, {self._roads.done} changes, {records} records "
            f"once each; {arrivals.at_their_node.total()} writes and reads of one broker's clients, none at another; "
            f"connections that led elsewhere: {elsewhere}; at other clusters and controllers {checks} ApiVersions of "
            f"clients and {questions} questions of kproxy"
        )


def _proxies(directory: Path, ports: Ports, where: Site) -> list[Proxy]:
    """One that finds out which forward leads to which broker, one that must believe it, and one in between."""
    nodes = [word for node in where.here.node_ids for word in ("--map", f"node:{node}={where.front(node)}")]
    sides = ["--map", f"*.{DOMAIN}=127.0.0.1:{{port}}"]
    return [
        Proxy("learns", directory, ports, where),
        Proxy("mapped", directory, ports, where, *nodes),
        Proxy("follows", directory, ports, where, *sides),
    ]
