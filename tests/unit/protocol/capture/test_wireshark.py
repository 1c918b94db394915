"""What Wireshark says of copies: nothing that it does not say of the frames themselves."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kproxy.protocol.capture.sessioncapture import CaptureStart, RedactedFrame, SessionCapture
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.app import pcap
from kproxy.proxy.watch.feed import SessionLabels
from kproxy.proxy.watch.frames import CapturedFrame, CaptureSession, format_line
from tests.harness.programs.shark import dissect, needs_tshark
from tests.unit.kafka_frames import encode, messages
from tests.unit.protocol.capture.shown import MESSAGES, NO_RECORDS, framed

pytestmark = needs_tshark

# Requests and responses of one call.
CALLS = sorted(
    {(key, version) for name, key, version in MESSAGES if name.endswith("Request")}
    & {(key, version) for name, key, version in MESSAGES if name.endswith("Response")}
)
PORT = 9092


@cache
def _name(key: int, suffix: str) -> str:
    return next(name for name, of, _ in MESSAGES if of == key and name.endswith(suffix))


def _sound(values: Any) -> Any:
    """The message with records that are some."""
    if isinstance(values, dict):
        return {name: NO_RECORDS if name == "Records" else _sound(value) for name, value in values.items()}
    return [_sound(value) for value in values] if isinstance(values, list) else values


def _drawn(key: int, version: int, suffix: str) -> bytes:
    """A frame of this API and version, another one for each, but the same in each run."""
    name, found = _name(key, suffix), []

    @seed(20_26)
    @settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        found.append(_sound(data.draw(messages(name, version))))

    draw()
    values = {**found[-1], "Acks": 1} if key == ApiKey.PRODUCE and suffix == "Request" else found[-1]
    return framed(name, key, version, encode(definitions.load_message(name), version, values))


def _line(place: CaptureSession, number: int, frame: RedactedFrame) -> dict[str, Any]:
    return dict(json.loads(format_line(CapturedFrame(1e9 + number, place, frame))))


def test_wireshark_reads_copies_as_it_reads_the_frames(tmp_path: Path) -> None:
    as_they_were, copies = pcap.PcapWriter(), pcap.PcapWriter()
    one, other = tmp_path / "whole.pcapng", tmp_path / "copies.pcapng"
    with one.open("wb") as of_frames, other.open("wb") as of_copies:
        of_frames.write(as_they_were.header())
        of_copies.write(copies.header())
        for number, (key, version) in enumerate(CALLS):
            request, response = _drawn(key, version, "Request"), _drawn(key, version, "Response")
            frames: list[RedactedFrame] = []
            capture = SessionCapture(frames.append, CaptureStart(), 0.0)
            capture.from_client(request, 0.0)
            capture.to_client(response, 1.0)
            place = CaptureSession(
                SessionLabels("", "1", f"10.0.0.1:{10_000 + number}"), f"10.0.0.2:{PORT}", str(number)
            )
            for frame, whole in zip(frames, (request, response), strict=True):
                assert frame.data, frame
                line = _line(place, number, frame)
                of_copies.write(copies.add(line))
                of_frames.write(as_they_were.add({**line, "frame": base64.b64encode(whole).decode()}))
    pairs = list(zip(dissect(one, range(PORT, PORT + 1)), dissect(other, range(PORT, PORT + 1)), strict=True))
    assert not [copy for whole, copy in pairs if copy.complaints and not whole.complaints]
    assert sum(not copy.complaints for _, copy in pairs if copy.api) > len(CALLS) / 3
