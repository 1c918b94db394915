"""A cluster as the copier sees it: who leads what, and a connection to each broker.

Connections are kept from one slice to the next. One that failed is forgotten, and with it what was known of leaders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.migrate.copier.errorcodes import raise_for_code
from kproxy.migrate.copier.requests import parse_response


class ClusterClient:
    """Reached by one local address of kproxy's."""

    def __init__(self, bootstrap: str) -> None:
        addresses = [Address.parse(part.strip()) for part in bootstrap.split(",")]
        self.bootstrap = bootstrap
        self._bootstrap = [(address.host, address.port) for address in addresses]
        self._links: dict[tuple[str, int], BrokerConnection] = {}
        self._brokers: Mapping[int, tuple[str, int]] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._coordinators: dict[str, tuple[str, int]] = {}

    # Connections

    def _link(self, address: tuple[str, int]) -> BrokerConnection:
        link = self._links.get(address)
        if link is None or not link.is_open:
            link = self._links[address] = BrokerConnection(*address)
        return link

    def connect_any(self) -> BrokerConnection:
        """To some broker. Raises UpstreamError if none can be reached."""
        for link in self._links.values():
            if link.is_open and not link.in_flight:
                return link
        failure: Exception | None = None
        for address in [*self._bootstrap, *self._brokers.values()]:
            try:
                return self._link(address)
            except UpstreamError as error:
                failure = failure or error
        assert failure is not None
        raise failure

    def connect_leader(self, topic: str, partition: int) -> BrokerConnection:
        """To the broker that leads this partition. Raises UpstreamError and Refused."""
        if (topic, partition) not in self._leaders:
            self.refresh_metadata([topic])
        leader = self._leaders.get((topic, partition), -1)
        if leader not in self._brokers:
            raise UpstreamError("unreachable", f"nobody leads partition {partition} of {topic} now")
        return self._link(self._brokers[leader])

    def connect_coordinator(self, transactional_id: str) -> BrokerConnection:
        """To the broker that keeps this id's transactions. Raises UpstreamError and Refused."""
        address = self._coordinators.get(transactional_id)
        if address is None:
            body = self.connect_any().request(
                requests.FIND_COORDINATOR, 1, requests.encode_find_coordinator(transactional_id, 1)
            )
            error, _, address = parse_response(requests.read_find_coordinator, body)
            raise_for_code(error, f"who coordinates transactions of {transactional_id}")
            self._coordinators[transactional_id] = address
        return self._link(address)

    def invalidate(self) -> None:
        """Whoever led or coordinated may not any more; connections on which answers are missing cannot be used."""
        self._leaders.clear()
        self._coordinators.clear()
        for address, link in list(self._links.items()):
            if link.in_flight or not link.is_open:
                link.close()
                del self._links[address]

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    # What it has

    def refresh_metadata(self, topics: Iterable[str] | None = None) -> requests.ClusterMetadata:
        """Ask who leads these topics' partitions, or all. A topic that is not there has its error code."""
        names = None if topics is None else list(topics)
        link = self.connect_any()
        version = link.version(requests.METADATA)
        body = link.request(requests.METADATA, version, requests.encode_metadata(version, names))
        layout = parse_response(requests.read_metadata, version, body)
        if not layout.brokers:
            raise UpstreamError("unreachable", f"the cluster behind {self.bootstrap} has no broker now")
        self._brokers = layout.brokers
        for topic, (_, partitions) in layout.topics.items():
            for led in partitions:
                self._leaders[topic, led.index] = led.leader
        return layout

    def list_offsets(
        self, partitions: Iterable[tuple[str, int]], which: int, *, committed: bool = True
    ) -> dict[tuple[str, int], int]:
        """The first offset (EARLIEST) or the last stable one (LATEST) of each; without `committed`, LATEST is the high
        watermark. A partition of which its leader does not tell, or that has none, is left out. Raises UpstreamError
        and WireError."""
        asked: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        wanted = list(partitions)
        unknown = {topic for topic, partition in wanted if (topic, partition) not in self._leaders}
        if unknown:
            self.refresh_metadata(sorted(unknown))
        for topic, partition in wanted:
            asked[self._leaders.get((topic, partition), -1)][topic].append(partition)
        found: dict[tuple[str, int], int] = {}
        for leader, topics in asked.items():
            if leader in self._brokers:
                found |= self._offsets_of(leader, topics, which, committed)
        return found

    def _offsets_of(
        self, leader: int, topics: Mapping[str, list[int]], which: int, committed: bool
    ) -> dict[tuple[str, int], int]:
        try:
            body = self._link(self._brokers[leader]).request(
                requests.LIST_OFFSETS, 2, requests.encode_list_offsets(topics, which, committed=committed)
            )
        except UpstreamError:
            self.invalidate()
            return {}
        told = parse_response(requests.read_list_offsets, body)
        if any(error for error, _ in told.values()):
            self._leaders.clear()
        return {where: offset for where, (error, offset) in told.items() if not error}

    def partition_count(self, topic: str) -> int:
        """How many a topic has. Raises Refused if it is not there."""
        error, led = self.refresh_metadata([topic]).topics.get(topic, (3, ()))
        raise_for_code(error, f"topic {topic}")
        return len(led)
