"""The access rules of a cluster as the sessions of one user need them, and what a session reports of a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kproxy.base.printable import one_line
from kproxy.config.access import FAMILIES, AccessRules, Decision, Extent
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.proxy.access.apis import CHANGES, LOGINS, NAMED_BY_ID, OF_CLUSTER_USERS, READS, Change
from kproxy.proxy.access.names import Name, Unnamed

_LONGEST_TEXT = 400
_UNKNOWN_NAME = Decision(False, "the request names a topic by its id, about which no rule can decide")


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A request that was refused, in whole or in part."""

    api: str
    key: int
    correlation_id: int
    family: str
    name: str
    """The first name that is forbidden, escaped and cut; "" if the family has none."""
    reason: str
    """The option that forbids it, in words."""
    error: int
    """Kafka's error code."""
    in_part: bool = False
    """Something of it reaches the broker."""
    user: str = ""
    """The user who has logged in at kproxy, escaped and cut."""


class SessionRules:
    """The access rules of a cluster, as sessions need them whose clients have logged in as one user, or not at all.

    `has_users`: clients log in at kproxy, and all users share kproxy's login to the brokers. So no client may have
    passwords or delegation tokens of the cluster: they would be of kproxy's user, or of no use here.
    """

    def __init__(self, all_rules: AccessRules, *, has_users: bool = False, user: str = "") -> None:
        self.rules = rules = all_rules.for_user(user)
        self.user = user
        self.refused: Collection[int] = OF_CLUSTER_USERS if has_users else ()
        self.extents: Mapping[str, Extent] = {family: rules.extent(family) for family in FAMILIES}
        self.pattern_counts = {
            family: 1
            + sum(len(rule.patterns) for rule in rules.rules if rule.family == family)
            + len(rules.allow_groups)
            for family in FAMILIES
        }
        """With how many patterns a name may be compared."""
        self.newest = {
            key: version
            for family, versions in NAMED_BY_ID.items()
            # A client learns the versions before its user is known.
            if self.extents[family] is Extent.SOME or family in all_rules.families_by_user
            for key, version in versions.items()
        }
        self.free = {*LOGINS, *READS, *(key for key, change in CHANGES.items() if self._is_free(APIS[key], change))}
        """The APIs that pass unread."""
        if self.extents["topic"] is not Extent.ALL:
            self.free.remove(ApiKey.METADATA)
        self.free.difference_update(self.refused)

    def _is_free(self, key: ApiKey, change: Change) -> bool:
        families = {
            ApiKey.INIT_PRODUCER_ID: ("transaction", "produce"),
            ApiKey.ADD_PARTITIONS_TO_TXN: ("transaction", "produce"),
            ApiKey.ADD_OFFSETS_TO_TXN: ("transaction", "group"),
            ApiKey.TXN_OFFSET_COMMIT: ("transaction", "group"),
            ApiKey.ALTER_CONFIGS: ("admin", "topic", "group"),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: ("admin", "topic", "group"),
        }.get(key, (change.family,))
        return all(self.extents[family] is Extent.ALL for family in families)

    def forbidden_by(self, family: str, name: Name) -> Decision | None:
        """Return the decision that forbids this; None if it is allowed."""
        extent = self.extents[family]
        if extent is Extent.ALL:
            return None
        if name is None:
            return _UNKNOWN_NAME
        if isinstance(name, Unnamed):
            return None if extent is Extent.SOME else self.rules.decide(family, "*")
        decision = self.rules.decide(family, name)
        return None if decision.allows else decision

    def text(self, family: str, reason: str) -> str:
        """Return what a client gets to read: what forbids its request, and which names are allowed."""
        allowed = self.rules.allowed_names(family)
        names = f"; allowed {FAMILIES[family]}s: {', '.join(allowed)}" if allowed else ""
        return one_line(f"kproxy refuses this: {reason}{names}", _LONGEST_TEXT)
