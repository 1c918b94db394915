"""The proof that a migration copies everything, and that its verification finds each difference.

Real Spark on a separate cluster copies a load of all kinds from one real cluster to another. Two clients that share no
code with kproxy compare both sides. Then the copy is damaged in every way, and the verification must name each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.spark import TWO_EXECUTORS, spark_home
from tests.harness.clients.truth import Sum, Where, by_kafka, by_librdkafka
from tests.harness.clusters.steady import STEADY
from tests.harness.migration.migrating import Commands
from tests.harness.migration.mixedload import Load, Scale, rewritten, source
from tests.harness.migration.moving import Row, rows
from tests.harness.migration.spoiling import Record, without

_NAME = "mixed"
_RENAMED = {"plain": "eu.plain"}
_AN_HOUR = 3600.0


@dataclass
class Mixed:
    """Both clusters with the load on one of them, and the commands."""

    load: Load
    target: DevCluster
    commands: Commands
    figures: list[str]
    records: int = 0
    bytes: int = 0

    def there(self, topic: str) -> str:
        """Return the name of a topic on the target."""
        return _RENAMED.get(topic, topic)

    def copy(self) -> None:
        """Copy, and check the output."""
        self.commands.run("prepare", timeout=_AN_HOUR)
        said, shown = self.commands.said("copy", "--master", TWO_EXECUTORS, timeout=_AN_HOUR)
        assert "[Stage" not in shown  # Spark's own bar
        assert "100.0%" in said
        for way in ("verbatim", "re-encoded", "merged"):
            assert way in said
        self._note(f"copied in {self.commands.seconds['copy']:.0f} s: {' '.join(said.split())}")

    def compare(self) -> None:
        """Compare both sides with both clients."""
        partitions, bootstrap = self.load.partitions, self.load.bootstrap
        renamed = {self.there(topic): topic for topic in partitions}
        there = {self.there(topic): count for topic, count in partitions.items()}
        began = time.monotonic()
        source = dict(by_librdkafka(bootstrap, partitions))
        target = _named(by_librdkafka(self.target.direct_bootstrap, there), renamed)
        assert source.keys() == target.keys()
        for where in source:
            assert source[where] == target[where], f"{where}: {self.difference(where)}"
        assert dict(by_kafka(bootstrap, sorted(partitions))) == source
        assert _named(by_kafka(self.target.direct_bootstrap, sorted(there)), renamed) == source
        records, size = sum(one.records for one in source.values()), sum(one.bytes for one in source.values())
        assert records >= self.load.sent
        status = json.loads(self.commands.run("status", "--json"))
        said = status["partitions"]
        assert status["driver"]["lag"][-1][1] == 0  # the report shows it
        assert {(one["topic"], one["partition"]): one["records"] for one in said} == {
            where: one.records for where, one in source.items() if one.records
        }
        wire = sum(one["bytes"] for one in said)
        self._note(
            f"{records:,} records, {size / 1e6:,.0f} MB of keys, values and headers, {wire / 1e6:,.0f} MB of batches;"
            f" both clients read both sides in {time.monotonic() - began:.0f} s: all the same"
        )
        self.records, self.bytes = records, size

    def difference(self, where: Where) -> str:
        """Return the first record that differs."""
        topic, partition = where
        one = rows(self.load.bootstrap, topic, partition)
        other = rows(self.target.direct_bootstrap, self.there(topic), partition)
        pairs = zip(one, other, strict=False)
        first = next((f"{a} and {b}" for a, b in pairs if a[1:] != b[1:]), "the end of one of them")
        return f"{len(one)} and {len(other)} records; first: {first[:2000]}"

    def verify(self, *words: str, code: int = 0) -> Any:
        """Return the result of a verification as JSON."""
        words = ("--json", "--master", TWO_EXECUTORS, "--report", "report.html", *words)
        said = json.loads(self.commands.run("verify", *words, code=code, timeout=_AN_HOUR))
        compared = sum(one["records"] for one in said["partitions"])
        took = self.commands.seconds["verify"]
        self._note(
            f"verified: {compared:,} records compared in {said['seconds']:.0f} s ({took:.0f} s with Spark's start)"
        )
        return said

    # Spoiling

    def spoil(self) -> None:
        """Damage each partition of one topic in another way; one record goes to another partition."""
        ways = list(self.load.spoils.values())
        at, count = self.load.scale.spoilt_at, self.load.partitions["spoilt"]
        partitions = []
        stray: Record | None = None
        for partition in range(count):
            there = rows(self.target.direct_bootstrap, "spoilt", partition)
            records = [Record(key, value, stamp, headers) for _, key, value, headers, stamp in there]
            if partition < len(ways):
                assert records[at] == ways[partition].record
                records = ways[partition].spoil(records)
            elif partition == len(ways):
                stray = records[at]
                records = without(records, at)
            elif partition == len(ways) + 1:
                assert stray is not None
                records = [*records[:50], stray, *records[50:]]
            partitions.append(_transactions(there, records))
        rewritten(self.target.direct_bootstrap, "spoilt", partitions, self.load.scale.brokers)

    def named(self, said: Any) -> None:
        """Check that a verification named each damage with its place and field, and nothing else."""
        at, ways = self.load.scale.spoilt_at, list(self.load.spoils.items())
        differences = {one["partition"]: one for one in said["differences"]}
        assert {one["topic"] for one in said["differences"]} == {"spoilt"}
        assert sorted(differences) == list(range(len(ways) + 2))
        for partition, (name, way) in enumerate(ways):
            found = differences[partition]
            expected = at + 1 if name == "doubled" else at
            assert found["field"] == way.field, (name, found)
            assert found["target_offset"] == expected, (name, found)
            assert found["source_offset"] in ((None, expected) if name == "doubled" else (expected,)), (name, found)
            assert way.left in found["source"], (name, found)
            assert way.right in found["target"], (name, found)
        moved, extra = (differences[len(ways) + more] for more in (0, 1))
        assert (moved["field"], moved["source_offset"]) == ("partition", at)
        assert moved["source"].endswith(f"on the target it is in partition {len(ways) + 1} at 50")
        assert (extra["field"], extra["target_offset"]) == ("extra", 50)
        wrong = {(one["topic"], one["partition"]) for one in said["partitions"] if not one["right"]}
        assert wrong == {("spoilt", partition) for partition in differences}
        for one in said["partitions"]:
            if (one["topic"], one["partition"]) in wrong:
                assert one["verified_upto"] <= at + 1
            else:
                assert one["verified_upto"] == one["copied_upto"], one
        self._note(f"spoiled in {len(ways) + 1} ways, each named: {', '.join([*self.load.spoils, 'partition'])}")

    def memory(self) -> None:
        for command, peaks in self.commands.peaks.items():
            if "driver's JVM" in peaks:
                self._note(
                    f"{command}: " + ", ".join(f"{name} {high} MB at most" for name, high in sorted(peaks.items()))
                )

    def _note(self, line: str) -> None:
        self.figures.append(f"mixed: {line}")


def _named(found: Iterator[tuple[Where, Sum]], renamed: Mapping[str, str]) -> dict[Where, Sum]:
    return {(renamed[topic], partition): one for (topic, partition), one in found}


def _transactions(there: Sequence[Row], records: Sequence[Record]) -> list[Sequence[Record]]:
    """Split records like the copy's transactions, so that rewritten records keep their offsets with the markers."""
    ends = [at for at in range(1, len(there)) if there[at][0] != there[at - 1][0] + 1]
    assert all(there[at][0] == there[at - 1][0] + 2 for at in ends)
    assert there[0][0] == 0
    return [records[begin:end] for begin, end in zip([0, *ends], [*ends, len(records)], strict=True)]


@contextmanager
def mixed(directory: Path, scale: Scale, seed: int, figures: list[str]) -> Iterator[Mixed]:
    """Start both clusters with the load, and remove everything at the end."""
    file = directory / "move.yaml"
    with source(scale) as old, DevCluster(scale.brokers, properties=STEADY, heap="512m") as new:
        load = Load(old.direct_bootstrap, scale, seed)
        began = time.monotonic()
        load.write()
        figures.append(f"mixed: written in {time.monotonic() - began:.0f} s")
        for topic, magic in (("old-0", 0), ("old-1", 1), ("codecs", 2)):
            assert load.magics(topic) == {magic}
        file.write_text(
            yaml.safe_dump(
                {
                    "name": _NAME,
                    "source": {"bootstrap-servers": old.bootstrap},
                    "target": {"bootstrap-servers": new.bootstrap},
                    "topics": {
                        "include": sorted(load.partitions),
                        "rename": dict(_RENAMED),
                        "allow-offset-gaps": ["gaps"],
                        "replication": scale.brokers,
                    },
                }
            )
        )
        yield Mixed(load, new, Commands(file, spark_home(directory)), figures)
