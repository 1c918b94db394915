"""Checks that the kproxies can be switched: findings about their replies (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic, Severity, grouped
from kproxy.base.errors import AdminError
from kproxy.base.messages.migrations import (
    ALREADY_SWITCHED,
    CLOCK_DIFFERS,
    FINISH_SWITCH_FIRST,
    KPROXIES_DIFFER,
    KPROXY_HAS_PROBLEM,
    KPROXY_NOT_QUERIED,
    KPROXY_WITHOUT_STATE_DIR,
    NO_SUCH_CLUSTER,
    NO_SUCH_UPSTREAM,
    OTHER_CLUSTER_IN_FILE,
    RETRIES_UNKNOWN,
    UPSTREAM_UNREACHABLE,
    VERSIONS_DIFFER,
    WRITE_WITHOUT_RESPONSE,
)
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
    findings = grouped(
        Diagnostic(severity, f"kproxy {name}", text)
        for name, timed_reply in timed_replies.items()
        for severity, text in _check_kproxy(timed_reply, expected)
    )
    return [
        *sorted(findings, key=lambda finding: (finding.severity != ERROR, finding.subject)),
        *_check_all(timed_replies, expected),
    ]


def _check_kproxy(timed_reply: TimedReply, expected: ExpectedState) -> Iterator[tuple[Severity, str]]:
    if isinstance(timed_reply.reply, AdminError):
        yield ERROR, KPROXY_NOT_QUERIED(error=timed_reply.reply)
        return
    answer = timed_reply.reply
    if answer.version != expected.command_version:
        yield (
            WARNING,
            f"is version {answer.version}, and this command {expected.command_version}: use the same, if you can",
        )
    skew = max(timed_reply.sent - answer.time, answer.time - timed_reply.received)
    if skew > MAX_CLOCK_SKEW:
        yield ERROR, CLOCK_DIFFERS(skew=skew)
    if not answer.state_dir:
        yield ERROR, KPROXY_WITHOUT_STATE_DIR()
    cluster = answer.clusters.get(expected.cluster)
    if cluster is None:
        clusters = ", ".join(answer.clusters) or "none"
        yield (
            ERROR,
            NO_SUCH_CLUSTER(cluster=expected.cluster, clusters=clusters),
        )
        return
    yield from _check_cluster(cluster, expected)


def _check_cluster(cluster: ClusterReply, expected: ExpectedState) -> Iterator[tuple[Severity, str]]:
    state = cluster.state
    if state.phase is not Phase.SERVING:
        yield (
            ERROR,
            FINISH_SWITCH_FIRST(switch=state.switch, phase=state.phase),
        )
        return
    if expected.target_upstream not in cluster.upstreams:
        yield (
            ERROR,
            NO_SUCH_UPSTREAM(target_upstream=expected.target_upstream, upstreams=", ".join(sorted(cluster.upstreams))),
        )
        return
    if state.active == expected.target_upstream:
        yield ERROR, ALREADY_SWITCHED(target_upstream=expected.target_upstream)
        return
    if cluster.problem:
        yield ERROR, KPROXY_HAS_PROBLEM(problem=cluster.problem)
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
            yield ERROR, UPSTREAM_UNREACHABLE(name=name)
        elif cluster_id and cluster_id != expected_id:
            yield (
                ERROR,
                OTHER_CLUSTER_IN_FILE(side=side, name=name, cluster_id=cluster_id, expected_id=expected_id),
            )
    if cluster.uncertain_seconds > expected.hold_seconds:
        yield (
            ERROR,
            RETRIES_UNKNOWN(uncertain_seconds=cluster.uncertain_seconds),
        )
    if cluster.uncertain_writers:
        writers = ", ".join(cluster.uncertain_writers[:3])
        yield (
            WARNING,
            WRITE_WITHOUT_RESPONSE(writers=writers),
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
        yield Diagnostic(ERROR, "kproxies", VERSIONS_DIFFER(counts=counts))
    clusters = [cluster for reply in replies.values() if (cluster := reply.clusters.get(expected.cluster)) is not None]
    actives = {cluster.state.active for cluster in clusters}
    if len(actives) > 1:
        yield Diagnostic(
            ERROR,
            "kproxies",
            KPROXIES_DIFFER(actives=", ".join(sorted(actives))),
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
