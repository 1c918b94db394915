"""One run: the clusters, five kproxies before them, honest clients, all faults for a time, and then the reckoning.

Before the faults, the latency of an honest session is compared: beside each kind of hostile peer, and without them, in
turn.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from time import monotonic

from tests.harness.clients.flow import JavaFlow
from tests.harness.process import wait_until
from tests.harness.topics import unique
from tests.soak.actor import Actor
from tests.soak.brokerfaults import BrokerFaults
from tests.soak.clients import PlainSender, Reader, Sender, flowing
from tests.soak.hostile import Hostile
from tests.soak.hostilebroker import hostile_brokers
from tests.soak.journal import Journal
from tests.soak.latency import Samples, percentile, probing
from tests.soak.ports import Ports
from tests.soak.proxy import Condition, Proxy
from tests.soak.proxyfaults import ProxyFaults
from tests.soak.records import Account
from tests.soak.roadfaults import RoadFaults
from tests.soak.sharedproxy import SharedProxy
from tests.soak.site import DOMAIN, site
from tests.soak.strangers import Strangers
from tests.soak.timetable import timetable
from tests.soak.watch import Watch

MB = 1 << 20
_RECOVERY = 120.0  # in seconds: a bound for everybody to find the way again after the last fault
_SLOWER = 3  # times: how much longer the 99th percentile may be beside hostile peers


@dataclass(frozen=True, slots=True)
class Settings:
    """`brokers` are the node ids of the cluster, `twins` those that the other cluster has too. The latency is measured
    for `compared` seconds beside each kind of hostile peer, and as long without."""

    seconds: float
    compared: float
    brokers: Sequence[int]
    twins: Sequence[int]
    partitions: int
    java: bool
    seed: int
    without: Collection[str]


def from_environment() -> tuple[int, frozenset[str]]:
    """The seed, a new one unless CHAOS_SEED has one; what CHAOS_WITHOUT names, with commas."""
    seed = os.environ.get("CHAOS_SEED")
    without = os.environ.get("CHAOS_WITHOUT", "")
    return int(seed) if seed else SystemRandom().getrandbits(32), frozenset(filter(None, without.split(",")))


def run(settings: Settings, directory: Path) -> str:
    """Do it, and return the figures in one line. Raises AssertionError with what is wrong, and the journal."""
    journal = Journal()
    journal.note(
        "chaos", f"seed {settings.seed}, {settings.seconds:g} s; without {sorted(settings.without) or 'nothing'}"
    )
    try:
        with ExitStack() as held:
            return _Run(settings, directory, journal, held).whole()
    except BaseException as error:
        again = f"CHAOS_SEED={settings.seed} CHAOS_WITHOUT={','.join(sorted(settings.without))}"
        head = f"To have the same faults again: {again}. The logs of kproxy are in {directory}. What happened:"
        error.add_note("\n".join([head, *journal.lines]))
        raise


def _compared(
    passed: Samples, direct: Samples, calm: Sequence[tuple[float, float]], beside: Mapping[str, tuple[float, float]]
) -> str:
    """What a session through kproxy (`passed`) and one to the broker itself (`direct`) took in these spans of time."""

    def p99(samples: Samples, spans: Collection[tuple[float, float]]) -> float:
        latencies = samples.within(list(spans))
        assert latencies, "no honest request was answered"
        return percentile(latencies, 0.99) * 1000

    without, harmed = p99(passed, calm), p99(passed, beside.values())
    straight = f"{p99(direct, calm):.1f} and {p99(direct, beside.values()):.1f} ms"
    kinds = ", ".join(f"{kind} {p99(passed, [span]):.1f}" for kind, span in beside.items())
    told = (
        f"an honest session beside hostile peers: p99 {harmed:.1f} ms, without them {without:.1f} ms"
        f" ({harmed / without:.1f} times); straight to the broker {straight}; by kind: {kinds}"
    )
    allowed = _SLOWER * max(without, p99(direct, beside.values()))
    assert harmed <= allowed, told
    return told


class _Run:
    """All that is alive in a run; `held` ends it."""

    def __init__(self, settings: Settings, directory: Path, journal: Journal, held: ExitStack) -> None:
        self._settings = settings
        self._directory = directory
        self._journal = journal
        self._held = held
        self._accounts: dict[str, Account] = {}
        self._actors: list[Actor] = []
        self._group = unique("readers")
        self._started: list[Account] = []
        self._senders: list[Sender] = []
        self._readers: list[Reader] = []
        self._java: JavaFlow | None = None

    def whole(self) -> str:
        self._site = self._held.enter_context(site(self._settings.brokers, self._settings.twins))
        self._proxies = self._start_proxies(self._held.enter_context(Ports()))
        self._journal.note("chaos", "the clusters and the proxies are there")
        before = [self._rest(proxy) for proxy in self._proxies]
        self._create_topics()
        with ExitStack() as clients:
            shared = self._hostile.shared
            self._start_clients(clients, [shared])
            self._plain = clients.enter_context(
                PlainSender(self._proxies[-1].bootstrap, "plain", self._settings.partitions)
            )
            latency = self._compare_latency()  # before the others: they fill two cores, and all would be slow
            if self._settings.java:
                programs, elder = self._site.here.programs, self._proxies[0].bootstrap
                self._java = clients.enter_context(JavaFlow(programs, elder, "java", self._directory))
            self._start_clients(clients, [proxy for proxy in self._proxies if proxy is not shared])
            watch = Watch([self._wrong_now], [self._site.strays], seldom_every=5)
            events = self._chaos(watch)
            self._recover()
            self._finish(watch)
        if self._java is not None:
            self._site.check_java(self._java, "java", self._settings.partitions)
        after = [self._settle(proxy, condition) for proxy, condition in zip(self._proxies, before, strict=True)]
        for proxy in self._proxies:
            assert not (wrong := proxy.fill()), wrong
            self._settle(proxy, before[self._proxies.index(proxy)])
            proxy.stop()
        watch.check()
        records = sum(sum(account.acknowledged) for account in self._accounts.values())
        memory = ", ".join(
            f"{proxy.name} {one.rss / MB:.0f} to {other.rss / MB:.0f} MB"
            for proxy, one, other in zip(self._proxies, before, after, strict=True)
        )
        return f"chaos: seed {self._settings.seed}, {events} faults, {records} records once each; {memory}\n{latency}"

    # The parts

    def _start_proxies(self, ports: Ports) -> list[Proxy]:
        """Three that find out which broker is where, and three that were told so, of which two share their ports. The
        first one lives through it all, and so does the third one, which serves hostile clusters too."""
        nodes = [word for node in self._settings.brokers for word in ("--map", f"node:{node}={self._site.front(node)}")]
        sides = ["--map", f"*.{DOMAIN}=127.0.0.1:{{port}}"]
        brokers = self._held.enter_context(hostile_brokers())
        shared = SharedProxy("shared", self._directory, ports, self._site, brokers.addresses)
        self._hostile = Hostile(self._journal, shared, brokers)
        self._hostile.prepare()
        left = Proxy("left", self._directory, ports, self._site, *nodes, shares=True)
        right = Proxy("right", self._directory, ports, self._site, *nodes, beside=left)
        self._mortal = [Proxy("follower", self._directory, ports, self._site, *sides), left, right]
        made = [
            Proxy("elder", self._directory, ports, self._site),
            Proxy("learner", self._directory, ports, self._site),
            shared,
            *self._mortal,
        ]
        for proxy in made:
            self._held.callback(proxy.end)
            proxy.start()
        for proxy in made:
            wait_until(proxy.ready, f"{proxy.name} is ready", _RECOVERY)
            wait_until(proxy.serves, f"{proxy.name} serves", _RECOVERY)
        return made

    def _create_topics(self) -> None:
        for name in [proxy.name for proxy in self._proxies]:
            self._accounts[name] = Account(name, self._settings.partitions)
        others = ["plain", "java"] if self._settings.java else ["plain"]
        for name in (*self._accounts, *others):
            self._site.create_topic(name, self._settings.partitions)

    def _start_clients(self, clients: ExitStack, proxies: Sequence[Proxy]) -> None:
        """Start an idempotent producer and a member of the group of consumers through each of the proxies, and wait
        until records flow through all that were started."""
        self._senders += [
            clients.enter_context(Sender(proxy.bootstrap, self._accounts[proxy.name])) for proxy in proxies
        ]
        self._readers += [
            clients.enter_context(Reader(proxy.bootstrap, self._group, proxy.name, self._accounts)) for proxy in proxies
        ]
        self._started += [self._accounts[proxy.name] for proxy in proxies]
        self._wait_flowing("before the first fault")

    def _compare_latency(self) -> str:
        """The 99th percentiles in words. Raises AssertionError if hostile peers make an honest session too slow."""
        seconds, where = self._settings.compared, self._hostile.shared.ports[1]
        broker = str(self._site.here.dial[self._settings.brokers[0]])
        calm: list[tuple[float, float]] = []
        beside: dict[str, tuple[float, float]] = {}
        with (
            probing(where, self._directory / "through") as through,
            probing(broker, self._directory / "straight") as straight,
        ):
            for kind, harm in self._hostile.kinds.items():
                self._hostile.last(seconds / 2)  # what is left of the one before
                began = monotonic()
                self._hostile.last(seconds)
                calm.append((began, monotonic()))
                began = monotonic()
                times = harm(seconds)
                beside[kind] = (began, monotonic())
                self._journal.note("latency", f"{kind}: {times} times")
            self._hostile.last(seconds)  # for answers that are late
            passed, direct = through.stop(), straight.stop()
        assert not (wrong := self._wrong_now()), "\n".join(wrong)
        return _compared(passed, direct, calm, beside)

    def _chaos(self, watch: Watch) -> int:
        """All faults of the time, and how many there were."""
        settings, journal = self._settings, self._journal
        topics = list(self._accounts)
        self._actors = [
            BrokerFaults(journal, self._site),
            RoadFaults(journal, self._site),
            ProxyFaults(journal, self._proxies, learner=self._proxies[1], mortal=self._mortal),
            Strangers(journal, "strangers", self._proxies, topics),
            Strangers(journal, "vandals", self._proxies, topics),
            self._hostile,
        ]
        rhythms = {actor.name: actor.rhythm for actor in self._actors}
        began = journal.seconds
        events = timetable(settings.seed, settings.seconds, rhythms, settings.without)
        with ExitStack() as playing:
            for actor in self._actors:
                mine = [event.after(began) for event in events if event.actor == actor.name]
                playing.enter_context(actor.playing(mine))
            watch.over(settings.seconds)
            for actor in self._actors:
                actor.stopping.set()
        assert not (wrong := self._wrong_now()), "\n".join(wrong)
        return sum(actor.done for actor in self._actors)

    def _recover(self) -> None:
        """From here on nothing is wrong any more; everybody must notice."""
        self._journal.note("chaos", "the last fault is over")
        self._site.heal()
        self._hostile.calm()
        for proxy in self._proxies:
            wait_until(proxy.ready, f"{proxy.name} is ready", _RECOVERY)
        self._wait_flowing("after the last fault")
        for proxy in self._proxies:
            wait_until(proxy.serves, f"{proxy.name} serves at every port", _RECOVERY)
        self._journal.note("chaos", "all is well again")

    def _finish(self, watch: Watch) -> None:
        """Every record is acknowledged, read by the group, and in the log once, in order, as it was sent."""
        for sender in self._senders:
            sender.finish(_RECOVERY)
        self._plain.stop()
        wait_until(lambda: not any(a.unread() for a in self._accounts.values()), "the group has read all", _RECOVERY)
        watch.check()
        for account in self._accounts.values():
            assert not (found := self._site.audit(account)), "\n".join(found)
        rows = self._site.read("plain", self._settings.partitions)
        foreign = [wrong for p, _, key, value in rows if (wrong := self._plain.foreign(p, key, value))]
        assert not foreign, foreign[:10]

    # What is looked at

    def _wrong_now(self) -> list[str]:
        found = [problem for account in self._accounts.values() for problem in account.problems]
        found += [problem for one in (*self._senders, *self._readers, self._plain) for problem in one.problems]
        found += [problem for proxy in self._proxies for problem in proxy.problems()]
        found += self._site.arrivals.problems()
        return found + [problem for actor in self._actors for problem in actor.problems]

    def _wait_flowing(self, when: str) -> None:
        accounts = self._started
        reached = flowing(accounts)
        try:
            wait_until(reached, f"records flow {when}", _RECOVERY)
            if self._java is not None:
                self._java.wait_flowing()
        except AssertionError as error:
            stand = [f"{a.topic}: sent {a.sent}, acknowledged {a.acknowledged}, read {a.read}" for a in accounts]
            raise AssertionError("\n".join([str(error), *stand])) from None

    def _rest(self, proxy: Proxy) -> Condition:
        """What it has when nobody is connected to it, once that stays the same."""
        seen: list[Condition] = []

        def still() -> bool:
            seen.append(proxy.condition())
            now = seen[-1]
            return not now.sessions and not now.in_flight and [one.files for one in seen[-5:]] == [now.files] * 5

        wait_until(still, f"{proxy.name} is at rest; {seen[-1:]}", _RECOVERY)
        return seen[-1]

    def _settle(self, proxy: Proxy, before: Condition) -> Condition:
        """It comes back to what it had, but for some memory."""
        seen: list[Condition] = []

        def back() -> bool:
            seen.append(proxy.condition())
            now = seen[-1]
            same = now.listeners == before.listeners
            return same and not now.sessions and not now.in_flight and not now.files - before.files

        try:
            wait_until(back, f"{proxy.name} is back where it was", 60)
        except AssertionError as error:
            raise AssertionError(f"{error}: it had {before}, it has {seen[-1]}") from None
        grown, allowed = seen[-1].rss - before.rss, proxy.more_memory
        assert grown < allowed, f"{proxy.name} has {grown / MB:.0f} MB more than before, {allowed / MB:.0f} may be"
        return seen[-1]
