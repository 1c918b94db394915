"""What a person sees: pictures, lines to copy, settings."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.addressclass import AddressClass, classify, is_private
from kproxy.config.commandline import CommandLine
from kproxy.inspect.doctor import listeners, picture
from kproxy.inspect.doctor.evidence import BrokerListener
from tests.unit.inspect.doctor.examined import bad, examination, good

HOSTILE = "\x1b[31m‮<script>" + "x" * 300


@pytest.mark.parametrize("fancy", [True, False])
def test_the_picture_fits_a_terminal(fancy: bool) -> None:
    nodes = [bad(f"kafka-{n}.a-rather-long-name.of-a-cloud.example.com:9092", "resolve", n) for n in range(1, 30)]
    nodes += [good("kafka-30.example:9092", 30, 30), bad("x:1", "refused", 31, advertised=Address(HOSTILE, 9092))]
    lines = picture.text(examination(*nodes, via=("ssh://bastion",)), fancy=fancy)
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines)
    assert fancy or all(line.isascii() for line in lines)
    assert any("more brokers fail" in line for line in lines)


def test_the_address_that_was_dialled_is_whole() -> None:
    name = Address("broker-1.kafka.prod.internal", 29484)
    node = good("127.0.0.1:29484", 1, 1, advertised=name)
    lines = picture.text(examination(node), fancy=False)
    assert any(str(name) in line for line in lines)
    assert any("at 127.0.0.1:29484: works" in line for line in lines)


def test_the_picture_is_xml_without_scripts() -> None:
    drawn = picture.svg(examination(bad("x:1", "refused", 1, advertised=Address(HOSTILE, 9092))), "a <title> & more")
    root = ElementTree.fromstring(drawn)  # our own
    assert {one.tag.rpartition("}")[2] for one in root.iter()} == {"svg", "title", "rect", "text"}


def test_the_words_of_a_line() -> None:
    line = CommandLine({"bootstrap_servers": ("a:1", "b:2"), "via": ("socks5://me:secret@h:1",), "tls": True})
    assert line.words() == ["kproxy", "run", "-b", "a:1", "-b", "b:2", "--via", "socks5://me:***@h:1", "--tls"]
    assert line.has_masked
    assert "secret" not in str(line)
    mapped = line.with_options(map=("*=h:{port}",), tls=None, via=None)
    assert str(mapped) == "kproxy run -b a:1 -b b:2 --map '*=h:{port}'"
    assert not mapped.has_masked
    assert CommandLine({}, Path("k y.yaml")).words() == ["kproxy", "run", "-c", "k y.yaml"]
    assert mapped.with_options(map=("x=y:1",)).options["map"] == ("x=y:1", "*=h:{port}")


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("localhost", AddressClass.LOOPBACK),
        ("127.0.0.2", AddressClass.LOOPBACK),
        ("::1", AddressClass.LOOPBACK),
        ("0.0.0.0", AddressClass.WILDCARD),
        ("::", AddressClass.WILDCARD),
        ("3f9a1c2b4d5e", AddressClass.CONTAINER),
        ("host.docker.internal", AddressClass.CONTAINER),
        ("kafka0", AddressClass.SHORT_NAME),
        ("kafka-0.kafka-headless.prod.svc.cluster.local", AddressClass.KUBERNETES),
        ("kafka-0.kafka-headless.prod.svc", AddressClass.KUBERNETES),
        ("10.1.2.3", AddressClass.PRIVATE),
        ("100.64.0.1", AddressClass.PRIVATE),
        ("fd00::1", AddressClass.PRIVATE),
        ("9.9.9.9", AddressClass.PUBLIC),
        ("kafka.example.com.", AddressClass.PUBLIC),
        ("", AddressClass.SHORT_NAME),
    ],
)
def test_where_an_address_means_something(host: str, place: AddressClass) -> None:
    assert classify(host) is place


def test_private_addresses() -> None:
    assert is_private("172.16.0.1")
    assert is_private("fe80::1%eth0")
    assert not is_private("127.0.0.1")
    assert not is_private("a name")


SETTINGS = {
    "listeners": "IN://0.0.0.0:29092,OUT://[::]:9092,CTL://:9093",
    "advertised.listeners": "IN://kafka1:29092,OUT://203.0.114.9:9094",
    "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_SSL,CTL:PLAINTEXT",
    "controller.listener.names": "CTL",
}


def test_the_listeners_of_a_broker() -> None:
    found = listeners.listeners_of(SETTINGS)
    assert [(one.name, one.protocol, str(one.advertised)) for one in found] == [
        ("IN", "PLAINTEXT", "kafka1:29092"), ("OUT", "SASL_SSL", "203.0.114.9:9094"),
    ]  # fmt: skip
    assert listeners.listener_that_advertises(found, Address("kafka1", 29092)) is found[0]
    new = BrokerListener("EXTERNAL", "PLAINTEXT", "0.0.0.0:9095", Address("h", 9095))
    assert listeners.with_listener(SETTINGS, found[0], new, Address("kafka1", 29092)) == {
        "listeners": "IN://0.0.0.0:29092,OUT://[::]:9092,CTL://:9093,EXTERNAL://0.0.0.0:9095",
        "advertised.listeners": "IN://kafka1:29092,OUT://203.0.114.9:9094,EXTERNAL://h:9095",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_SSL,CTL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    }
    assert listeners.with_address(SETTINGS, found[1], Address("h", 1), Address("203.0.114.9", 9094)) == {
        "advertised.listeners": "IN://kafka1:29092,OUT://h:1"
    }
    assert listeners.variable("a.b=c", "KAFKA_") == "KAFKA_A_B=c"
    assert listeners.variable("a.b-c_d=e", "KAFKA_") == "KAFKA_A_B___C__D=e"


@pytest.mark.parametrize("text", ["", ",,,", "no-protocol", "A://", "A://h:99999999", "://x:1", "A" * 5000 + "://x:1"])
def test_settings_of_nonsense(text: str) -> None:
    found = listeners.listeners_of(dict.fromkeys(SETTINGS, text))
    assert all(one.advertised is None for one in found)


@pytest.mark.parametrize(
    ("settings", "image"),
    [
        ({"log.dirs": "/bitnami/kafka/data"}, "bitnami"),
        ({"log.dirs": "/var/lib/kafka/data"}, "confluent"),
        ({"log.dirs": "/tmp/kraft-combined-logs"}, None),
        ({"listeners": "REPLICATION-9091://0.0.0.0:9091"}, "strimzi"),
        ({"log.dirs": "/data"}, None),
        ({}, None),
    ],
)
def test_the_image_that_settings_look_like(settings: dict[str, str], image: str | None) -> None:
    assert listeners.recognise_image(settings) == image
