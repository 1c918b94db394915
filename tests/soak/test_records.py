"""What a log with a fault in it is called. A chaos run trusts this."""

from __future__ import annotations

import pytest

from tests.soak.records import Account, Audit, record

COUNT = 400

Row = tuple[int, bytes, bytes]


def log(partition: int) -> list[Row]:
    return [(number, *record("t", partition, number)) for number in range(COUNT)]


def sent() -> Account:
    account = Account("t", 2)
    for partition in (0, 1):
        for number in range(COUNT):
            account.acknowledge(partition, number, number)
    return account


def audited(first: list[Row], second: list[Row]) -> list[str]:
    audit = Audit(sent())
    for partition, rows in enumerate((first, second)):
        for row in rows:
            audit.add(partition, *row)
    return audit.problems()


def test_a_log_as_it_should_be() -> None:
    assert audited(log(0), log(1)) == []
    assert sent().problems == []


def test_records_differ_and_some_are_large() -> None:
    rows = [value for partition in (0, 1) for _, _, value in log(partition)]
    assert len(set(rows)) == len(rows)
    assert max(map(len, rows)) > 16_384
    assert min(map(len, rows)) < 10


def spoilt(how: str) -> list[Row]:
    rows = log(0)
    match how:
        case "lost":
            del rows[17]
        case "twice":
            rows.insert(18, rows[17])
        case "swapped":
            rows[17], rows[18] = rows[18], rows[17]
        case "of another partition":
            rows[17] = log(1)[17]
        case "one bit":
            offset, key, value = rows[17]
            rows[17] = offset, key, value[:-1] + bytes([value[-1] ^ 1])
        case "key":
            rows[17] = rows[17][0], b"another", rows[17][2]
        case "the last one":
            rows.pop()
        case "never sent":
            rows.append((COUNT, *record("t", 0, COUNT)))
    return [(offset, key, value) for offset, (_, key, value) in enumerate(rows)]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("lost", "1 missing: [17]"),
        ("twice", "1 more than once: ['t/0/17']"),
        ("swapped", "record 17 should stand where 't/0/18' is"),
        ("of another partition", "1 never acknowledged: ['t/1/17']"),
        ("one bit", "record 17 should stand where 't/0/17' is"),
        ("key", "record 17 should stand where 't/0/17' is"),
        ("the last one", f"1 missing: [{COUNT - 1}]"),
        ("never sent", f"1 never acknowledged: ['t/0/{COUNT}']"),
    ],
)
def test_a_log_with_a_fault(how: str, words: str) -> None:
    found = audited(spoilt(how), log(1))
    assert any(words in line.replace('b"', "'").replace("b'", "'") for line in found), found
    assert not any("partition 1" in line for line in found)


def test_what_a_producer_is_told() -> None:
    account = Account("t", 1)
    account.acknowledge(0, 0, 0)
    account.acknowledge(0, 1, None)  # a repeated one, and the broker does not say where
    account.acknowledge(0, 2, -1001)
    assert account.problems == []
    account.acknowledge(0, 3, 0)
    assert account.problems == ["t: record 3 of partition 0 was acknowledged at offset 0"]


def test_what_a_group_reads() -> None:
    account = Account("t", 1)
    account.acknowledged = [4]
    for offset in (0, 1, 0, 1, 2):  # after a rebalance, some of it again
        account.consume(0, offset, *record("t", 0, offset))
    assert account.problems == []
    assert account.unread() == 1
    account.consume(0, 4, *record("t", 0, 4))
    assert account.problems == ["t: the group left out offsets 3 to 3 of partition 0"]
    account.consume(0, 3, *record("t", 0, 4))
    assert "a consumer read" in account.problems[1]


def test_problems_are_bounded() -> None:
    account = Account("t", 1)
    for number in range(1000):
        account.acknowledge(0, number, 5000)
    assert len(account.problems) == 20
