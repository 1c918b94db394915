"""Helpers that add rules (ACLs) at real brokers, and wait until a broker knows them."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.harness.process import PATIENCE_S, wait_until


def right(
    user: str,
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    """Return the rule that allows a user an operation from each host."""
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def allow(bootstrap: str, rights: Sequence[AclBinding]) -> None:
    """Add rules, and wait until a broker shows them: the controller answers before the brokers have heard of them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_acls(list(rights)).values():
        done.result(PATIENCE_S)
    for rule in rights:
        wait_until(lambda rule=rule: _is_known(admin, rule), f"a broker knows {rule}")


def _is_known(admin: AdminClient, rule: AclBinding) -> bool:
    exactly = AclBindingFilter(
        rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host, rule.operation,
        rule.permission_type,
    )  # fmt: skip
    return bool(admin.describe_acls(exactly).result(PATIENCE_S))
