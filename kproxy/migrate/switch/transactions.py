"""Transactions that are open in a cluster, and ending them.

Readers of committed records wait for open transactions, and the copy is one. While writes are held nobody can end them,
so the switch does: it takes the transactional id as a new instance of the application would (InitProducerId). The
brokers abort what is open then, and refuse the instance from before.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError, error_name
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.migrate.copier.retries import retry

# What must not be ended from here: the copier's own.
_OWN_PREFIX = "kproxy-migration-"
_ONGOING = "Ongoing"
# Coordinators that load or move; ids that have just been forgotten.
_RETRIABLE, _UNKNOWN = frozenset({14, 15, 16}), 105
_RETRY_INTERVAL = 0.1
_MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """One transaction. `since`: when it was begun, in milliseconds since 1970, 0 if that is not known. `topics`: in
    which it has records."""

    id: str
    since: int = 0
    topics: tuple[str, ...] = ()


def open_transactions(admin: Admin, until: float) -> list[OpenTransaction] | None:
    """All that applications have open; None if the brokers cannot say (before Kafka 3.0). `until`: of time.monotonic,
    how long brokers are asked again that cannot answer yet. Raises UpstreamError."""
    from kafka.protocol.admin import DescribeTransactionsRequest

    found: dict[str, OpenTransaction] = {}
    try:
        for node in sorted(admin.nodes()):
            ids = _list_ids(admin, node, [_ONGOING], until)
            here = {one: OpenTransaction(one) for one in ids}
            if here:
                told = admin.ask(DescribeTransactionsRequest(transactional_ids=list(here)), node)
                for one in told.transaction_states:
                    if one.error_code == _UNKNOWN or (not one.error_code and one.transaction_state != _ONGOING):
                        del here[one.transactional_id]  # it has ended meanwhile
                    elif not one.error_code:
                        topics = tuple(sorted(str(each.topic) for each in one.topics))
                        here[one.transactional_id] = replace(
                            here[one.transactional_id], since=int(one.transaction_start_time_ms), topics=topics
                        )
            found |= here
    except UnsupportedRequestError:
        return None
    return [found[name] for name in sorted(found)]


def read_transactional_ids(admin: Admin, until: float) -> set[str] | None:
    """The transactional ids of applications that a cluster knows; else as `open_transactions`."""
    try:
        return {one for node in sorted(admin.nodes()) for one in _list_ids(admin, node, [], until)}
    except UnsupportedRequestError:
        return None


def _list_ids(admin: Admin, node: int, states: Sequence[str], until: float) -> list[str]:
    """Those of applications in these states that a broker coordinates, in any state if none is named."""
    from kafka.protocol.admin import ListTransactionsRequest

    request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=[], max_version=0)
    answer = admin.ask(request, node)
    while answer.error_code in _RETRIABLE and time.monotonic() < until:
        time.sleep(_RETRY_INTERVAL)
        answer = admin.ask(request, node)
    if answer.error_code:
        text = error_name(answer.error_code)
        raise UpstreamError("other", f"broker {node} does not list its transactions: {text}")
    ids = (str(one.transactional_id) for one in answer.transaction_states)
    return [one for one in ids if not one.startswith(_OWN_PREFIX)]


def end_transactions(bootstrap: str, ids: Sequence[str], until: float) -> dict[str, str]:
    """End what is open of these transactional ids. Returns why it could not be ended, where it could not."""

    def some(of: Iterable[str]) -> dict[str, str]:
        failed = {}
        cluster = ClusterClient(bootstrap)
        try:
            for one in of:
                try:
                    _end_transaction(cluster, one, until)
                except KproxyError as error:
                    failed[one] = str(error)
        finally:
            cluster.close()
        return failed

    shares = [ids[at::_MAX_THREADS] for at in range(min(_MAX_THREADS, len(ids)))]
    if not shares:
        return {}
    with ThreadPoolExecutor(len(shares), "kproxy transactions") as pool:
        return {one: why for failed in pool.map(some, shares) for one, why in failed.items()}


def _end_transaction(cluster: ClusterClient, transactional_id: str, until: float) -> None:
    producer = TransactionalProducer(cluster, transactional_id)
    retry(cluster, lambda: producer.start(until), max(0.0, until - time.monotonic()))
