"""One run of forwards that change their target under load, and nothing else: kproxies reach brokers by them alone.

A forward to a broker leads to another broker, another cluster, a controller, something else or nothing, and back. The
lines themselves record what arrives where (`arrivals`). For each kproxy and each broker, a producer and a consumer use
a topic that this broker alone has: so each of their writes and reads may arrive there only. Java clients name the node
that they expect by themselves (KIP-1242).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
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

_JAVA = "java"  # the topic of Java clients


@dataclass(frozen=True, slots=True)
class Settings:
    """`brokers` are the node ids of the cluster, `twins` those that the other cluster has too."""

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
            return _run(settings, directory, journal, made, held)
    except BaseException as error:
        head = f"To have the same faults again: FORWARDS_SEED={settings.seed}. The logs of kproxy are in {directory}."
        error.add_note("\n".join([head, *journal.lines]))
        raise


def _run(settings: Settings, directory: Path, journal: Journal, where: Site, held: ExitStack) -> str:
    proxies = _proxies(directory, held.enter_context(Ports()), where)
    for proxy in proxies:
        held.callback(proxy.end)
        proxy.start()
    accounts: list[Account] = []
    for proxy in proxies:
        wait_until(proxy.ready, f"{proxy.name} is ready", _RECOVERY)
        wait_until(proxy.serves, f"{proxy.name} serves", _RECOVERY)
        for node in settings.brokers:
            account = Account(f"{proxy.name}-{node}", 1)
            where.create_topic(account.topic, 1, node)
            accounts.append(account)
    with ExitStack() as clients:
        senders, readers = [], []
        for account in accounts:
            name, _, node = account.topic.rpartition("-")
            bootstrap = next(proxy.bootstrap for proxy in proxies if proxy.name == name)
            client_id = client_id_for(int(node))
            senders.append(clients.enter_context(Sender(bootstrap, account, client_id)))
            group = unique(account.topic)
            readers.append(clients.enter_context(Reader(bootstrap, group, name, {account.topic: account}, client_id)))
        java = clients.enter_context(_java(where, proxies[0], directory)) if settings.java else None
        wait_until(flowing(accounts), "records flow before the first fault", _RECOVERY)
        roads = QuickRoadFaults(journal, where)

        def wrong() -> list[str]:
            found = [problem for account in accounts for problem in account.problems]
            found += [problem for each in (*senders, *readers, *proxies) for problem in _problems(each)]
            return found + where.arrivals.problems() + roads.problems

        watch = Watch([wrong], [where.strays], seldom_every=5)
        began = journal.seconds
        events = timetable(settings.seed, settings.seconds + _RECOVERY, {roads.name: roads.rhythm})
        with roads.playing([event.after(began) for event in events]):
            watch.over(settings.seconds)
            while not _is_complete(where) and journal.seconds < events[-1].at + began:  # a busy machine
                watch.over(_LONGER)
        assert _is_complete(where), where.arrivals.detours
        journal.note("chaos", "the last fault is over")
        where.heal()
        wait_until(flowing(accounts), "records flow after the last fault", _RECOVERY)
        if java is not None:
            java.wait_flowing()
        for sender in senders:
            sender.finish(_RECOVERY)
        wait_until(lambda: not any(a.unread() for a in accounts), "each group has read all", _RECOVERY)
        watch.check()
        for account in accounts:
            assert not (problems := where.audit(account)), "\n".join(problems)
    if java is not None:
        where.check_java(java, _JAVA, 1)
    watch.check()
    for proxy in proxies:
        proxy.stop()
    return _figures(settings, roads.done, accounts, java, where)


def _proxies(directory: Path, ports: Ports, where: Site) -> list[Proxy]:
    """One that finds out which forward leads to which broker, one that must believe it, and one in between."""
    nodes = [word for node in where.here.node_ids for word in ("--map", f"node:{node}={where.front(node)}")]
    sides = ["--map", f"*.{DOMAIN}=127.0.0.1:{{port}}"]
    return [
        Proxy("learns", directory, ports, where),
        Proxy("mapped", directory, ports, where, *nodes),
        Proxy("follows", directory, ports, where, *sides),
    ]


def _java(where: Site, proxy: Proxy, directory: Path) -> JavaFlow:
    """Return Java clients of the newest version, of one broker."""
    node = where.here.node_ids[0]
    where.create_topic(_JAVA, 1, node)
    named = f"client.id={client_id_for(node)}-java"
    return JavaFlow(where.here.programs, proxy.bootstrap, _JAVA, directory, named, consumer_properties=[named])


def _is_complete(where: Site) -> bool:
    """Check whether connections led to another broker, to another cluster, to a controller and to something else."""
    names = list(where.arrivals.detours)
    return all(
        any(word in name for name in names)
        for word in ("own broker", "other cluster's broker", "controller", "impostor")
    )


def _problems(actor: Sender | Reader | Proxy) -> list[str]:
    return actor.problems() if isinstance(actor, Proxy) else actor.problems


def _figures(settings: Settings, faults: int, accounts: Sequence[Account], java: JavaFlow | None, where: Site) -> str:
    """Return what has happened in words."""
    arrivals = where.arrivals
    home = {f"the own broker {node}" for node in where.here.node_ids}
    records = sum(sum(account.acknowledged) for account in accounts) + (java.log.count if java is not None else 0)
    checks, questions = (
        sum(count for name, count in counted.items() if name not in home)
        for counted in (arrivals.checks, arrivals.questions)
    )
    elsewhere = ", ".join(f"{count} to {name}" for name, count in sorted(arrivals.detours.items()))
    return (
        f"forwards: seed {settings.seed}, {settings.seconds:g} s, {faults} changes, {records} records once each; "
        f"{arrivals.at_their_node.total()} writes and reads of one broker's clients, none at another; connections that "
        f"led elsewhere: {elsewhere}; on these {checks} ApiVersions of clients and {questions} questions of kproxy"
    )
