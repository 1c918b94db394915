"""The first difference of a partition: the record, the field, and the value on each side. Pure.

Bytes are shown as their number and the beginning of their SHA-256, unless the user asks for the bytes.
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
    """Some bytes, as their length and hash; `head` has the first ones if they may be shown."""

    length: int
    hash: str
    head: bytes | None = None

    def __str__(self) -> str:
        text = f"{self.length} bytes"
        if not self.length:
            return text
        if self.head is None:
            return f"{text}, sha256 {self.hash}…"
        return f"{text}, {self.head!r}{'…' if len(self.head) < self.length else ''}"


@dataclass(frozen=True, slots=True)
class RecordDigest:
    """One record of one side. `timestamp` is in microseconds, as Spark has it."""

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
    """Return the text for bytes; null differs from empty."""
    return "null" if data is None else str(data)


def _ms(timestamp: int) -> str:
    return f"{timestamp // 1000} ms"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of one record."""

    topic: str
    partition: int
    target_topic: str
    field: str
    """"key", "value", "timestamp", "header 3", or what is wrong with the whole record."""
    position: int
    """Source offset up to which both sides are equal."""
    source_offset: int | None
    target_offset: int | None
    source: str = ""
    target: str = ""
    content: tuple[object, ...] = ()

    def __str__(self) -> str:
        source_offset = "–" if self.source_offset is None else str(self.source_offset)
        target_offset = "–" if self.target_offset is None else str(self.target_offset)
        renamed = f" of {escaped(self.target_topic)}" if self.target_topic != self.topic else ""
        offsets = f"source offset {source_offset}, target offset {target_offset}{renamed}"
        location = f"{escaped(self.topic)}/{self.partition}: {offsets}"
        return f"{location}: {self.field}: source {self.source or 'has none'}, target {self.target or 'has none'}"


def differing_fields(source: RecordDigest, target: RecordDigest) -> Iterator[tuple[str, str, str]]:
    """Yield the fields in which two records differ, with both values."""
    if source.key != target.key:
        yield "key", format_bytes(source.key), format_bytes(target.key)
    if source.value != target.value:
        yield "value", format_bytes(source.value), format_bytes(target.value)
    if source.headers != target.headers:
        yield _headers(source.headers, target.headers)
    if source.timestamp != target.timestamp:
        yield "timestamp", _ms(source.timestamp), _ms(target.timestamp)


Headers = Sequence[tuple[str, BytesDigest | None]]


def _headers(source: Headers, target: Headers) -> tuple[str, str, str]:
    index = next(
        (i for i, (a, b) in enumerate(zip(source, target, strict=False)) if a != b), min(len(source), len(target))
    )
    same = sorted(map(str, source)) == sorted(map(str, target))
    return f"header {index}{' (order)' if same else ''}", _header(source, index), _header(target, index)


def _header(headers: Headers, index: int) -> str:
    if index >= len(headers):
        return f"has {len(headers)} headers"
    name, value = headers[index]
    return f"{one_line(name, _LONGEST_NAME)} = {format_bytes(value)}"


class RecordComparison:
    """A comparison of the records of a range on both sides, which the runs of the map relate."""

    def __init__(
        self,
        partition_names: tuple[str, int, str],
        runs: Iterable[Run],
        source: Iterable[RecordDigest],
        target: Iterable[RecordDigest],
    ):
        self._partition_names = partition_names
        self._source = sorted(source, key=lambda record: record.offset)
        self._target = sorted(target, key=lambda record: record.offset)
        self._runs = list(runs)
        self._source_by_offset = {record.offset: record for record in self._source}
        self._target_by_offset = {record.offset: record for record in self._target}

    def first(self) -> Difference | None:
        """Return the first difference in the order of the target, or None."""
        for _, _, source_offset, target_offset in sorted(self._places()):
            source = self._source_by_offset.get(source_offset) if source_offset is not None else None
            target = self._target_by_offset.get(target_offset) if target_offset is not None else None
            if source is not None and target is not None:
                if source.content != target.content:
                    return self._classify(source, target)
            elif difference := self._one_sided(source_offset, target_offset, source, target):
                return difference
        return None

    def _places(self) -> Iterator[tuple[int, int, int | None, int | None]]:
        """Yield the offsets of each record of the map, the source and the target once, with their sort keys."""
        source_offsets: set[int] = set()
        target_offsets: set[int] = set()
        sorted_runs = sorted(self._runs)
        for source, target, count in sorted_runs:
            for i in range(count):
                source_offsets.add(source + i)
                target_offsets.add(target + i)
                yield target + i, 1, source + i, target + i
        run_index = 0
        for record in self._source:
            if record.offset not in source_offsets:
                while run_index < len(sorted_runs) and sorted_runs[run_index][0] < record.offset:
                    run_index += 1
                next_target = sorted_runs[run_index][1] if run_index < len(sorted_runs) else 1 << 62
                yield next_target, 0, record.offset, None
        for record in self._target:
            if record.offset not in target_offsets:
                yield record.offset, 1, None, record.offset

    def _one_sided(
        self,
        source_offset: int | None,
        target_offset: int | None,
        source: RecordDigest | None,
        target: RecordDigest | None,
    ) -> Difference | None:
        """Return the difference for a record that a side or the map lacks."""
        if source_offset is None:
            assert target is not None
            return self._difference(self._kind_of_extra(target), None, target_offset, target=target)
        if target_offset is None:
            return self._difference(NOT_COPIED, source_offset, None, source)
        if target is not None:
            return self._difference(EXTRA, source_offset, target_offset, target=target)
        return self._difference(NEITHER if source is None else MISSING, source_offset, target_offset, source)

    def _kind_of_extra(self, target: RecordDigest) -> str:
        twins = sum(record.content == target.content for record in self._target)
        return DOUBLED if twins > sum(record.content == target.content for record in self._source) > 0 else EXTRA

    def _classify(self, source: RecordDigest, target: RecordDigest) -> Difference:
        """Return the difference of two records that should be equal.

        If one of them is equal to another record, it was lost, doubled or moved, and its fields are not wrong.
        """
        source_index, target_index = self._source.index(source), self._target.index(target)
        later_source = [record.content for record in self._source[source_index + 1 :]]
        later_target = [record.content for record in self._target[target_index + 1 :]]
        if later_source[:1] != later_target[:1] or not later_source:
            moved_later, moved_sooner = source.content in later_target, target.content in later_source
            if moved_later and moved_sooner:
                target_at = self._target[target_index + 1 + later_target.index(source.content)].offset
                difference = self._difference(ORDER, source.offset, target.offset, source, target)
                return replace(difference, source=f"{source}; on the target it is at {target_at}")
            if moved_sooner:
                return self._difference(MISSING, source.offset, target.offset, source, None)
            if moved_later:
                return self._difference(self._kind_of_extra(target), source.offset, target.offset, None, target)
        differing = list(differing_fields(source, target))
        field, source_text, target_text = differing[0]
        difference = self._difference(field, source.offset, target.offset, source, target)
        more = f" (also: {', '.join(name for name, _, _ in differing[1:])})" if differing[1:] else ""
        return replace(difference, source=source_text, target=target_text + more)

    def _difference(
        self,
        field: str,
        source_offset: int | None,
        target_offset: int | None,
        source: RecordDigest | None = None,
        target: RecordDigest | None = None,
    ) -> Difference:
        position = source_offset
        if position is None:
            assert target_offset is not None
            after = [source for source, target, _ in self._runs if target > target_offset]
            inside = [s + target_offset - t for s, t, n in self._runs if t <= target_offset < t + n]
            position = min(inside + after, default=max((s + n for s, _, n in self._runs), default=-1))
        topic, partition, target_topic = self._partition_names
        content = source.content if source is not None else target.content if target is not None else ()
        return Difference(
            topic=topic,
            partition=partition,
            target_topic=target_topic,
            field=field,
            position=position,
            source_offset=source_offset,
            target_offset=target_offset,
            source="" if source is None else str(source),
            target="" if target is None else str(target),
            content=content,
        )


def match_moved(differences: Sequence[Difference]) -> list[Difference]:
    """Replace a missing and an extra record with equal content by one difference: the wrong partition."""
    matched = list(differences)
    extra = {
        (difference.target_topic, difference.content): difference
        for difference in differences
        if difference.field == EXTRA
    }
    for index, difference in enumerate(matched):
        counterpart = extra.get((difference.target_topic, difference.content))
        if difference.field in (MISSING, NOT_COPIED) and counterpart is not None:
            where = f"partition {counterpart.partition} at {counterpart.target_offset}"
            place = f"{difference.source}; on the target it is in {where}"
            matched[index] = replace(difference, field=PARTITION, source=place)
    return matched
