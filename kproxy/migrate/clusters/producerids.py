"""Producer ids: the target must assign higher ids than any in the copied records, and any still to come.

Both clusters count from 0. Copied records have no producer id; but a client that continues on the target keeps its id,
and would meet the sequence numbers of another producer with the same id there. Brokers then take its records for
duplicates, and acknowledge them without writing them.

InitProducerId without a transactional id assigns an id and uses it up. Each broker assigns ids from blocks of 1000 that
it gets from the controller, so every broker is asked: one may still have an old block.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.migrate.copier.errorcodes import RETRIABLE, BrokerError
from kproxy.migrate.copier.requests import parse_response
from kproxy.protocol.wire.api import ApiKey

# Ids that the source may still hand out before the switch, in the default.
MARGIN = 20_000
# A broker gets ids in blocks of so many, and may have two of them.
_BLOCK_SIZE, _BLOCKS_PER_BROKER = 1000, 2
# Connections to each broker, and requests in flight on each.
_LINKS_PER_BROKER, _IN_FLIGHT = 4, 100
_VERSION = 0
_TIMEOUT, _RETRY_INTERVAL = 30.0, 0.1


IdRange = tuple[int, int]
"""The first and the last of successive producer ids."""


@dataclass(frozen=True, slots=True)
class ProducerIdUsage:
    """The producer ids that a cluster has used."""

    highest_in_log: int | None
    """The highest id in its topics; None if it could not be read."""
    highest_assigned: int | None
    """The highest id that its brokers assigned just now; None if the principal may not ask for one."""
    brokers: int
    unknown_reasons: tuple[str, ...] = ()
    """Why values are None."""

    @property
    def floor(self) -> int:
        """The lowest id that this cluster has not used and cannot assign from a block that a broker still has."""
        in_log = -1 if self.highest_in_log is None else self.highest_in_log
        if self.highest_assigned is None:
            return in_log + 1
        return max(in_log + 1, self.highest_assigned + 1 + _BLOCK_SIZE * _BLOCKS_PER_BROKER * self.brokers)


@dataclass(frozen=True, slots=True)
class RaisedProducerIds:
    """The result of raising producer ids."""

    lowest: Mapping[int, int]
    """By broker, the lowest id that it assigns from now on."""
    taken: Sequence[IdRange]
    """The ids that were used up: no client has one of them."""
    seconds: float

    @property
    def ids_used(self) -> int:
        """The number of ids that were used up."""
        return sum(last - first + 1 for first, last in self.taken)


def read_usage(inventory: Inventory, nodes: Mapping[int, str]) -> ProducerIdUsage:
    """Return the producer ids that the source has used."""
    reasons = [f"{gap.subject}: {gap.reason}" for gap in inventory.gaps if gap.subject.startswith("the producer ids")]
    assigned: int | None = -1
    try:
        assigned = max(take_one_id_each(nodes).values(), default=-1)
    except BrokerError as error:
        assigned = None
        reasons.append(str(error))
    return ProducerIdUsage(inventory.producer_id, assigned, len(nodes), tuple(reasons))


def take_one_id_each(nodes: Mapping[int, str]) -> dict[int, int]:
    """Take one id from each broker, and return them by node id.

    Raises BrokerError if the principal may not ask for ids.
    """
    ids = {}
    for node, address in nodes.items():
        with _BrokerLinks({node: address}, 1) as brokers:
            ids[node] = max(brokers.request_ids(1)[node])
    return ids


def raise_to(nodes: Mapping[int, str], floor: int, lowest: Mapping[int, int]) -> RaisedProducerIds:
    """Use up ids until every broker assigns `floor` or higher. `lowest` is what each broker assigned last."""
    began, current = time.monotonic(), dict(lowest)
    taken: list[int] = []
    while behind := {node: nodes[node] for node, lowest_id in current.items() if lowest_id < floor}:
        with _BrokerLinks(behind, _LINKS_PER_BROKER) as brokers:
            while behind:
                # Brokers share the numbers: the more of them are asked, the fewer each has to give.
                count = max(
                    1, min(_IN_FLIGHT, -(-(floor - min(current[node] for node in behind)) // _LINKS_PER_BROKER))
                )
                for node, ids in brokers.request_ids(count, behind).items():
                    taken += ids
                    current[node] = max(current[node], *ids)
                behind = {node: address for node, address in behind.items() if current[node] < floor}
    return RaisedProducerIds(current, id_ranges(taken), time.monotonic() - began)


def id_ranges(ids: Iterable[int]) -> list[IdRange]:
    """Return the ranges of some ids, in order."""
    ranges: list[IdRange] = []
    for number in sorted(ids):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


class _BrokerLinks:
    """Several connections to each of some brokers."""

    def __init__(self, nodes: Mapping[int, str], links: int) -> None:
        self._links: dict[int, list[BrokerConnection]] = {}
        with ExitStack() as stack:
            for node, address in nodes.items():
                broker = Address.parse(address)
                self._links[node] = [
                    stack.enter_context(closing(BrokerConnection(broker.host, broker.port))) for _ in range(links)
                ]
            self._stack = stack.pop_all()

    def __enter__(self) -> _BrokerLinks:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def request_ids(self, count: int, nodes: Iterable[int] | None = None) -> dict[int, list[int]]:
        """Take `count` ids on each connection, and return them by broker: at least one of each.

        A broker may need a moment to get its first block.
        """
        until = time.monotonic() + _TIMEOUT
        wanted = list(self._links if nodes is None else nodes)
        ids: dict[int, list[int]] = {node: [] for node in wanted}
        while missing := [node for node in wanted if not ids[node]]:
            links = [(node, link) for node in missing for link in self._links[node]]
            body = requests.encode_init_producer_id(None, 60_000)
            for _, link in links:
                for _ in range(count):
                    link.send(ApiKey.INIT_PRODUCER_ID, _VERSION, body)
            retriable_error = 0
            for node, link in links:
                for _ in range(count):
                    error, producer_id, _ = parse_response(requests.read_init_producer_id, link.receive())
                    if error and error not in RETRIABLE:
                        raise BrokerError(error, f"producer ids of the broker at {link.address}")
                    if error:
                        retriable_error = error
                    else:
                        ids[node].append(producer_id)
            if retriable_error and time.monotonic() > until:
                raise UpstreamError(
                    "timeout", f"the brokers assigned no producer ids: {BrokerError(retriable_error, 'InitProducerId')}"
                )
            if any(not ids[node] for node in wanted):
                time.sleep(_RETRY_INTERVAL)
        return ids
