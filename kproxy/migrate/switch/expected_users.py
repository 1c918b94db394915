"""The users that must be able to log in where clients are moved, and what each must be able to do there (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kproxy.migrate.clusters.inventory import Acl, Inventory
from kproxy.migrate.plan.principals import (
    ALLOW,
    DENY,
    LITERAL,
    PREFIXED,
    is_copied,
    names_with_prefix,
    users_with_rights,
)
from kproxy.migrate.spec.migration import Migration, user_of
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.replies import GROUPS, READS, TRANSACTIONS, WRITES
from kproxy.protocol.wire.acls import GROUP, OPERATIONS, READ, RESOURCES, TOPIC, TRANSACTIONAL_ID, WRITE, Right
from kproxy.proxy.switching.userchecks import MOST_RIGHTS, MOST_USERS, UserCheckRequest

# What clients do with records: the rights that are tried of each kind of resource.
_TRIED = {TOPIC: (READ, WRITE), GROUP: (READ,), TRANSACTIONAL_ID: (WRITE,)}
_RIGHT_OF_USE = {
    WRITES: (WRITE, TOPIC),
    READS: (READ, TOPIC),
    GROUPS: (READ, GROUP),
    TRANSACTIONS: (WRITE, TRANSACTIONAL_ID),
}
_ALL = "All"
_EVERY_USER = "User:*"
_MOST_RIGHTS = 400
_LONGEST_NAME = 255
# Stands for any group or transactional id, where an ACL is for all of them.
_ANY_NAME = "kproxy-migration-any"
# The most bytes of a request: a kproxy takes 40 KiB.
_MOST_BYTES = 30_000


@dataclass(frozen=True, slots=True)
class ExpectedUser:
    """A user who must be able to log in."""

    name: str
    """The name at kproxy, and on the source."""
    login: str
    """The name that the user should have where clients are moved."""
    is_seen: bool = False
    """True if clients of this user are connected now, or were observed."""
    is_listed: bool = False
    """True if the file names the user."""
    has: tuple[str, ...] = ()
    """The ACLs and quotas on the source, counted."""
    rights: tuple[Right, ...] = ()
    """Rights that clients of this user were observed to use, and that the source's ACLs give to this user alone."""
    left_out: int = 0
    """Rights that are too many to be tried."""

    @property
    def is_needed(self) -> bool:
        """True if the switch must not begin without this user's login and rights."""
        return self.is_seen or self.is_listed


def expected_users(
    migration: Migration,
    source: Inventory,
    seen: Collection[str],
    usage: ObservedUsage | None = None,
    *,
    back: bool = False,
) -> list[ExpectedUser]:
    """Return the users that the file, the source's ACLs and quotas, connected clients or an observation name.

    `source` is that of the file. `back`: clients are moved to it.
    """
    known, used = users_with_rights(source), {} if usage is None else used_rights(usage)
    acls = [acl for acl in source.acls or () if is_copied(migration, acl)]
    acls_by_user: defaultdict[str, list[Acl]] = defaultdict(list)
    for acl in acls:
        user = _EVERY_USER if acl.principal == _EVERY_USER else user_of(acl.principal)
        if user is not None:
            acls_by_user[user].append(acl)
    topics = sorted(topic for topic in source.topics if migration.selects_topic(topic))
    users = []
    for name in sorted({*known, *migration.users, *seen, *used}):
        own = {right for right in used.get(name, ()) if _is_moved(migration, topics, right)}
        granted = set(granted_rights([*acls_by_user[_EVERY_USER], *acls_by_user[name]], name, topics))
        rights = [*sorted(own), *sorted(granted - own)]
        if not back:
            rights = [
                replace(right, name=migration.target_name(right.name)) if right.resource == TOPIC else right
                for right in rights
            ]
        users.append(
            ExpectedUser(
                name,
                name if back else migration.target_user(name),
                name in seen or name in used,
                name in migration.users,
                tuple(known.get(name, ())),
                tuple(rights[:_MOST_RIGHTS]),
                max(0, len(rights) - _MOST_RIGHTS),
            )
        )
    return users


def named_users(migration: Migration, seen: Collection[str], *, back: bool) -> list[ExpectedUser]:
    """Return the users that the file names and those that were seen, without rights, as in `expected_users`."""
    return [
        ExpectedUser(name, name if back else migration.target_user(name), name in seen, name in migration.users)
        for name in sorted({*migration.users, *seen})
    ]


def used_rights(usage: ObservedUsage) -> dict[str, set[Right]]:
    """Return the rights that clients of each user have used at the kproxies while these were observed."""
    rights: dict[str, set[Right]] = {}
    for client in usage.clients:
        if client.user:
            used = rights.setdefault(client.user, set())
            used.update(Right(*_RIGHT_OF_USE[use], name) for use, name in client.uses if use in _RIGHT_OF_USE)
    return rights


def _is_moved(migration: Migration, topics: Sequence[str], right: Right) -> bool:
    """Return whether what a client used is moved, so that the user needs the right there too."""
    if right.resource == TOPIC:
        return names_with_prefix(topics, right.name)[:1] == [right.name]
    return len(right.name) <= _LONGEST_NAME and (right.resource != GROUP or migration.selects_group(right.name))


def granted_rights(acls: Sequence[Acl], user: str, topics: Sequence[str]) -> Iterator[Right]:
    """Yield the rights to read and write that ACLs give to one user, from any host.

    A rule for all users is not the user's own. A rule for a prefix, or for all names, stands for each existing topic,
    and for one name of other resources. `topics` are sorted.
    """
    denying = [
        acl
        for acl in acls
        if acl.permission == DENY and (user_of(acl.principal) == user or acl.principal == _EVERY_USER)
    ]
    for acl in acls:
        if acl.permission != ALLOW or acl.host != "*" or user_of(acl.principal) != user:
            continue
        resource = RESOURCES.get(acl.resource, "")
        allowed = OPERATIONS.get(acl.operation)
        for operation in _TRIED.get(resource, ()):
            if allowed not in (operation, _ALL):
                continue
            for name in _names(acl, topics if resource == TOPIC else None):
                if len(name) <= _LONGEST_NAME and not any(
                    _denies(rule, acl.resource, operation, name) for rule in denying
                ):
                    yield Right(operation, resource, name)


def _names(acl: Acl, topics: Sequence[str] | None) -> Iterable[str]:
    """Return the names of resources with which an ACL is tried. `topics`: those that exist, if it is for topics."""
    if topics is not None:
        if acl.name == "*":
            return [topic for topic in topics if _matches(acl, topic)]
        return [topic for topic in names_with_prefix(topics, acl.name) if _matches(acl, topic)]
    return [_ANY_NAME if acl.pattern == LITERAL and acl.name == "*" else acl.name]


def _matches(acl: Acl, name: str) -> bool:
    if acl.pattern == PREFIXED:
        return name.startswith(acl.name)
    return acl.name in (name, "*")


def _denies(rule: Acl, resource: int, operation: str, name: str) -> bool:
    """Return whether a rule denies an operation; it may do so only to some hosts."""
    is_operation = OPERATIONS.get(rule.operation) in (operation, _ALL)
    return rule.resource == resource and is_operation and _matches(rule, name)


def requests_for(users: Iterable[ExpectedUser], cluster: str, upstream: str) -> Iterator[UserCheckRequest]:
    """Yield requests that a kproxy takes, with all users and rights. A user may be in several."""
    batch: dict[str, tuple[Right, ...]] = {}
    rights = size = 0
    for user, right, cost in _steps(users):
        if batch and (len(batch | {user: ()}) > MOST_USERS or rights >= MOST_RIGHTS or size + cost > _MOST_BYTES):
            yield UserCheckRequest(cluster, upstream, batch)
            batch, rights, size = {}, 0, 0
        batch[user] = batch.get(user, ()) + (() if right is None else (right,))
        rights, size = rights + (right is not None), size + cost
    if batch:
        yield UserCheckRequest(cluster, upstream, batch)


def _steps(users: Iterable[ExpectedUser]) -> Iterator[tuple[str, Right | None, int]]:
    """Yield each user, then each of the user's rights, with the bytes that they take at most: \\uXXXX each."""
    for user in users:
        yield user.name, None, 6 * len(user.name) + 10
        for right in user.rights:
            yield user.name, right, 6 * (len(user.name) + len(right.name)) + 50
