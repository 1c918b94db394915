"""Checkpoints of Spark: what is translated, what is copied as it is, and what is refused, in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets.checkpoint import starting_offsets, translate_checkpoint

KNOWN = {("t", 0): CopiedPartition("t", 0, "u", 0, 10, 110, 10, 1, OffsetMap([(0, 100, 10)]))}
HEAD = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n'


def write(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return write(
        tmp_path / "old",
        {
            "metadata": '{"id":"x"}',
            "offsets/0": HEAD + '{"t":{"0":2}}\n-',
            "offsets/.0.crc": "x",
            "offsets/1": HEAD + '{"t":{"0":5}}\n{"logOffset":3}',
            "commits/0": "v1\n{}",
            "commits/.0.crc": "x",
            "commits/1": "v1\n{}",
            "sources/0/0": '\0v1\n{"t":{"0":0}}',
            "state/0/0/1.delta": "bytes",
        },
    )


def test_offsets_are_translated_and_the_rest_is_as_it_was(old: Path, tmp_path: Path) -> None:
    made = translate_checkpoint(str(old), f"file://{tmp_path}/deep/new", KNOWN)
    new = tmp_path / "deep/new"
    assert (made.batch, made.rerun, made.left_out, made.topics) == (1, False, (), {"t": "u"})
    found = {str(path.relative_to(new)): path.read_text() for path in new.rglob("*") if path.is_file()}
    assert found == {
        "metadata": '{"id":"x"}',
        "offsets/0": HEAD + '{"u":{"0":102}}\n-',
        "offsets/1": HEAD + '{"u":{"0":105}}\n{"logOffset":3}',
        "commits/0": "v1\n{}",
        "commits/.0.crc": "x",
        "commits/1": "v1\n{}",
        "sources/0/0": '\0v1\n{"u":{"0":100}}',
        "state/0/0/1.delta": "bytes",
    }


def test_a_batch_that_is_not_done_is_run_again(old: Path, tmp_path: Path) -> None:
    (old / "commits/1").unlink()
    assert translate_checkpoint(str(old), str(tmp_path / "new"), KNOWN).rerun
    assert starting_offsets(str(old), KNOWN) == [(0, '{"u":{"0":102}}')]


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (
            17,
            r"/offsets/1: .*7 offsets before it are not copied yet; run kproxy migrate copy, then try again; .*; if the query was still",
        ),
        (1, r"/offsets/1: partition 0 of t ends at 1, and the batch before at 2; if the query was still running"),
    ],
)
def test_a_batch_planned_at_the_target_is_not_translated(old: Path, tmp_path: Path, planned: int, words: str) -> None:
    write(old, {"offsets/1": HEAD + f'{{"t":{{"0":{planned}}}}}\n-'})
    (old / "commits/1").unlink()
    with pytest.raises(ConfigError, match=words) as caught:
        translate_checkpoint(str(old), str(tmp_path / "new"), KNOWN)
    assert "this batch has offsets of the target and has read nothing: move 1 and .1.crc away" in str(caught.value)
    assert not (tmp_path / "new").exists()
    (old / "offsets/1").unlink()
    assert translate_checkpoint(str(old), str(tmp_path / "new"), KNOWN).batch == 0


def test_a_batch_that_is_done_is_not_taken_for_one_of_the_target(old: Path, tmp_path: Path) -> None:
    """The query may have been told to go back."""
    write(old, {"offsets/1": HEAD + '{"t":{"0":1}}\n-'})
    assert translate_checkpoint(str(old), str(tmp_path / "new"), KNOWN).batch == 1


def test_old_batches_that_cannot_be_translated_are_left_out(old: Path, tmp_path: Path) -> None:
    write(old, {"offsets/2": HEAD + '{"t":{"0":6}}', "offsets/0": HEAD + '{"gone":{"0":6}}', "commits/2": "v1\n{}"})
    assert translate_checkpoint(str(old), str(tmp_path / "new"), KNOWN).left_out == (0,)
    assert not (tmp_path / "new/offsets/0").exists()
    assert not (tmp_path / "new/offsets/.0.crc").exists()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"offsets/1": HEAD + '{"t":{"0":12}}'},
            "2 offsets before it are not copied yet; run kproxy migrate copy, then try again",
        ),
        ({"offsets/1": HEAD + '{"other":{"0":1}}'}, "partition 0 of other: the migration has not copied this"),
        ({"offsets/1": "v2\n{}\n{}"}, "its format is 'v2', and kproxy supports only 'v1'"),
        ({"offsets/3": HEAD + '{"t":{"0":5}}'}, "has batch 3 but not 2, which Spark needs"),
        ({"offsets/1": HEAD + "17"}, "batch 1 has no offsets of Kafka"),
    ],
)
def test_what_cannot_be_done_leaves_nothing(old: Path, tmp_path: Path, files: dict[str, str], words: str) -> None:
    write(old, files)
    with pytest.raises(ConfigError, match=words):
        translate_checkpoint(str(old), str(tmp_path / "new"), KNOWN)
    assert not (tmp_path / "new").exists()


def test_directories_that_cannot_be(old: Path, tmp_path: Path) -> None:
    for source, target, words in (
        (old, old, "exists already"),
        (old, old / "in", "is inside"),
        (tmp_path, tmp_path / "new", "is not the checkpoint of a streaming query"),
    ):
        with pytest.raises(ConfigError, match=words):
            translate_checkpoint(str(source), str(target), KNOWN)
    with pytest.raises(ConfigError, match="local directories only"):
        translate_checkpoint("s3a://b/old", str(tmp_path / "new"), KNOWN)
    write(tmp_path / "none", {"offsets/x": ""})
    with pytest.raises(ConfigError, match="has no batches"):
        translate_checkpoint(str(tmp_path / "none"), str(tmp_path / "new"), KNOWN)
    with pytest.raises(ConfigError, match="has no completed batch"):
        starting_offsets(str(tmp_path / "none"), KNOWN)


def test_several_sources(old: Path) -> None:
    write(old, {"offsets/1": HEAD + '{"t":{"0":5}}\n{"logOffset":3}\n{"t":{"0":7}}'})
    assert [(at, json.loads(line)) for at, line in starting_offsets(str(old), KNOWN)] == [
        (0, {"u": {"0": 105}}),
        (2, {"u": {"0": 107}}),
    ]
