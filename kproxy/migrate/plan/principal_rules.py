"""The rules about users, ACLs and quotas (pure), one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kproxy.base.diagnostic import NOTE, WARNING, Diagnostic
from kproxy.base.format import abbreviate, format_count
from kproxy.migrate.plan.principals import (
    DENY,
    cluster_acls,
    conflicting_quotas,
    describe_entity,
    idempotent_writers,
    joined_quotas,
    joined_users,
    other_acls,
    translate_acls,
    users_with_rights,
)

if TYPE_CHECKING:
    from kproxy.migrate.plan.plan import MigrationPlan

# Since then, Write on any topic is enough to produce idempotently (KIP-679).
_IDEMPOTENT_FOR_ALL = (2, 8)


def _users(plan: MigrationPlan) -> Iterator[Diagnostic]:
    """Yield findings about passwords and about names that change."""
    source_users, target_users = plan.source.users or {}, plan.target.users or {}
    for user, credentials in source_users.items():
        if plan.migration.target_user(user) != user:
            continue  # another name, and perhaps another mechanism: only a login shows whether it exists
        lacking = [f"{mechanism}" for mechanism, _ in credentials if mechanism not in dict(target_users.get(user, ()))]
        if lacking:
            text = f"is missing on the target ({', '.join(lacking)}), and Kafka does not return passwords: create it"
            yield Diagnostic(WARNING, f"user {user}", f"{text} there with kafka-configs --alter --entity-type users")
    known = {*users_with_rights(plan.source), *source_users}
    if plan.source.acls is not None and (strangers := sorted(set(plan.migration.users) - known)):
        text = f"no ACL, quota or SCRAM password on the source is of {abbreviate(strangers)}; names are case-sensitive"
        yield Diagnostic(NOTE, "users", text)
    for name, users in joined_users(plan.migration, plan.source).items():
        text = f"{' and '.join(users)} all become {name} on the target: each gets the rights of all, a rule that"
        text += " denies one of them something denies it to all, they share quotas, and the target's logs cannot tell"
        yield Diagnostic(WARNING, "users", f"{text} them apart; allowed: a name of its own for each")


def _acls(plan: MigrationPlan) -> Iterator[Diagnostic]:
    if not plan.migration.acls:
        return
    uncopied = cluster_acls(plan.source)
    if uncopied:
        text = f"rights over the cluster itself are not copied: {format_count(len(uncopied), 'rule')}, such as:"
        yield Diagnostic(NOTE, "ACLs", f"{text} {uncopied[0]}")
    writers = idempotent_writers(plan.migration, plan.source)
    if writers and plan.target.version < _IDEMPOTENT_FOR_ALL:
        text = "the target's brokers require IdempotentWrite on the cluster from idempotent producers, a right of"
        text += f" {abbreviate(writers)} on the source: create it on the target for those that write to these topics"
        yield Diagnostic(WARNING, "ACLs", text)
    if translate_acls(plan.migration, plan.source) and plan.target.has_authorizer is False:
        text = "the target has no authorizer: the source's ACLs cannot be created there; allowed: acls: false"
        yield Diagnostic(WARNING, "ACLs", text)
    for user, acls in other_acls(plan.migration, plan.source, plan.target).items():
        denying = [acl for acl in acls if acl.permission == DENY]
        text = f"has {format_count(len(acls), 'ACL')} on the target that the source does not have, such as:"
        text += f" {(denying or acls)[0]}. prepare leaves them"
        yield Diagnostic(WARNING if denying else NOTE, f"user {user}", text)


def _quotas(plan: MigrationPlan) -> Iterator[Diagnostic]:
    if not plan.migration.quotas or plan.target.quotas is None:
        return
    for entity, key, source_value, target_value in conflicting_quotas(plan.migration, plan.source, plan.target):
        text = f"{key} is {source_value:g} on the source and {target_value:g} on the target"
        yield Diagnostic(WARNING, f"quota of {describe_entity(entity)}", f"{text}: the target's value stays")
    for entity, key, values in joined_quotas(plan.migration, plan.source, plan.target):
        shown = " and ".join(f"{value:g}" for value in values)
        text = f"{key} is {shown} for users of the source that become this one: it is not copied; set it on the target"
        yield Diagnostic(WARNING, f"quota of {describe_entity(entity)}", text)


PRINCIPAL_RULES: tuple[Callable[[MigrationPlan], Iterator[Diagnostic]], ...] = (_users, _acls, _quotas)
