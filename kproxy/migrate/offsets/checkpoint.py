"""The checkpoint of a Spark structured streaming query, made anew for the target.

A checkpoint has, in files by the number of a batch, where each batch ends (`offsets`) and which batches are done
(`commits`); what the sources began with (`sources`); and what operators keep (`state`). kproxy translates the offsets
of Kafka sources, and copies everything else as it is.

A batch that is not done is run again, from the end of the one before to its own end. Both are translated, so it has
exactly the records that it had on the source.

A query that was not stopped before the switch has planned its last batch at the target: Spark asks where topics end,
and then can read nothing, as kproxy gives no records to who has a position of the source. Offsets of such a batch must
not be taken for the source's. They are noticed if they are beyond what is copied, or before the batch before.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kproxy.base.errors import ConfigError
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets.positions import Position, translate

# How Spark writes the end of a source that has none so far.
_NOTHING = "-"
_VERSION = "v1"
_NUMBER = re.compile(r"\d+")
_NEEDED = 2  # Spark reads the newest batch, and the one before

Offsets = Mapping[str, Mapping[str, int]]
CopiedPartitions = Mapping[tuple[str, int], CopiedPartition]


class _UntranslatableError(Exception):
    """In words."""


@dataclass(frozen=True, slots=True)
class TranslatedCheckpoint:
    """What the new checkpoint has. `batch`: the newest. `again`: whether it is run again. `left_out`: batches so old
    that their offsets cannot be translated; Spark does not need them. `topics`: old names and new ones."""

    batch: int
    rerun: bool
    left_out: tuple[int, ...]
    topics: Mapping[str, str]
    positions: tuple[Position, ...]


def kafka_offsets(line: str) -> Offsets | None:
    """Offsets of a Kafka source as Spark writes them, {"topic": {"0": 17}}; None for another kind of source."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, dict) or not said:
        return None
    for partitions in said.values():
        if not isinstance(partitions, dict) or not partitions:
            return None
        if not all(_NUMBER.fullmatch(index) and type(offset) is int for index, offset in partitions.items()):
            return None
    return said


def translate_offsets(
    offsets: Offsets, known: CopiedPartitions, seen: Callable[[Position], None]
) -> dict[str, dict[str, int]]:
    """The same on the target (pure). Raises ConfigError if one cannot be translated: no position may be left out."""
    found: dict[str, dict[str, int]] = {}
    for topic, partitions in offsets.items():
        for index, offset in partitions.items():
            position = translate(known, topic, int(index), offset)
            if position.target is None:
                raise _UntranslatableError(f"offset {offset} in partition {index} of {topic}: {position.text}")
            seen(position)
            found.setdefault(position.target_topic, {})[index] = position.target
    return found


def translate_batch(text: str, known: CopiedPartitions, seen: Callable[[Position], None]) -> str:
    """A file of `offsets` (pure): a version, a line about the batch, and one for each source."""
    lines = text.split("\n")
    if lines[0] != _VERSION:
        raise _UntranslatableError(f"its format is {lines[0][:20]!r}, and kproxy knows {_VERSION!r} only")
    sources = [line if (kafka := kafka_offsets(line)) is None else _line(kafka, known, seen) for line in lines[2:]]
    return "\n".join([*lines[:2], *sources])


def _line(offsets: Offsets, known: CopiedPartitions, seen: Callable[[Position], None]) -> str:
    return json.dumps(translate_offsets(offsets, known, seen), separators=(",", ":"))


def translate_checkpoint(old: str, new: str, known: CopiedPartitions) -> TranslatedCheckpoint:
    """Make the directory `new` from `old`, which stays as it is. Nothing is left of `new` if it cannot be done.

    Raises ConfigError.
    """
    source, target = _directory(old), _local(new)
    if target.exists():
        raise ConfigError(f"{new} is there already: name a directory that is not, kproxy never overwrites one")
    if target.resolve().is_relative_to(source.resolve()):
        raise ConfigError(f"{new} is inside {old}: name another directory")
    made, files = _translate(source, known)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(source, target, files, made.left_out)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise ConfigError(f"{error.filename or new}: {error.strerror or error}") from None
    return made


def kafka_partitions(old: str) -> set[tuple[str, int]]:
    """The partitions, by topic and number, of which the newest batches have an offset. Raises ConfigError."""
    source = _directory(old)
    return {
        (topic, int(index))
        for batch in _numbers(source / "offsets")[-_NEEDED:]
        for line in _text(source / "offsets" / str(batch)).split("\n")[2:]
        for topic, partitions in (kafka_offsets(line) or {}).items()
        for index in partitions
    }


def starting_offsets(old: str, known: CopiedPartitions) -> list[tuple[int, str]]:
    """For each Kafka source of a checkpoint its number and the option `startingOffsets` of a new query, which begins
    after the last batch that is done. Raises ConfigError."""
    source = _directory(old)
    done = [batch for batch in _numbers(source / "commits") if (source / "offsets" / str(batch)).exists()]
    if not done:
        raise ConfigError(f"{old} has no batch that is done: start the new query with the first record (earliest)")
    text = _text(source / "offsets" / str(done[-1]))
    try:
        made = translate_batch(text, known, lambda _: None)
    except _UntranslatableError as error:
        raise ConfigError(f"{old}: batch {done[-1]}: {error}") from None
    return [(at, line) for at, line in enumerate(made.split("\n")[2:]) if kafka_offsets(line) is not None]


def _translate(source: Path, known: CopiedPartitions) -> tuple[TranslatedCheckpoint, dict[Path, bytes | None]]:
    """What is made, and the files that are other than before, by their path in the
    checkpoint; None for those that are left out."""
    batches = _numbers(source / "offsets")
    if not batches:
        raise ConfigError(f"{source} has no batches: start the query on the target with a new checkpoint")
    files: dict[Path, bytes | None] = {}
    left_out: list[int] = []
    newest: list[Position] | None = None
    done = _numbers(source / "commits")
    again = not done or done[-1] < batches[-1]
    for batch in reversed(batches):
        path, positions = Path("offsets", str(batch)), list[Position]()
        try:
            if left_out:
                raise _UntranslatableError("a newer one cannot be translated")
            files[path] = translate_batch(_text(source / path), known, positions.append).encode()
        except _UntranslatableError as error:
            if batch > batches[-1] - _NEEDED:
                advice = _advice(error, source / path if again and batch == batches[-1] else None)
                raise ConfigError(f"{source / path}: {error}{advice}") from None
            left_out.append(batch)
        newest = positions if newest is None else newest
    if batches[-1] and batches[-1] - 1 not in batches:
        raise ConfigError(f"{source}/offsets has batch {batches[-1]} but not {batches[-1] - 1}, which Spark needs")
    if again and (lower := _goes_back(source, batches)):
        path = source / "offsets" / str(batches[-1])
        raise ConfigError(f"{path}: {lower}{_planned_at_the_target(path)}")
    files |= _beginnings(source, known)
    if not newest:
        raise ConfigError(f"{source}: batch {batches[-1]} has no offsets of Kafka: is this the query's checkpoint?")
    names = {position.topic: position.target_topic for position in newest}
    return TranslatedCheckpoint(batches[-1], again, tuple(reversed(left_out)), names, tuple(newest)), files


def _advice(error: _UntranslatableError, again: Path | None) -> str:
    """`again`: the file of the batch that is run again, if the error is in that one."""
    if "not copied so far" not in str(error):
        return ""
    return "; copy on, then try again; if all is copied, the log ends before it, and the query has to begin anew" + (
        "" if again is None else _planned_at_the_target(again)
    )


def _planned_at_the_target(path: Path) -> str:
    return (
        f"; if the query was still running when its clients were led to the target, this batch was planned with offsets"
        f" of the target and has read nothing: move {path.name} and .{path.name}.crc away, and try again"
    )


def _goes_back(source: Path, batches: Sequence[int]) -> str:
    """Where the newest batch ends before the one before it; "" if nowhere."""
    if len(batches) < 2:
        return ""
    before, last = (_text(source / "offsets" / str(batch)).split("\n")[2:] for batch in batches[-2:])
    for one, other in zip(before, last, strict=False):
        ended, ends = kafka_offsets(one) or {}, kafka_offsets(other) or {}
        for topic, partitions in ends.items():
            for index, offset in partitions.items():
                former = ended.get(topic, {}).get(index, offset)
                if offset < former:
                    return f"partition {index} of {topic} ends at {offset}, and the batch before at {former}"
    return ""


def _beginnings(source: Path, known: CopiedPartitions) -> dict[Path, bytes | None]:
    """What Kafka sources began with, in `sources/N/0`: a zero byte, a version, offsets. It only matters until the first
    batch is there, so what cannot be translated is left out."""
    files: dict[Path, bytes | None] = {}
    for path in sorted(source.glob("sources/*/0")):
        content = path.read_bytes()
        head, _, line = content.partition(b"\n")
        offsets = kafka_offsets(line.decode(errors="replace")) if head.lstrip(b"\0") == _VERSION.encode() else None
        if offsets is None:
            continue
        try:
            files[path.relative_to(source)] = head + b"\n" + _line(offsets, known, lambda _: None).encode()
        except _UntranslatableError:
            files[path.relative_to(source)] = None
    return files


def _copy(source: Path, target: Path, files: Mapping[Path, bytes | None], left_out: Iterable[int]) -> None:
    """Checksums of files that change, which Hadoop keeps beside them, are left out."""
    without = {source / path for path in files} | {source / "offsets" / str(batch) for batch in left_out}
    without |= {path.with_name(f".{path.name}.crc") for path in without}

    def ignored(directory: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(directory, name) in without]

    shutil.copytree(source, target, ignore=ignored)
    for path, content in files.items():
        if content is not None:
            (target / path).write_bytes(content)


def _numbers(directory: Path) -> list[int]:
    return sorted(_names(directory))


def _names(directory: Path) -> Iterator[int]:
    if directory.is_dir():
        yield from (int(path.name) for path in directory.iterdir() if _NUMBER.fullmatch(path.name))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}") from None


def _directory(name: str) -> Path:
    path = _local(name)
    if not (path / "offsets").is_dir():
        raise ConfigError(f"{name} is not the checkpoint of a streaming query: it has no directory 'offsets'")
    return path


def _local(name: str) -> Path:
    scheme, colon, rest = name.partition("://")
    if colon and scheme != "file":
        raise ConfigError(
            f"{name}: kproxy reads checkpoints from local directories only: copy it here (hadoop fs -get), and the new"
            " one back"
        )
    return Path(rest if colon else name.removeprefix("file:"))


def to_record(made: TranslatedCheckpoint) -> dict[str, Any]:
    """For JSON."""
    return {
        "batch": made.batch,
        "run_again": made.rerun,
        "left_out": list(made.left_out),
        "topics": dict(made.topics),
        "positions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "source": one.source,
                "target": one.target,
                "how": one.match,
            }
            for one in made.positions
        ],
    }
