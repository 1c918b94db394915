"""Reading many batches without the garbage collector leaves it as it was."""

from __future__ import annotations

import gc

import pytest

from kproxy.base.errors import WireError
from kproxy.migrate.copier.sourcelog import _list_batches
from kproxy.protocol.records.codecs import NONE
from kproxy.protocol.records.encoding import ProducerState, RecordEntry, encode_batch, encode_tail


@pytest.mark.parametrize("collecting", [True, False])
def test_the_collector_is_as_it_was(collecting: bool) -> None:
    batch = b"".join(encode_batch([RecordEntry(0, 1, encode_tail(b"k", b"v"))], NONE, ProducerState()))
    (gc.enable if collecting else gc.disable)()
    try:
        assert [one.count for one in _list_batches(batch * 1000)] == [1] * 1000
        assert gc.isenabled() == collecting
        with pytest.raises(WireError):
            _list_batches(batch + bytes(100))
        assert gc.isenabled() == collecting
    finally:
        gc.enable()
