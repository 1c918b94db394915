"""The first difference of a partition, exactly: which record, which field, what each side has. Pure.

Bytes are shown by their number and the beginning of their SHA-256, unless they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kproxy.base.printable import escaped, one_line
from kproxy.migrate.verify.pieces import Run

MISSING, EXTRA, DOUBLED, ORDER = "missing", "extra", "doubled", "order"
NOT_COPIED, NEITHER, PARTITION = "not copied", "missing on both sides", "partition"
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class BytesDigest:
    """Some bytes, by their length and a hash; `head` has the first ones if they may be shown."""

    length: int
    hash: str
    head: bytes | None = None

    def __str__(self) -> str:
        said = f"{self.length} bytes"
        if not self.length:
            return said
        if self.head is None:
            return f"{said}, sha256 {self.hash}…"
        return f"{said}, {self.head!r}{'…' if len(self.head) < self.length else ''}"


@dataclass(frozen=True, slots=True)
class RecordDigest:
    """One record as one side has it. `timestamp` in microseconds, as Spark has it."""

    offset: int
    timestamp: int
    key: BytesDigest | None
    value: BytesDigest | None
    headers: tuple[tuple[str, BytesDigest | None], ...] = ()

    @property
    def content(self) -> tuple[object, ...]:
        return self.timestamp, self.key, self.value, self.headers

    def __str__(self) -> str:
        return f"key {format_bytes(self.key)}; value {format_bytes(self.value)}; timestamp {_ms(self.timestamp)}"


def format_bytes(data: BytesDigest | None) -> str:
    """Null is told from empty."""
    return "null" if data is None else str(data)


def _ms(timestamp: int) -> str:
    return f"{timestamp // 1000} ms"


@dataclass(frozen=True, slots=True)
class Difference:
    """`field`: "key", "value", "timestamp", "header 3", or what is wrong with the record as a whole. `position`: the
    offset on the source up to which everything is the same."""

    topic: str
    partition: int
    target_topic: str
    field: str
    position: int
    source_offset: int | None
    target_offset: int | None
    source: str = ""
    target: str = ""
    content: tuple[object, ...] = ()

    def __str__(self) -> str:
        at = "–" if self.source_offset is None else str(self.source_offset)
        there = "–" if self.target_offset is None else str(self.target_offset)
        renamed = f" of {escaped(self.target_topic)}" if self.target_topic != self.topic else ""
        where = f"{escaped(self.topic)}/{self.partition}: source offset {at}, target offset {there}{renamed}"
        return f"{where}: {self.field}: source {self.source or 'has none'}, target {self.target or 'has none'}"


def differing_fields(one: RecordDigest, other: RecordDigest) -> Iterator[tuple[str, str, str]]:
    """In what two records differ: the field, and what it is on each side."""
    if one.key != other.key:
        yield "key", format_bytes(one.key), format_bytes(other.key)
    if one.value != other.value:
        yield "value", format_bytes(one.value), format_bytes(other.value)
    if one.headers != other.headers:
        yield _headers(one.headers, other.headers)
    if one.timestamp != other.timestamp:
        yield "timestamp", _ms(one.timestamp), _ms(other.timestamp)


Headers = Sequence[tuple[str, BytesDigest | None]]


def _headers(one: Headers, other: Headers) -> tuple[str, str, str]:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    same = sorted(map(str, one)) == sorted(map(str, other))
    return f"header {at}{' (order)' if same else ''}", _header(one, at), _header(other, at)


def _header(headers: Headers, at: int) -> str:
    if at >= len(headers):
        return f"has {len(headers)} headers"
    name, value = headers[at]
    return f"{one_line(name, _LONGEST_NAME)} = {format_bytes(value)}"


class RecordComparison:
    """The records of some range on both sides, which the runs of the map lead from one to the other."""

    def __init__(
        self,
        where: tuple[str, int, str],
        runs: Iterable[Run],
        source: Iterable[RecordDigest],
        target: Iterable[RecordDigest],
    ):
        self._where = where
        self._source = sorted(source, key=lambda seen: seen.offset)
        self._target = sorted(target, key=lambda seen: seen.offset)
        self._runs = list(runs)
        self._left = {seen.offset: seen for seen in self._source}
        self._right = {seen.offset: seen for seen in self._target}

    def first(self) -> Difference | None:
        """The first difference in the order of the target; None if there is none."""
        for _, _, at, there in sorted(self._places()):
            one = self._left.get(at) if at is not None else None
            other = self._right.get(there) if there is not None else None
            if one is not None and other is not None:
                if one.content != other.content:
                    return self._classified(one, other)
            elif found := self._alone(at, there, one, other):
                return found
        return None

    def _places(self) -> Iterator[tuple[int, int, int | None, int | None]]:
        """Each record of the map, of the source and of the target, once, with what sorts it."""
        known: set[int] = set()
        there: set[int] = set()
        ends = sorted(self._runs)
        for source, target, count in ends:
            for i in range(count):
                known.add(source + i)
                there.add(target + i)
                yield target + i, 1, source + i, target + i
        at = 0
        for seen in self._source:
            if seen.offset not in known:
                while at < len(ends) and ends[at][0] < seen.offset:
                    at += 1
                next_target = ends[at][1] if at < len(ends) else 1 << 62
                yield next_target, 0, seen.offset, None
        for seen in self._target:
            if seen.offset not in there:
                yield seen.offset, 1, None, seen.offset

    def _alone(
        self, at: int | None, there: int | None, one: RecordDigest | None, other: RecordDigest | None
    ) -> Difference | None:
        """One of the sides, or the map, does not have the record."""
        if at is None:
            assert other is not None
            return self._made(self._kind_of_extra(other), None, there, other=other)
        if there is None:
            return self._made(NOT_COPIED, at, None, one)
        if other is not None:
            return self._made(EXTRA, at, there, other=other)
        return self._made(NEITHER if one is None else MISSING, at, there, one)

    def _kind_of_extra(self, other: RecordDigest) -> str:
        twins = sum(seen.content == other.content for seen in self._target)
        return DOUBLED if twins > sum(seen.content == other.content for seen in self._source) > 0 else EXTRA

    def _classified(self, one: RecordDigest, other: RecordDigest) -> Difference:
        """Two records that should be the same. If one of them is right elsewhere, the record was lost, doubled or
        moved, and it is not its fields that are wrong."""
        at, there = self._source.index(one), self._target.index(other)
        lefts = [seen.content for seen in self._source[at + 1 :]]
        rights = [seen.content for seen in self._target[there + 1 :]]
        if lefts[:1] != rights[:1] or not lefts:
            later, sooner = one.content in rights, other.content in lefts
            if later and sooner:
                target_at = self._target[there + 1 + rights.index(one.content)].offset
                found = self._made(ORDER, one.offset, other.offset, one, other)
                return replace(found, source=f"{one}; on the target it is at {target_at}")
            if sooner:
                return self._made(MISSING, one.offset, other.offset, one, None)
            if later:
                return self._made(self._kind_of_extra(other), one.offset, other.offset, None, other)
        differing = list(differing_fields(one, other))
        field, left, right = differing[0]
        found = self._made(field, one.offset, other.offset, one, other)
        more = f" (also: {', '.join(name for name, _, _ in differing[1:])})" if differing[1:] else ""
        return replace(found, source=left, target=right + more)

    def _made(
        self,
        field: str,
        at: int | None,
        there: int | None,
        one: RecordDigest | None = None,
        other: RecordDigest | None = None,
    ) -> Difference:
        position = at
        if position is None:
            assert there is not None
            after = [source for source, target, _ in self._runs if target > there]
            inside = [s + there - t for s, t, n in self._runs if t <= there < t + n]
            position = min(inside + after, default=max((s + n for s, _, n in self._runs), default=-1))
        topic, partition, target_topic = self._where
        content = one.content if one is not None else other.content if other is not None else ()
        return Difference(
            topic,
            partition,
            target_topic,
            field,
            position,
            at,
            there,
            "" if one is None else str(one),
            "" if other is None else str(other),
            content,
        )


def match_moved(found: Sequence[Difference]) -> list[Difference]:
    """A record that one partition lacks, and that another one has too many, is in the wrong partition."""
    made = list(found)
    extra = {(one.target_topic, one.content): one for one in found if one.field == EXTRA}
    for at, one in enumerate(made):
        other = extra.get((one.target_topic, one.content))
        if one.field in (MISSING, NOT_COPIED) and other is not None:
            place = f"{one.source}; on the target it is in partition {other.partition} at {other.target_offset}"
            made[at] = replace(one, field=PARTITION, source=place)
    return made
