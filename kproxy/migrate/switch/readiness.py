"""Whether the kproxies can be switched: findings about what each of them says of itself (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kproxy.base.errors import AdminError
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING, MigrationFinding
from kproxy.migrate.switch.kproxy_replies import ClusterReply, KproxyReply
from kproxy.proxy.switching.logins import ClientLogins, UpstreamLogin, login_conflict, login_warning
from kproxy.proxy.switching.participant import Phase

# By how many seconds clocks may differ: a hold is 25 s at most, and its end is told in Unix time.
MAX_CLOCK_SKEW = 2.0
# Of equal findings about many kproxies, so many are named.
_MAX_NAMES = 3


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """`origin_id`, `target_id`: the cluster ids of the side that clients are on, and of the one to which they go.
    `ours`: the version of this command. `seconds`: of the hold."""

    cluster: str
    target_upstream: str
    origin_id: str
    target_id: str
    command_version: str
    hold_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class TimedReply:
    """What one kproxy answered; `sent`, `came`: when, by this machine's clock, in Unix seconds."""

    reply: KproxyReply | AdminError
    sent: float
    received: float


def check_readiness(heard: Mapping[str, TimedReply], wanted: ExpectedState) -> list[MigrationFinding]:
    """Of all kproxies, those that stop the switch first."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, one in heard.items():
        for severity, text in _check_kproxy(one, wanted):
            found.setdefault((severity, text), []).append(name)
    findings = [MigrationFinding(severity, _subject(names), text) for (severity, text), names in found.items()]
    return [*sorted(findings, key=lambda one: (one.severity != STOP, one.subject)), *_check_all(heard, wanted)]


def _subject(names: Sequence[str]) -> str:
    rest = len(names) - _MAX_NAMES
    return f"kproxy {', '.join(names[:_MAX_NAMES])}" + (f" and {rest} more" if rest > 0 else "")


def _check_kproxy(one: TimedReply, wanted: ExpectedState) -> Iterator[tuple[str, str]]:
    if isinstance(one.reply, AdminError):
        yield STOP, _unreachable_text(one.reply)
        return
    answer = one.reply
    if answer.version != wanted.command_version:
        yield (
            WARNING,
            f"is version {answer.version}, and this command {wanted.command_version}: use the same, if you can",
        )
    off = max(one.sent - answer.time, answer.time - one.received)
    if off > MAX_CLOCK_SKEW:
        yield STOP, f"its clock is {off:.0f} s away from this machine's or more: set both by NTP"
    if not answer.state_dir:
        yield STOP, "has no --state-dir: it would forget in a restart that it holds: start it with one"
    cluster = answer.clusters.get(wanted.cluster)
    if cluster is None:
        there = ", ".join(answer.clusters) or "none"
        yield STOP, f"has no cluster {wanted.cluster} that can be switched (it has {there}): switch.cluster in the file"
        return
    yield from _check_cluster(cluster, wanted)


def _unreachable_text(error: AdminError) -> str:
    return f"cannot be asked: {error}"


def _check_cluster(cluster: ClusterReply, wanted: ExpectedState) -> Iterator[tuple[str, str]]:
    state = cluster.state
    if state.phase is not Phase.SERVING:
        yield (
            STOP,
            f"is in switch {state.switch} ({state.phase}): end it first, with kproxy migrate switch --resume or"
            " --abort",
        )
        return
    if wanted.target_upstream not in cluster.upstreams:
        yield (
            STOP,
            f"has no upstream {wanted.target_upstream} (it has {', '.join(sorted(cluster.upstreams))}):"
            " switch.to in the file",
        )
        return
    if state.active == wanted.target_upstream:
        yield STOP, f"leads to {wanted.target_upstream} already"
        return
    if cluster.problem:
        yield STOP, f"has a problem: {cluster.problem}"
    if wanted.target_upstream in cluster.upstream_problems:
        yield STOP, f"cannot lead to {wanted.target_upstream}: {cluster.upstream_problems[wanted.target_upstream]}"
    yield from _check_logins(cluster, wanted.target_upstream)
    for name, side, expected in (
        (state.active, "active", wanted.origin_id),
        (wanted.target_upstream, "other", wanted.target_id),
    ):
        found = cluster.upstreams.get(name, "")
        if not found and name not in cluster.upstream_problems:
            yield STOP, f"does not reach its upstream {name}: its log and /status say why"
        elif found and found != expected:
            yield (
                STOP,
                f"its {side} upstream {name} is cluster {found}, and the file means {expected}: the copy would be of"
                " other records",
            )
    if cluster.uncertain_seconds > wanted.hold_seconds:
        yield (
            STOP,
            "was begun or killed a short time ago, and does not know which clients may repeat writes: wait for"
            f" {cluster.uncertain_seconds:.0f} s",
        )
    if cluster.uncertain_writers:
        some = ", ".join(cluster.uncertain_writers[:_MAX_NAMES])
        yield (
            WARNING,
            f"clients that lost an answer to a write ({some}): the hold waits until they have repeated it, for up to"
            " some minutes",
        )


def _check_logins(cluster: ClusterReply, name: str) -> Iterator[tuple[str, str]]:
    own = sorted({one.name or one.address for one in cluster.clients if one.login})
    none = sorted({one.name or one.address for one in cluster.clients if not one.login} - set(own))
    clients = ClientLogins(own, none, sorted({one.login for one in cluster.clients if one.login}))
    active, to = cluster.logins.get(cluster.state.active, UpstreamLogin()), cluster.logins.get(name, UpstreamLogin())
    if text := login_conflict(active, to, name, clients):
        yield STOP, text
    elif text := login_warning(active, to, name, clients):
        yield WARNING, text


def _check_all(heard: Mapping[str, TimedReply], wanted: ExpectedState) -> Iterator[MigrationFinding]:
    answers = {name: one.reply for name, one in heard.items() if isinstance(one.reply, KproxyReply)}
    versions = Counter(answer.version for answer in answers.values())
    if len(versions) > 1:
        said = ", ".join(f"{version} ({count})" for version, count in versions.most_common())
        yield MigrationFinding(STOP, "kproxies", f"have several versions: {said}: update them to one before the switch")
    actives = {
        one.state.active for answer in answers.values() if (one := answer.clusters.get(wanted.cluster)) is not None
    }
    if len(actives) > 1:
        yield MigrationFinding(
            STOP,
            "kproxies",
            f"lead to several upstreams now: {', '.join(sorted(actives))}: kproxy migrate switch"
            " --resume or --abort ends a switch that was broken off",
        )
    there = [one for answer in answers.values() if (one := answer.clusters.get(wanted.cluster)) is not None]
    missing = {name for one in there for name in one.port_sharers} - {one.instance for one in there}
    if missing:
        yield MigrationFinding(
            STOP,
            "kproxies",
            f"{len(missing)} more share these ports (--reuse-port) and would go on leading clients to"
            " the former upstream: list the admin address of each in switch.kproxies",
        )
    if heard and len(answers) == len(heard):
        yield MigrationFinding(NOTE, "kproxies", f"{len(heard)} answer")
