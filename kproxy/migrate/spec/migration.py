"""The declaration of a migration's file, and what follows from it for a topic and a group (pure).

`kproxy.migrate.spec.document` reads the file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from kproxy.base.address import Address
from kproxy.config import kinds
from kproxy.config.values import MAX_PORT, NODE_PORT_COUNT, PortRange, quote
from kproxy.migrate.copier.state import state_topic_name
from kproxy.migrate.spec.declarations import NamedSectionsKind, PairsKind, SectionKind, globs, key, number
from kproxy.migrate.spec.schemas_section import SchemasSection
from kproxy.migrate.spec.switch_section import SwitchSection
from kproxy.users.document import name_problem

SOURCE, TARGET = SIDES = ("source", "target")
# Kafka's own topics, whose records mean nothing in another cluster.
INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)
# Where kproxy listens by default: two windows of ports, below those that Linux assigns to connections.
_PORTS = range(20500, 32500 - NODE_PORT_COUNT)


_LONGEST_TOPIC = 249
# The type of the principals of Kafka's own logins (`KafkaPrincipal.USER_TYPE`).
_USER = "User"
_RATE = "MB/s, a number above 0"


def _parse_rate(text: str) -> float:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text.strip()) or float(text) <= 0:
        raise ValueError(f"{quote(text)} is not a rate; allowed: {_RATE}")
    return float(text)


def _parse_rename(topic: str, name: str) -> tuple[str, str]:
    """Parse a line of `rename`. Raises ValueError."""
    for text in (topic, name):
        if not re.fullmatch(r"[\w.-]*\*?[\w.-]*", text, re.ASCII) or not text or text in (".", ".."):
            raise ValueError(f"{quote(text)} cannot be a topic; allowed: letters, digits, '.', '_', '-', and one *")
        if len(text) > _LONGEST_TOPIC:
            raise ValueError(f"{quote(text)} is too long for a topic; allowed: {_LONGEST_TOPIC} characters")
    if ("*" in topic) != ("*" in name):
        raise ValueError(f"{topic} and {name}: only one of them has a *; allowed: 'a-*': 'b-*', or names without *")
    if name in INTERNAL_TOPICS or name.startswith(state_topic_name("")):
        raise ValueError(f"{name} is a topic of Kafka's or of kproxy's own; allowed: another name")
    return topic, name


def _parse_config(key: str, value: str) -> tuple[str, str]:
    """Parse a line of `configs`. Raises ValueError."""
    if not re.fullmatch(r"[a-z0-9.]+", key):
        raise ValueError(f"{quote(key)} is not a configuration of a topic; allowed: such as min.insync.replicas")
    return key, value


def user_of(principal: str) -> str | None:
    """Return the name of the user that a principal is; None for all users, and for principals of other types."""
    kind, _, name = principal.partition(":")
    return name if kind == _USER and name != "*" else None


def _parse_user(user: str, name: str) -> tuple[str, str]:
    """Parse a line of `users`. Raises ValueError."""
    for text in (user, name):
        if problem := name_problem(text):
            raise ValueError(f"{quote(text)} {problem}")
        if text == "*":
            raise ValueError("* is no user: ACLs of User:* are copied as they are; allowed: a line for each user")
        if text.startswith(f"{_USER}:"):
            raise ValueError(f"{quote(text)} is a principal; allowed: the name of the user, without {_USER}:")
    return user, name


_TOPICS = globs(r"[A-Za-z0-9._*?!\[\]-]+", "a topic or a glob")
_GROUPS = globs(r".+", "a group or a glob")


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The section `topics` of the file."""

    include: tuple[str, ...] = key(_TOPICS, "Globs of the topics to copy.", default=("*",), repeatable=True)
    exclude: tuple[str, ...] = key(_TOPICS, "Globs of topics to leave out.", repeatable=True)
    rename: Mapping[str, str] = key(
        PairsKind(_parse_rename), "A name, or a glob with one *, to a name, or to a name with one *.", factory=dict
    )
    replication: int | None = key(
        kinds.count(1, 32767), "Replicas of created topics; by default, the target's default."
    )
    configs: Mapping[str, str] = key(
        PairsKind(_parse_config), "Configurations of created topics, besides the source's.", factory=dict
    )
    allow_offset_gaps: tuple[str, ...] = key(
        _TOPICS,
        "Globs of topics that were compacted once: offsets may be missing although they are not compacted now.",
        repeatable=True,
    )
    within: tuple[str, ...] = ()
    """The globs of a wave's topics, if only these are meant; the file has no such key."""
    moved: tuple[str, ...] = ()
    """The globs of topics that clients write on the target, those of moved waves; the file has no such key."""


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """The section `groups` of the file."""

    include: tuple[str, ...] = key(
        _GROUPS, "Globs of the groups whose positions to translate.", default=("*",), repeatable=True
    )
    exclude: tuple[str, ...] = key(_GROUPS, "Globs of groups to leave out.", repeatable=True)
    as_end: tuple[str, ...] = key(
        _GROUPS, "Names of groups whose positions beyond the end of a log are translated as its end.", repeatable=True
    )


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """The section `limits` of the file."""

    max_rate: float | None = key(
        number("MB/S", _RATE, _parse_rate, {"exclusiveMinimum": 0}),
        "MB/s of the whole job; by default, there is no limit.",
    )
    slice_mb: int = key(kinds.count(1, 65536), "MB of one partition that one task copies.", default=256)


_CLIENTS = globs(r".+", "a client id or a glob")


@dataclass(frozen=True, slots=True)
class WaveSelection:
    """One of the `waves` of the file: what moves separately from all else."""

    clients: tuple[str, ...] = key(_CLIENTS, "Globs of the client ids.", repeatable=True)
    groups: tuple[str, ...] = key(_GROUPS, "Globs of the groups.", repeatable=True)
    topics: tuple[str, ...] = key(_TOPICS, "Globs of the topics.", repeatable=True)

    def selects_client(self, client_id: str) -> bool:
        """Return True if this client id is one of the wave."""
        return _matches(client_id, self.clients, ())

    def selects_group(self, group: str) -> bool:
        """Return True if this group is one of the wave."""
        return _matches(group, self.groups, ())

    def selects_topic(self, topic: str) -> bool:
        """Return True if this source topic is one of the wave."""
        return _matches(topic, self.topics, ())


@dataclass(frozen=True, slots=True)
class Migration:
    """The options of a migration. `source` and `target` are options of a cluster of `kproxy run`, as text."""

    source: Mapping[str, Any] = field(repr=False)  # may have secrets
    target: Mapping[str, Any] = field(repr=False)
    name: str = key(kinds.NAME, "Name of the migration, which its state topic has.", default="migration")
    topics: TopicSelection = key(SectionKind(TopicSelection), "The topics to copy.", default=TopicSelection())
    groups: GroupSelection = key(SectionKind(GroupSelection), "The consumer groups to move.", default=GroupSelection())
    limits: CopyLimits = key(SectionKind(CopyLimits), "Limits of the copy.", default=CopyLimits())
    acls: bool = key(kinds.BOOLEAN, "Copy ACLs.", default=True)
    quotas: bool = key(kinds.BOOLEAN, "Copy quotas.", default=True)
    users: Mapping[str, str] = key(
        PairsKind(_parse_user),
        "Names of users on the source, to their names on the target, for ACLs and quotas; others keep theirs.",
        factory=dict,
    )
    switch: SwitchSection | None = key(
        SectionKind(SwitchSection), "The kproxies whose clients `kproxy migrate switch` moves."
    )
    schemas: SchemasSection | None = key(
        SectionKind(SchemasSection), "The schema registries of both sides, which `kproxy migrate schemas` copies."
    )
    waves: Mapping[str, WaveSelection] = key(
        NamedSectionsKind(WaveSelection, kinds.NAME),
        "By name, clients, groups and topics that move separately: `plan` says what connects them to others.",
        factory=dict,
    )
    wave: str = ""
    """The wave to which this is narrowed; "" if it is the whole migration. The file has no such key."""

    @property
    def state_topic(self) -> str:
        """The name of the state topic on the target."""
        return state_topic_name(self.name)

    def selects_topic(self, topic: str) -> bool:
        """Return True if this source topic is copied: never one of Kafka's own, nor a state topic."""
        if topic in INTERNAL_TOPICS or topic.startswith(state_topic_name("")):
            return False
        topics = self.topics
        is_within = not topics.within or _matches(topic, topics.within, ())
        return is_within and _matches(topic, topics.include, topics.exclude) and not self.has_moved(topic)

    def has_moved(self, topic: str) -> bool:
        """Return True if this source topic is one of a wave that is on the target."""
        return _matches(topic, self.topics.moved, ())

    def of_wave(self, wave: str, topics: Iterable[str]) -> Migration:
        """Return the migration of this wave alone: of the topics that these globs select, in the same state topic."""
        return replace(self, wave=wave, topics=replace(self.topics, within=tuple(topics)))

    def without_moved(self, topics: Iterable[str]) -> Migration:
        """Return the migration without the topics of waves that are on the target, which these globs select."""
        return replace(self, topics=replace(self.topics, moved=tuple(topics)))

    def whole(self) -> Migration:
        """Return the migration of all topics of the file."""
        return replace(self, wave="", topics=replace(self.topics, within=(), moved=()))

    def allows_offset_gaps(self, topic: str) -> bool:
        """Return True if the file says that offsets may be missing in this source topic."""
        return _matches(topic, self.topics.allow_offset_gaps, ())

    def target_name(self, topic: str) -> str:
        """Return the name that this source topic has on the target.

        A name takes precedence over a glob, and an earlier glob over a later one.
        """
        if topic in self.topics.rename:
            return self.topics.rename[topic]
        for glob, name in self.topics.rename.items():
            before, star, after = glob.partition("*")
            if star and fnmatchcase(topic, glob):
                return name.replace("*", topic[len(before) : len(topic) - len(after)])
        return topic

    def target_user(self, user: str) -> str:
        """Return the name that this user of the source has on the target."""
        return self.users.get(user, user)

    def target_principal(self, principal: str) -> str:
        """Return the principal on the target; only the names of users change."""
        user = user_of(principal)
        return principal if user is None else f"{_USER}:{self.target_user(user)}"

    def name_clashes(self, topics: Iterable[str]) -> dict[str, list[str]]:
        """Return the source topics that would become the same target topic, by its name."""
        topics_by_name: dict[str, list[str]] = defaultdict(list)
        for topic in topics:
            if self.selects_topic(topic):
                topics_by_name[self.target_name(topic)].append(topic)
        return {name: sorted(clashing) for name, clashing in topics_by_name.items() if len(clashing) > 1}

    def selects_group(self, group: str) -> bool:
        """Return True if the positions of this group are translated."""
        return _matches(group, self.groups.include, self.groups.exclude)

    def with_as_end(self, groups: Iterable[str]) -> Migration:
        """Return the migration with more groups whose positions beyond the end of a log are translated as its end."""
        return replace(self, groups=replace(self.groups, as_end=(*self.groups.as_end, *groups)))

    def kproxy_config(self) -> dict[str, Any]:
        """Return a configuration of kproxy with both clusters, for `kproxy.spark`.

        It is the same whenever the options of the clusters are the same, so that all processes of a host that
        work for this migration share one proxy.
        """
        return self._with_ports({SOURCE: self.source, TARGET: self.target})

    def target_config(self) -> dict[str, Any]:
        """Return a configuration with the target alone, for commands that must not wait for the source.

        It has its own ports, since the configuration with both clusters may be running on the same host.
        """
        options = {key: value for key, value in self.target.items() if key not in ("listen", "node-ports")}
        return self._with_ports({TARGET: options})

    def _with_ports(self, options_by_side: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        number = int.from_bytes(hashlib.sha256(json.dumps(options_by_side, sort_keys=True).encode()).digest()[:8])
        clusters, width = [], NODE_PORT_COUNT + 1
        taken = [window for options in (self.source, self.target) for window in _ports_in_use(options)]
        for side, options in options_by_side.items():
            first = number % (len(_PORTS) - width)
            for _ in range(len(_PORTS) // width):
                if not any(window.overlaps(_port_window(first)) for window in taken):
                    break
                first = (first + width) % (len(_PORTS) - width)
            taken.append(_port_window(first))
            clusters.append({"name": side, "listen": f"127.0.0.1:{_PORTS[first]}", **options})
        return {"clusters": clusters}


def _matches(name: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in include) and not any(fnmatchcase(name, glob) for glob in exclude)


def _port_window(first: int) -> PortRange:
    return PortRange(_PORTS[first], _PORTS[first] + NODE_PORT_COUNT)


def _ports_in_use(options: Mapping[str, Any]) -> Iterator[PortRange]:
    """Yield the ports that the file gives to one cluster."""
    listen, node_ports = options.get("listen"), options.get("node-ports")
    if listen is not None:
        first = Address.parse(listen).port
        yield PortRange(first, min(MAX_PORT, first + (0 if node_ports is not None else NODE_PORT_COUNT)))
    if node_ports is not None:
        yield PortRange.parse(node_ports)
