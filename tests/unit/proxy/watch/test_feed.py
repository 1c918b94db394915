"""Who is told what passes, and what happens to those who are too slow."""

from __future__ import annotations

import asyncio
import json

import pytest

from kproxy.proxy.app.tapoutput import Summary, exchange_text
from kproxy.proxy.relay.observer import Exchange
from kproxy.proxy.watch import feed
from kproxy.proxy.watch.feed import Feed, Filter, SessionLabels, TooManyReaders, parse_line

WHERE = SessionLabels("default", "2", "127.0.0.1:4711")
EXCHANGE = Exchange(1.0, 0, 9, "billing", "librdkafka 2.3.0", 120, 52, 0.075, 6, (("kafka-1:9092", "127.0.0.1:19094"),))


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        (Filter(), True),
        (Filter(cluster="default", node="2", api="produce", client="billing", slow=0.05, errors=True), True),
        (Filter(cluster="other"), False),
        (Filter(node="1"), False),
        (Filter(api="Fetch"), False),
        (Filter(client="rdkafka 2"), True),
        (Filter(client="127.0.0.1:4711"), True),
        (Filter(client="nobody"), False),
        (Filter(slow=0.1), False),
    ],
)
def test_filters(wanted: Filter, answer: bool) -> None:
    assert wanted.matches(WHERE, EXCHANGE) is answer


def test_an_exchange_without_response_is_not_slow_or_an_error() -> None:
    unanswered = Exchange(1.0, 0, 9, "", "", 120)
    assert not Filter(slow=0.0).matches(WHERE, unanswered)
    assert not Filter(errors=True).matches(WHERE, unanswered)


@pytest.mark.parametrize("query", [{"sloow": ["1"]}, {"slow": ["x"]}])
def test_a_query_of_nonsense(query: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="allowed"):
        Filter.from_query(query)


async def test_it_is_watched_while_somebody_looks_on() -> None:
    watched: list[bool] = []
    made = Feed(lambda one: watched.append(one is not None))
    first, second = made.subscribe(Filter()), made.subscribe(Filter(api="Fetch"))
    assert watched == []
    assert [parse_line(await anext(one)) for one in (first, second)] == [
        {},
        {},
    ]  # they have nothing to say, and are there
    assert watched == [True]
    made.publish(WHERE, EXCHANGE)
    line = parse_line(await anext(first))
    assert (line["api"], line["client_id"], line["error"], line["seconds"]) == ("Produce", "billing", 6, 0.075)
    assert line["rewritten"] == [{"from": "kafka-1:9092", "to": "127.0.0.1:19094"}]
    await first.aclose()
    assert watched == [True]
    await second.aclose()
    assert watched == [True, False]


async def test_a_subscription_that_nobody_reads_is_let_go() -> None:
    watched: list[bool] = []
    made = Feed(lambda one: watched.append(one is not None))
    await made.subscribe(Filter()).aclose()
    assert watched == []


async def test_a_slow_reader_is_told_what_it_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_WAITING", 10)
    made = Feed(lambda one: None)
    lines = made.subscribe(Filter())
    assert await anext(lines) == b"\n"
    for _ in range(25):
        made.publish(WHERE, EXCHANGE)
    read_lines = (await anext(lines)).splitlines()
    assert len(read_lines) == 11
    assert json.loads(read_lines[-1]) == {"lost": 15}
    await lines.aclose()


async def test_no_more_than_some_look_on() -> None:
    made = Feed(lambda one: None)
    readers = [made.subscribe(Filter()) for _ in range(feed.MOST_READERS)]
    late = made.subscribe(Filter())
    for one in readers:
        await anext(one)
    with pytest.raises(TooManyReaders):
        await anext(late)
    with pytest.raises(TooManyReaders):
        made.subscribe(Filter())
    await asyncio.gather(*[one.aclose() for one in readers])
    await made.subscribe(Filter()).aclose()


def test_what_a_person_reads() -> None:
    value = {
        "time": 0.0, "cluster": "c", "node": "2", "client": "127.0.0.1:1", "client_id": "me", "software": "x 1",
        "api": "Fetch", "version": 11, "request_bytes": 9, "response_bytes": 70, "seconds": 0.5, "error": 6,
        "rewritten": [{"from": "a:1", "to": "b:2"}],
    }  # fmt: skip
    assert (
        exchange_text(value).partition(" ")[2]
        == "127.0.0.1:1 me (x 1) -> 2 Fetch v11 9/70 B 500.0 ms error 6 a:1 => b:2"
    )
    assert "no response" in exchange_text({})
    assert exchange_text({"lost": 7}) == "... 7 lines are missing: this reader is too slow"


def test_the_summary() -> None:
    summary = Summary()
    for seconds in (0.001, 0.002, 0.1):
        summary.add({"node": "1", "api": "Fetch", "client_id": "a", "seconds": seconds, "error": 0})
    summary.add({"node": "1", "api": "Produce", "client_id": "a\x1b", "seconds": None, "error": 3})
    summary.add({"lost": 5})
    first, second = summary.rows()
    assert first[:4] == ("1", "Fetch", "a", "3")
    assert first[5:] == ("2 ms", "100 ms", "")
    assert (second[2], second[5:]) == ("a\\x1b", ("", "", "1"))
    assert summary.lost == 5
    for number in range(500):
        summary.add({"node": str(number), "api": "Fetch"})
    assert len(list(summary.rows())) <= 201
