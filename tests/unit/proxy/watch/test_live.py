"""The page's stream: who gets it, when it is computed, and what becomes of lines of the log."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kproxy.advice.remedies import remedy_of
from kproxy.base.faults import Fault
from kproxy.base.messages.start import MAP_UNUSED
from kproxy.protocol.wire.greeting import Greeting, wrong_client
from kproxy.proxy.relay.observer import Exchange
from kproxy.proxy.status.model import ClusterStatus, SessionStatus, Status
from kproxy.proxy.watch import live
from kproxy.proxy.watch.events import EventLog
from kproxy.proxy.watch.feed import Feed, SessionLabels, TooManyReaders
from kproxy.proxy.watch.live import Live
from tests.harness.servers.answers import metadata
from tests.unit.proxy.watch.made import cluster, node, session


@pytest.fixture
def events() -> Iterator[EventLog]:
    made = EventLog()
    log = logging.getLogger("kproxy.test_live")
    log.setLevel(logging.INFO)
    log.addHandler(made)
    yield made
    log.removeHandler(made)


LOG = logging.getLogger("kproxy.test_live")


class Page:
    """A `Live` with a cluster, and what it did."""

    def __init__(self, events: EventLog) -> None:
        self.sessions: list[SessionStatus] = [session("2")]
        self.watched: list[bool] = []
        self.asked = 0
        self.feed = Feed(lambda feed: self.watched.append(feed is not None))
        self.live = Live(asyncio.get_running_loop().create_task, self.feed, self._status, self._sessions, events)

    def _status(self) -> Status:
        return Status(version="1", draining=False, clusters=(cluster(),))

    def _sessions(self) -> Sequence[SessionStatus]:
        self.asked += 1
        return self.sessions


async def snapshot(stream: AsyncGenerator[bytes, None]) -> dict[str, Any]:
    """The next one."""
    async with asyncio.timeout(60):
        async for data in stream:
            if data.startswith(b"data: "):
                assert data.endswith(b"\n\n")
                assert data.count(b"\n") == 2  # one event is one line
                value: dict[str, Any] = json.loads(data[6:])
                return value
    raise AssertionError("it has ended")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_EVERY", 0.05)


async def test_nothing_is_computed_while_nobody_looks(events: EventLog) -> None:
    page = Page(events)
    stream = page.live.view()
    assert (page.asked, page.watched) == (0, [])
    await snapshot(stream)
    await stream.aclose()
    await asyncio.sleep(0.05)
    asked = page.asked
    assert page.watched == [True, False]
    await asyncio.sleep(0.3)
    assert page.asked == asked


async def test_two_viewers_share_one_snapshot(events: EventLog) -> None:
    page = Page(events)
    one, two = page.live.view(), page.live.view()
    await snapshot(one)
    first = page.asked
    assert (await snapshot(two))["version"] == "1"  # the last one, at once
    assert page.asked - first <= 1
    await one.aclose()
    await snapshot(two)
    assert page.watched == [True]
    await two.aclose()
    await asyncio.sleep(0.05)
    assert page.watched == [True, False]


async def test_a_loop_that_is_busy_for_longer_than_a_viewer_waits(events: EventLog) -> None:
    page = Page(events)
    calm = page._status
    computed = 0

    def busy() -> Status:
        nonlocal computed
        computed += 1
        time.sleep(3 * live._EVERY)
        return calm()

    page.live = Live(asyncio.get_running_loop().create_task, page.feed, busy, page._sessions, events)
    stream = page.live.view()
    for _ in range(5):
        await snapshot(stream)
    assert computed < 15  # it gets nearly each
    await stream.aclose()


async def test_what_it_shows(events: EventLog) -> None:
    page = Page(events)
    stream = page.live.view()
    await snapshot(stream)
    page.feed.publish(
        SessionLabels("default", "2", "10.1.1.1:5000"), Exchange(0.0, 0, 9, "billing", "", 100, 50, 0.01, 6, group="g")
    )
    while True:
        value = await snapshot(stream)
        shown = value["clusters"][0]
        if shown["apis"]:
            break
    assert [(one["node"], one["api"], one["last_error"]["name"]) for one in shown["apis"]] == [
        ("2", "Produce", "NOT_LEADER_OR_FOLLOWER")
    ]
    (client,) = shown["clients"]
    assert (client["address"], client["client_id"], client["sessions"], client["nodes"]) == (
        "10.1.1.1", "billing", 1, {"2": 1},
    )  # fmt: skip
    (produce,) = client["asked"]
    assert (produce["api"], produce["requests"], produce["errors"]) == ("Produce", 1, 1)
    assert produce["last_error"]["name"] == "NOT_LEADER_OR_FOLLOWER"
    assert (client["asked_left_out"], client["addresses"], client["unusable"]) == (0, [], [])
    assert 0 < client["since"] <= client["observed_since"]
    assert shown["groups"] == [{"group": "g", "clients": ["billing"], "members": 1, "node": "2"}]
    assert [one["node"] for one in shown["nodes"]] == ["1", "2", "3"]
    await stream.aclose()


async def test_the_commands_that_help_are_in_the_finding_of_a_node_that_cannot_be_reached(events: EventLog) -> None:
    lost = replace(node("2"), problem="connection refused")
    here, there = replace(cluster("here"), nodes=(node("1"), lost)), cluster("there")

    def fix(of: ClusterStatus) -> Sequence[str]:
        assert of == here, "it is asked only where a node cannot be reached"
        return ["# to find out why", "kproxy doctor kafka:9092"]

    status = Status(version="1", draining=False, clusters=(here, there))
    feed = Feed(lambda _: None)
    stream = Live(asyncio.get_running_loop().create_task, feed, lambda: status, lambda: [], events, fix).view()
    LOG.warning("refused a connection from %s: %s", "[::1]:4711", wrong_client(Greeting.HTTP))
    unreachable, refused = (await snapshot(stream))["findings"]
    assert unreachable["fault"] == Fault.NODE_UNREACHABLE
    assert unreachable["fix"] == ["# to find out why", "kproxy doctor kafka:9092"]
    assert refused["fix"] == []
    await stream.aclose()


async def test_what_a_client_is_remembered_for_is_bounded(events: EventLog) -> None:
    """Whatever a client asks and a broker answers, the snapshot of one client stays small."""
    page = Page(events)
    stream = page.live.view()
    await snapshot(stream)
    labels = SessionLabels("default", "2", "10.1.1.1:5000")
    for key in range(30_000):
        page.feed.publish(labels, Exchange(0.0, key, 9, "billing", "", 100, 50, 0.01, key % 2))
    addresses = tuple((f"{number}.{'x' * 240}:9092", f"127.0.0.1:{number}") for number in range(8))
    topics = metadata("id", {1: "kafka-1:9092"}, {"<b>" + "\x1b" * 30_000: [-1], "y" * 249: [-1] * 9})
    for _ in range(3):
        asked = Exchange(0.0, 3, 2, "billing", "", 100, 50, 0.01, rewritten=addresses, metadata=topics)
        page.feed.publish(labels, asked)
    while True:
        (client,) = (await snapshot(stream))["clusters"][0]["clients"]
        if client["unusable"]:
            break
    assert len(client["asked"]) == 10
    assert client["asked_left_out"] == 14
    assert len(client["addresses"]) == 8
    assert len(client["unusable"]) <= 3
    assert "\x1b" not in client["unusable"][0]["what"]
    assert len(json.dumps(client)) < 8_000
    await stream.aclose()


async def test_lines_of_one_kind_are_one_event(events: EventLog) -> None:
    for number in range(9):
        LOG.warning("refused a connection from %s: %s", f"10.0.0.{number}:4711", wrong_client(Greeting.HTTP))
    LOG.info("broker %d can be reached again: %s", 1, "kafka-1:9092")
    LOG.warning("refused a connection from %s: %s", "10.0.0.0:4712", wrong_client(Greeting.SSH))
    LOG.info("broker %d can be reached again: %s", 2, "kafka-2:9092")
    LOG.warning("refused a connection from %s: %s", "10.0.0.3:4713", wrong_client(Greeting.HTTP))
    stream = Page(events).live.view()
    ssh, back, http = (await snapshot(stream))["events"]
    assert (ssh["times"], ssh["like_it"]) == (1, [])
    assert (back["text"], back["times"]) == ("broker 2 can be reached again: kafka-2:9092", 2)
    assert back["like_it"] == ["broker 1 can be reached again: kafka-1:9092"]
    assert (http["number"], http["times"], http["like_it_left_out"]) == (1, 10, 3)
    assert "10.0.0.3:4713" in http["text"]
    assert [text.split(" ")[4] for text in http["like_it"]] == [f"10.0.0.{n}:4711:" for n in (8, 7, 6, 5, 4)]
    assert http["since"] == round(events.last()[0].since, 3)
    await stream.aclose()


def test_a_thousand_clients_displace_no_other_line(events: EventLog) -> None:
    LOG.error("the only line of its kind: %s", "x")
    LOG.warning(MAP_UNUSED(address="kafka-9:9092", cluster="default"))
    for number in range(1000):
        LOG.warning("refused a connection from %s: the client spoke HTTP", f"10.0.{number >> 8}.{number & 255}:1")
    first, second, *others = events.last()
    assert first.text == "the only line of its kind: x"
    assert second.template == MAP_UNUSED.text
    assert len(others) == 98
    assert others[-1].refused == "10.0.3.231"


def test_a_template_that_says_nothing_is_no_kind(events: EventLog) -> None:
    for text in ("%s", "%s: %s", "%-10s %5.1f %%"):
        LOG.info(text, *["one", 2.0][: text.count("%") if "%%" not in text else 2])
    assert [event.template for event in events.last()] == ["", "", ""]
    assert len({event.kind for event in events.last()}) == 3


async def test_too_many_viewers(events: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_VIEWERS", 1)
    page = Page(events)
    stream = page.live.view()
    await snapshot(stream)
    with pytest.raises(TooManyReaders, match="1 pages are connected already"):
        page.live.view()
    await stream.aclose()
    page.live.view()


async def test_a_defect_ends_neither_the_stream_nor_kproxy(
    events: EventLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(events)
    stream = page.live.view()
    await snapshot(stream)
    sessions = page.sessions
    page.sessions = [None]  # type: ignore[list-item]  # the defect
    await asyncio.sleep(0.2)
    page.sessions = sessions
    await snapshot(stream)
    assert any("defect in the page's numbers" in text for text in caplog.messages)
    await stream.aclose()


async def test_many_clients_are_shown_busiest_first(events: EventLog) -> None:
    page = Page(events)
    page.sessions = [session("1", f"10.0.{number // 200}.{number % 200}:1", f"c{number}") for number in range(1000)]
    stream = page.live.view()
    value = await snapshot(stream)
    shown = value["clusters"][0]
    assert (len(shown["clients"]), shown["clients_left_out"]) == (200, 800)
    await stream.aclose()


async def test_a_client_has_the_users_of_its_sessions(events: EventLog) -> None:
    page = Page(events)
    users = ("bob", "alice", "", "bob")
    page.sessions = [replace(session("1", f"10.1.1.1:{port}"), user=user) for port, user in enumerate(users, 5000)]
    stream = page.live.view()
    value = await snapshot(stream)
    assert [client["users"] for client in value["clusters"][0]["clients"]] == [["alice", "bob"]]
    await stream.aclose()


async def test_a_refused_client_is_a_finding(events: EventLog) -> None:
    LOG.warning(
        "refused a connection from %s: %s", "10.7.7.7:4711",
        "the client spoke TLS; kproxy expects plaintext there: set security.protocol to PLAINTEXT"
        " (or SASL_PLAINTEXT) in the client, or give kproxy a certificate with --client-tls-cert",
    )  # fmt: skip
    stream = Page(events).live.view()
    value = await snapshot(stream)
    (finding,) = value["findings"]
    assert (finding["fault"], finding["client"]) == (Fault.TLS_TO_PLAINTEXT.value, "10.7.7.7")
    assert finding["why"] == remedy_of(Fault.TLS_TO_PLAINTEXT).cause
    (event,) = value["events"]
    assert (event["level"], event["fix"][:14]) == ("WARNING", "In the client,")
    assert (event["times"], event["since"]) == (1, event["time"])
    await stream.aclose()


@pytest.mark.parametrize("greeting", [Greeting.HTTP, Greeting.SOCKS, Greeting.SSH, Greeting.PROXY])
async def test_a_foreign_client_reveals_nothing_about_the_server(greeting: Greeting, events: EventLog) -> None:
    LOG.warning("refused a connection from %s: %s", "[::1]:4711", wrong_client(greeting))
    stream = Page(events).live.view()
    (finding,) = (await snapshot(stream))["findings"]
    assert (finding["fault"], finding["client"]) == ("client-not-kafka", "[::1]")
    assert "not a Kafka client" in finding["title"]
    assert str(wrong_client(greeting)) in finding["text"]
    await stream.aclose()


def test_lines_of_the_log_are_kept_cut_and_few(events: EventLog) -> None:
    for number in range(1000):
        LOG.info("line %d\x1b[31m\n%s", number, "x" * 5000)
    kept = events.last()
    assert (len(kept), kept[-1].number) == (100, 1000)
    assert all(len(event.text) <= 520 for event in kept)
    assert not any(ugly in event.text for event in kept for ugly in "\x1b\n")
    events.emit(logging.LogRecord("x", logging.INFO, "", 1, "%d", ("no number",), None))
    assert len(events.last()) == 100


def test_the_same_line_again_is_the_same_event(events: EventLog) -> None:
    """A client's port is another one each time."""
    for number in range(12):
        LOG.warning(
            "refused a connection from 10.7.7.7:%d: the client spoke HTTP; this is a Kafka port", 50_000 + number
        )
    LOG.warning("refused a connection from 10.7.7.8:50000: the client spoke HTTP; this is a Kafka port")
    LOG.info("broker 1 at kafka:9092")
    LOG.info("broker 1 at kafka:9093")
    LOG.warning("refused a connection from 10.7.7.7:50999: the client spoke SSH; this is a Kafka port")
    LOG.warning("refused a connection from [::1]:1: x")
    LOG.warning("refused a connection from [::1]:2: x")
    LOG.warning("refused a connection from 10.7.7.7:60000: the client spoke HTTP; this is a Kafka port")
    kept = events.last()
    assert [(one.number, one.times, one.refused) for one in kept] == [
        (2, 1, "10.7.7.8"), (3, 1, ""), (4, 1, ""), (5, 1, "10.7.7.7"), (6, 2, "[::1]"), (1, 13, "10.7.7.7"),
    ]  # fmt: skip
    assert ":60000: the client spoke HTTP" in kept[-1].text
    assert kept[-1].since < kept[0].time <= kept[-1].time


@pytest.mark.parametrize(
    ("text", "shown", "times"),
    [
        ("x (7 times more since)", "x", 8),
        ("x (7 times more since) and so on", "x (7 times more since) and so on", 1),
        ("x (many times more since)", "x (many times more since)", 1),
        (f"x ({'9' * 30} times more since)", f"x ({'9' * 30} times more since)", 1),
        ("refused a connection from", "refused a connection from", 1),
        ("refused a connection from : ", "refused a connection from : ", 1),
        ("", "", 1),
    ],
)
def test_lines_that_the_log_has_left_out_count(text: str, shown: str, times: int, events: EventLog) -> None:
    LOG.warning("%s", text)
    (event,) = events.last()
    assert (event.text, event.times) == (shown, times)
    LOG.warning("%s", text)
    (event,) = events.last()
    assert (event.text, event.times) == (shown, 2 * times)


def test_what_nobody_knows_has_no_row(events: EventLog) -> None:
    LOG.warning("something that no table has")
    assert events.last()[-1].declaration is None
    LOG.warning("refused a connection from [::1]:4711: the client spoke something")
    assert events.last()[-1].refused == "[::1]"
