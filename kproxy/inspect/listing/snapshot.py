"""The contents of a cluster at one moment, and the kproxy on this machine that serves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kproxy.base.address import Address
from kproxy.base.printable import escaped
from kproxy.client.ask.contents import Broker, Group, Topic
from kproxy.proxy.status.model import ClusterStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingOptions:
    """The contents to ask for."""

    topics: tuple[str, ...] = ()
    """Names, or globs; none means all."""
    internal: bool = False
    groups: bool = False
    """Ask each broker for its groups."""
    listeners: bool = False
    """Ask each broker for its listeners."""
    own_listeners: bool = True
    """Ask at least the answering bootstrap server for its listeners."""

    @property
    def names(self) -> list[str] | None:
        """The topics to ask for, if they can be named."""
        globs = any(set(name) & set("*?[") for name in self.topics)
        return None if globs or not self.topics else list(dict.fromkeys(self.topics))

    def shows(self, topic: Topic) -> bool:
        """Return True if the topic must be shown. One that is asked for by name is, also if it is internal."""
        if self.topics:
            return any(fnmatchcase(topic.name, glob) for glob in self.topics)
        return self.internal or not topic.internal


@dataclass(frozen=True, slots=True)
class BrokerDetails:
    """The details that one broker returned of itself, and why some are missing."""

    settings: Mapping[str, str | None] = field(default_factory=dict)
    settings_problem: str | None = None
    groups: Sequence[Group] = ()
    groups_problem: str | None = None
    problem: str | None = None
    """Why the broker could not be asked at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The contents of a cluster."""

    server: str
    """The bootstrap server that answered."""
    cluster_id: str | None
    kraft: bool
    controller: int | None
    """The controller of ZooKeeper, or the leader of a KRaft quorum; None if it is not visible."""
    brokers: tuple[Broker, ...]
    topics: tuple[Topic, ...]
    hidden: int = 0
    """The number of internal topics that are left out."""
    details: Mapping[int, BrokerDetails] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """The number of partitions of all topics."""
        return sum(len(topic.partitions) for topic in self.topics)


# The kproxy on this machine, which `kproxy.proxy.admin.neighbour` asks

ADMIN_SECONDS = 2.0
"""For its answer, which is an addition to what the brokers say."""


@dataclass(frozen=True, slots=True)
class ServingKproxy:
    """A kproxy that serves the cluster.

    `bootstrap`: the bootstrap server of its clients, None if only the user knows it. `local`: the brokers' local
    addresses, by id.
    """

    admin: str
    bootstrap: str | None
    local: Mapping[int, str]


def serving_kproxy(
    admin: Address | None, served: Sequence[ClusterStatus], cluster_id: str | None
) -> ServingKproxy | None:
    """Return the kproxy that serves the cluster with this id."""
    for cluster in served:
        if cluster_id is not None and cluster.cluster_id == cluster_id:
            local = {node.id: escaped(node.local) for node in cluster.present if node.kind == "broker" and node.bound}
            return ServingKproxy(str(admin), None if cluster.bootstrap is None else escaped(cluster.bootstrap), local)
    return None
