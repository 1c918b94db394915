"""Checks that the kproxies can be switched: findings about their replies (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic, Severity
from kproxy.base.errors import AdminError
from kproxy.base.format import abbreviate
from kproxy.migrate.switch.kproxy_replies import ClusterReply, KproxyReply
from kproxy.proxy.switching.logins import ClientLogins, UpstreamLogin, login_conflict, login_warning
from kproxy.proxy.switching.participant import Phase

# By how many seconds clocks may differ: a hold lasts at most 25 s, and its deadline is in Unix time.
MAX_CLOCK_SKEW = 2.0
# Of equal findings about many kproxies, so many are named.


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """The state that each kproxy must have before a switch."""

    cluster: str
    target_upstream: str
    origin_id: str
    """The cluster id of the side that clients leave."""
    target_id: str
    """The cluster id of the side to which clients are moved."""
    command_version: str
    """The version of this command."""
    hold_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class TimedReply:
    """The reply of one kproxy, or the error, with the times of request and reply in Unix seconds of this machine."""

    reply: KproxyReply | AdminError
    sent: float
    received: float


def check_readiness(timed_replies: Mapping[str, TimedReply], expected: ExpectedState) -> list[Diagnostic]:
    """Return the findings about all kproxies, those that stop the switch first."""
    kproxies_by_finding: dict[tuple[Severity, str], list[str]] = {}
    for name, timed_reply in timed_replies.items():
        for severity, text in _check_kproxy(timed_reply, expected):
            kproxies_by_finding.setdefault((severity, text), []).append(name)
    findings = [
        Diagnostic(severity, f"kproxy {abbreviate(names)}", text)
        for (severity, text), names in kproxies_by_finding.items()
    ]
    return [
        *sorted(findings, key=lambda finding: (finding.severity != ERROR, finding.subject)),
        *_check_all(timed_replies, expected),
    ]


def _check_kproxy(timed_reply: TimedReply, expected: ExpectedState) -> Iterator[tuple[Severity, str]]:
    if isinstance(timed_reply.reply, AdminError):
        yield ERROR, f"cannot be queried: {timed_reply.reply}"
        return
    answer = timed_reply.reply
    if answer.version != expected.command_version:
        yield (
            WARNING,
            f"is version {answer.version}, and this command {expected.command_version}: use the same, if you can",
        )
    skew = max(timed_reply.sent - answer.time, answer.time - timed_reply.received)
    if skew > MAX_CLOCK_SKEW:
        yield ERROR, f"its clock differs from this machine's by at least {skew:.0f} s: synchronize both by NTP"
    if not answer.state_dir:
        yield ERROR, "has no --state-dir: after a restart it would not know that it holds writes: start it with one"
    cluster = answer.clusters.get(expected.cluster)
    if cluster is None:
        clusters = ", ".join(answer.clusters) or "none"
        yield (
            ERROR,
            f"has no cluster {expected.cluster} that can be switched (it has {clusters}): correct switch.cluster in"
            " the file",
        )
        return
    yield from _check_cluster(cluster, expected)


def _check_cluster(cluster: ClusterReply, expected: ExpectedState) -> Iterator[tuple[Severity, str]]:
    state = cluster.state
    if state.phase is not Phase.SERVING:
        yield (
            ERROR,
            f"is in switch {state.switch} ({state.phase}): finish it first, with kproxy migrate switch FILE --resume"
            " or --abort",
        )
        return
    if expected.target_upstream not in cluster.upstreams:
        yield (
            ERROR,
            f"has no upstream {expected.target_upstream} (it has {', '.join(sorted(cluster.upstreams))}): correct"
            " switch.target-upstream in the file",
        )
        return
    if state.active == expected.target_upstream:
        yield ERROR, f"already routes to {expected.target_upstream}"
        return
    if cluster.problem:
        yield ERROR, f"has a problem: {cluster.problem}"
    if expected.target_upstream in cluster.upstream_problems:
        problem = cluster.upstream_problems[expected.target_upstream]
        yield ERROR, f"cannot route to {expected.target_upstream}: {problem}"
    yield from _check_logins(cluster, expected.target_upstream)
    for name, side, expected_id in (
        (state.active, "active", expected.origin_id),
        (expected.target_upstream, "other", expected.target_id),
    ):
        cluster_id = cluster.upstreams.get(name, "")
        if not cluster_id and name not in cluster.upstream_problems:
            yield ERROR, f"cannot connect to its upstream {name}: see its log and /status"
        elif cluster_id and cluster_id != expected_id:
            yield (
                ERROR,
                f"its {side} upstream {name} is cluster {cluster_id}, and the file names {expected_id}: the copy"
                " would have other records",
            )
    if cluster.uncertain_seconds > expected.hold_seconds:
        yield (
            ERROR,
            "was started or killed a short time ago, and does not know which clients may retry writes: wait for"
            f" {cluster.uncertain_seconds:.0f} s",
        )
    if cluster.uncertain_writers:
        writers = ", ".join(cluster.uncertain_writers[:3])
        yield (
            WARNING,
            f"clients lost the response to a write ({writers}): the hold waits until they have retried it, for up to"
            " some minutes",
        )


def _check_logins(cluster: ClusterReply, name: str) -> Iterator[tuple[Severity, str]]:
    own = sorted({client.name or client.address for client in cluster.clients if client.login})
    none = sorted({client.name or client.address for client in cluster.clients if not client.login} - set(own))
    clients = ClientLogins(own, none, sorted({client.login for client in cluster.clients if client.login}))
    active, to = cluster.logins.get(cluster.state.active, UpstreamLogin()), cluster.logins.get(name, UpstreamLogin())
    if text := login_conflict(active, to, name, clients):
        yield ERROR, text
    elif text := login_warning(active, to, name, clients):
        yield WARNING, text


def _check_all(timed_replies: Mapping[str, TimedReply], expected: ExpectedState) -> Iterator[Diagnostic]:
    replies = {name: timed.reply for name, timed in timed_replies.items() if isinstance(timed.reply, KproxyReply)}
    versions = Counter(reply.version for reply in replies.values())
    if len(versions) > 1:
        counts = ", ".join(f"{version} ({count})" for version, count in versions.most_common())
        yield Diagnostic(
            ERROR, "kproxies", f"have different versions: {counts}: update them to one version before the switch"
        )
    clusters = [cluster for reply in replies.values() if (cluster := reply.clusters.get(expected.cluster)) is not None]
    actives = {cluster.state.active for cluster in clusters}
    if len(actives) > 1:
        yield Diagnostic(
            ERROR,
            "kproxies",
            f"route to different upstreams now: {', '.join(sorted(actives))}: finish the interrupted switch with"
            " kproxy migrate switch FILE --resume or --abort",
        )
    sharers = {instance for cluster in clusters for instance in cluster.port_sharers}
    missing = sharers - {cluster.instance for cluster in clusters}
    if missing:
        yield Diagnostic(
            ERROR,
            "kproxies",
            f"{len(missing)} more share these ports (--reuse-port) and would continue to route clients to the former"
            " upstream: list the admin address of each in switch.kproxies",
        )
    if timed_replies and len(replies) == len(timed_replies):
        yield Diagnostic(NOTE, "kproxies", f"{len(timed_replies)} replied")
