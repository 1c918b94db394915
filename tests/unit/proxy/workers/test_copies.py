"""What a worker gives of the frames that it has copied."""

from __future__ import annotations

import asyncio

import pytest

from kproxy.protocol.capture.capture import Frame
from kproxy.proxy.watch.frames import EmitFrame, Place
from kproxy.proxy.watch.lines import Where
from kproxy.proxy.workers import copies, messages
from kproxy.proxy.workers.copies import FrameBatch

PLACE = Place(Where("default", "2", "10.0.0.9:4711"), "127.0.0.1:19094", "1-1")


class Main:
    """Whom it tells."""

    def __init__(self) -> None:
        self.told: list[messages.Captured] = []
        self.heard = asyncio.Event()

    def tell(self, message: object) -> None:
        assert isinstance(message, messages.Captured)
        self.told.append(message)
        self.heard.set()


async def test_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_EVERY", 0.01)
    main, emits = Main(), list[EmitFrame | None]()
    batch = FrameBatch(main, emits.append)
    batch.switch(False)
    assert emits == []
    batch.switch(True)
    batch.switch(True)
    (emit,) = emits
    assert emit is not None
    frame = Frame(1.0, False, 3, 12, "", "", 1_000_000, 0, bytes(1_000_000))
    for _ in range(10):
        emit(PLACE, frame)
    await asyncio.wait_for(main.heard.wait(), 10)
    assert (len(main.told[0].copied), main.told[0].lost) == (4, 6)
    assert main.told[0].copied[0].place == PLACE
    batch.switch(False)
    assert emits[-1] is None
    told = len(main.told)
    await asyncio.sleep(0.05)
    assert len(main.told) == told
