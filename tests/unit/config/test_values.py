"""Texts of values: what is read, what is refused and in which words, and that printing is the inverse."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.address import Address
from kproxy.config import Advertise, Map, PortRange, kinds
from kproxy.config.kinds import ValueKind
from kproxy.config.values import ExitWith, Forward

ports = st.integers(1, 65535)
hosts = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True) | st.ip_addresses().map(str)
optional_ports = st.none() | ports
labels = st.builds("{}{}".format, st.sampled_from(["", "controller-"]), st.integers(0, 2**31 - 1))


@given(st.tuples(ports, ports).map(sorted))
def test_a_range_reads_its_own_print(ends: list[int]) -> None:
    window = PortRange(*ends)
    assert PortRange.parse(str(window)) == window
    assert len(window) == ends[1] - ends[0] + 1
    assert ends[0] in window
    assert ends[1] in window
    assert ends[1] + 1 not in window


@given(st.tuples(ports, ports).map(sorted), st.tuples(ports, ports).map(sorted))
def test_ranges_overlap_where_they_share_a_port(one: list[int], other: list[int]) -> None:
    shared = max(one[0], other[0]) <= min(one[1], other[1])
    assert PortRange(*one).overlaps(PortRange(*other)) == shared


READ_BACK = st.one_of(
    st.tuples(
        st.sampled_from([kinds.LISTEN, kinds.upstream_address(9092), kinds.LISTEN_OR_OFF]),
        st.builds(Address, hosts, ports),
    ),
    st.tuples(st.just(kinds.PORT_RANGE), st.tuples(ports, ports).map(sorted).map(lambda ends: PortRange(*ends))),
    st.tuples(
        st.just(kinds.ADVERTISE),
        st.builds(Advertise, hosts.filter(lambda h: not Address(h, 1).is_wildcard), optional_ports),
    ),
    st.tuples(
        st.just(kinds.ROUTE_MAP),
        st.builds(Map, hosts.filter(lambda h: h != "node"), optional_ports, st.none(), hosts, optional_ports)
        | st.builds(Map, st.just("*"), st.none(), labels, hosts, optional_ports),
    ),
    st.tuples(
        st.just(kinds.FORWARD),
        st.builds(Forward, st.none() | hosts, st.integers(0, 65535), st.builds(Address, hosts, ports)),
    ),
    st.tuples(
        st.just(kinds.duration(0, 30 * 86400)),
        st.floats(0, 30 * 86400, allow_nan=False).filter(lambda seconds: seconds == 0 or seconds > 1e-9),
    ),
    st.tuples(st.just(kinds.size(0, 2**40)), st.integers(0, 2**40)),
)


@given(READ_BACK)
def test_a_value_reads_its_own_print(kind_and_value: tuple[ValueKind[Any], object]) -> None:
    kind, value = kind_and_value
    assert kind.read(kind.show(value)) == value
    assert kind.read(value) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("8081", "'8081' is not a forward; allowed: [HOST:]PORT=HOST:PORT"),
        ("8081=", "'8081=' is not a forward"),
        ("=a:1", "'=a:1' is not a forward"),
        ("8081=registry", "'registry'"),
        ("8081=registry:0", "'registry:0' cannot be connected to; allowed: HOST:PORT"),
        ("8081=*:1", "'*:1' cannot be connected to"),
        ("8081=http://registry:8081", "is ambiguous"),
        ("70000=a:1", "'70000' has no such port; allowed: 0 to 65535"),
        ("a=b:1", "'a'"),
        ("8081=a:1=b:2", "a:1=b"),
    ],
)
def test_no_forward(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        Forward.parse(text)


def test_where_a_forward_listens() -> None:
    beside = Address("127.0.0.1", 19092)
    assert Forward.parse("8081=a:1").listen(beside) == Address("127.0.0.1", 8081)
    assert Forward.parse("0.0.0.0:8081=a:1").listen(beside) == Address("0.0.0.0", 8081)
    assert Forward.parse("[::1]:8081 = [::2]:1").to == Address("::2", 1)


DURATION = kinds.duration(0.001, 3600)
SIZE = kinds.size(1024, 2**31 - 1)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DURATION, "5", 5.0),
        (DURATION, 5, 5.0),
        (DURATION, "0.25", 0.25),
        (DURATION, "500ms", 0.5),
        (DURATION, " 2 m ", 120.0),
        (DURATION, "1h", 3600.0),
        (SIZE, "100MiB", 104_857_600),
        (SIZE, "1.5 KiB", 1536),
        (SIZE, "100 mb", 100_000_000),
        (SIZE, "2048", 2048),
        (SIZE, 2048, 2048),
        (kinds.PORT_RANGE, "20000", PortRange(20000, 20199)),
        (kinds.PORT_RANGE, "65500", PortRange(65500, 65535)),
        (kinds.PORT_RANGE, "1 - 2", PortRange(1, 2)),
        (kinds.PORT_RANGE, None, None),
        (kinds.upstream_address(9092), "kafka", Address("kafka", 9092)),
        (kinds.upstream_address(9092), "[::1]", Address("::1", 9092)),
        (kinds.LISTEN, "[::1]:0", Address("::1", 0)),
        (kinds.LISTEN_OR_OFF, "off", None),
        (kinds.LISTEN_OR_OFF, "No", None),
        (kinds.ADVERTISE, "proxy", Advertise("proxy")),
        (kinds.ADVERTISE, "[::1]:5", Advertise("::1", 5)),
        (kinds.BOOLEAN, "Yes", True),
        (kinds.BOOLEAN, "0", False),
        (kinds.BOOLEAN, False, False),
        (kinds.ROUTE_MAP, "kafka0:29092=localhost:9092", Map("kafka0", 29092, None, "localhost", 9092)),
        (kinds.ROUTE_MAP, "kafka0=localhost", Map("kafka0", None, None, "localhost", None)),
        (
            kinds.ROUTE_MAP,
            "*.use1-az1.*=vpce-0a1.example:{port}",
            Map("*.use1-az1.*", None, None, "vpce-0a1.example", None),
        ),
        (kinds.ROUTE_MAP, "node:2=10.0.0.7:9092", Map("*", None, "2", "10.0.0.7", 9092)),
        (kinds.ROUTE_MAP, "node:controller-3=c", Map("*", None, "controller-3", "c", None)),
        (kinds.ROUTE_MAP, "[::1]:9092 = [::2]", Map("::1", 9092, None, "::2", None)),
        (kinds.EXIT_WITH, "007", ExitWith("process", "7")),
        (kinds.EXIT_WITH, "./7", ExitWith("file", "./7")),
        (kinds.EXIT_WITH, "/run/a b", ExitWith("file", "/run/a b")),
        (kinds.EXIT_WITH, "http://localhost:4040", ExitWith("url", "http://localhost:4040")),
        (kinds.EXIT_WITH, "https://[::1]/jobs?a=b", ExitWith("url", "https://[::1]/jobs?a=b")),
    ],
)
def test_what_is_read(kind: ValueKind[object], text: object, value: object) -> None:
    assert kind.read(text) == value


# The kind, what it allows, and what it says of texts.
REFUSED: list[tuple[ValueKind[Any], str, dict[str, str]]] = [
    (DURATION, "1ms to 1h, as seconds or with ms, s, m, h, d",
     {"5 parsecs": "is not a duration", "0": "is out of range", "2h": "is out of range", "-1": "is not a duration",
      "٣": "is not a duration"}),
    (SIZE, "1KiB to 2147483647B, as bytes or with KiB, MiB, GiB, kB, MB, GB",
     {"lots": "is not a size", "1024.5": "is not a whole number of bytes", "2GiB": "is out of range"}),
    (kinds.count(1, 9), "1 to 9", {**dict.fromkeys(("ten", "1.5"), "is not a whole number"), "0": "is out of range"}),
    (kinds.PORT_RANGE, "FIRST-LAST with 1 <= FIRST <= LAST <= 65535, or FIRST",
     {"a-b": "is not a range of ports", "2-1": "ends before it begins", "0-10": "is outside the ports 1 to 65535"}),
    (kinds.ADVERTISE, "a host that clients can reach",
     {"0.0.0.0": "means every interface", "[::]:9092": "means every interface"}),
    (kinds.NAME, "1 to 63 of a-z, 0-9 and -", {"Orders": "is not a name", "": "is not a name"}),
    (kinds.BOOLEAN, "true, false", {"maybe": "is neither true nor false"}),
    (kinds.choice("a", "b"), "a, b", {"c": "is not known"}),
    (kinds.ROUTE_MAP, "HOST[:PORT]=DIAL, GLOB=DIAL, node:ID=DIAL", dict.fromkeys(("a", "=b", "a=b=c"), "is not a map")),
    (kinds.EXIT_WITH, "a positive number, or ./NAME for a file",
     dict.fromkeys(("0", "4294967297"), "is not a process id")),
]  # fmt: skip
NO_URL = "not a URL that kproxy can request; allowed: http://HOST[:PORT]/PATH or https://, no user or password"
NO_DIAL = "cannot be dialled; allowed: HOST, HOST:PORT or HOST:{port}"
NO_NODE = "is not a node id; allowed: 0 to 2147483647, or controller-ID"
OF_DURATION = "is not a duration; allowed: 1ms to 1h, as seconds or with ms, s, m, h, d"


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        *((kind, text, f"'{text}' {problem}; allowed: {allowed}") for kind, allowed, problems in REFUSED
          for text, problem in problems.items()),
        (DURATION, -1.0, f"'-1.0' {OF_DURATION}"),
        (DURATION, float("nan"), f"'nan' {OF_DURATION}"),
        (DURATION, True, "True is not allowed here; allowed: 1ms to 1h, as seconds or with ms, s, m, h, d"),
        (DURATION, "9" * 5000, f"'{'9' * 57}...' {OF_DURATION}"),
        (kinds.count(1, 9), 0, "'0' is out of range; allowed: 1 to 9"),
        (kinds.PORT_RANGE, PortRange(9, 70000), "'9-70000' is outside the ports 1 to 65535; "
         "allowed: FIRST-LAST with 1 <= FIRST <= LAST <= 65535, or FIRST"),
        (kinds.LISTEN, "19092", "'19092' has no host: write HOST:PORT, for example 127.0.0.1:19092"),
        (kinds.LISTEN, "::1", "'::1' is ambiguous: write an IPv6 address as [IPV6]:PORT"),
        (kinds.LISTEN, 19092, "a int is not allowed here; allowed: HOST:PORT"),
        (kinds.LISTEN, None, "a NoneType is not allowed here; allowed: HOST:PORT"),
        (kinds.upstream_address(9092), "kafka:0",
         "'kafka:0' has port 0, to which no client can connect; allowed: 1 to 65535"),
        (kinds.ADVERTISE, Advertise("*", 9092),
         "'*:9092' means every interface; allowed: a host that clients can reach"),
        (kinds.ADVERTISE, "proxy:0", "'proxy:0' has port 0; allowed: HOST or HOST:FIRST_PORT with 1 to 65535"),
        (kinds.NAME, "a\nb", "'a\\nb' is not a name; allowed: 1 to 63 of a-z, 0-9 and -"),
        (kinds.ROUTE_MAP, "a=*.b:1", f"'*.b:1' {NO_DIAL}"),
        (kinds.ROUTE_MAP, "a={host}:1", f"'{{host}}:1' {NO_DIAL}"),
        (kinds.ROUTE_MAP, "a=b:0", f"'b:0' {NO_DIAL}"),
        (kinds.ROUTE_MAP, "a:0=b", "'a:0' has port 0; allowed: 1 to 65535, or no port for any"),
        (kinds.ROUTE_MAP, "node:x=b", f"'x' {NO_NODE}"),
        (kinds.ROUTE_MAP, "node:2147483648=b", f"'2147483648' {NO_NODE}"),
        (kinds.EXIT_WITH, "", "'' is not a path; allowed: PATH, a process id, or a URL"),
        (kinds.EXIT_WITH, "ftp://a", NO_URL),
        (kinds.EXIT_WITH, "http://me:secret@a", NO_URL),
        (kinds.EXIT_WITH, "http://a:99999", "'99999' is not a port: allowed are 0 to 65535"),
    ],
)  # fmt: skip
def test_what_is_refused(kind: ValueKind[object], value: object, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        kind.read(value)
    assert str(caught.value) == message


@given(st.text(max_size=40))
def test_text_gives_a_value_or_one_line(text: str) -> None:
    every_kind: list[ValueKind[Any]] = [
        kinds.NAME,
        kinds.PORT_RANGE,
        kinds.ADVERTISE,
        kinds.ROUTE_MAP,
        DURATION,
        SIZE,
        kinds.BOOLEAN,
        kinds.count(0, 9),
        kinds.choice("a"),
    ]
    for kind in every_kind:
        try:
            value = kind.read(text)
        except ValueError as error:
            assert "allowed" in str(error) or "write" in str(error) or "is not" in str(error)  # noqa: PT017
        else:
            assert kind.read(str(kind.show(value))) == value


@pytest.mark.parametrize(
    ("route", "advertised", "node", "dialled"),
    [
        ("kafka0:29092=localhost:9092", "kafka0:29092", "1", "localhost:9092"),
        ("kafka0:29092=localhost:9092", "KAFKA0:29092", "7", "localhost:9092"),
        ("kafka0:29092=localhost:9092", "kafka0:29093", "1", None),
        ("kafka0=localhost", "kafka0:29093", "1", "localhost:29093"),
        ("kafka0=localhost", "kafka01:29093", "1", None),
        ("*.az1.*=gateway:{port}", "b-1.az1.example:9094", "1", "gateway:9094"),
        ("*.az1.*=gateway:{port}", "b-1.az2.example:9094", "1", None),
        ("node:2=10.0.0.7:9092", "anything:1", "2", "10.0.0.7:9092"),
        ("node:2=10.0.0.7", "anything:1", "2", "10.0.0.7:1"),
        ("node:2=10.0.0.7", "anything:1", "3", None),
        ("node:2=10.0.0.7", "anything:1", "controller-2", None),
    ],
)
def test_which_address_a_map_takes(route: str, advertised: str, node: str, dialled: str | None) -> None:
    address = Address.parse(advertised)
    matched = Map.parse(route).matches(address, node)
    assert (str(Map.parse(route).dial(address)) if matched else None) == dialled
