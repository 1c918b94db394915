"""Producer ids: the target must hand out higher ones than any in what is copied, and in what is to come.

Both clusters count from 0. Records of the source keep no producer id when they are copied; but clients that go on with
the target keep theirs, and would meet the sequence numbers of somebody else with the same id there: brokers then take
records for repetitions, and acknowledge them without writing them.

An id is asked for with InitProducerId without a transactional id, and is used up then. Each broker hands out ids from
blocks of 1000 that it gets from the controller, so every broker is asked: one may still have an old block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.migrate.copier.errorcodes import RETRIABLE, BrokerError
from kproxy.migrate.copier.requests import parse_response

# Ids that the source may still hand out before the switch, in the default.
MARGIN = 20_000
# A broker gets ids in blocks of so many, and may have two of them.
_BLOCK_SIZE, _BLOCKS_PER_BROKER = 1000, 2
# Connections to each broker, and requests in flight on each.
_LINKS_PER_BROKER, _IN_FLIGHT = 4, 100
_VERSION = 0
_NOT_ALLOWED = 31
_TIMEOUT, _RETRY_INTERVAL = 30.0, 0.1


@dataclass(frozen=True, slots=True)
class ProducerIdUsage:
    """What is known of a cluster's ids. `in_log`: the highest in its topics, None if that cannot be asked.
    `handed_out`: what its brokers gave just now, the highest; None if one may not ask. `why`: of what is None."""

    highest_in_log: int | None
    highest_assigned: int | None
    brokers: int
    unknown_reasons: tuple[str, ...] = ()

    @property
    def floor(self) -> int:
        """No id of this cluster is in use from here on, or lies with a broker that could hand it out."""
        in_log = -1 if self.highest_in_log is None else self.highest_in_log
        if self.highest_assigned is None:
            return in_log + 1
        return max(in_log + 1, self.highest_assigned + 1 + _BLOCK_SIZE * _BLOCKS_PER_BROKER * self.brokers)


@dataclass(frozen=True, slots=True)
class RaisedProducerIds:
    """`lowest`: by broker, what it hands out at least from now on. `asked`: how many ids were used up."""

    lowest: Mapping[int, int]
    ids_used: int
    seconds: float


def read_usage(inventory: Inventory, nodes: Mapping[int, str]) -> ProducerIdUsage:
    """Of the source. Raises UpstreamError."""
    why = [f"{one.subject}: {one.reason}" for one in inventory.gaps if one.subject.startswith("the producer ids")]
    handed_out: int | None = -1
    try:
        handed_out = max(take_one_id_each(nodes).values(), default=-1)
    except BrokerError as error:
        handed_out = None
        why.append(str(error))
    return ProducerIdUsage(inventory.producer_id, handed_out, len(nodes), tuple(why))


def take_one_id_each(nodes: Mapping[int, str]) -> dict[int, int]:
    """One id of each broker. Raises BrokerError if one may not ask, and UpstreamError."""
    found = {}
    for node, address in nodes.items():
        with _BrokerLinks({node: address}, 1) as brokers:
            found[node] = max(brokers.request_ids(1)[node])
    return found


def raise_to(
    nodes: Mapping[int, str], floor: int, lowest: Mapping[int, int], progress: Callable[[int], None] = lambda _: None
) -> RaisedProducerIds:
    """Use up ids until every broker hands out `floor` or more. `lowest` is what they gave last. `progress` is told the
    lowest of all. Raises BrokerError and UpstreamError."""
    began, asked, last = time.monotonic(), 0, dict(lowest)
    while behind := {node: nodes[node] for node, given in last.items() if given < floor}:
        with _BrokerLinks(behind, _LINKS_PER_BROKER) as brokers:
            while behind:
                # Brokers share the numbers: the more of them are asked, the fewer each has to give.
                most = max(1, min(_IN_FLIGHT, -(-(floor - min(last[node] for node in behind)) // _LINKS_PER_BROKER)))
                for node, ids in brokers.request_ids(most, behind).items():
                    asked += len(ids)
                    last[node] = max(last[node], *ids)
                behind = {node: address for node, address in behind.items() if last[node] < floor}
                progress(min(last.values()))
    return RaisedProducerIds(last, asked, time.monotonic() - began)


class _BrokerLinks:
    """Some connections to each of some brokers."""

    def __init__(self, nodes: Mapping[int, str], links: int) -> None:
        self._links: dict[int, list[BrokerConnection]] = {}
        try:
            for node, address in nodes.items():
                where = Address.parse(address)
                self._links[node] = []
                for _ in range(links):
                    self._links[node].append(BrokerConnection(where.host, where.port))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> _BrokerLinks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for links in self._links.values():
            for link in links:
                link.close()

    def request_ids(self, count: int, nodes: Iterable[int] | None = None) -> dict[int, list[int]]:
        """So many ids on each connection, one at least of each broker, which may need a moment for the first."""
        until = time.monotonic() + _TIMEOUT
        wanted = list(self._links if nodes is None else nodes)
        found: dict[int, list[int]] = {node: [] for node in wanted}
        while missing := [node for node in wanted if not found[node]]:
            links = [(node, link) for node in missing for link in self._links[node]]
            body = requests.encode_init_producer_id(None, 60_000)
            for _, link in links:
                for _ in range(count):
                    link.send(requests.INIT_PRODUCER_ID, _VERSION, body)
            passing = 0
            for node, link in links:
                for _ in range(count):
                    error, given, _ = parse_response(requests.read_init_producer_id, link.receive())
                    if error and error not in RETRIABLE:
                        raise BrokerError(error, f"producer ids of the broker at {link.address}")
                    if error:
                        passing = error
                    else:
                        found[node].append(given)
            if passing and time.monotonic() > until:
                raise UpstreamError(
                    "timeout", f"the brokers give no producer ids: {BrokerError(passing, 'InitProducerId')}"
                )
            if any(not found[node] for node in wanted):
                time.sleep(_RETRY_INTERVAL)
        return found
