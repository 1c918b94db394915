"""Examinations put together by hand."""

from __future__ import annotations

from typing import Any

from kproxy.base.address import Address
from kproxy.client.ask.contents import ClusterContents, Partition, Topic
from kproxy.client.ask.questions import ClusterNodes
from kproxy.client.ask.settings import BrokerSettings
from kproxy.inspect.doctor.evidence import Contact, Examination
from kproxy.protocol.rewrite.endpoints import Endpoint, NodeKind
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.cluster.identity import BrokerIdentity
from kproxy.proxy.cluster.reachability import Proof
from kproxy.proxy.cluster.topology import NodeKey

VERSIONS = {ApiKey.API_VERSIONS: range(5), ApiKey.FETCH: range(18), ApiKey.METADATA: range(14)}


def key(node: int) -> NodeKey:
    return NodeKey(NodeKind.BROKER, node)


def identity(node: int | None, cluster: str = "c", nodes: int = 3) -> BrokerIdentity:
    endpoints = tuple(Endpoint(NodeKind.BROKER, n, Address(f"kafka-{n}.example", 9092)) for n in range(1, nodes + 1))
    proof = None if node is None else Proof.OWN_WORD
    return BrokerIdentity(ClusterNodes(cluster, NodeKind.BROKER, endpoints), None if node is None else key(node), proof)


def good(address: str, node: int, expected: int | None = None, **more: Any) -> Contact:
    """A contact with an address where `node` answers."""
    where = Address.parse(address)
    values: dict[str, Any] = {
        "resolved": ("192.0.2.1",), "versions": VERSIONS, "identity": identity(node),
        "advertised": None if expected is None else where,
    }  # fmt: skip
    return Contact(where, None if expected is None else key(expected), **(values | more))


def bad(address: str, reason: str, expected: int | None = None, **more: Any) -> Contact:
    """A contact that failed."""
    where = Address.parse(address)
    values: dict[str, Any] = {"problem": f"because of {reason}", "advertised": None if expected is None else where}
    return Contact(where, None if expected is None else key(expected), reason=reason, **(values | more))


def told(values: dict[str, str | None], **more: Any) -> BrokerSettings:
    """What a broker tells of itself."""
    return BrokerSettings(0, values, **more)


def topic(name: str, *leaders: int, replicas: tuple[int, ...] = (1,), isr: tuple[int, ...] = (), **more: Any) -> Topic:
    """A topic with a partition for each leader."""
    partitions = tuple(Partition(index, leader, replicas, isr, (), 0) for index, leader in enumerate(leaders))
    return Topic(name, False, partitions, 0, **more)


def examination(*nodes: Contact, bootstrap: tuple[Contact, ...] = (), **more: Any) -> Examination:
    servers = bootstrap or (good("kafka.example:9092", 1),)
    asked = next((one for one in servers if one.identity is not None), None)
    values: dict[str, Any] = {"answering": asked, "contents": ClusterContents("c", 1, (), ()), "settings": None}
    return Examination(servers, tuple(nodes), **(values | more))
