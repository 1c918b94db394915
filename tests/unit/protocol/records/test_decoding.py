from __future__ import annotations

import pytest

from kproxy.base.errors import WireError
from kproxy.protocol.records import decoding
from kproxy.protocol.records.codecs import compress
from kproxy.protocol.records.decoding import Record, decode_records
from tests.unit.protocol.records.logs import NOW, decoded, message, read, sized, v2, wrapper, written, zigzag

ONE = Record(41, NOW, b"k", b"v", ())
TWO = Record(44, NOW + 3, None, b"", ((b"h", None), (b"h", b"x")))
BODY = b"".join(written(record, 41, NOW) for record in (ONE, TWO))


def test_a_delete_horizon_is_what_the_timestamps_count_from() -> None:
    """KIP-534: it stands where the base timestamp stood, and the deltas are rewritten."""
    assert decoded(v2([ONE, TWO], flags=0x40, base_timestamp=NOW + 86_400_000)) == [ONE, TWO]


def test_the_broker_s_timestamp() -> None:
    stamped = [ONE._replace(timestamp=NOW + 9), TWO._replace(timestamp=NOW + 9)]
    assert decoded(v2([ONE, TWO], flags=0x08, max_timestamp=NOW + 9)) == stamped


@pytest.mark.parametrize("base", [(1 << 63) - 1, -(1 << 63)])
def test_timestamps_at_the_end_of_time(base: int) -> None:
    far = [ONE._replace(timestamp=base), ONE._replace(offset=42, timestamp=NOW), ONE._replace(offset=43, timestamp=-1)]
    assert decoded(v2(far)) == far


def test_old_messages() -> None:
    bare = [ONE, TWO._replace(headers=())]
    for codec in range(1, 4):
        assert decoded(wrapper(bare, 1, codec)) == bare
        assert decoded(wrapper(bare, 0, codec)) == [record._replace(timestamp=-1) for record in bare]
        stamped = [record._replace(timestamp=NOW + 9) for record in bare]
        assert decoded(wrapper(bare, 1, codec, append_time=NOW + 9)) == stamped


def test_a_wrapper_at_0_of_an_old_librdkafka() -> None:
    plain = b"".join(message(ONE._replace(offset=number), 1) for number in range(3))
    outer = message(Record(0, NOW, None, compress(plain, 1), ()), 1, 1)
    assert [record.offset for record in decoded(outer)] == [0, 1, 2]


def test_many_records_are_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_RECORDS_AT_ONCE", 3)
    many = [Record(number, NOW + number, b"k", b"v", ()) for number in range(10)]
    for log in (v2(many), wrapper(many, 1, 1)):
        (batch,) = read(log)
        assert [len(some) for some in decoding.decode_entries(batch, 1, 9)] in ([2, 3, 3, 0], [3, 3, 2])
        assert decode_records(batch) == many


def changed(**said: bytes) -> bytes:
    """A record of which one field is another one."""
    fields = {
        "attributes": b"\0",
        "timestamp": b"\0",
        "offset": b"\0",
        "key": sized(b"key"),
        "value": sized(b"value"),
        "headers": zigzag(1),
        "name": sized(b"name"),
        "content": sized(b"content"),
    } | said
    body = b"".join(fields.values())
    return zigzag(len(body)) + body


HUGE = zigzag((1 << 31) - 1)
# The content of a batch that says it has two records.
RECORDS = {
    "nothing": b"",
    "one record only": changed(),
    "a third one": BODY + changed(offset=b"\x10"),
    "bytes behind them": BODY + b"\0",
    "cut off": BODY[:-1],
    "a negative length": zigzag(-1) + BODY,
    "a length past the end": HUGE + BODY,
    "a length that is too short": zigzag(2) + BODY,
    "a length of 0": b"\0" + BODY,
    "a length that never ends": b"\xff" * 20,
    "a timestamp that never ends": changed(timestamp=b"\xff" * 20) + BODY,
    "an offset that never ends": changed(offset=b"\xff" * 20) + BODY,
    "the same offset twice": changed() + changed(),
    "an offset that goes back": changed(offset=b"\x08") + changed(offset=b"\x06"),
    "a negative offset": changed(offset=b"\x01") + changed(),
}
INSIDE = {
    "a key past the end": changed(key=zigzag(500)),
    "a huge key": changed(key=HUGE),
    "a key length that never ends": changed(key=b"\xff" * 20),
    "a value past the end": changed(value=zigzag(500)),
    "no headers' count": changed(headers=b"", name=b"", content=b""),
    "a huge count of headers": changed(headers=HUGE),
    "a negative count of headers": changed(headers=zigzag(-1)),
    "fewer headers than it says": changed(headers=zigzag(2)),
    "more headers than it says": changed(headers=zigzag(0)),
    "a header without a name": changed(name=zigzag(-1)),
    "a header's content past the end": changed(content=HUGE),
}


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("content", RECORDS.values(), ids=RECORDS)
def test_records_that_cannot_be(content: bytes, codec: int) -> None:
    (batch,) = read(v2([ONE, TWO], content=content, codec=codec))
    batch.check()
    with pytest.raises(WireError, match=r"batch at offset 41|number of a record"):
        decode_records(batch)


@pytest.mark.parametrize("content", INSIDE.values(), ids=INSIDE)
def test_a_record_that_cannot_be(content: bytes) -> None:
    (batch,) = read(v2([ONE], content=content))
    with pytest.raises(WireError):
        decode_records(batch)


@pytest.mark.parametrize("count", [0, 1, 3, (1 << 31) - 1])
def test_a_count_that_is_not_true(count: int) -> None:
    (batch,) = read(v2([ONE, TWO], count=count))
    with pytest.raises(WireError):
        decode_records(batch)


def outer(plain: bytes, magic: int = 1, codec: int = 1, offset: int = 44) -> bytes:
    return message(Record(offset, NOW, None, compress(plain, codec), ()), magic, codec)


INNER = message(ONE._replace(offset=0), 1)
MESSAGES = {
    "a key past the end": message(ONE, 1)[:26] + b"\x7f\xff\xff\xff" + message(ONE, 1)[30:],
    "a value past the end": message(ONE, 1)[:31] + b"\0\0\0\x02" + message(ONE, 1)[35:],
    "bytes behind its value": message(ONE, 1)[:31] + b"\0\0\0\0" + message(ONE, 1)[35:],
    "a wrapper of nothing": outer(b""),
    "a wrapper of null": message(ONE._replace(value=None), 1, 1),
    "a wrapper of garbage": message(ONE, 1, 1),
    "a wrapper of half a message": outer(INNER[:-1]),
    "a wrapper of one and a half": outer(INNER + INNER[:20]),
    "a wrapper in a wrapper": outer(outer(INNER)),
    "another magic within": outer(message(ONE, 0)),
    "a batch within": outer(v2([ONE])),
    "a wrong checksum within": outer(INNER[:-1] + b"\xee"),
    "a higher offset within": outer(message(ONE._replace(offset=45), 1)),
    "zstd": outer(INNER, codec=4),
    "an unknown codec": message(ONE, 1, 5),
}


@pytest.mark.parametrize("log", MESSAGES.values(), ids=MESSAGES)
def test_messages_that_cannot_be(log: bytes) -> None:
    with pytest.raises(WireError):
        decoded(log)
