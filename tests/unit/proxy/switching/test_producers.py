"""How a producer writes, told by the beginning of its requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.proxy.switching.producers import ProducerKind, producer_kind

PRODUCER_ID_AT = 43


def batch(producer_id: int, magic: int = 2) -> bytes:
    made = bytearray(100)
    made[16] = magic
    made[PRODUCER_ID_AT : PRODUCER_ID_AT + 8] = producer_id.to_bytes(8, "big", signed=True)
    return bytes(made)


def request(version: int, records: bytes, transactional_id: bytes | None = None, client_id: bytes = b"app") -> bytes:
    """A Produce request of one batch."""

    def text(value: bytes | None) -> bytes:
        if version >= 9:
            return bytes([0 if value is None else len(value) + 1]) + (value or b"")
        return (-1 if value is None else len(value)).to_bytes(2, "big", signed=True) + (value or b"")

    def count(number: int) -> bytes:
        return bytes([number + 1]) if version >= 9 else number.to_bytes(4, "big")

    topic = bytes(16) if version >= 13 else text(b"orders")
    body = b"".join(
        (
            len(client_id).to_bytes(2, "big"), client_id, b"\0" if version >= 9 else b"",
            text(transactional_id) if version >= 3 else b"", (-1).to_bytes(2, "big", signed=True),
            (30_000).to_bytes(4, "big"), count(1), topic, count(1), bytes(4), count(len(records)), records, b"\0\0\0",
        )
    )  # fmt: skip
    head = version.to_bytes(4, "big") + (7).to_bytes(4, "big")
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


VERSIONS = (3, 7, 8, 9, 12, 13)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("records", "transactional_id", "found"),
    [
        (batch(-1), None, ProducerKind.PLAIN),
        (batch(0), None, ProducerKind.IDEMPOTENT),
        (batch(4711), None, ProducerKind.IDEMPOTENT),
        (batch(4711), b"tx", ProducerKind.TRANSACTIONAL),
        (batch(4711), b"", ProducerKind.IDEMPOTENT),
        (batch(4711, magic=1), None, ProducerKind.PLAIN),
        (b"x" * 20, None, None),
        (b"", None, None),
    ],
)
def test_it_is_told(version: int, records: bytes, transactional_id: bytes | None, found: ProducerKind | None) -> None:
    made = request(version, records, transactional_id)
    assert producer_kind(made, 0, len(made), version) is found
    assert producer_kind(b"before" + made, 6, 6 + len(made), version) is found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_beginning_that_is_too_short_tells_nothing_or_the_same(version: int) -> None:
    made = request(version, batch(1))
    found = [producer_kind(made, 0, end, version) for end in range(12, len(made) + 1)]
    assert found[-1] is ProducerKind.IDEMPOTENT
    assert set(found) == {None, ProducerKind.IDEMPOTENT}
    assert found == sorted(found, key=lambda one: one is not None)


def test_before_version_3_there_was_nothing_else() -> None:
    made = request(2, batch(5))
    assert producer_kind(made, 0, len(made), 2) is ProducerKind.PLAIN


@given(st.binary(max_size=200), st.sampled_from(VERSIONS))
def test_nonsense_tells_something_or_nothing(data: bytes, version: int) -> None:
    made = bytes(12) + data
    assert producer_kind(made, 0, len(made), version) in {None, *ProducerKind}
    assert producer_kind(memoryview(made), 0, len(made), version) in {None, *ProducerKind}
