"""Problems that only a proxy can observe: clients that cannot reach a node, lack a leader, fail to log in, or leak.

A finding says what was measured, and for how long. The thresholds below are those from which on it is worth a person's
time; cause and remedy are in `kproxy.advice.remedies`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from kproxy.base.diagnostic import ERROR, WARNING, Diagnostic
from kproxy.base.faults import Fault
from kproxy.base.format import abbreviate, format_duration
from kproxy.client.ask.contents import error_text
from kproxy.protocol.wire.errorcodes import ErrorCode
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
# What keeps a client from using a topic or partition, by its error code.
_UNUSABLE = {
    Fault.NO_LEADER: (
        ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REPLICA_NOT_AVAILABLE,
    ),
    Fault.TOPIC_UNKNOWN: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION),
}  # fmt: skip
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
class LiveDiagnostic(Diagnostic):
    """A finding on the status page. A warning is what only some users want to change."""

    cluster: str = ""
    node: str | None = None
    """The node that it concerns, if it concerns one."""
    client: str | None = None
    """The client that it concerns, if it concerns one."""
    since: float | None = None
    """The Unix time since when it is true; None: since it was found."""


def live_diagnostic(
    fault: Fault,
    cluster: str,
    text: str,
    *,
    is_error: bool = True,
    node: str | None = None,
    client: str | None = None,
    since: float | None = None,
) -> LiveDiagnostic:
    """Return a finding about a client, a node, or else a cluster."""
    subject = client or (f"node {node}" if node else f"cluster {cluster}")
    severity = ERROR if is_error else WARNING
    return LiveDiagnostic(severity, subject, text, fault, cluster=cluster, node=node, client=client, since=since)


class FindingTracker:
    """The findings of now and of the last seconds, each with the Unix time since when it is true."""

    def __init__(self) -> None:
        # By what they are about: the finding, and the last time that it was true.
        self._tracked: dict[tuple[object, ...], tuple[LiveDiagnostic, float]] = {}

    def note(self, finding: LiveDiagnostic, now: float) -> None:
        """Note that the finding is true now."""
        key = (finding.fault, finding.cluster, finding.node, finding.client)
        if finding.since is None:
            finding = replace(finding, since=self._tracked[key][0].since if key in self._tracked else now)
        self._tracked[key] = finding, now

    def tick(
        self, now: float, tally: Tally, clusters: Sequence[ClusterStatus], sessions: Sequence[SessionStatus]
    ) -> list[LiveDiagnostic]:
        """Return the current findings, the most urgent first.

        Nodes that cannot be reached explain what clients complain of, so they come before other errors, and these
        before warnings; of equals, the newest comes first.
        """
        for cluster in clusters:
            own = [session for session in sessions if session.cluster == cluster.name]
            for finding in _cluster_findings(now, tally, cluster, own):
                self.note(finding, now)
        self._tracked = {
            key: (finding, last)
            for key, (finding, last) in self._tracked.items()
            if now - last <= (0.0 if finding.fault in _STATES else _SHOWN_FOR)
        }
        return sorted((finding for finding, _ in self._tracked.values()), key=_urgency)[:_MOST]


def _urgency(finding: LiveDiagnostic) -> tuple[bool, bool, float]:
    return finding.fault not in _STATES, finding.severity is not ERROR, -(finding.since or 0.0)


def _cluster_findings(
    now: float, tally: Tally, cluster: ClusterStatus, sessions: Sequence[SessionStatus]
) -> Iterator[LiveDiagnostic]:
    clients = {client: activity for client, activity in tally.clients.items() if client.cluster == cluster.name}
    yield from _unreachable(cluster)
    yield from _blocked(now, cluster, clients, sessions)
    for client, activity in clients.items():
        yield from _asking_again(now, client, activity)
        yield from _refused(now, client, activity)
    yield from _slow(tally, cluster.name)
    for (node, client_id), count in Counter((session.node, session.client_id) for session in sessions).items():
        if count >= _LEAK:
            whose = f"client id {client_id}" if client_id else "clients without a client id"
            text = f"Node {node} has {count} sessions of {whose}."
            yield live_diagnostic(
                Fault.CONNECTION_LEAK, cluster.name, text, is_error=False, node=node, client=client_id
            )


def _unreachable(cluster: ClusterStatus) -> Iterator[LiveDiagnostic]:
    """Find bootstrap servers and nodes that kproxy cannot connect to, and nodes that the cluster itself has lost."""
    if cluster.problem is not None and not cluster.answered:
        text = _sentence(cluster.problem)
        yield live_diagnostic(Fault.NODE_UNREACHABLE, cluster.name, text, since=cluster.problem_since)
        return
    lost = [node for node in cluster.present if node.problem is not None]
    yield from _node_findings(cluster, Fault.NODE_UNREACHABLE, lost, "cannot be reached")
    removed = [node for node in cluster.nodes if not node.present]
    what = f"{'is' if len(removed) <= _NAMED else 'are'} not in the cluster's metadata any more"
    yield from _node_findings(cluster, Fault.BROKER_MISSING, removed, what)


def _node_findings(
    cluster: ClusterStatus, fault: Fault, nodes: Sequence[NodeStatus], what: str
) -> Iterator[LiveDiagnostic]:
    """Yield one finding for each node, or one for all if they are many."""
    if len(nodes) > _NAMED:
        names = abbreviate([node.name for node in nodes])
        why = f". {nodes[0].name}: {nodes[0].problem}" if nodes[0].problem else ""
        text = f"{len(nodes)} of {len(cluster.nodes)} nodes {what}: {names}{why}"
        since = min((node.lost_since for node in nodes if node.lost_since is not None), default=None)
        yield live_diagnostic(fault, cluster.name, _sentence(text), since=since)
        return
    for node in nodes:
        where = "" if node.advertised in (node.problem or "") else f" ({node.advertised})"
        text = f"{node.name}{where} {what}" + (f": {node.problem}" if node.problem else "")
        yield live_diagnostic(fault, cluster.name, _sentence(text), node=node.node, since=node.lost_since)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _blocked(
    now: float, cluster: ClusterStatus, clients: dict[ClientKey, ClientActivity], sessions: Sequence[SessionStatus]
) -> Iterator[LiveDiagnostic]:
    """Find clients that know the addresses of the nodes and do not connect to them."""
    reached: dict[str, set[str]] = defaultdict(set)  # by address
    asking: set[tuple[str, str]] = set()
    for session in sessions:
        address = session.client.rpartition(":")[0]
        reached[address].add(session.node)
        asking.add((address, session.client_id))
    for client, activity in clients.items():
        reached[client.address] |= activity.nodes
    brokers = [
        node for node in cluster.nodes if node.kind == "broker" and node.present and node.bound and node.reachable
    ]
    for client, activity in clients.items():
        asked = [at for at in activity.metadata_times if now - at <= _ASKS_WITHIN]
        if len(asked) < _ASKS or now - asked[0] < _TIME_TO_CONNECT or activity.unusable or not activity.rewritten:
            continue
        unvisited = [node for node in brokers if node.node not in reached[client.address]]
        if not unvisited or (client.address, client.client_id) not in asking:
            continue
        names = abbreviate(
            [f"{node.name} ({activity.rewritten.get(node.advertised, node.local)})" for node in unvisited]
        )
        text = (
            f"{client.label} has asked for metadata {len(asked)} times in {now - asked[0]:.0f} s and has never"
            f" connected to {'' if len(unvisited) == 1 else 'any of '}{names}. If it needs that node, something"
            " on its side blocks the port."
        )
        node = unvisited[0].node if len(unvisited) == 1 else None
        yield live_diagnostic(Fault.CLIENT_BLOCKED, cluster.name, text, node=node, client=client.label)


def _asking_again(now: float, client: ClientKey, activity: ClientActivity) -> Iterator[LiveDiagnostic]:
    """Find a client that refreshes its metadata again and again."""
    asked = [at for at in activity.metadata_times if now - at <= _AGAIN_WITHIN]
    if len(asked) < (_ASKS if activity.unusable else _AGAIN):
        return
    text = f"{client.label} refreshes its metadata every {_interval(asked)}"
    if not activity.unusable:
        yield live_diagnostic(Fault.ASKS_AGAIN, client.cluster, f"{text}.", is_error=False, client=client.label)
        return
    what, code = activity.unusable[0]
    fault = next((fault for fault, codes in _UNUSABLE.items() if code in codes), Fault.ASKS_AGAIN)
    lacks = f"it cannot find a leader for {what}" if fault is Fault.NO_LEADER else f"{what}: {error_text(code)}"
    more = f" (and {len(activity.unusable) - 1} more)" if len(activity.unusable) > 1 else ""
    yield live_diagnostic(fault, client.cluster, f"{text}: {lacks}{more}.", client=client.label)


def _refused(now: float, client: ClientKey, activity: ClientActivity) -> Iterator[LiveDiagnostic]:
    times = [at for at in activity.refusal_times if now - at <= _REFUSED_WITHIN]
    if len(times) >= _REFUSALS:
        text = f"{client.label} logs in and fails, {len(times)} times in the last minute, every {_interval(times)}."
        yield live_diagnostic(Fault.CREDENTIALS_REFUSED, client.cluster, text, client=client.label)


def _slow(tally: Tally, cluster: str) -> Iterator[LiveDiagnostic]:
    medians: dict[str, dict[str, float]] = defaultdict(dict)
    for (name, node, api), rates in tally.apis.items():
        if name == cluster and node != "bootstrap" and api not in _WAITING_APIS and rates.samples >= _SAMPLES:
            medians[api][node] = rates.percentile(0.5) or 0.0
    reported = set()
    for api, of_nodes in medians.items():
        for node, own in of_nodes.items():
            others = [value for other, value in of_nodes.items() if other != node]
            if others and node not in reported and own >= max(_SLOW, _TIMES_SLOWER * median(others)):
                reported.add(node)
                text = (
                    f"Node {node} answers {api} {own / median(others):.0f} times slower than its peers: half of its"
                    f" responses take longer than {format_duration(own)}, theirs {format_duration(median(others))}."
                )
                yield live_diagnostic(Fault.SLOW_NODE, cluster, text, node=node)


def _interval(times: Sequence[float]) -> str:
    return format_duration((times[-1] - times[0]) / (len(times) - 1))
