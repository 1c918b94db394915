"""The snapshot that the status page shows, once a second. It is computed only while a page is open."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, replace
from time import time
from typing import Any

from kproxy.advice import remedies
from kproxy.advice.explain.patterns import patterns_by_word
from kproxy.base.diagnostic import to_json
from kproxy.base.faults import Fault
from kproxy.protocol.wire.errorcodes import error_name
from kproxy.proxy.status.model import ClusterStatus, SessionStatus, Status, UpstreamStatus
from kproxy.proxy.watch.events import EventLog, LogEvent
from kproxy.proxy.watch.feed import Feed, TooManyReaders
from kproxy.proxy.watch.findings import FindingTracker, LiveDiagnostic, live_diagnostic
from kproxy.proxy.watch.rates import Rates, error_json
from kproxy.proxy.watch.tally import ClientActivity, ClientKey, Tally

log = logging.getLogger(__name__)

MOST_VIEWERS = 16
"""Pages that look at one kproxy at the same time."""
# How often there is a new snapshot, in seconds; what it has of a cluster at most, the busiest.
_EVERY = 1.0
_CLIENTS, _GROUPS, _APIS, _USERS = 200, 200, 500, 5
# What it has at most of one client's requests, and the lines of the log that it has of one kind beside the newest.
_APIS_OF_CLIENT, _LIKE_IT = 10, 5
_NOTHING = Rates()


class Live:
    """Computes the snapshots while pages are open.

    `create_task` makes a task whose failure ends nothing else; `status` and `sessions` return the current state. `fix`
    returns the lines that help where nodes of a cluster cannot be reached.
    """

    def __init__(
        self,
        create_task: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        feed: Feed,
        status: Callable[[], Status],
        sessions: Callable[[], Sequence[SessionStatus]],
        events: EventLog,
        fix: Callable[[ClusterStatus], Sequence[str]] = lambda _: (),
    ) -> None:
        self._create_task = create_task
        self._feed = feed
        self._status = status
        self._sessions = sessions
        self._events = events
        self._fix = fix
        self._viewers = 0
        self._task: asyncio.Task[None] | None = None
        self._snapshot = b""
        self._new = asyncio.Event()

    def view(self) -> AsyncGenerator[bytes, None]:
        """Return server-sent events (the HTML standard, §9.2), one snapshot each, until the generator is closed.

        Raises TooManyReaders.
        """
        self._check_room()
        return self._view()

    def _check_room(self) -> None:
        if self._viewers >= MOST_VIEWERS:
            raise TooManyReaders(f"{MOST_VIEWERS} pages are connected already: kproxy serves no more")

    async def _view(self) -> AsyncGenerator[bytes, None]:
        self._check_room()
        self._viewers += 1
        try:
            if self._task is None:
                self._snapshot = b""
                self._task = self._create_task(self._run())
            yield b"retry: 2000\n\n"
            shown = b""
            while True:
                if self._snapshot and self._snapshot is not shown:
                    shown = self._snapshot
                    yield shown
                try:
                    async with asyncio.timeout(2 * _EVERY):
                        await self._new.wait()
                except TimeoutError:
                    # A loop that was busy for so long may have ended the wait though there is a new one.
                    if self._snapshot is shown:
                        yield b": kproxy is alive\n\n"
        finally:
            self._viewers -= 1
            if not self._viewers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _run(self) -> None:
        """Compute snapshots until the last page is closed."""
        tally, findings = Tally(time()), FindingTracker()
        self._feed.add(tally)
        try:
            await asyncio.to_thread(patterns_by_word)  # it imports kafka-python, which takes a while
            while True:
                try:
                    await self._write(tally, findings)
                except Exception:
                    log.exception("defect in the page's numbers, please report it")
                await asyncio.sleep(_EVERY)
        finally:
            self._feed.remove(tally)

    async def _write(self, tally: Tally, findings: FindingTracker) -> None:
        now = time()
        sessions, status = self._sessions(), self._status()
        tally.tick(now, sessions)
        for event in self._events.last():
            finding = _refusal(event, status.clusters)
            if finding is not None:
                findings.note(finding, event.time)
        findings_now = findings.tick(now, tally, status.clusters, sessions)
        lost = {finding.cluster for finding in findings_now if finding.fault is Fault.NODE_UNREACHABLE}
        fixes = {cluster.name: tuple(self._fix(cluster)) for cluster in status.clusters if cluster.name in lost}
        clusters = []
        for cluster in status.clusters:
            clusters.append(
                self._cluster(now, tally, cluster, [session for session in sessions if session.cluster == cluster.name])
            )
            await asyncio.sleep(0)  # the data plane shares this thread
        value = {
            "version": status.version,
            "time": round(now, 3),
            "since": status.configured_at,
            "reloads": status.reloads,
            "draining": status.draining,
            "clusters": clusters,
            "findings": [_finding(finding, fixes) for finding in findings_now],
            "events": [_event(alike) for alike in _by_kind(self._events.last())],
        }
        self._snapshot = b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
        self._new.set()
        self._new.clear()

    def _cluster(
        self, now: float, tally: Tally, cluster: ClusterStatus, sessions: Sequence[SessionStatus]
    ) -> dict[str, Any]:
        value = {name: getattr(cluster, name) for name in _OF_CLUSTERS}
        value["nodes"] = [
            asdict(node) | {"traffic": self._shown(tally.nodes.get((cluster.name, node.node), _NOTHING))}
            for node in cluster.nodes
        ]
        value["forwards"] = [asdict(forward) for forward in cluster.forwards]
        value["forward_commands"] = [asdict(command) for command in cluster.forward_commands]
        value["upstreams"] = [_upstream(upstream) for upstream in cluster.upstreams]
        value["access"] = None if cluster.access is None else asdict(cluster.access)
        value["switch"] = None if cluster.switch is None else asdict(cluster.switch)
        value["bootstrap_traffic"] = self._shown(tally.nodes.get((cluster.name, "bootstrap"), _NOTHING))
        value["bootstrap_sessions"] = sum(session.node == "bootstrap" for session in sessions)
        apis = [(node, api, rates) for (name, node, api), rates in tally.apis.items() if name == cluster.name]
        apis.sort(key=lambda entry: -entry[2].requests)
        value["apis"] = [{"node": node, "api": api, **self._shown(rates)} for node, api, rates in apis[:_APIS]]
        return value | self._clients(now, tally, cluster.name, sessions) | _groups(tally, cluster.name)

    def _clients(self, now: float, tally: Tally, name: str, sessions: Sequence[SessionStatus]) -> dict[str, Any]:
        of_client: dict[ClientKey, list[SessionStatus]] = defaultdict(list)
        for session in sessions:
            of_client[ClientKey(name, session.client.rpartition(":")[0], session.client_id, session.software)].append(
                session
            )
        clients = {client: activity for client, activity in tally.clients.items() if client.cluster == name}
        busiest = sorted(
            of_client.keys() | clients.keys(),
            key=lambda client: (-_rates(clients.get(client)).requests, -len(of_client[client]), client),
        )
        shown = []
        for client in busiest[:_CLIENTS]:
            nodes: dict[str, int] = defaultdict(int)
            for session in of_client[client]:
                nodes[session.node] += 1
            activity = clients.get(client) or ClientActivity(first_seen=now)
            times = [activity.first_seen, *(session.since for session in of_client[client])]
            shown.append(
                {
                    "address": client.address,
                    "client_id": client.client_id,
                    "software": client.software,
                    "users": sorted(
                        {user for session in of_client[client] if (user := session.user or session.broker_user)}
                    )[:_USERS],
                    "sessions": len(of_client[client]),
                    "nodes": nodes,
                    "since": round(min(times), 3),
                    "traffic": self._shown(activity.rates),
                    **_story(activity),
                }
            )
        return {"clients": shown, "clients_left_out": max(0, len(busiest) - _CLIENTS)}

    def _shown(self, rates: Rates) -> dict[str, Any]:
        return rates.as_json(error_name)


_OF_CLUSTERS = (
    *("name", "cluster_id", "bootstrap_servers", "via", "listen", "bootstrap"),
    *("problem", "answered", "searched", "full", "sessions"),
)


def _upstream(upstream: UpstreamStatus) -> dict[str, Any]:
    """Return an upstream without its nodes; only their numbers are shown."""
    nodes = [node for node in upstream.nodes if node.present]
    value = {name: getattr(upstream, name) for name in ("name", "active", "bootstrap_servers", "cluster_id", "refuses")}
    return {**value, "nodes": len(nodes), "lost": sum(node.problem is not None for node in nodes)}


def _rates(activity: ClientActivity | None) -> Rates:
    return _NOTHING if activity is None else activity.rates


def _groups(tally: Tally, name: str) -> dict[str, Any]:
    groups = sorted(
        ((key[1], group) for key, group in tally.groups.items() if key[0] == name),
        key=lambda entry: (-len(entry[1].members), entry[0]),
    )
    shown = [
        {
            "group": group_id,
            "clients": sorted(set(group.members.values()))[:20],
            "members": len(group.members),
            "node": group.node,
        }
        for group_id, group in groups[:_GROUPS]
    ]
    return {"groups": shown, "groups_left_out": max(0, len(groups) - _GROUPS)}


def _refusal(event: LogEvent, clusters: Sequence[ClusterStatus]) -> LiveDiagnostic | None:
    """Return a finding if the event says that kproxy refused a client."""
    message = event.declaration if event.refused else None
    if message is None:
        return None
    cluster = clusters[0].name if len(clusters) == 1 else ""
    text = f"A client at {event.refused} was refused: {event.text.partition(': ')[2]}."
    return live_diagnostic(message.fault, cluster, text, client=event.refused)


def _finding(finding: LiveDiagnostic, fixes: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return a finding with its remedy; `fixes` are the lines that help where nodes cannot be reached, by cluster."""
    remedy = remedies.remedy_of(Fault(finding.fault))
    fix = fixes.get(finding.cluster, ()) if finding.fault is Fault.NODE_UNREACHABLE else ()
    return to_json(
        replace(finding, why=remedy.cause, fix=fix),
        cluster=finding.cluster,
        node=finding.node,
        client=finding.client,
        since=round(finding.since or 0.0, 3),
        title=remedy.title,
        check=remedy.check,
        advice=remedy.fix,
    )


def _story(activity: ClientActivity) -> dict[str, Any]:
    """Return what a client has asked since a page is open, what it received, and what failed."""
    by_weight = sorted(activity.apis.items(), key=lambda entry: (-entry[1].errors, -entry[1].requests))
    asked = [
        {"api": api, "requests": use.requests, "last": round(use.last, 3), "errors": use.errors}
        | {"last_error": error_json(use.last_error, error_name)}
        for api, use in by_weight[:_APIS_OF_CLIENT]
    ]
    return {
        "observed_since": round(activity.first_seen, 3),
        "asked": asked,
        "asked_left_out": max(0, len(by_weight) - _APIS_OF_CLIENT),
        "addresses": [{"from": advertised, "to": local} for advertised, local in activity.rewritten.items()],
        "unusable": [{"what": what, "name": error_name(code)} for what, code in activity.unusable],
    }


def _by_kind(events: Sequence[LogEvent]) -> Sequence[Sequence[LogEvent]]:
    """Return the lines of each kind, the kind of the newest line last; of one kind, the newest line is last."""
    kinds: dict[tuple[str, str], list[LogEvent]] = {}
    for event in events:
        kinds[event.kind] = [*kinds.pop(event.kind, []), event]
    return list(kinds.values())


def _event(alike: Sequence[LogEvent]) -> dict[str, Any]:
    """Return the lines of one kind as one event."""
    *others, newest = alike
    message = newest.declaration
    remedy = None if message is None or message.fault is Fault.KPROXY else remedies.remedy_of(message.fault)
    return {
        "number": min(event.number for event in alike),
        "time": round(newest.time, 3),
        "level": newest.level,
        "text": newest.text,
        "since": round(min(event.since for event in alike), 3),
        "times": sum(event.times for event in alike),
        "like_it": [event.text for event in reversed(others[-_LIKE_IT:])],
        "like_it_left_out": max(0, len(others) - _LIKE_IT),
        "meaning": None if remedy is None else remedy.cause,
        "fix": None if message is None else message.meaning,
    }
