"""The first and last offsets of logs, and which topics are compacted."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import EARLIEST, LATEST

_TIMEOUT, _RETRY_INTERVAL = 60.0, 0.2
_TOPIC = 2  # a resource type of Kafka's


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The first offset of a log and its last stable offset, where readers of committed records stop."""

    begin: int
    end: int


def read_log_bounds(bootstrap: str, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], LogBounds]:
    """Return the bounds of each partition.

    A partition without an answer within a minute is left out. Raises UpstreamError if the cluster does not reply at
    all.
    """
    wanted = set(partitions)
    begins: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    until = time.monotonic() + _TIMEOUT
    cluster = ClusterClient(bootstrap)
    try:
        while True:
            begins |= cluster.list_offsets(wanted - begins.keys(), EARLIEST)
            ends |= cluster.list_offsets(wanted - ends.keys(), LATEST)
            complete = begins.keys() & ends.keys()
            if wanted <= complete or time.monotonic() > until:
                return {partition: LogBounds(begins[partition], ends[partition]) for partition in wanted & complete}
            time.sleep(_RETRY_INTERVAL)
            cluster.invalidate()
    finally:
        cluster.close()


def find_compacted_topics(bootstrap: str, topics: Iterable[str]) -> set[str]:
    """Return the topics from which compaction removes records.

    A topic that the principal may not describe counts as not compacted. Raises UpstreamError.
    """
    from kafka.protocol.admin import DescribeConfigsRequest

    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=topic, configuration_keys=["cleanup.policy"]
        )
        for topic in sorted(set(topics))
    ]
    with Admin(bootstrap) as admin:
        try:
            answer = admin.ask(DescribeConfigsRequest(resources=resources, include_synonyms=False, max_version=1))
        except UnsupportedRequestError:
            return set()
    return {
        result.resource_name
        for result in answer.results
        for config in result.configs or ()
        if config.name == "cleanup.policy" and "compact" in (config.value or "")
    }
