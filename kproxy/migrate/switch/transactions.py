"""Open transactions of a cluster, and ending them.

Readers of committed records wait for open transactions, and the copy is such a reader. While writes are held,
applications cannot end their transactions, so the switch does: it initializes the transactional id as a new instance of
the application would (InitProducerId). The brokers abort the open transaction, and fence the former instance.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.producer import TransactionalProducer
from kproxy.protocol.wire.errorcodes import COORDINATOR_MOVES, ErrorCode, error_name

# What must not be ended from here: the copier's own.
_OWN_PREFIX = "kproxy-migration-"
_ONGOING = "Ongoing"
_RETRY_INTERVAL = 0.1
_MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """One open transaction."""

    id: str
    since: int = 0
    """Its start, in milliseconds since 1970; 0 if it is not known."""
    topics: tuple[str, ...] = ()
    """The topics in which it has records."""


def open_transactions(admin: Admin, until: float) -> list[OpenTransaction] | None:
    """Return the open transactions of applications; None if the brokers cannot list them (before Kafka 3.0).

    Repeats requests until `until` (of time.monotonic) while brokers are not ready.
    """
    from kafka.protocol.admin import DescribeTransactionsRequest

    transactions: dict[str, OpenTransaction] = {}
    try:
        for node in sorted(admin.nodes()):
            ids = filter(_is_of_application, list_ids(admin, node, [_ONGOING], until))
            on_node = {transactional_id: OpenTransaction(transactional_id) for transactional_id in ids}
            if on_node:
                answer = admin.ask(DescribeTransactionsRequest(transactional_ids=list(on_node)), node)
                for transaction in answer.transaction_states:
                    if transaction.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND or (
                        not transaction.error_code and transaction.transaction_state != _ONGOING
                    ):
                        del on_node[transaction.transactional_id]  # it has ended meanwhile
                    elif not transaction.error_code:
                        topics = tuple(sorted(str(topic.topic) for topic in transaction.topics))
                        on_node[transaction.transactional_id] = replace(
                            on_node[transaction.transactional_id],
                            since=int(transaction.transaction_start_time_ms),
                            topics=topics,
                        )
            transactions |= on_node
    except UnsupportedRequestError:
        return None
    return [transactions[name] for name in sorted(transactions)]


def read_transactional_ids(admin: Admin, until: float) -> set[str] | None:
    """Return the transactional ids of applications that a cluster knows; otherwise as `open_transactions`."""
    try:
        return {
            transactional_id
            for node in sorted(admin.nodes())
            for transactional_id in list_ids(admin, node, [], until)
            if _is_of_application(transactional_id)
        }
    except UnsupportedRequestError:
        return None


def _is_of_application(transactional_id: str) -> bool:
    return not transactional_id.startswith(_OWN_PREFIX)


def list_ids(
    admin: Admin, node: int, states: Sequence[str], until: float, producer_ids: Collection[int] = ()
) -> list[str]:
    """Return the transactional ids that a broker coordinates: in these states, of these producers, or all if empty.

    The broker leaves out ids that the principal may not describe. Raises UnsupportedRequestError (before Kafka 3.0),
    and UpstreamError if the broker is not ready at `until` (of time.monotonic).
    """
    from kafka.protocol.admin import ListTransactionsRequest

    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=sorted(producer_ids), max_version=0
    )
    answer = admin.ask(request, node)
    while answer.error_code in COORDINATOR_MOVES and time.monotonic() < until:
        time.sleep(_RETRY_INTERVAL)
        answer = admin.ask(request, node)
    if answer.error_code:
        text = error_name(answer.error_code)
        raise UpstreamError("other", f"broker {node} does not list its transactions: {text}")
    return [str(transaction.transactional_id) for transaction in answer.transaction_states]


def end_transactions(bootstrap: str, ids: Sequence[str], until: float) -> dict[str, str]:
    """End the open transactions of these ids. Returns by id why it could not be ended."""

    def some(transactional_ids: Iterable[str]) -> dict[str, str]:
        failed = {}
        with ClusterClient(bootstrap) as cluster:
            for transactional_id in transactional_ids:
                producer = TransactionalProducer(cluster, transactional_id)
                try:
                    retry(cluster, partial(producer.init_transactions, until), max(0.0, until - time.monotonic()))
                except KproxyError as error:
                    failed[transactional_id] = str(error)
        return failed

    shares = [ids[at::_MAX_THREADS] for at in range(min(_MAX_THREADS, len(ids)))]
    if not shares:
        return {}
    with ThreadPoolExecutor(len(shares), "kproxy transactions") as pool:
        return {transactional_id: why for failed in pool.map(some, shares) for transactional_id, why in failed.items()}
