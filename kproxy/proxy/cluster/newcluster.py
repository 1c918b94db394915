"""A new Kafka cluster that answers in place of the served one: when kproxy may serve it (pure).

A Kafka cluster that is created again, such as a test cluster whose volumes were deleted, has another id. kproxy keeps
to the id that it has served first, so it refuses the new cluster. It serves the new one only if all bootstrap servers
that answer belong to it: one server of another cluster may be a mistake in DNS or in a port-forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kproxy.base.address import Address
from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.base.messages.start import (
    BOOTSTRAP_MIXED,
    CLUSTER_ID_UNCHANGED,
    CLUSTER_IDS_AFTER_LOGIN,
    NO_BOOTSTRAP_SERVER,
    NO_CLUSTER_ID_TO_ACCEPT,
)
from kproxy.proxy.cluster.identity import BrokerIdentity, LoginRequired

Answers = Mapping[Address, BrokerIdentity | KproxyError]
"""What each bootstrap server has answered, or why it has not."""


@dataclass(frozen=True, slots=True)
class NewCluster:
    """The Kafka cluster to which all bootstrap servers that have answered belong. It is not the served one."""

    cluster_id: str
    server: Address
    """The first of these servers."""
    silent: tuple[Address, ...] = ()
    """The bootstrap servers that have not answered."""


class NotAccepted(UpstreamError):
    """There is no new cluster that kproxy may serve. The text says why."""

    def __init__(self, text: str, *, unchanged: bool = False) -> None:
        self.unchanged = unchanged
        """True if the bootstrap servers belong to the served cluster."""
        super().__init__("wrong-cluster", text)


def new_cluster(served_id: str | None, answers: Answers) -> NewCluster:
    """Return the cluster that may take the place of the one with the id `served_id`. Raises NotAccepted."""
    identities = {server: answer for server, answer in answers.items() if isinstance(answer, BrokerIdentity)}
    servers: dict[str, Address] = {}
    for server, identity in identities.items():
        if identity.cluster_id is None:
            raise NotAccepted(NO_CLUSTER_ID_TO_ACCEPT(address=server))
        servers.setdefault(identity.cluster_id, server)
    if len(servers) > 1:
        raise NotAccepted(mixed_text(servers))
    if not servers:
        if any(isinstance(answer, LoginRequired) for answer in answers.values()):
            raise NotAccepted(CLUSTER_IDS_AFTER_LOGIN())
        raise NotAccepted(NO_BOOTSTRAP_SERVER(errors="; ".join(dict.fromkeys(map(str, answers.values())))))
    (cluster_id, server), *_ = servers.items()
    # Where kproxy serves no cluster yet, it serves the first one that answers anyway.
    if served_id in (None, cluster_id):
        raise NotAccepted(CLUSTER_ID_UNCHANGED(cluster_id=cluster_id), unchanged=True)
    return NewCluster(cluster_id, server, tuple(address for address in answers if address not in identities))


def mixed_text(servers: Mapping[str, Address]) -> str:
    """Return the error text for bootstrap servers of different clusters, by cluster id."""
    return BOOTSTRAP_MIXED(named=", ".join(f"{server} (cluster id {cluster})" for cluster, server in servers.items()))


class NewClusterClock:
    """How long only the new cluster has answered, and the served one nowhere."""

    def __init__(self) -> None:
        self._cluster_id = ""
        self._since = 0.0

    def reset(self) -> None:
        """Begin again: the served cluster has answered, or it is not clear which cluster answers."""
        self._cluster_id = ""

    def observe(self, new: NewCluster, now: float) -> float:
        """Note that only this cluster has answered at `now`, in seconds; return for how many seconds that is so.

        A bootstrap server that is silent may belong to the served cluster, so it counts as if that had answered.
        """
        if new.silent:
            self.reset()
            return 0.0
        if new.cluster_id != self._cluster_id:
            self._cluster_id, self._since = new.cluster_id, now
        return now - self._since
