"""ACLs and quotas of the source, as the target gets them: with other names of topics and of users (pure).

A principal is `User:` and the name of a user; custom authorizers have other types, which stay as they are. `User:*` is
each user.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from kproxy.migrate.clusters.inventory import Acl, Inventory, QuotaEntity, TopicInventory
from kproxy.migrate.spec.migration import Migration, user_of

LITERAL, PREFIXED = 3, 4
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
DENY, ALLOW = 2, 3
_IDEMPOTENT_WRITE = 12
_USER = "user"


def describe_entity(entity: QuotaEntity) -> str:
    """Return the entity of a quota as text."""
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


def selected_topics(migration: Migration, source: Inventory) -> list[TopicInventory]:
    """Return the source topics of this migration."""
    return [topic for name, topic in sorted(source.topics.items()) if migration.selects_topic(name)]


def names_with_prefix(names: Sequence[str], prefix: str) -> list[str]:
    """Return the names that begin with a prefix, of sorted names, without a look at the others."""
    indexes = range(bisect_left(names, prefix), len(names))
    return list(takewhile(lambda name: name.startswith(prefix), map(names.__getitem__, indexes)))


# Users


def users_with_rights(source: Inventory) -> dict[str, list[str]]:
    """Return the users that the source's ACLs and quotas name, with the number of ACLs and of quotas of each."""
    acls: dict[str, int] = defaultdict(int)
    quotas: dict[str, int] = defaultdict(int)
    for acl in source.acls or ():
        if (user := user_of(acl.principal)) is not None:
            acls[user] += 1
    for entity in source.quotas or ():
        for kind, name in entity:
            if kind == _USER and name is not None:
                quotas[name] += 1
    return {
        user: [
            f"{count} {noun}{'' if count == 1 else 's'}"
            for count, noun in ((acls.get(user, 0), "ACL"), (quotas.get(user, 0), "quota"))
            if count
        ]
        for user in sorted({*acls, *quotas})
    }


def joined_users(migration: Migration, source: Inventory) -> dict[str, list[str]]:
    """Return the users of the source that become the same user on the target, by that user's name."""
    names: dict[str, list[str]] = defaultdict(list)
    for user in sorted({*migration.users, *users_with_rights(source), *(source.users or {})}):
        names[migration.target_user(user)].append(user)
    return {name: users for name, users in sorted(names.items()) if len(users) > 1}


# ACLs


def translate_acls(migration: Migration, source: Inventory) -> list[Acl]:
    """Return the source's ACLs that apply to the target: of selected topics (renamed), groups, transactional ids.

    Each ACL is returned once, with the name that its user has on the target. None of them gives a right over the
    cluster.
    """
    acls: dict[Acl, None] = {}
    names = [topic.name for topic in selected_topics(migration, source)]
    for source_acl in source.acls or ():
        acl = replace(source_acl, principal=migration.target_principal(source_acl.principal))
        if acl.resource == TOPIC:
            for translated in _translate_topic_acl(migration, acl, names):
                acls.setdefault(translated)
        elif is_copied(migration, acl):
            acls.setdefault(acl)
    return sorted(acls)


def is_copied(migration: Migration, acl: Acl) -> bool:
    """Return whether an ACL is copied: of topics, if it fits one that is selected; of groups, if they are selected."""
    if acl.resource == GROUP:
        return acl.pattern == PREFIXED or acl.name == "*" or migration.selects_group(acl.name)
    return acl.resource in (TOPIC, TRANSACTIONAL_ID)


def cluster_acls(source: Inventory) -> list[Acl]:
    """Return the source's ACLs that are not copied, since they give rights over the cluster itself."""
    return [acl for acl in source.acls or () if acl.resource not in (TOPIC, GROUP, TRANSACTIONAL_ID)]


def idempotent_writers(migration: Migration, source: Inventory) -> list[str]:
    """Return the principals that may produce idempotently by a right over the cluster, as the target names them."""
    acls = (acl for acl in source.acls or () if (acl.resource, acl.operation) == (CLUSTER, _IDEMPOTENT_WRITE))
    return sorted({migration.target_principal(acl.principal) for acl in acls if acl.permission == ALLOW})


def other_acls(migration: Migration, source: Inventory, target: Inventory) -> dict[str, list[Acl]]:
    """Return the target's ACLs that the source does not have, of users that get another name, by that name."""
    translated = set(translate_acls(migration, source))
    others: dict[str, list[Acl]] = defaultdict(list)
    renamed = {migration.target_user(user) for user in migration.users}
    for acl in target.acls or ():
        user = user_of(acl.principal)
        if user in renamed and acl not in translated:
            others[user].append(acl)
    return dict(sorted(others.items()))


def _translate_topic_acl(migration: Migration, acl: Acl, names: Sequence[str]) -> Iterator[Acl]:
    if acl.name == "*":
        yield acl
        return
    matched = names_with_prefix(names, acl.name)
    if acl.pattern != PREFIXED:
        matched = [name for name in matched[:1] if name == acl.name]
    renamed = {name: migration.target_name(name) for name in matched}
    if acl.pattern == PREFIXED and all(new_name.startswith(acl.name) for new_name in renamed.values()):
        if matched:
            yield acl
        return
    for name, new_name in renamed.items():
        # A prefix does not fit names that are others now: one rule for each.
        is_other = acl.pattern == LITERAL or not new_name.startswith(acl.name)
        yield replace(acl, name=new_name if is_other else name, pattern=LITERAL)


# Quotas


def missing_quotas(
    migration: Migration, source: Inventory, target: Inventory
) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
    """Yield the quotas that the target lacks. Existing ones stay: see `conflicting_quotas`.

    Quotas of users that become one user, and differ, are left out: see `joined_quotas`.
    """
    for entity, values in _translated_quotas(migration, source):
        existing = (target.quotas or {}).get(entity, {})
        missing = {key: min(given) for key, given in values.items() if key not in existing and len(given) == 1}
        if missing:
            yield entity, missing


def conflicting_quotas(
    migration: Migration, source: Inventory, target: Inventory
) -> Iterator[tuple[QuotaEntity, str, float, float]]:
    """Yield entity, quota, source value and target value where both clusters have different values."""
    for entity, values in _translated_quotas(migration, source):
        existing = (target.quotas or {}).get(entity, {})
        for key, given in sorted(values.items()):
            for value in sorted(given - {existing[key]} if key in existing else ()):
                yield entity, key, value, existing[key]


def joined_quotas(
    migration: Migration, source: Inventory, target: Inventory
) -> Iterator[tuple[QuotaEntity, str, list[float]]]:
    """Yield entity, quota and the values of users that become one user, where the target has no value of its own."""
    for entity, values in _translated_quotas(migration, source):
        existing = (target.quotas or {}).get(entity, {})
        for key, given in sorted(values.items()):
            if len(given) > 1 and key not in existing:
                yield entity, key, sorted(given)


def _translated_quotas(migration: Migration, source: Inventory) -> Iterator[tuple[QuotaEntity, dict[str, set[float]]]]:
    """Yield the source's quotas by the entities of the target; a quota may have several values."""
    quotas: dict[QuotaEntity, dict[str, set[float]]] = {}
    for entity, values in (source.quotas or {}).items():
        if any(kind == "ip" for kind, _ in entity):
            continue  # of the network of one cluster
        renamed = tuple(
            (kind, migration.target_user(name) if kind == _USER and name is not None else name) for kind, name in entity
        )
        for key, value in values.items():
            quotas.setdefault(renamed, {}).setdefault(key, set()).add(value)
    yield from sorted(quotas.items(), key=lambda item: str(item[0]))
