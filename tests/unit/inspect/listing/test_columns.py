"""Tables that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.inspect.listing.columns import cut, table

CELL = st.text("abc-.", max_size=40)


def test_a_table_as_wide_as_its_cells() -> None:
    rows = [["1", "kafka-1:9092", "x"], ["10", "k:1", ""]]
    assert list(table(["ID", "ADVERTISED", ""], rows, 80, frozenset({0}))) == [
        "ID  ADVERTISED",
        " 1  kafka-1:9092  x",
        "10  k:1",
    ]


def test_the_widest_columns_give_way() -> None:
    rows = [["a" * 50, "b" * 40, "short"]]
    (_, row) = table(["A", "B", "C"], rows, 30)
    assert row.endswith("short")
    assert len(row) in (29, 30)  # two columns share what is left
    assert row.count("…") == 2


@given(rows=st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=5), width=st.integers(10, 100))
def test_every_line_fits(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = list(table(["A", "B", "C"], rows, width))
    assert len(lines) == len(rows) + 1
    assert max(map(len, lines)) <= width


MSK = "b-1.orders-production.a1b2c3.c7.kafka.eu-central-1.amazonaws.com:9098"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        (MSK, 69, MSK),
        (MSK, 30, "b-1.orders-p…mazonaws.com:9098"),
        (MSK, 12, "b-1…com:9098"),
        (MSK, 6, "…:9098"),
        (MSK, 5, "b-1.…"),  # there is no room for a port
        ("SASL_SSL://kafka-1.example:9093", 20, "SASL_SS…example:9093"),
        ("[2001:db8:85a3:8d3:1319:8a2e:370:7348]:9092", 20, "[2001:d…0:7348]:9092"),
        ("direct (kafka-1.prod.example:9092)", 20, "direct …xample:9092)"),
        ("orders.payments.eu.v2", 10, "orders.pa…"),
        ("kafka:99999999", 8, "kafka:9…"),
    ],
)
def test_a_port_is_never_cut(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


HOST = st.text("abc-.", min_size=1, max_size=120)


@given(
    hosts=st.lists(st.tuples(HOST, HOST, CELL), min_size=1, max_size=5),
    port=st.integers(1, 65535),
    width=st.sampled_from([80, 100]),
)
def test_addresses_keep_their_ports_at_80_columns(hosts: list[tuple[str, str, str]], port: int, width: int) -> None:
    rows = [["1", f"{one}:{port}", f"SASL_SSL://{two}:{port}", three, "x"] for one, two, three in hosts]
    lines = list(table(["ID", "BOUND", "ADVERTISED", "RACK", "FOR"], rows, width))
    assert max(map(len, lines)) <= width
    assert all(line.count(f":{port}") == 2 for line in lines[1:])


def test_a_very_narrow_table_is_rather_too_wide() -> None:
    (_, row) = table(["ID", "ADVERTISED"], [["1", MSK]], 5)
    assert row.endswith(":9098")


@pytest.mark.parametrize(("text", "shown"), [("abc", "abc"), ("abcd", "ab…"), ("", "")])
def test_what_is_cut_says_so(text: str, shown: str) -> None:
    assert cut(text, 3) == shown
