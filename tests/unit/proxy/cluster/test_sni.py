"""One port for all nodes: which node a client is led to by the name that it asks for, and what it is told."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.config import ClusterConfig
from kproxy.config.values import Sni
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, NodeKind
from kproxy.proxy.cluster.encryption import warn_about_tls
from kproxy.proxy.cluster.report import report
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.tls import Authority
from tests.unit.proxy.cluster.doorway import API_VERSIONS, Doorway, in_loop, until

NAMES = Sni.parse("B{node}.Kafka.example")


class Asked:
    """A gateway that nobody answers: whom clients are routed to is all that is looked at."""

    def __init__(self, selector: RelaySelector, authority: Authority) -> None:
        cert, key = authority.files("*.kafka.example", "kafka.example")
        self._authority = authority
        self.door = Doorway(selector, "127.0.0.1:1", client_tls_cert=cert, client_tls_key=key, sni=NAMES)
        self.door.learn((1, "kafka-1:9092"), (20, "kafka-20:9092"))
        self.keys: list[NodeKey | None] = []
        self.counted: list[tuple[int, ...]] = []
        self.door.gateway.dialer.dial = self._dial  # type: ignore[method-assign]

    async def _dial(self, key: NodeKey | None, request: object) -> VerifiedConnection:
        self.keys.append(key)
        self.counted.append(self.sessions())
        raise UpstreamError("refused", "nobody is there")

    def sessions(self) -> tuple[int, ...]:
        """Of nodes 1 and 20, as people see it."""
        return tuple(node.sessions for node in report(self.door.gateway).nodes)

    async def led(self, name: str | None) -> NodeKey | None:
        """To which node a client is led that asks for this name."""
        context = self._authority.client_context()
        context.check_hostname = False
        port = self.door.gateway.listen.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name or "")
        writer.write(API_VERSIONS)
        assert await reader.read() == b""
        writer.close()
        return self.keys.pop()


def broker(number: int) -> NodeKey:
    return NodeKey(NodeKind.BROKER, number)


def test_the_name_says_which_node() -> None:
    assert NAMES.name("1") == "b1.kafka.example"
    assert NAMES.name("controller-3000") == "bcontroller-3000.kafka.example"
    for label in ("0", "1", "2147483647", "controller-3000"):
        assert NAMES.label(NAMES.name(label).upper()) == label
        assert NodeKey.of(label).label == label
    for name in ("", "kafka.example", "b.kafka.example", "b-1.kafka.example", "b2147483648.kafka.example",
                 "b1.kafka.exampl", "b1.kafka.example.", "xb1.kafka.example", "b1x.kafka.example",
                 "b١.kafka.example"):  # fmt: skip
        assert NAMES.label(name) is None, name


@pytest.mark.parametrize(
    "text",
    ["", "b.kafka.example", "{node}", "b{node}", "b{node}{node}.x", "a.{node}.x", "-{node}.x", "{node}..x",
     "{node}.x/y", "b{node}.x:9092", "*{node}.x", "{node}." + "x" * 250],
)  # fmt: skip
def test_no_name_for_nodes(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no name for nodes; allowed: a host name with \{node\} once"):
        Sni.parse(text)


@pytest.mark.parametrize("text", ["{node}.k.example", "b{node}.k.example", "kafka-{node}-eu.x"])
def test_a_name_for_nodes_reads_its_own_print(text: str) -> None:
    assert str(Sni.parse(text)) == text


@in_loop
async def test_clients_are_led_by_name(selector: RelaySelector, authority: Authority) -> None:
    asked = Asked(selector, authority)
    assert await asked.led("b1.kafka.example") == broker(1)
    assert await asked.led("B20.KAFKA.example") == broker(20)
    assert await asked.led("kafka.example") is None, "the bootstrap server"
    assert await asked.led(None) is None, "no name at all"
    assert await asked.led("b7.kafka.example") is None, "a bootstrap server tells it which there are"
    labels = {node for _, node in asked.door.metrics.nodes} | {node for _, node, *_ in asked.door.metrics.dials}
    assert "7" not in labels, "no label comes from a client"
    await until(lambda: asked.sessions() == (0, 0), "they are over")
    assert asked.counted == [(1, 0), (0, 1), (0, 0), (0, 0), (0, 0)]
    await asked.door.close()


@in_loop
async def test_nobody_is_led_by_name_before_the_nodes_are_known(selector: RelaySelector, authority: Authority) -> None:
    """Else a client that comes right after a start would have a bootstrap server in place of its node."""
    asked = Asked(selector, authority)
    reach = asked.door.gateway.dialer
    reach.bootstrap_asked.clear()
    async with asyncio.TaskGroup() as tasks:
        led = tasks.create_task(asked.led("b7.kafka.example"))
        await until(lambda: asked.door.gateway.slots.sessions == 1, "it has come")
        await asyncio.sleep(0.05)
        assert asked.keys == []
        asked.door.learn((7, "kafka-7:9092"))
        reach.bootstrap_asked.set()
    assert led.result() == broker(7)
    await asked.door.close()


@in_loop
async def test_clients_are_told_names_at_one_port(selector: RelaySelector, authority: Authority) -> None:
    asked = Asked(selector, authority)
    gateway = asked.door.gateway
    named = Endpoints(
        (Endpoint(NodeKind.BROKER, 20, Address("kafka-20", 9092)), Endpoint(NodeKind.BROKER, 1, Address("x", 1)))
    )
    told = tuple(Address(f"b{number}.kafka.example", gateway.listen.port) for number in (20, 1))
    assert gateway.localise("127.0.0.1", named) == told
    shown = report(gateway)
    assert [node.local for node in shown.nodes] == [str(one) for one in reversed(told)]
    assert all(node.bound for node in shown.nodes)
    assert len(gateway._listeners.bound) == 1, "one port for all"
    assert asked.door.metrics.listeners_bound == {"default": 1}
    list(gateway.bind_missing())
    list(gateway.retire())
    assert len(gateway._listeners.bound) == 1
    await asked.door.close()


def test_a_published_port(authority: Authority) -> None:
    """Behind a load balancer that has another port."""
    cert, _ = authority.files("*.kafka.example")
    options = {"client_tls_cert": cert, "sni": "b{node}.kafka.example", "advertise": "kafka.example:443"}
    config = ClusterConfig(bootstrap_servers=(Address("a", 1),), **options)  # type: ignore[arg-type]
    assert config.advertised_port(19092) == 443
    assert config.effective_node_ports().first == config.effective_node_ports().last


@pytest.mark.parametrize(
    ("names", "warned"),
    [(["*.kafka.example"], False), (["b1.kafka.example", "b2.kafka.example"], False), (["kafka.example"], True),
     (["*.example"], True), (["127.0.0.1"], True)],
)  # fmt: skip
def test_a_certificate_that_clients_will_refuse(
    names: list[str], warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = Authority(tmp_path).one_file(*names)
    config = ClusterConfig(bootstrap_servers=(Address("a", 1),), client_tls_cert=both, sni=NAMES)
    with caplog.at_level(logging.WARNING):
        warn_about_tls(config)
    assert ("cannot connect to nodes" in caplog.text) is warned
    if warned:
        assert names[0] in caplog.text


def test_a_certificate_for_which_clients_need_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What kproxy shows is known all the same."""
    authority = Authority(tmp_path)
    options = {"client_tls_cert": authority.one_file("kafka.example"), "client_tls_ca": authority.pem, "sni": NAMES}
    config = ClusterConfig(bootstrap_servers=(Address("a", 1),), **options)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        warn_about_tls(config)
    assert "kafka.example, and not for b1.kafka.example" in caplog.text


@in_loop
async def test_names_that_are_not_text_end_only_the_handshake(selector: RelaySelector, authority: Authority) -> None:
    asked = Asked(selector, authority)
    to, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = authority.client_context()
    context.check_hostname = False
    client = context.wrap_bio(back, to, server_hostname="b1.kafka.example")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = to.read()
    for changed in (b"b1.kafka\xff\xfeexample", b"b1.kafka\0example\0", b"................"):
        reader, writer = await asyncio.open_connection("127.0.0.1", asked.door.gateway.listen.port)
        writer.write(hello.replace(b"b1.kafka.example", changed))
        await reader.read(5)
        writer.close()
    assert await asked.led("b1.kafka.example") == broker(1)
    await asked.door.close()
