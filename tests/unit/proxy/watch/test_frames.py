"""Who wants frames: filters, and what a slow reader costs."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from kproxy.protocol.capture.sessioncapture import RedactedFrame
from kproxy.proxy.watch.feed import Filter, SessionLabels, TooManyReaders
from kproxy.proxy.watch.frames import (
    MOST_BYTES,
    MOST_READERS,
    MOST_WAITING,
    CapturedFrame,
    CaptureSession,
    FrameFeed,
    FrameSubscription,
    frame_filter,
)

PLACE = CaptureSession(SessionLabels("default", "2", "10.0.0.9:4711"), "127.0.0.1:19094", "1-1")
FRAME = RedactedFrame(1.0, False, 3, 12, "billing", "librdkafka 2.3.0", 40, 5, b"\0\0\0\x23" + bytes(35))


def feed_of() -> tuple[FrameFeed, list[bool]]:
    switched: list[bool] = []
    return FrameFeed(lambda feed: switched.append(feed is not None)), switched


def test_lines() -> None:
    async def look() -> list[dict[str, Any]]:
        feed, switched = feed_of()
        stream = feed.subscribe(Filter())
        assert switched == []
        assert await anext(stream) == b"\n"
        assert switched == [True]
        feed.publish(PLACE, FRAME)
        feed.publish(PLACE, replace(FRAME, to_client=True, data=b"", why="it is too long"))
        lines = (await anext(stream)).splitlines()
        await stream.aclose()
        assert switched == [True, False]
        return [json.loads(line) for line in lines]

    request, response = asyncio.run(look())
    assert base64.b64decode(request.pop("frame")) == FRAME.data
    assert request.pop("time") > 0
    assert request == {
        "cluster": "default", "node": "2", "client": "10.0.0.9:4711", "local": "127.0.0.1:19094", "session": "1-1",
        "client_id": "billing", "software": "librdkafka 2.3.0", "from": "client", "api": "Metadata", "version": 12,
        "bytes": 40, "left_out": 5,
    }  # fmt: skip
    assert (response["from"], response["frame"], response["why"]) == ("kproxy", "", "it is too long")


def test_a_slow_reader_loses_frames_and_hears_of_it() -> None:
    async def look() -> tuple[int, int]:
        feed, _ = feed_of()
        stream = feed.subscribe(Filter())
        await anext(stream)
        large = replace(FRAME, data=bytes(1_000_000))
        for _ in range(40):
            feed.publish(PLACE, large)
        frames = lost = 0
        while frames + lost < 40:
            for line in (await anext(stream)).splitlines():
                value = json.loads(line or b"{}")
                lost += value.get("lost", 0)
                frames += "frame" in value
        await stream.aclose()
        return frames, lost

    frames, lost = asyncio.run(look())
    assert 0 < frames <= MOST_BYTES / 1_000_000
    assert frames + lost == 40


def test_small_frames_are_counted_too() -> None:
    reader = FrameSubscription(Filter(), 1 << 40)
    for _ in range(MOST_WAITING + 5):
        reader.offer(CapturedFrame(1.0, PLACE, FRAME))
    values = []
    while reader.is_behind:
        values += [json.loads(line) for line in reader.take_lines().splitlines()]
    assert sum("frame" in value for value in values) == MOST_WAITING
    assert sum(value.get("lost", 0) for value in values) == 5


def gets(wanted: Filter, frame: RedactedFrame) -> bool:
    reader = FrameSubscription(wanted)
    reader.offer(CapturedFrame(1.0, PLACE, frame))
    return reader.is_behind


@pytest.mark.parametrize(("query", "there"), [
    ({}, True), ({"cluster": "default"}, True), ({"cluster": "other"}, False), ({"node": "2"}, True),
    ({"node": "3"}, False), ({"api": "metadata"}, True), ({"api": "Fetch"}, False), ({"client": "10.0.0.9"}, True),
    ({"client": "bill"}, True), ({"client": "rdkafka"}, True), ({"client": "nobody"}, False),
])  # fmt: skip
def test_filters(query: dict[str, str], there: bool) -> None:
    assert gets(Filter.from_query({name: [value] for name, value in query.items()}), FRAME) == there


def test_a_remark_about_a_session_is_of_any_api() -> None:
    remark = replace(FRAME, key=-1, data=b"", why="nothing more of this connection is shown")
    assert gets(Filter(api="Fetch"), remark)
    assert not gets(Filter(node="3"), remark)


def test_what_a_request_may_ask() -> None:
    assert frame_filter({"api": ["Fetch"], "client": ["me"]}) == Filter(api="Fetch", client="me")
    for name in ("slow", "errors"):
        with pytest.raises(ValueError, match="choose responses, not frames"):
            frame_filter({name: ["1"]})
    with pytest.raises(ValueError, match="allowed: cluster"):
        frame_filter({"other": ["1"]})


def test_readers_are_few() -> None:
    async def come() -> None:
        feed, _ = feed_of()
        streams = [feed.subscribe(Filter()) for _ in range(MOST_READERS)]
        for stream in streams:
            await anext(stream)
        with pytest.raises(TooManyReaders):
            feed.subscribe(Filter())
        for stream in streams:
            await stream.aclose()

    asyncio.run(come())
