"""Clusters of every age, all with three brokers whose advertised names resolve nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from kproxy.base.address import Address
from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster
from tests.harness.clusters.zookeeper import with_zookeeper

VERSIONS = ("2.1.1", "2.2.2", "2.8.2", "3.1.2", "3.9.2", "4.3.1", DEFAULT_VERSION)
FORBIDDEN = "cluster.internal"

_NODE_IDS = (1, 2, 1001)
_HEAP = "192m"


class Cluster(Protocol):
    """What the tests need to know of a cluster; DevCluster is one."""

    @property
    def bootstrap(self) -> str: ...
    @property
    def direct_bootstrap(self) -> str: ...
    @property
    def dial(self) -> dict[int, Address]: ...
    @property
    def advertised(self) -> dict[int, Address]: ...


def uses_zookeeper(version: str) -> bool:
    """KRaft was ready for use in 3.3; older versions get a ZooKeeper."""
    return tuple(map(int, version.split(".")[:2])) < (3, 3)


@contextmanager
def running(version: str) -> Iterator[Cluster]:
    """A cluster of this version of Kafka. Raises UpstreamError if it does not start."""
    if not uses_zookeeper(version):
        with DevCluster(brokers=_NODE_IDS, version=version, heap=_HEAP) as cluster:
            yield cluster
        return
    with with_zookeeper(version, _NODE_IDS, heap=_HEAP) as cluster:
        yield cluster
