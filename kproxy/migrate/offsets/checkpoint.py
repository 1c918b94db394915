"""Translation of the checkpoint of a Spark structured streaming query to the target.

A checkpoint has files that are named by the number of a batch: the end of each batch (`offsets`) and the batches that
are done (`commits`). It also has the first offsets of the sources (`sources`) and the state of operators (`state`).
kproxy translates the offsets of Kafka sources, and copies everything else unchanged.

Spark runs a batch that is not done again, from the end of the batch before to its own end. Both are translated, so it
has exactly the records that it had on the source.

A query that was not stopped before the switch may have planned its last batch on the target: Spark asks for the ends of
topics, and then cannot read, since kproxy returns no records for a position of the source. kproxy must not take the
offsets of such a batch for offsets of the source. It notices them if they are beyond the copied offsets, or before the
batch before.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kproxy.base.errors import ConfigError
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets.positions import Position, translate

# Spark's text for a source without an end so far.
_NO_OFFSETS = "-"
_VERSION = "v1"
_NUMBER = re.compile(r"\d+")
_NEEDED = 2  # Spark reads the newest batch, and the one before

Offsets = Mapping[str, Mapping[str, int]]
CopiedPartitions = Mapping[TopicPartition, CopiedPartition]


class _UntranslatableError(Exception):
    """An offset or file that cannot be translated, with the reason."""


@dataclass(frozen=True, slots=True)
class TranslatedCheckpoint:
    """The content of a translated checkpoint."""

    batch: int
    """Number of the newest batch."""
    rerun: bool
    """True if Spark runs the newest batch again."""
    left_out: tuple[int, ...]
    """Batches that are too old to be translated, and that Spark does not need."""
    topics: Mapping[str, str]
    """Target topic of each source topic."""
    positions: tuple[Position, ...]


def kafka_offsets(line: str) -> Offsets | None:
    """Parse offsets of a Kafka source as Spark writes them, {"topic": {"0": 17}}; return None for another source."""
    try:
        offsets_by_topic = json.loads(line)
    except ValueError:
        return None
    if not isinstance(offsets_by_topic, dict) or not offsets_by_topic:
        return None
    for partitions in offsets_by_topic.values():
        if not isinstance(partitions, dict) or not partitions:
            return None
        if not all(_NUMBER.fullmatch(index) and type(offset) is int for index, offset in partitions.items()):
            return None
    return offsets_by_topic


def translate_offsets(
    offsets: Offsets, copied: CopiedPartitions, on_position: Callable[[Position], None]
) -> dict[str, dict[str, int]]:
    """Translate offsets to the target (pure).

    Raises _UntranslatableError if one cannot be translated, since no position may be left out.
    """
    translated: dict[str, dict[str, int]] = {}
    for topic, partitions in offsets.items():
        for index, offset in partitions.items():
            position = translate(copied, topic, int(index), offset)
            if position.target is None:
                raise _UntranslatableError(f"offset {offset} in partition {index} of {topic}: {position.text}")
            on_position(position)
            translated.setdefault(position.target_topic, {})[index] = position.target
    return translated


def translate_batch(text: str, copied: CopiedPartitions, on_position: Callable[[Position], None]) -> str:
    """Translate a file of `offsets` (pure): a version, a line about the batch, and one line for each source."""
    lines = text.split("\n")
    if lines[0] != _VERSION:
        raise _UntranslatableError(f"its format is {lines[0][:20]!r}, and kproxy supports only {_VERSION!r}")
    sources = [
        line if (kafka := kafka_offsets(line)) is None else _translate_line(kafka, copied, on_position)
        for line in lines[2:]
    ]
    return "\n".join([*lines[:2], *sources])


def _translate_line(offsets: Offsets, copied: CopiedPartitions, on_position: Callable[[Position], None]) -> str:
    return json.dumps(translate_offsets(offsets, copied, on_position), separators=(",", ":"))


def translate_checkpoint(
    source_directory: str, target_directory: str, copied: CopiedPartitions
) -> TranslatedCheckpoint:
    """Write the translation of a checkpoint to a new directory. The source directory stays unchanged.

    Raises ConfigError; the target directory does not exist then.
    """
    source, target = _checkpoint_directory(source_directory), _local_path(target_directory)
    if target.exists():
        raise ConfigError(f"{target_directory} exists already: name a new directory, kproxy never overwrites one")
    if target.resolve().is_relative_to(source.resolve()):
        raise ConfigError(f"{target_directory} is inside {source_directory}: name another directory")
    checkpoint, files = _translate(source, copied)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy_checkpoint(source, target, files, checkpoint.left_out)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise ConfigError(f"{error.filename or target_directory}: {error.strerror or error}") from None
    return checkpoint


def kafka_partitions(directory: str) -> set[TopicPartition]:
    """Return the partitions, as topic and number, whose newest batches have an offset. Raises ConfigError."""
    source = _checkpoint_directory(directory)
    return {
        (topic, int(index))
        for batch in _batch_numbers(source / "offsets")[-_NEEDED:]
        for line in _read_text(source / "offsets" / str(batch)).split("\n")[2:]
        for topic, partitions in (kafka_offsets(line) or {}).items()
        for index in partitions
    }


def starting_offsets(directory: str, copied: CopiedPartitions) -> list[tuple[int, str]]:
    """Return the number and the option `startingOffsets` of a new query, for each Kafka source of a checkpoint.

    The new query begins after the last batch that is done. Raises ConfigError.
    """
    source = _checkpoint_directory(directory)
    committed = [batch for batch in _batch_numbers(source / "commits") if (source / "offsets" / str(batch)).exists()]
    if not committed:
        raise ConfigError(f"{directory} has no completed batch: start the new query with the first record (earliest)")
    text = _read_text(source / "offsets" / str(committed[-1]))
    try:
        translated = translate_batch(text, copied, lambda _: None)
    except _UntranslatableError as error:
        raise ConfigError(f"{directory}: batch {committed[-1]}: {error}") from None
    return [(number, line) for number, line in enumerate(translated.split("\n")[2:]) if kafka_offsets(line) is not None]


def _translate(source: Path, copied: CopiedPartitions) -> tuple[TranslatedCheckpoint, dict[Path, bytes | None]]:
    """Return the translated checkpoint and its changed files by their relative path; None means left out."""
    batches = _batch_numbers(source / "offsets")
    if not batches:
        raise ConfigError(f"{source} has no batches: start the query on the target with a new checkpoint")
    files: dict[Path, bytes | None] = {}
    left_out: list[int] = []
    newest: list[Position] | None = None
    committed = _batch_numbers(source / "commits")
    rerun = not committed or committed[-1] < batches[-1]
    for batch in reversed(batches):
        path, positions = Path("offsets", str(batch)), list[Position]()
        try:
            if left_out:
                raise _UntranslatableError("a newer batch cannot be translated")
            files[path] = translate_batch(_read_text(source / path), copied, positions.append).encode()
        except _UntranslatableError as error:
            if batch > batches[-1] - _NEEDED:
                advice = _advice(error, source / path if rerun and batch == batches[-1] else None)
                raise ConfigError(f"{source / path}: {error}{advice}") from None
            left_out.append(batch)
        newest = positions if newest is None else newest
    if batches[-1] and batches[-1] - 1 not in batches:
        raise ConfigError(f"{source}/offsets has batch {batches[-1]} but not {batches[-1] - 1}, which Spark needs")
    if rerun and (problem := _find_decrease(source, batches)):
        path = source / "offsets" / str(batches[-1])
        raise ConfigError(f"{path}: {problem}{_planned_at_target_advice(path)}")
    files |= _translate_initial_offsets(source, copied)
    if not newest:
        raise ConfigError(f"{source}: batch {batches[-1]} has no offsets of Kafka: is this the query's checkpoint?")
    names = {position.topic: position.target_topic for position in newest}
    return TranslatedCheckpoint(batches[-1], rerun, tuple(reversed(left_out)), names, tuple(newest)), files


def _advice(error: _UntranslatableError, rerun_path: Path | None) -> str:
    """Return advice for an error. `rerun_path`: the file of the batch that runs again, if the error is in it."""
    if "not copied yet" not in str(error):
        return ""
    return (
        "; run kproxy migrate copy, then try again; if everything is copied, the log ends before this offset: start"
        " the query with a new checkpoint" + ("" if rerun_path is None else _planned_at_target_advice(rerun_path))
    )


def _planned_at_target_advice(path: Path) -> str:
    return (
        f"; if the query was still running when its clients were routed to the target, this batch has offsets of the"
        f" target and has read nothing: move {path.name} and .{path.name}.crc away, and try again"
    )


def _find_decrease(source: Path, batches: Sequence[int]) -> str:
    """Return where the newest batch ends before the batch before it, or ""."""
    if len(batches) < 2:
        return ""
    before, last = (_read_text(source / "offsets" / str(batch)).split("\n")[2:] for batch in batches[-2:])
    for previous_line, last_line in zip(before, last, strict=False):
        previous_ends, ends = kafka_offsets(previous_line) or {}, kafka_offsets(last_line) or {}
        for topic, partitions in ends.items():
            for index, offset in partitions.items():
                previous_end = previous_ends.get(topic, {}).get(index, offset)
                if offset < previous_end:
                    return f"partition {index} of {topic} ends at {offset}, and the batch before at {previous_end}"
    return ""


def _translate_initial_offsets(source: Path, copied: CopiedPartitions) -> dict[Path, bytes | None]:
    """Translate the first offsets of Kafka sources, in `sources/N/0`: a zero byte, a version, offsets.

    They only matter until the first batch exists, so a file that cannot be translated is left out.
    """
    files: dict[Path, bytes | None] = {}
    for path in sorted(source.glob("sources/*/0")):
        content = path.read_bytes()
        header, _, line = content.partition(b"\n")
        offsets = kafka_offsets(line.decode(errors="replace")) if header.lstrip(b"\0") == _VERSION.encode() else None
        if offsets is None:
            continue
        try:
            files[path.relative_to(source)] = header + b"\n" + _translate_line(offsets, copied, lambda _: None).encode()
        except _UntranslatableError:
            files[path.relative_to(source)] = None
    return files


def _copy_checkpoint(source: Path, target: Path, files: Mapping[Path, bytes | None], left_out: Iterable[int]) -> None:
    """Copy the checkpoint with the changed files, and without the checksums that Hadoop keeps beside these."""
    excluded = {source / path for path in files} | {source / "offsets" / str(batch) for batch in left_out}
    excluded |= {path.with_name(f".{path.name}.crc") for path in excluded}

    def ignored(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(folder, name) in excluded]

    shutil.copytree(source, target, ignore=ignored)
    for path, content in files.items():
        if content is not None:
            (target / path).write_bytes(content)


def _batch_numbers(directory: Path) -> list[int]:
    files = directory.iterdir() if directory.is_dir() else ()
    return sorted(int(path.name) for path in files if _NUMBER.fullmatch(path.name))


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}") from None


def _checkpoint_directory(name: str) -> Path:
    path = _local_path(name)
    if not (path / "offsets").is_dir():
        raise ConfigError(f"{name} is not the checkpoint of a streaming query: it has no directory 'offsets'")
    return path


def _local_path(name: str) -> Path:
    scheme, colon, path = name.partition("://")
    if colon and scheme != "file":
        raise ConfigError(
            f"{name}: kproxy reads checkpoints from local directories only: copy it to this machine (hadoop fs -get),"
            " and copy the new one back"
        )
    return Path(path if colon else name.removeprefix("file:"))


def to_record(checkpoint: TranslatedCheckpoint) -> dict[str, Any]:
    """Return the translated checkpoint for JSON."""
    return {
        "batch": checkpoint.batch,
        "run_again": checkpoint.rerun,
        "left_out": list(checkpoint.left_out),
        "topics": dict(checkpoint.topics),
        "positions": [
            {
                "topic": position.topic,
                "partition": position.partition,
                "source": position.source,
                "target": position.target,
                "how": position.match,
            }
            for position in checkpoint.positions
        ],
    }
