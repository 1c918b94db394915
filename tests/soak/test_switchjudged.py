"""What is said of clients and logs with a fault in them. The soak of switches trusts this."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.soak.switchjudged import Epoch, Log, batched, counted, doubled, read, shared, the_same, written

COUNT = 20
BLUE = [(number, number * 2) for number in range(COUNT)], [(number, number * 2 + 1) for number in range(COUNT)]
GREEN = [[(offset + 7, number) for offset, number in log] for log in BLUE]
LOGS = {"blue": [log[:12] for log in BLUE], "green": GREEN}
ACKED = [f"acked {number} {number % 2} 0" for number in range(COUNT * 2)]
LED = Epoch("blue", "green", {0: 8, 1: 12}, 20)


def wrote(lines: Sequence[str], logs: Sequence[Log] = GREEN, *, exact: bool = True) -> str:
    return "; ".join(written(lines, logs, exact=exact))


def got(partition: int, log: Log, first: int, end: int) -> list[str]:
    return [f"got {partition} {offset} {number}" for offset, number in log[first:end]]


def heard(zero: int = 8, one: int = 12, until: int = COUNT) -> str:
    """What is wrong with a consumer that has read ten records of each partition of blue, and goes on at these places
    of green."""
    lines = [*got(0, BLUE[0], 0, 10), *got(1, BLUE[1], 0, 10), "lost 0 1", *got(1, BLUE[1], 10, 12)]
    lines += [*got(0, GREEN[0], zero, until), *got(1, GREEN[1], one, COUNT)]
    return "; ".join(read(lines, LOGS, "green", [LED]))


def test_all_as_it_should_be() -> None:
    assert wrote(ACKED) == ""
    assert heard() == ""
    assert list(the_same(LOGS, "green")) == []


def test_what_was_not_acknowledged_may_be_there_or_not() -> None:
    assert wrote(ACKED[:-3]) == ""
    assert wrote(ACKED[:-2], [GREEN[0][:-1], GREEN[1]]) == ""


def test_a_record_that_is_lost() -> None:
    assert wrote(ACKED, [GREEN[0][:5] + GREEN[0][6:], GREEN[1]]) == "1 acknowledged and lost: [10]"


def test_a_record_that_is_there_twice() -> None:
    logs = [[*GREEN[0], (40, 38)], GREEN[1]]
    assert "1 there more than once: [38]" in wrote(ACKED, logs)
    assert wrote(ACKED, logs, exact=False) == ""
    assert doubled(logs) == 1


def test_records_out_of_order() -> None:
    log = [(offset, number) for (offset, _), (_, number) in zip(GREEN[0], [*GREEN[0][1:], GREEN[0][0]], strict=True)]
    assert wrote(ACKED, [log, GREEN[1]]) == "partition 0 is out of order: [(38, 0)]"
    assert wrote(ACKED, [log, GREEN[1]], exact=False) == ""


def test_transactions() -> None:
    fine = [*ACKED, "committed 0 29", "aborted 30 34 Error", "committed 35 39"]
    logs = [[one for one in log if not 30 <= one[1] < 35] for log in GREEN]
    assert wrote(fine, logs) == ""
    assert "the transaction of 30 to 34 was aborted, and [30, 31, 32, 33, 34] are there" in wrote(fine)
    assert wrote(fine[:-1], logs) == "5 of no committed transaction: [35, 36, 37, 38, 39]"
    assert wrote([*fine, "committed 40 44"], logs) == "5 acknowledged and lost: [40, 41, 42, 43, 44]"


def test_clusters_that_differ() -> None:
    other = {"blue": [BLUE[0][:4] + BLUE[0][5:], BLUE[1]], "green": GREEN}
    assert list(the_same(other, "green")) == [
        "partition 0: blue has [10, 12, 14, 16, 18] at 4, green [8, 10, 12, 14, 16]"
    ]
    longer = {"blue": [[*BLUE[0], (20, 40)], BLUE[1]], "green": GREEN}
    assert list(the_same(longer, "green")) == ["partition 0: blue has [40] at 20, green []"]


@pytest.mark.parametrize(("zero", "said"), [(9, "(16, 18)"), (7, "(14, 14)")])
def test_a_group_that_goes_on_elsewhere(zero: int, said: str) -> None:
    assert (
        heard(zero)
        == f"partition 0: on green it began with {said} (offset, number), not with (15, 16): its group was at 8 on blue"
    )


def test_a_gap_and_an_end_that_is_missing() -> None:
    assert "partition 0: got 11, and before it 9 at most" in heard(11)
    assert heard(until=COUNT - 2) == "partition 0: got records up to 17 of 20"


def test_a_record_that_is_nowhere() -> None:
    lines = ["got 0 99 4"]
    assert "got 4 of partition 0 at offset 99, which is nowhere" in "; ".join(read(lines, LOGS, "green", []))


def test_a_share_group() -> None:
    log, lines = [[(offset, number) for number, offset in enumerate(range(7, 12))]], ["got 0 8 1", "got 0 7 0"]
    again = ["got 0 8 1", "got 0 3 4", "got 0 10 3", "got 0 9 2"]
    assert list(shared(lines + again, log)) == []
    assert list(shared(lines, log)) == ["3 never came: [2, 3, 4]"]
    assert list(shared([*lines, *again, "got 0 9 9"], log)) == ["1 came, and are nowhere: [9]"]


def test_counts() -> None:
    assert list(counted([[], [(3, 1), (5, 2), (6, 3)]], 3)) == []
    assert list(counted([[(3, 1), (5, 2)]], 3)) == ["2 counts of 3 records; from the one at 2 on: []"]
    assert list(counted([[(3, 1), (5, 1), (6, 2)]], 3)) == ["3 counts of 3 records; from the one at 1 on: [1, 2]"]


def test_batches_of_a_query() -> None:
    assert list(batched({0: [(0, 0), (1, 1)], 1: [(0, 2), (1, 3)]}, [log[:2] for log in BLUE])) == []
    assert list(batched({0: [(0, 0)], 2: [(0, 4), (0, 4)]}, [BLUE[0][:3]])) == [
        "partition 0: left out [2], too much [4]"
    ]
