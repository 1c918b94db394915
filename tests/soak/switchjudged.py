"""What clients have said, against what is in the logs of both clusters, after switches there and back. Pure.

Both clusters have the same records in the same order, at other offsets. The one that clients have left may end earlier.
So a record has a place, which is the same on both: how many records of its partition are before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Log = Sequence[tuple[int, int]]
"""Of one partition on one cluster: offset and number of each committed record."""
Logs = Mapping[str, Sequence[Log]]
"""Of one topic: for each cluster, its partitions."""
_MOST = 10


@dataclass(frozen=True)
class Epoch:
    """Clients were led from `former` to `to`. `began`: for each partition, the offset on `former` at which the group
    was when it left. `since`: how many lines its consumer had said before."""

    former: str
    to: str
    began: Mapping[int, int]
    since: int


def the_same(logs: Logs, active: str) -> Iterator[str]:
    """The other clusters have what the active one has, up to some place."""
    for cluster, partitions in logs.items():
        for at, log in enumerate(partitions):
            there, whole = [one[1] for one in log], [one[1] for one in logs[active][at]]
            if there != whole[: len(there)]:
                place = next((n for n, (a, b) in enumerate(zip(there, whole, strict=False)) if a != b), len(whole))
                yield f"partition {at}: {cluster} has {there[place:][:5]} at {place}, {active} {whole[place:][:5]}"


def written(lines: Sequence[str], logs: Sequence[Log], *, exact: bool) -> Iterator[str]:
    """What is wrong with what a producer wrote, by the logs of the active cluster."""
    found = Counter(number for log in logs for _, number in log)
    acked = {int(words[1]) for words in _words(lines, "acked")}
    kept = acked
    committed = [(int(words[1]), int(words[2])) for words in _words(lines, "committed")]
    aborted = [(int(words[1]), int(words[2])) for words in _words(lines, "aborted")]
    if committed or aborted:
        kept = {number for first, last in committed for number in range(first, last + 1)}
        for first, last in aborted:
            if there := [number for number in range(first, last + 1) if number in found]:
                yield f"the transaction of {first} to {last} was aborted, and {there} are there"
        yield from _some("of no committed transaction", found.keys() - kept)
    yield from _some("acknowledged and lost", kept - found.keys())
    if exact:
        yield from _some("there more than once", {number for number, count in found.items() if count > 1})
        for at, log in enumerate(logs):
            wrong = [pair for pair in pairwise(number for _, number in log) if pair[0] >= pair[1]]
            if wrong:
                yield f"partition {at} is out of order: {wrong[:_MOST]}"


def doubled(logs: Sequence[Log]) -> int:
    """How many records are there more than once."""
    found = Counter(number for log in logs for _, number in log)
    return sum(count - 1 for count in found.values())


def read(lines: Sequence[str], logs: Logs, active: str, epochs: Sequence[Epoch]) -> Iterator[str]:
    """What is wrong with what a consumer got, from a topic in which each number is once: whatever happens, it leaves
    nothing out, and after each switch it goes on at the very place at which its group was."""
    places = {
        (at, number): place for at, log in enumerate(logs[active]) for place, (_, number) in enumerate(log)
    }  # fmt: skip
    offsets = {
        name: {(at, *one) for at, log in enumerate(partitions) for one in log} for name, partitions in logs.items()
    }  # fmt: skip
    highest = [-1] * len(logs[active])
    got: list[tuple[int, int, int] | None] = []  # one for each line
    for line in lines:
        words = line.split(" ")
        got.append((int(words[1]), int(words[2]), int(words[3])) if words[0] == "got" else None)
    for one in filter(None, got):
        at, offset, number = one
        place = places.get((at, number))
        if place is None or not any(one in there for there in offsets.values()):
            yield f"got {number} of partition {at} at offset {offset}, which is nowhere"
            continue
        if place > highest[at] + 1:
            yield f"partition {at}: got {place}, and before it {highest[at]} at most"
        highest[at] = max(highest[at], place)
    for at, log in enumerate(logs[active]):
        if highest[at] != len(log) - 1:
            yield f"partition {at}: got records up to {highest[at]} of {len(log)}"
    for epoch, following in zip(epochs, [*epochs[1:], None], strict=False):
        part = [one for one in got[epoch.since : following.since if following else None] if one is not None]
        for at, offset in epoch.began.items():
            yield from _went_on(epoch, at, offset, [one for one in part if one[0] == at], logs, offsets)


def shared(lines: Sequence[str], log: Sequence[Log]) -> Iterator[str]:
    """What is wrong with what a member of a share group got: it may get a record again, and leaves none out."""
    got = {int(words[3]) for words in _words(lines, "got")}
    there = {number for one in log for _, number in one}
    yield from _some("never came", there - got)
    yield from _some("came, and are nowhere", got - there)


def counted(output: Sequence[Log], records: int) -> Iterator[str]:
    """What is wrong with the counts of an application that counts each record exactly once, in one partition."""
    counts = [number for log in output for _, number in log]
    if counts != list(range(1, records + 1)):
        place = next((at for at, one in enumerate(counts) if one != at + 1), len(counts))
        yield f"{len(counts)} counts of {records} records; from the one at {place} on: {counts[place:][:_MOST]}"


def batched(batches: Mapping[int, Sequence[tuple[int, int]]], logs: Sequence[Log]) -> Iterator[str]:
    """What is wrong with the batches of a query: (partition, number) of each record. Together they have each record
    once. A batch that was run again has replaced itself."""
    found: list[list[int]] = [[] for _ in logs]
    for _, batch in sorted(batches.items()):
        for partition, number in batch:
            found[partition].append(number)
    for at, log in enumerate(logs):
        wanted = [number for _, number in log]
        if sorted(found[at]) != sorted(wanted):
            lost, doubled = Counter(wanted) - Counter(found[at]), Counter(found[at]) - Counter(wanted)
            yield f"partition {at}: left out {sorted(lost)[:_MOST]}, too much {sorted(doubled)[:_MOST]}"


def _went_on(
    epoch: Epoch, at: int, offset: int, got: Sequence[tuple[int, int, int]], logs: Logs,
    offsets: Mapping[str, set[tuple[int, int, int]]],
) -> Iterator[str]:  # fmt: skip
    """The first record that can only be of the new cluster is the first such one from the group's place on."""
    place = bisect_left(logs[epoch.former][at], (offset, -1))
    only = [(at, *one) not in offsets[epoch.former] for one in logs[epoch.to][at]]
    wanted = next((log for log, alone in zip(logs[epoch.to][at][place:], only[place:], strict=True) if alone), None)
    first = next((one for one in got if one in offsets[epoch.to] and one not in offsets[epoch.former]), None)
    if first is not None and first[1:] != wanted:
        yield (
            f"partition {at}: on {epoch.to} it began with {first[1:]} (offset, number), not with {wanted}: its group"
            f" was at {offset} on {epoch.former}"
        )


def _words(lines: Sequence[str], word: str) -> Iterator[list[str]]:
    return (found for line in lines if (found := line.split(" "))[0] == word)


def _some(what: str, numbers: set[int]) -> Iterator[str]:
    if numbers:
        yield f"{len(numbers)} {what}: {sorted(numbers)[:_MOST]}"
