"""What the file of a migration says, and what follows for a topic and a group (pure).

`kproxy.migrate.spec.document` reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from kproxy.base.address import Address
from kproxy.config.values import MAX_PORT, NODE_PORT_COUNT, PortRange
from kproxy.migrate.copier.state import state_topic_name
from kproxy.migrate.spec.switch_section import SwitchSection

SOURCE, TARGET = SIDES = ("source", "target")
# Kafka's own topics, whose records mean nothing in another cluster.
INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)
# Where kproxy listens if nobody says: two windows of ports, below those that Linux assigns to connections.
_PORTS = range(20500, 32500 - NODE_PORT_COUNT)


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """`include` and `exclude` are globs. `rename`: a name, or a glob with one `*`, to a name, or one with a `*`.
    `gaps`: globs of topics that were compacted once, where offsets may be missing although they are not compacted now.
    `replication` and `configs` are for topics that are created; without, the target's default and the source's."""

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    replication: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    allow_offset_gaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """`include` and `exclude` are globs. `as_end`: the names of groups whose positions beyond the end of a log are
    translated as its end."""

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    as_end: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """`max_rate`: MB/s of the whole job, None without limit. `slice_mb`: of one partition, what one task copies."""

    max_rate: float | None = None
    slice_mb: int = 256


@dataclass(frozen=True, slots=True)
class Migration:
    """What the file says. `source` and `target` are options of a cluster, as text, as `kproxy run` takes them."""

    source: Mapping[str, Any] = field(repr=False)  # may have secrets
    target: Mapping[str, Any] = field(repr=False)
    name: str = "migration"
    topics: TopicSelection = field(default_factory=TopicSelection)
    groups: GroupSelection = field(default_factory=GroupSelection)
    limits: CopyLimits = field(default_factory=CopyLimits)
    acls: bool = True
    quotas: bool = True
    switch: SwitchSection | None = None

    @property
    def state_topic(self) -> str:
        """Its name, on the target."""
        return state_topic_name(self.name)

    def selects_topic(self, topic: str) -> bool:
        """Whether this topic of the source is copied: never Kafka's own, nor the state of a migration."""
        if topic in INTERNAL_TOPICS or topic.startswith(state_topic_name("")):
            return False
        return _matches(topic, self.topics.include, self.topics.exclude)

    def allows_offset_gaps(self, topic: str) -> bool:
        """Whether the user says that offsets may be missing in this topic of the source."""
        return _matches(topic, self.topics.allow_offset_gaps, ())

    def target_name(self, topic: str) -> str:
        """What this topic of the source is called on the target. A name wins over a glob, an earlier over a later."""
        if topic in self.topics.rename:
            return self.topics.rename[topic]
        for glob, name in self.topics.rename.items():
            before, star, after = glob.partition("*")
            if star and fnmatchcase(topic, glob):
                return name.replace("*", topic[len(before) : len(topic) - len(after)])
        return topic

    def name_clashes(self, topics: Iterable[str]) -> dict[str, list[str]]:
        """Of these topics of the source, those that would become one topic of the target, by its name."""
        found: dict[str, list[str]] = defaultdict(list)
        for topic in topics:
            if self.selects_topic(topic):
                found[self.target_name(topic)].append(topic)
        return {name: sorted(given) for name, given in found.items() if len(given) > 1}

    def selects_group(self, group: str) -> bool:
        """Whether the positions of this group are translated."""
        return _matches(group, self.groups.include, self.groups.exclude)

    def with_as_end(self, groups: Iterable[str]) -> Migration:
        """With these groups more whose positions beyond the end of a log are translated as its end."""
        return replace(self, groups=replace(self.groups, as_end=(*self.groups.as_end, *groups)))

    def kproxy_config(self) -> dict[str, Any]:
        """A configuration of kproxy with both clusters, for `kproxy.spark`. It is the same whenever the options of the
        clusters are, so that everything that runs on a host for this migration shares one proxy."""
        return self._with_ports({SOURCE: self.source, TARGET: self.target})

    def target_config(self) -> dict[str, Any]:
        """One with the target alone, for what must not wait for the source. It has ports of its own, since the other
        may be running on this host."""
        options = {key: value for key, value in self.target.items() if key not in ("listen", "node-ports")}
        return self._with_ports({TARGET: options})

    def _with_ports(self, given: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        number = int.from_bytes(hashlib.sha256(json.dumps(given, sort_keys=True).encode()).digest()[:8])
        clusters, width = [], NODE_PORT_COUNT + 1
        taken = [window for options in (self.source, self.target) for window in _ports_in_use(options)]
        for side, options in given.items():
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
    """Those that the file gives to one cluster."""
    listen, node_ports = options.get("listen"), options.get("node-ports")
    if listen is not None:
        first = Address.parse(listen).port
        yield PortRange(first, min(MAX_PORT, first + (0 if node_ports is not None else NODE_PORT_COUNT)))
    if node_ports is not None:
        yield PortRange.parse(node_ports)
