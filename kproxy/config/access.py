"""The access rules of a cluster: `read-only`, `allow-groups`, `rules`, and the decision that follows from them. Pure.

The APIs of Kafka that change something are in families. Each family has names of its own: topics, groups or
transactional ids. Which API belongs to which family is in `kproxy.proxy.access`. Reads belong to none, and always pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from fnmatch import fnmatchcase
from itertools import takewhile

from kproxy.config.values import quote

FAMILIES = {
    "produce": "topic",
    "topic": "topic",
    "group": "group",
    "transaction": "transactional id",
    "admin": "",
}
"""The families, and what the names of each are. The APIs of `admin` change no single topic or group."""
ANY = "*"
_VERDICTS = {"allow": True, "deny": False}
RULE = "[user=NAME…] allow|deny FAMILY NAME…, FAMILY of " + ", ".join(FAMILIES)
_USER = "user="
# Topics have at most 249 characters, and groups seldom more.
_LONGEST_NAME, _MOST_NAMES = 255, 100
_NAME = re.compile(r"[^\s,]+")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A name, in which `*` stands for any characters and `?` for one."""

    glob: str

    @classmethod
    def parse(cls, text: str) -> NamePattern:
        """Read a pattern. Raises ValueError."""
        text = text.strip()
        if not _NAME.fullmatch(text) or len(text) > _LONGEST_NAME or not text.isprintable():
            allowed = f"1 to {_LONGEST_NAME} characters without spaces and commas; * is any text, ? any character"
            raise ValueError(f"{quote(text)} is no pattern of names; allowed: {allowed}")
        return cls(text)

    def matches(self, name: str) -> bool:
        """Check whether this name matches as a whole."""
        return self.glob == ANY or fnmatchcase(name, self.glob.replace("[", "[[]"))

    def __str__(self) -> str:
        return self.glob


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One rule: whether clients may use a family of APIs for names that match one of the patterns.

    `users`: those that it is about, of the users who have logged in at kproxy; all clients if there are none.
    """

    allows: bool
    family: str
    patterns: tuple[NamePattern, ...]
    users: tuple[NamePattern, ...] = ()

    @classmethod
    def parse(cls, text: str) -> AccessRule:
        """Read `allow FAMILY NAME…` or `deny FAMILY NAME…`, perhaps behind `user=NAME`s. Raises ValueError."""
        words = text.split()
        users = list(takewhile(lambda word: word.startswith(_USER), words))
        verdict, family, *names = [*words[len(users) :], "", ""]
        names = [name for name in names if name]
        if verdict not in _VERDICTS:
            raise ValueError(f"{quote(text)} is no rule; allowed: {RULE}")
        if family == "read":
            raise ValueError("reads always pass, and have no rules; to hide topics, use the ACLs of the cluster")
        if family not in FAMILIES:
            raise ValueError(f"{quote(family)} is no family of APIs; allowed: {', '.join(FAMILIES)}")
        if not names or len(names) > _MOST_NAMES:
            raise ValueError(f"{quote(text)} has {len(names)} names; allowed: 1 to {_MOST_NAMES}, or {ANY}")
        patterns = tuple(map(NamePattern.parse, names))
        if not FAMILIES[family] and names != [ANY]:
            raise ValueError(f"{family} has no names; allowed: {verdict} {family} {ANY}")
        if len(users) > _MOST_NAMES:
            raise ValueError(f"{quote(text)} has {len(users)} users; allowed: up to {_MOST_NAMES}, or none for all")
        of_users = tuple(NamePattern.parse(user.removeprefix(_USER)) for user in users)
        return cls(_VERDICTS[verdict], family, patterns, of_users)

    def matches(self, family: str, name: str) -> bool:
        """Check whether this rule decides about this name."""
        return family == self.family and any(pattern.matches(name) for pattern in self.patterns)

    @property
    def decides_all(self) -> bool:
        """True if it decides about each name of its family."""
        return any(pattern.glob == ANY for pattern in self.patterns)

    def is_for(self, user: str) -> bool:
        """Check whether this rule is about a client that has logged in as this user; "" if it has not."""
        return not self.users or (user != "" and any(pattern.matches(user) for pattern in self.users))

    def __str__(self) -> str:
        users = [f"{_USER}{user}" for user in self.users]
        return " ".join((*users, "allow" if self.allows else "deny", self.family, *map(str, self.patterns)))


class Extent(Enum):
    """For which names of a family clients may use it."""

    ALL = auto()
    SOME = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer whether clients may do something, and the rule or the other option that gives it."""

    allows: bool
    option: AccessRule | str

    @property
    def reason(self) -> str:
        """The option in words."""
        return f"rule '{self.option}'" if isinstance(self.option, AccessRule) else self.option


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The changes that clients of a cluster may make; `for_user` selects those of one client.

    The first rule that matches decides. If none does, `read_only` forbids all changes, except that clients may use the
    groups of `allow_groups`.
    """

    read_only: bool = False
    allow_groups: tuple[NamePattern, ...] = ()
    rules: tuple[AccessRule, ...] = ()

    def for_user(self, user: str) -> AccessRules:
        """Return the rules for a client that has logged in at kproxy as this user; "" if it has not."""
        return replace(self, rules=tuple(rule for rule in self.rules if rule.is_for(user)))

    @property
    def families_by_user(self) -> frozenset[str]:
        """The families in which the rights of users differ."""
        return frozenset(rule.family for rule in self.rules if rule.users)

    @property
    def forbids_nothing(self) -> bool:
        """True if all clients may do everything."""
        return not self.families_by_user and all(self.extent(family) is Extent.ALL for family in FAMILIES)

    def decide(self, family: str, name: str) -> Decision:
        """Decide whether clients may use this family of APIs for this name."""
        for rule in self.rules:
            if rule.matches(family, name):
                return Decision(rule.allows, rule)
        if not self.read_only:
            return Decision(True, "no rule matches")
        if family == "group" and any(pattern.matches(name) for pattern in self.allow_groups):
            return Decision(True, f"--allow-groups {self._groups}")
        return Decision(False, "--read-only")

    def extent(self, family: str) -> Extent:
        """Return for which names clients may use this family."""
        verdicts = set()
        for rule in self.rules:
            if rule.family == family:
                verdicts.add(rule.allows)
                if rule.decides_all:
                    break
        else:
            groups = self.allow_groups if family == "group" and self.read_only else ()
            if groups:
                verdicts.add(True)
            if not any(pattern.glob == ANY for pattern in groups):
                verdicts.add(not self.read_only)
        if len(verdicts) == 2:
            return Extent.SOME
        return Extent.ALL if verdicts.pop() else Extent.NONE

    def allowed_names(self, family: str) -> tuple[str, ...]:
        """Return the patterns of the names that are allowed in this family, as far as the options name them."""
        patterns = [
            str(pattern) for rule in self.rules if rule.family == family and rule.allows for pattern in rule.patterns
        ]
        if family == "group" and self.read_only:
            patterns += map(str, self.allow_groups)
        return tuple(dict.fromkeys(patterns))

    def describe(self) -> Iterator[str]:
        """Yield what the rules forbid, a clause for each thing."""
        if self.read_only:
            groups = f", but groups {self._groups} may be used (--allow-groups)" if self.allow_groups else ""
            yield f"read-only: refuses each request that changes something{groups}"
        yield from (f"rule '{rule}'" for rule in self.rules)

    @property
    def _groups(self) -> str:
        return ", ".join(map(str, self.allow_groups))
