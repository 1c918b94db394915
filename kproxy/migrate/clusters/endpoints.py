"""Both clusters of a migration behind kproxy: two local addresses that accept PLAINTEXT.

kproxy does TLS, SASL and hops. Without Spark, this process has a lease on the host's proxy (`kproxy.spark.host`). With
Spark, the host of every executor has a proxy too, at the same addresses (`kproxy.spark.attach`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, NotBegun, UpstreamError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.spec.migration import Migration

# How long both clusters may take to be there, in seconds.
_READY_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class ClusterEndpoints:
    """The bootstrap servers of source and target for clients without security settings."""

    source: str
    target: str
    source_cluster_id: str
    target_cluster_id: str

    @classmethod
    def from_addresses(cls, source: str, target: str) -> ClusterEndpoints:
        """Return the endpoints of two addresses that this process can reach directly.

        Raises ConfigError if both lead to the same cluster, and UpstreamError if one does not reply.
        """
        endpoints = cls(source, target, _cluster_id(source), _cluster_id(target))
        if endpoints.source_cluster_id == endpoints.target_cluster_id:
            raise ConfigError(
                f"source and target are the same cluster ({endpoints.source_cluster_id}): a copy would read what it"
                " writes; allowed: two clusters"
            )
        return endpoints


@contextmanager
def open_endpoints(migration: Migration, spark: Any = None) -> Iterator[ClusterEndpoints]:
    """Connect to both clusters while the context is open.

    Raises ConfigError as `kproxy.spark.attach` does, and if both are the same cluster; NotBegun if one does not answer.
    """
    from kproxy.spark import attach, detach

    config = migration.kproxy_config()
    source, target = (_local_address(cluster["listen"]) for cluster in config["clusters"])
    with ExitStack() as stack:
        try:
            if spark is None:
                stack.enter_context(_host_proxy(migration, config))
            else:
                attach(spark, config, _READY_TIMEOUT)
                stack.callback(detach, spark)
            endpoints = ClusterEndpoints.from_addresses(source, target)
        except UpstreamError as error:
            raise NotBegun(error.reason, str(error)) from None
        yield endpoints


@contextmanager
def open_target(migration: Migration) -> Iterator[str]:
    """Connect to the target while the context is open, whatever the state of the source.

    Raises as `open_endpoints` does.
    """
    config = migration.target_config()
    with ExitStack() as stack:
        try:
            stack.enter_context(_host_proxy(migration, config))
        except UpstreamError as error:
            raise NotBegun(error.reason, str(error)) from None
        yield _local_address(config["clusters"][0]["listen"])


@contextmanager
def _host_proxy(migration: Migration, config: dict[str, Any]) -> Iterator[None]:
    """Join the host's proxy with this configuration while the context is open."""
    from kproxy.spark import host
    from kproxy.spark.configuration import build_host_config

    configuration = build_host_config(config)
    lease = host.Lease.of(os.getpid(), f"migrate {migration.name} {uuid4().hex}")
    try:
        host.join(configuration, lease, _READY_TIMEOUT)
        yield
    finally:
        host.leave(configuration, lease)


def _local_address(listen: str) -> str:
    """Return the address at which processes of this machine reach a listener."""
    address = Address.parse(listen)
    return str(Address("127.0.0.1", address.port) if address.is_wildcard else address)


def _cluster_id(bootstrap: str) -> str:
    with Admin(bootstrap) as admin:
        return admin.cluster_id()
