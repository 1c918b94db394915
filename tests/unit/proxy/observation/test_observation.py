"""The observers of a kproxy: when requests are read, until when, and the lines of the record."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kproxy.proxy.observation.observation import MOST_OBSERVERS, NewReader, Observation
from kproxy.proxy.observation.record import ClientKey, PartitionKey, Topic, Use
from kproxy.proxy.relay.observer import ObserverStart
from kproxy.proxy.watch.feed import SessionLabels


class Process:
    """A process whose sessions can be observed."""

    def __init__(self) -> None:
        self.readers: list[NewReader | None] = []
        self.ended = asyncio.Event()
        self.observation = Observation(self._read_requests)

    def _read_requests(self, new_reader: NewReader | None) -> None:
        self.readers.append(new_reader)
        if new_reader is None:
            self.ended.set()

    @property
    def is_read(self) -> bool:
        return bool(self.readers) and self.readers[-1] is not None

    def command(self, observer: str, seconds: float) -> dict[str, Any]:
        return dict(json.loads(self.observation.command({"observer": observer, "seconds": seconds})))

    async def lines(self) -> list[dict[str, Any]]:
        data = b"".join([piece async for piece in self.observation.lines()])
        return [json.loads(line) for line in data.splitlines()]


async def test_requests_are_read_until_the_last_observer_ends() -> None:
    process = Process()
    reply = process.command("a", 100)
    assert process.is_read
    assert reply["observers"]["a"] == pytest.approx(reply["since"] + 100, abs=5)
    process.command("b", 100)
    process.command("a", 0)
    assert process.is_read
    assert process.command("b", 0)["since"] is None
    assert not process.is_read
    assert len(process.readers) == 2  # the second observer began nothing anew


async def test_an_observer_that_does_not_come_again_ends_by_itself() -> None:
    process = Process()
    process.command("a", 1)
    before = process.observation._record
    process.command("a", 2)  # it comes again: the record stays
    assert process.observation._record is before
    async with asyncio.timeout(60):
        await process.ended.wait()
    assert (await process.lines())[0]["observation"]["since"] is None


async def test_too_many_observers_are_refused() -> None:
    process = Process()
    for number in range(MOST_OBSERVERS):
        process.command(f"o{number}", 100)
    with pytest.raises(ValueError, match="observe already; allowed: that one of them ends"):
        process.command("one more", 100)
    process.command("o1", 200)


@pytest.mark.parametrize(
    "body",
    [
        None, [], {}, {"observer": "a"}, {"observer": "a", "seconds": "1"}, {"observer": "a", "seconds": True},
        {"observer": "a", "seconds": -1}, {"observer": "a", "seconds": 1e9}, {"observer": "", "seconds": 1},
        {"observer": 7, "seconds": 1}, {"observer": "a" * 101, "seconds": 1}, {"observer": "a", "seconds": 1, "x": 1},
        {"observer": "a", "seconds": float("nan")},
    ],
)  # fmt: skip
async def test_nonsense_is_refused_with_what_is_allowed(body: object) -> None:
    process = Process()
    with pytest.raises(ValueError, match="allowed"):
        process.observation.command(body)
    assert not process.readers


async def test_the_lines_have_all_of_the_record() -> None:
    process = Process()
    process.command("a", 100)
    new_reader = process.readers[-1]
    assert new_reader is not None
    new_reader(lambda: SessionLabels("c", "n", "h:1"), ObserverStart())
    record = process.observation._record
    assert record is not None
    client = record.client(ClientKey("c", "blue", "", "h", "app\x07", "java"), 1.0)
    assert client is not None
    for number in range(120):
        record.note_topic(client, Use.READS, Topic(f"t{number}"), 1.0)
        record.note_batch(PartitionKey("c", "blue", Topic("", bytes(16)), 0), 5, number, 1, 1.0)
    record.note_name(client, Use.GROUP, "grüße\n", 1.0)
    record.note_transaction(client, "tx", Use.WRITES, Topic("t1"), 1.0)
    record.left_out["names"] = 3
    head, *middle, end = await process.lines()
    assert head["observation"]["left_out"] == {"names": 3}
    assert end == {"end": len(middle)}
    clients = [line["client"] for line in middle if "client" in line]
    assert {(line["client_id"], line["upstream"]) for line in clients} == {("app\x07", "blue")}
    uses = [use for line in clients for use in line["uses"]]
    assert len(clients) == 3
    assert len(uses) == 122
    assert {"use": "groups", "name": "grüße\n", "requests": 1, "last": uses[120]["last"]} in uses
    assert any(use.get("transaction") == "tx" and use["topic"] == "t1" for use in uses)
    partitions = [line["partition"] for line in middle if "partition" in line]
    assert {(line["topic_id"], line["partition"], line["offsets"]) for line in partitions} == {
        ("AAAAAAAAAAAAAAAAAAAAAA", 0, 600)
    }
    assert {each["id"] for line in partitions for each in line["producers"]} == set(range(120))


async def test_the_record_may_change_while_it_is_written() -> None:
    process = Process()
    process.command("a", 100)
    record = process.observation._record
    assert record is not None
    for number in range(100):
        record.client(ClientKey("c", "", "", "h", f"c{number}", ""), 1.0)
    lines = process.observation.lines()
    await anext(lines)
    await anext(lines)
    record.client(ClientKey("c", "", "", "h", "late", ""), 1.0)
    process.command("a", 0)
    rest = b"".join([piece async for piece in lines])
    assert json.loads(rest.splitlines()[-1]) == {"end": 100}
