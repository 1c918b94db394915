"""Problems that only a proxy can observe: clients that cannot reach a node, lack a leader, fail to log in, or leak.

A finding says what was measured, and for how long. The thresholds below are those from which on it is worth a person's
time; cause and remedy are in `kproxy.advice.remedies`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from kproxy.base.faults import Fault
from kproxy.client.ask.contents import error_text
from kproxy.proxy.status.model import ClusterStatus, NodeStatus, SessionStatus
from kproxy.proxy.watch.tally import ClientActivity, ClientKey, Tally

# A client that has what it needs does not ask for metadata this often within this many seconds.
_ASKS, _ASKS_WITHIN = 3, 60.0
# This often within this many seconds: it asks again and again.
_AGAIN, _AGAIN_WITHIN = 10, 10.0
# The time in which a client must connect, in seconds.
_TIME_TO_CONNECT = 10.0
# This many refused logins within this many seconds.
_REFUSALS, _REFUSED_WITHIN = 3, 60.0
# A node is slow if its median is this many times its peers', at least this many seconds, of this many responses.
_TIMES_SLOWER, _SLOW, _SAMPLES = 10.0, 0.02, 10
# The brokers answer these when records have arrived, or when all members have joined.
_WAITING_APIS = frozenset({"Fetch", "JoinGroup", "SyncGroup", "ShareFetch", "ConsumerGroupHeartbeat", "FetchSnapshot"})
# Sessions of one client id at one node. A client has one or two.
_LEAK = 100
# How long a finding is shown after it was last true, in seconds; and how many at most.
_SHOWN_FOR, _MOST = 30.0, 50
# States, not measurements over a time: such a finding ends at once.
_STATES = frozenset({Fault.NODE_UNREACHABLE, Fault.BROKER_MISSING})
# If more nodes than this cannot be reached, they are one finding.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class LiveFinding:
    """A finding on the status page."""

    fault: Fault
    severity: Literal["problem", "hint"]
    cluster: str
    text: str
    """The measurement, in words."""
    node: str | None = None
    """The node that it concerns, if it concerns one."""
    client: str | None = None
    """The client that it concerns, if it concerns one."""
    since: float | None = None
    """The Unix time since when it is true; None: since it was found."""


@dataclass(slots=True)
class _TrackedFinding:
    finding: LiveFinding
    first: float
    last: float


class FindingTracker:
    """The findings of now and of the last seconds, each with the Unix time since when it is true."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], _TrackedFinding] = {}

    def note(self, finding: LiveFinding, now: float) -> None:
        """Note that the finding is true now."""
        key = (finding.fault, finding.cluster, finding.node, finding.client)
        tracked = self._found.get(key)
        if tracked is None:
            self._found[key] = _TrackedFinding(finding, now, now)
        else:
            tracked.finding, tracked.last = finding, now

    def tick(
        self, now: float, tally: Tally, clusters: Sequence[ClusterStatus], sessions: Sequence[SessionStatus]
    ) -> list[tuple[float, LiveFinding]]:
        """Return the current findings, the oldest first."""
        for cluster in clusters:
            for finding in _cluster_findings(
                now, tally, cluster, [session for session in sessions if session.cluster == cluster.name]
            ):
                self.note(finding, now)
        self._found = {
            key: tracked for key, tracked in self._found.items() if now - tracked.last <= _shown_for(tracked.finding)
        }
        shown = [(tracked.finding.since or tracked.first, tracked.finding) for tracked in self._found.values()]
        return sorted(shown, key=lambda tracked: tracked[0])[:_MOST]


def _shown_for(finding: LiveFinding) -> float:
    return 0.0 if finding.fault in _STATES else _SHOWN_FOR


def _cluster_findings(
    now: float, tally: Tally, cluster: ClusterStatus, sessions: Sequence[SessionStatus]
) -> Iterator[LiveFinding]:
    clients = {client: activity for client, activity in tally.clients.items() if client.cluster == cluster.name}
    yield from _unreachable(cluster)
    yield from _blocked(now, cluster, clients, sessions)
    yield from _asking_again(now, cluster, clients)
    yield from _refused(now, cluster, clients)
    yield from _slow(tally, cluster)
    yield from _leaks(cluster, sessions)


def _unreachable(cluster: ClusterStatus) -> Iterator[LiveFinding]:
    """Find bootstrap servers and nodes that kproxy cannot connect to, and nodes that the cluster itself has lost."""
    if cluster.problem is not None and not cluster.answered:
        yield LiveFinding(
            Fault.NODE_UNREACHABLE, "problem", cluster.name, _sentence(cluster.problem), since=cluster.problem_since
        )
        return
    lost = [node for node in cluster.present if node.problem is not None]
    yield from _node_findings(cluster, Fault.NODE_UNREACHABLE, lost, "cannot be reached")
    removed = [node for node in cluster.nodes if not node.present]
    what = "not in the cluster's metadata any more"
    yield from _node_findings(
        cluster, Fault.BROKER_MISSING, removed, f"{'is' if len(removed) <= _NAMED else 'are'} {what}"
    )


def _node_findings(
    cluster: ClusterStatus, fault: Fault, nodes: Sequence[NodeStatus], what: str
) -> Iterator[LiveFinding]:
    """Yield one finding for each node, or one for all if they are many."""
    if len(nodes) > _NAMED:
        names = f"{', '.join(node.name for node in nodes[:_NAMED])} and {len(nodes) - _NAMED} more"
        text = f"{len(nodes)} of {len(cluster.nodes)} nodes {what}: {names}{_why(nodes[0], f'. {nodes[0].name}: ')}"
        since = min((node.lost_since for node in nodes if node.lost_since is not None), default=None)
        yield LiveFinding(fault, "problem", cluster.name, _sentence(text), since=since)
        return
    for node in nodes:
        where = "" if node.advertised in (node.problem or "") else f" ({node.advertised})"
        text = f"{node.name}{where} {what}{_why(node, ': ')}"
        yield LiveFinding(fault, "problem", cluster.name, _sentence(text), node.node, since=node.lost_since)


def _why(node: NodeStatus, after: str) -> str:
    return "" if node.problem is None else f"{after}{node.problem}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _blocked(
    now: float, cluster: ClusterStatus, clients: dict[ClientKey, ClientActivity], sessions: Sequence[SessionStatus]
) -> Iterator[LiveFinding]:
    """Find clients that know the addresses of the nodes and do not connect to them."""
    reached: dict[str, set[str]] = defaultdict(set)  # by address
    asking: set[tuple[str, str]] = set()
    for session in sessions:
        address = session.client.rpartition(":")[0]
        reached[address].add(session.node)
        asking.add((address, session.client_id))
    for client, activity in clients.items():
        reached[client.address] |= activity.nodes
    for client, activity in clients.items():
        asked = [at for at in activity.metadata_times if now - at <= _ASKS_WITHIN]
        if len(asked) < _ASKS or now - asked[0] < _TIME_TO_CONNECT or activity.unusable or not activity.rewritten:
            continue
        unvisited = [
            node
            for node in cluster.nodes
            if node.kind == "broker"
            and node.present
            and node.bound
            and node.reachable
            and node.node not in reached[client.address]
        ]
        if unvisited and (client.address, client.client_id) in asking:
            yield LiveFinding(
                Fault.CLIENT_BLOCKED,
                "problem",
                cluster.name,
                _blocked_text(client, activity, asked, now, unvisited),
                unvisited[0].node if len(unvisited) == 1 else None,
                _client_name(client),
            )


def _blocked_text(
    client: ClientKey, activity: ClientActivity, asked: Sequence[float], now: float, unvisited: Sequence[NodeStatus]
) -> str:
    names = ", ".join(f"{node.name} ({activity.rewritten.get(node.advertised, node.local)})" for node in unvisited[:3])
    if len(unvisited) > 3:
        names += f" and {len(unvisited) - 3} more"
    target = names if len(unvisited) == 1 else f"any of {names}"
    return (
        f"{_client_name(client)} has asked for metadata {len(asked)} times in {now - asked[0]:.0f} s and has never"
        f" connected to {target}. If it needs that node, something on its side blocks the port."
    )


def _asking_again(
    now: float, cluster: ClusterStatus, clients: dict[ClientKey, ClientActivity]
) -> Iterator[LiveFinding]:
    """Find clients that refresh their metadata again and again."""
    for client, activity in clients.items():
        asked = [at for at in activity.metadata_times if now - at <= _AGAIN_WITHIN]
        if len(asked) < (_ASKS if activity.unusable else _AGAIN):
            continue
        every = (asked[-1] - asked[0]) / (len(asked) - 1)
        text = f"{_client_name(client)} refreshes its metadata every {_duration(every)}"
        if not activity.unusable:
            yield LiveFinding(Fault.ASKS_AGAIN, "hint", cluster.name, f"{text}.", None, _client_name(client))
            continue
        what, code = activity.unusable[0]
        fault = Fault.NO_LEADER if code in (5, 6, 9) else Fault.TOPIC_UNKNOWN if code in (3, 17) else Fault.ASKS_AGAIN
        lacks = f"it cannot find a leader for {what}" if fault is Fault.NO_LEADER else f"{what}: {error_text(code)}"
        more = f" (and {len(activity.unusable) - 1} more)" if len(activity.unusable) > 1 else ""
        yield LiveFinding(fault, "problem", cluster.name, f"{text}: {lacks}{more}.", None, _client_name(client))


def _refused(now: float, cluster: ClusterStatus, clients: dict[ClientKey, ClientActivity]) -> Iterator[LiveFinding]:
    for client, activity in clients.items():
        times = [at for at in activity.refusal_times if now - at <= _REFUSED_WITHIN]
        if len(times) >= _REFUSALS:
            every = (times[-1] - times[0]) / (len(times) - 1)
            yield LiveFinding(
                Fault.CREDENTIALS_REFUSED,
                "problem",
                cluster.name,
                f"{_client_name(client)} logs in and fails, {len(times)} times in the last minute, every"
                f" {_duration(every)}.",
                None,
                _client_name(client),
            )


def _slow(tally: Tally, cluster: ClusterStatus) -> Iterator[LiveFinding]:
    medians: dict[str, dict[str, float]] = defaultdict(dict)
    for (name, node, api), rates in tally.apis.items():
        if name == cluster.name and node != "bootstrap" and api not in _WAITING_APIS and rates.samples >= _SAMPLES:
            medians[api][node] = rates.percentile(0.5) or 0.0
    reported = set()
    for api, of_nodes in medians.items():
        for node, own in of_nodes.items():
            others = [value for other, value in of_nodes.items() if other != node]
            if not others or node in reported:
                continue
            peer_median = median(others)
            if own >= _SLOW and own >= _TIMES_SLOWER * peer_median:
                reported.add(node)
                yield LiveFinding(
                    Fault.SLOW_NODE,
                    "problem",
                    cluster.name,
                    f"Node {node} answers {api} {own / peer_median:.0f} times slower than its peers: half of its"
                    f" responses take longer than {_duration(own)}, theirs {_duration(peer_median)}.",
                    node,
                )


def _leaks(cluster: ClusterStatus, sessions: Iterable[SessionStatus]) -> Iterator[LiveFinding]:
    for (node, client_id), count in Counter((session.node, session.client_id) for session in sessions).items():
        if count >= _LEAK:
            clients = f"client id {client_id}" if client_id else "clients without a client id"
            yield LiveFinding(
                Fault.CONNECTION_LEAK,
                "hint",
                cluster.name,
                f"Node {node} has {count} sessions of {clients}.",
                node,
                client_id,
            )


def _client_name(client: ClientKey) -> str:
    return f"{client.client_id or 'a client without an id'} at {client.address}"


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.1f} s"
        if seconds >= 1
        else f"{seconds * 1000:.0f} ms"
        if seconds >= 0.01
        else f"{seconds * 1000:.1f} ms"
    )
