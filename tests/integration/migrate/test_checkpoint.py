"""A streaming query of a real Spark that goes on at the target with its checkpoint translated."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, SwitchEntry, SwitchJournal
from kproxy.migrate.offsets.checkpoint import starting_offsets, translate_checkpoint
from kproxy.proxy.switching.twophase import JournalDecision
from tests.harness.clients.spark import needs_spark
from tests.harness.clusters.twosides import TwoSides, plain, transactions
from tests.harness.migration.moving import rows, topics
from tests.harness.topics import unique

pytestmark = [
    pytest.mark.integration,
    needs_spark,
    # py4j leaves the sockets of foreachBatch's calls to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Batches = dict[int, list[tuple[str, int]]]


def source(spark: Any, bootstrap: str, topic: str, **more: str) -> Any:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    return spark.readStream.format("kafka").options(**{"maxOffsetsPerTrigger": "700", **options, **more}).load()


def query(spark: Any, bootstrap: str, names: Sequence[str], checkpoint: Path, **more: str) -> Batches:
    """How often each value has come so far, which is the query's state; what each batch gave. It reads what is there,
    in several batches, from one source for each topic."""
    found: Batches = {}

    def note(frame: Any, number: int) -> None:
        found[number] = sorted((row["value"], row["count"]) for row in frame.collect())

    both = [source(spark, bootstrap, name, startingOffsets="earliest", **more) for name in names]
    counted = both[0].union(both[1]).selectExpr("cast(value as string) as value").groupBy("value").count()
    running = (
        counted.writeStream.outputMode("update").foreachBatch(note)
        .option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )  # fmt: skip
    running.awaitTermination()
    return found


def values(sides: TwoSides, topic: str) -> list[str]:
    return [(row[2] or b"").decode() for part in (0, 1) for row in rows(sides.source, topic, part)]


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "done",
    [
        pytest.param(True, marks=pytest.mark.matrix, id="all batches done"),
        pytest.param(False, id="the last one not"),
    ],
)
def test_a_query_goes_on_with_each_record_exactly_once(sides: TwoSides, spark: Any, tmp_path: Path, done: bool) -> None:
    move, old, new = sides.migration(), tmp_path / "old", tmp_path / "new"
    first, second = unique("tx"), unique("plain")
    names, targets = [first, second], [f"eu.{first}", second]
    topics(sides.source, {first: 2, second: 2}, 1)
    topics(sides.target, {targets[0]: 2, second: 2}, 1)
    transactions(sides.source, first, 2, 1500, 1)
    plain(sides.source, second, 2, 1000, 1)
    before = query(spark, sides.source, names, old)
    last = max(before)
    assert last > 1
    if not done:  # it was ended when the batch was written, and before it was done
        (old / "commits" / str(last)).unlink()
        (old / "commits" / f".{last}.crc").unlink()
    transactions(sides.source, first, 2, 800, 2)
    plain(sides.source, second, 2, 500, 2)
    known = move.copy({first: targets[0], second: second}, size=8192)
    untouched = files(old)
    made = translate_checkpoint(str(old), str(new), known)
    assert (made.batch, made.rerun, made.topics) == (last, not done, {first: targets[0], second: second})
    assert files(old) == untouched

    after = query(spark, sides.target, targets, new)
    if not done:
        assert after.pop(last) == before[last]
    assert min(after) == last + 1
    seen = Counter(one for batch in (before, after) for some in batch.values() for one in some)
    assert seen == Counter((value, 1) for name in names for value in values(sides, name))


@pytest.mark.matrix
def test_a_new_query_begins_where_the_old_one_ended(sides: TwoSides, spark: Any, tmp_path: Path) -> None:
    move, old = sides.migration(), tmp_path / "old"
    names = [unique("tx"), unique("plain")]
    for bootstrap in (sides.source, sides.target):
        topics(bootstrap, dict.fromkeys(names, 2), 1)
    transactions(sides.source, names[0], 2, 300, 3)
    plain(sides.source, names[1], 2, 300, 3)
    before = {value for some in query(spark, sides.source, names, old).values() for value, _ in some}
    transactions(sides.source, names[0], 2, 300, 4)
    plain(sides.source, names[1], 2, 300, 4)
    known = move.copy(dict(zip(names, names, strict=True)), size=8192)
    found: list[str] = []
    for _, line in starting_offsets(str(old), known):
        options = {
            "kafka.bootstrap.servers": sides.target,
            "startingOffsets": line,
            "subscribe": next(iter(json.loads(line))),
        }
        read = spark.read.format("kafka").options(**options, **{"kafka.isolation.level": "read_committed"}).load()
        found += [row.value for row in read.selectExpr("cast(value as string) as value").collect()]
    assert sorted(found) == sorted(value for name in names for value in values(sides, name) if value not in before)


@pytest.mark.matrix
def test_a_position_in_a_partition_without_records_is_translated(sides: TwoSides, spark: Any, tmp_path: Path) -> None:
    """Nothing is copied of it. The file of the migration renames the topic, too."""
    move, old, new = sides.migration(), tmp_path / "old", tmp_path / "new"
    topic, target, other = unique("sparse"), unique("renamed"), unique("empty")
    topics(sides.source, {topic: 3, other: 1}, 1)
    topics(sides.target, {target: 3, other: 1}, 1)
    plain(sides.source, topic, 2, 400, 5)  # not to the third partition
    before = query(spark, sides.source, [topic, other], old)
    plain(sides.source, topic, 2, 200, 6)
    move.copy({topic: target})
    file = tmp_path / "move.yaml"
    file.write_text(
        json.dumps(
            {
                "name": move.name,
                "source": {"bootstrap-servers": sides.source},
                "target": {"bootstrap-servers": sides.target},
                "topics": {"include": [topic, other], "rename": {topic: target}},
            }
        )
    )
    command = [sys.executable, "-m", "kproxy", "migrate", "offsets", str(file)]
    done = subprocess.run([*command, "--spark-checkpoint", old, new], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert f"the query must subscribe to {target} instead of {topic}" in done.stdout
    told = subprocess.run([*command, "--starting-offsets", old], capture_output=True, text=True, timeout=240)
    assert f'"{other}":{{"0":0}}' in told.stdout, told.stdout + told.stderr

    plain(sides.target, target, 3, 30, 7)
    after = query(spark, sides.target, [target, other], new)
    seen = Counter(one for batch in (before, after) for some in batch.values() for one in some)
    wanted = {(row[2] or b"").decode() for part in (0, 1, 2) for row in rows(sides.target, target, part)}
    assert seen == Counter((value, 1) for value in wanted)


def decided(sides: TwoSides, what: str) -> None:
    """The journal says that all clients were led to the target, or back."""
    begun = SwitchEntry("x1", what, "default", "blue", "green", ("kp",))
    entry = begun.with_decision("000001-a", JournalDecision.RELEASED)
    with SwitchJournal(sides.target, sides.name) as journal:
        journal.take_over()
        journal.write(entry)


@pytest.mark.matrix
def test_a_query_goes_back_to_the_source_after_a_rollback(sides: TwoSides, spark: Any, tmp_path: Path) -> None:
    move, old, new = sides.migration(), tmp_path / "of-target", tmp_path / "of-source"
    topic, empty = unique("back"), unique("empty")
    for bootstrap in (sides.source, sides.target):
        topics(bootstrap, {topic: 2, empty: 1}, 1)
    transactions(sides.source, topic, 2, 1500, 1)
    move.copy({topic: topic}, size=8192)
    file = tmp_path / "move.yaml"
    servers = {"source": {"bootstrap-servers": sides.source}, "target": {"bootstrap-servers": sides.target}}
    file.write_text(json.dumps({"name": move.name, **servers, "topics": {"include": [topic, empty]}}))

    def back() -> str:
        command = [sys.executable, "-m", "kproxy", "migrate", "offsets", str(file), "--reverse", "--spark-checkpoint"]
        done = subprocess.run([*command, old, new], capture_output=True, text=True, timeout=240)
        assert new.exists() is (done.returncode == 0)
        return done.stdout + done.stderr

    before = query(spark, sides.target, [topic, empty], old)
    assert "clients were not switched" in back()
    decided(move, SWITCHING)
    assert "run kproxy migrate rollback FILE first" in back()
    decided(move, ROLLBACK)
    transactions(sides.source, topic, 2, 800, 2)
    move.copy({topic: topic}, size=8192)  # what comes after the rollback
    assert "the query continues after batch" in back()
    after = query(spark, sides.source, [topic, empty], new)
    assert min(after) == max(before) + 1
    seen = Counter(one for batch in (before, after) for some in batch.values() for one in some)
    assert seen == Counter((value, 1) for value in values(sides, topic))

    shutil.rmtree(new)
    plain(sides.target, empty, 1, 7, 3)
    assert f"partition 0 of {empty} on the target has at least 7 records that were not copied back" in back()
