"""Each shape of a record is examined once: the answers are those that the records themselves give."""

from __future__ import annotations

import random
import re

import pytest

from kproxy.advice.explain.patterns import patterns_by_word
from kproxy.advice.explain.search import SearchResult, search
from kproxy.advice.explain.shapes import ShapeCache, shape_of
from tests.unit.advice.explain.texts import TEXTS
from tests.unit.advice.explain.unrelated import UNRELATED

_HOSTS = (
    "kafka-1.prod.example",
    "10.1.2.3",
    "localhost",
    "591ebfb6bdec",
    "b-1.x.kafka.eu-west-1.amazonaws.com",
    "kafka",
)


def rotated(text: str, seed: int) -> str:
    """Return a text with a time before it, and with other digits, hosts and ids."""
    rng = random.Random(seed)
    text = re.sub(
        r"\d+", lambda match: match[0] if rng.random() < 0.6 else str(rng.randrange(10 ** len(match[0]))), text
    )
    text = re.sub(r"[\w-]+(?:\.[\w-]+){2,}(?=:\d)", lambda _: rng.choice(_HOSTS), text)
    time = (
        f"2026-01-{rng.randrange(10, 29)} {rng.randrange(10, 24)}:{rng.randrange(10, 60)}:01,{rng.randrange(1000):03d}"
    )
    return rng.choice((f"{time} ERROR ", f"[{time}] ", "%3|1700000000.123|FAIL|", "")) + text


def as_values(result: SearchResult) -> object:
    matches = [
        (match.faults, match.text, match.facts, match.decoded, match.first, match.last, match.count, match.broker)
        for match in (*result.matches.values(), *result.conditional.values())
    ]
    return matches, result.bootstrap_servers, result.lines, result.is_certain, result.conditional_lines


@pytest.mark.parametrize("seed", range(6))
def test_the_answers_are_those_without_the_cache(seed: int) -> None:
    texts = [text.text for text in TEXTS] + list(UNRELATED)
    log = [
        rotated(text, seed * 10_000 + round * 1000 + index) for round in range(3) for index, text in enumerate(texts)
    ]
    random.Random(seed).shuffle(log)
    lines = "\n".join(log).encode().split(b"\n")

    assert as_values(search([lines])) == as_values(search([lines], cache_shapes=False))
    for text in log[:400]:  # one text at a time, and again with another time
        twice = (text + "\n" + text.replace("2026-01-1", "2026-02-0")).encode().split(b"\n")
        assert as_values(search([twice])) == as_values(search([twice], cache_shapes=False))


@pytest.mark.parametrize(
    ("record", "other"),
    [
        ("2026-01-02 10:11:12,345 x", "2026-11-22 23:59:00,001 x"),
        ("[10:11:12] x", "[23:59:00] x"),
        ("2026-01-02T10:11:12.345Z x", "2025-01-02T10:11:13.5Z x"),
        ("%3|1700000000.123|FAIL|x", "%3|1800000000.999|FAIL|x"),
        ("correlation id 17 x", "correlation id 93218 x"),
        ("(after 12ms in state)", "(after 40000ms in state)"),
        ("not present in metadata after 60000 ms.", "not present in metadata after 120 ms."),
        ('"retryCount":0,"retryTime":350', '"retryCount":5,"retryTime":9000'),
        ("dial tcp 10.0.0.1:40000->10.1.1.1:9092: x", "dial tcp 10.0.0.7:51234->10.1.1.1:9092: x"),
    ],
)
def test_records_of_one_shape(record: str, other: str) -> None:
    assert shape_of(record.encode()) == shape_of(other.encode())


@pytest.mark.parametrize(
    ("record", "other"),
    [
        ("kafka-1:9092", "kafka-1:9093"),
        ("kafka-1:9092", "kafka-2:9092"),
        ("node 1 x", "node 2 x"),
        ("size = 369296128)", "size = 369296129)"),
        ("error code: 15", "error code: 16"),
        ("[6] Not Leader", "[5] Not Leader"),
        ("10.0.0.1:9092 x", "10.0.0.2:9092 x"),
        ("topic a-1 x", "topic a-2 x"),
        ("rdkafka#producer-1 x", "rdkafka#producer-2 x"),
        ("returned error 110.", "returned error 111."),
        ("dial tcp 10.0.0.1:9092: x", "dial tcp 10.0.0.1:9093: x"),
        ("a:10:11:12,345 x", "a:10:11:13,345 x"),
        ("kafka-1:9092 ms", "kafka-1:9093 ms"),
        ("with correlation id 2 : {orders=X}", "with correlation id 3 : {orders=X}"),
    ],
)
def test_what_an_answer_may_show_stays_in_the_shape(record: str, other: str) -> None:
    assert shape_of(record.encode()) != shape_of(other.encode())


def test_no_message_of_the_tables_has_a_number_that_varies() -> None:
    parts = {part for patterns in patterns_by_word().values() for pattern in patterns for part in pattern.parts}

    assert {part for part in parts if shape_of(part.encode()) != part.encode()} == set()


def test_the_cache_keeps_the_latest_shapes_only() -> None:
    examined: list[str] = []
    cache: ShapeCache[str] = ShapeCache(most=2)

    def look(record: str) -> str:
        def examine() -> str:
            examined.append(record)
            return record

        return cache.get(record.encode(), b"", examine)

    for record in ("a", "b", "a", "c", "a", "b"):
        assert look(record) == record
    assert examined == ["a", "b", "c", "b"]
    assert cache.get(b"a", b"other", lambda: "other state") == "other state"
