"""Whether users can log in where clients are moved: each kproxy tries, as it does for their sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic
from kproxy.base.errors import AdminError, ConfigError
from kproxy.base.format import abbreviate
from kproxy.base.messages.migrations import (
    LOGINS_NOT_TRIED,
    USER_CANNOT_LOG_IN,
    USER_HAS_OTHER_LOGIN,
    USER_LACKS_RIGHTS,
    USER_RIGHTS_UNKNOWN,
    USER_WITHOUT_LOGIN,
)
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.expected_users import ExpectedUser, expected_users, requests_for
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet, open_fleet
from kproxy.migrate.switch.kproxy_replies import ClusterReply
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.protocol.wire.acls import Right
from kproxy.proxy.switching.userchecks import LoginOutcome, UserCheck

T = TypeVar("T")

_LOGGED_IN = (LoginOutcome.OWN, LoginOutcome.SHARED, LoginOutcome.NO_LOGIN_NEEDED)
_SHOWN, _MOST_NAMES = 5, 20


@dataclass(slots=True)
class UserResult:
    """The result for one user at one kproxy; `rights` as in `UserCheck`, by the right."""

    check: UserCheck
    rights: dict[Right, bool | str] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[Right, ...]:
        return tuple(right for right, allowed in self.rights.items() if allowed is False)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The rights of which it is not known whether the user has them, with the reason."""
        return tuple(f"{right} ({why})" for right, why in self.rights.items() if isinstance(why, str))


def check_users(fleet: KproxyFleet, users: Sequence[ExpectedUser], upstream: str) -> Iterator[Diagnostic]:
    """Let each kproxy log in at its upstream for each user, and yield what that shows; nothing without users."""
    if not users or not fleet.kproxies:
        return
    requests = list(requests_for(users, fleet.kproxies[0].cluster, upstream))

    def ask(kproxy: Kproxy) -> dict[str, UserResult]:
        results: dict[str, UserResult] = {}
        for request in requests:
            for user, check in kproxy.check_users(request).items():
                result = results.setdefault(user, UserResult(check))
                if result.check.outcome in _LOGGED_IN:  # a later login may fail
                    result.check = check
                result.rights |= dict(zip(request.users[user], check.rights, strict=False))
        return results

    results: dict[str, dict[str, UserResult]] = {}
    for kproxy, answer in fleet.request_all(ask):
        if isinstance(answer, AdminError):
            severity = ERROR if any(user.is_needed for user in users) and answer.status != 404 else WARNING
            yield Diagnostic(severity, f"kproxy {kproxy.name}", LOGINS_NOT_TRIED(upstream=upstream, error=answer))
        else:
            results[kproxy.name] = answer
    if results:
        yield from judge_users(users, results, upstream)


def check_planned_logins(
    migration: Migration, source: Inventory, usage: ObservedUsage | None = None
) -> Iterator[Diagnostic]:
    """Yield what the kproxies of the file find out about logins at the target, weeks before a switch.

    Nothing of it stops a plan. Rights are left out: `prepare` may not have copied the ACLs yet.
    """
    users = [replace(user, rights=(), left_out=0) for user in expected_users(migration, source, (), usage)]
    if migration.switch is None:
        if users:
            names = abbreviate([user.name for user in users], _MOST_NAMES)
            yield Diagnostic(NOTE, "users", f"the file names no kproxies (switch) that could try the logins of {names}")
        return
    try:
        with open_fleet(migration.switch) as fleet:
            replies = [reply for _, reply in fleet.request_all(Kproxy.read_state) if isinstance(reply, ClusterReply)]
            seen = {client.user for reply in replies for client in reply.clients if client.user}
            users = [replace(user, rights=(), left_out=0) for user in expected_users(migration, source, seen, usage)]
            findings = list(check_users(fleet, users, migration.switch.target_upstream))
    except ConfigError as error:
        findings = [Diagnostic(WARNING, "users", f"no login was tried: {error}")]
    for finding in findings:
        yield replace(finding, severity=WARNING) if finding.severity is ERROR else finding


def judge_users(
    users: Sequence[ExpectedUser], results: Mapping[str, Mapping[str, UserResult]], upstream: str
) -> Iterator[Diagnostic]:
    """Yield findings about the results, which are by kproxy and user; the last one says what was tried."""
    well: list[ExpectedUser] = []
    for user in users:
        by_kproxy = {kproxy: checks[user.name] for kproxy, checks in results.items()}
        findings = list(_judge_user(user, by_kproxy, upstream))
        yield from findings
        if not findings and all(result.check.outcome is LoginOutcome.OWN for result in by_kproxy.values()):
            well.append(user)
    yield from _shared_logins(results, upstream)
    if well:
        yield Diagnostic(NOTE, "users", _what_was_tried(well, list(results), upstream))


def _judge_user(user: ExpectedUser, by_kproxy: Mapping[str, UserResult], upstream: str) -> Iterator[Diagnostic]:
    severity, subject = ERROR if user.is_needed else WARNING, f"user {user.name}"
    why = f"On the source: {', '.join(user.has)}." if user.has else ""
    for text, kproxies in _grouped(
        {name: _login_problem(user, result, upstream) for name, result in by_kproxy.items()}
    ):
        yield Diagnostic(severity, subject, f"{abbreviate(kproxies)}: {text}", why=why)
    for result, kproxies in _grouped({name: _other_login(user, result) for name, result in by_kproxy.items()}):
        text = USER_HAS_OTHER_LOGIN(
            kproxies=abbreviate(kproxies), upstream=upstream, other=result, user=user.name, login=user.login
        )
        yield Diagnostic(ERROR if user.is_listed else WARNING, subject, text)
    for rights, kproxies in _grouped({name: result.missing for name, result in by_kproxy.items()}):
        login = by_kproxy[kproxies[0]].check.login
        text = USER_LACKS_RIGHTS(
            upstream=upstream, login=f" as {login}" if login else "", rights=abbreviate(rights, _SHOWN)
        )
        yield Diagnostic(severity, subject, text)
    for unknown, kproxies in _grouped({name: result.unknown for name, result in by_kproxy.items()}):
        text = USER_RIGHTS_UNKNOWN(kproxies=abbreviate(kproxies), upstream=upstream, reasons=abbreviate(unknown))
        yield Diagnostic(WARNING, subject, text)


def _grouped(by_kproxy: Mapping[str, T]) -> Iterator[tuple[T, list[str]]]:
    """Yield each value that is not empty, with the kproxies that have it."""
    groups: dict[T, list[str]] = {}
    for kproxy, value in by_kproxy.items():
        if value:
            groups.setdefault(value, []).append(kproxy)
    yield from groups.items()


def _login_problem(user: ExpectedUser, result: UserResult, upstream: str) -> str:
    match result.check.outcome:
        case LoginOutcome.MISSING:
            return USER_WITHOUT_LOGIN(user=user.name, upstream=upstream)
        case LoginOutcome.REFUSED | LoginOutcome.FAILED:
            return USER_CANNOT_LOG_IN(upstream=upstream, problem=result.check.problem)
        case _:
            return ""


def _other_login(user: ExpectedUser, result: UserResult) -> str:
    """Return the name with which kproxy logs in, if it is not that for which ACLs and quotas were copied."""
    check = result.check
    is_own = check.outcome is LoginOutcome.OWN or (user.is_listed and check.outcome is LoginOutcome.SHARED)
    return check.login if is_own and check.login != user.login else ""


def _shared_logins(results: Mapping[str, Mapping[str, UserResult]], upstream: str) -> Iterator[Diagnostic]:
    """Yield which kproxies do not log in for each user."""
    outcomes: dict[LoginOutcome, list[str]] = {}
    for kproxy, checks in results.items():
        for outcome in {result.check.outcome for result in checks.values()}:
            outcomes.setdefault(outcome, []).append(kproxy)
    texts = {
        LoginOutcome.SHARED: "all users share kproxy's own login there (login-as: user would give each a login)",
        LoginOutcome.NO_LOGIN_NEEDED: "the brokers demand no login: all users are the same to them",
        LoginOutcome.PASSED_THROUGH: "clients log in there themselves: kproxy cannot try whether they can",
    }
    for outcome, text in texts.items():
        if outcome in outcomes:
            yield Diagnostic(NOTE, "users", f"{abbreviate(outcomes[outcome])}: {upstream}: {text}")


def _what_was_tried(users: Sequence[ExpectedUser], kproxies: Sequence[str], upstream: str) -> str:
    names = [user.name if user.login == user.name else f"{user.name} ({user.login})" for user in users]
    text = f"{abbreviate(kproxies)} logged in at {upstream} for {abbreviate(names, _MOST_NAMES)}"
    counts: dict[str, int] = {}
    for user in users:
        for right in user.rights:
            counts[right.resource] = counts.get(right.resource, 0) + 1
    if not counts:
        return f"{text}; no right was tried"
    shown = ", ".join(f"{count} on {resource}" for resource, count in sorted(counts.items()))
    left_out = sum(user.left_out for user in users)
    more = f"; {left_out} more rights were not tried" if left_out else ""
    return (
        f"{text}, and the brokers there allow them each right that was tried: {shown}, those that ACLs of the source"
        f" give to these users alone, or that their clients were observed to use. Nothing was read or written{more}"
    )
