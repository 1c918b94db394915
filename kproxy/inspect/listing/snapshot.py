"""What was seen of a cluster at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kproxy.client.ask.contents import Broker, Group, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingOptions:
    """What to ask for. `topics`: names, or globs; none means all. `groups`, `listeners`: ask each broker for them.
    `own_listeners`: ask the bootstrap server that answers for its own, at least."""

    topics: tuple[str, ...] = ()
    internal: bool = False
    groups: bool = False
    listeners: bool = False
    own_listeners: bool = True

    @property
    def names(self) -> list[str] | None:
        """The topics to ask for, if they can be named."""
        globs = any(set(name) & set("*?[") for name in self.topics)
        return None if globs or not self.topics else list(dict.fromkeys(self.topics))

    def shows(self, topic: Topic) -> bool:
        """Whether the topic is to be shown. One that is asked for by name is, also if it is internal."""
        if self.topics:
            return any(fnmatchcase(topic.name, glob) for glob in self.topics)
        return self.internal or not topic.internal


@dataclass(frozen=True, slots=True)
class BrokerDetails:
    """What one broker told of itself, and why it did not tell. `problem`: why it could not be asked at all."""

    settings: Mapping[str, str | None] = field(default_factory=dict)
    settings_problem: str | None = None
    groups: Sequence[Group] = ()
    groups_problem: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A cluster. `asked`: the bootstrap server that answered. `controller`: of ZooKeeper, or the leader of a KRaft
    quorum; None if it cannot be seen. `seen`: what brokers told of themselves, by id. `hidden`: internal topics that
    are left out."""

    asked: str
    cluster_id: str | None
    kraft: bool
    controller: int | None
    brokers: tuple[Broker, ...]
    topics: tuple[Topic, ...]
    hidden: int = 0
    seen: Mapping[int, BrokerDetails] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """How many the topics have."""
        return sum(len(topic.partitions) for topic in self.topics)
