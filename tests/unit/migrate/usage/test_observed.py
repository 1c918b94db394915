"""Records of kproxies: what is believed of their lines, how they are merged, the file, and who goes round them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.diagnostic import ERROR, NOTE, WARNING
from kproxy.base.errors import AdminError, ConfigError
from kproxy.migrate.usage.coverage import coverage_findings
from kproxy.migrate.usage.observed import KproxyCoverage, ObservedUsage, merge_records, read_usage, write_usage
from kproxy.migrate.usage.replies import GROUPS, READS, WRITES, KproxyRecord, RecordedPartition, RecordedProducer
from kproxy.migrate.usage.sourcestate import GroupUse, SourceChange, TransactionUse, Writing
from kproxy.migrate.usage.unseen import check_unseen

ID = "AAAAAAAAAAAAAAAAAAAAAA"
HEAD = {"observation": {"record": "r1", "since": 5.0, "observers": {}, "left_out": {}, "clients": 1}}


def client(*uses: dict[str, Any], **more: Any) -> dict[str, Any]:
    fields = {
        "cluster": "default", "upstream": "blue", "user": "", "address": "h", "client_id": "app", "software": "java",
        "first": 1.0, "last": 2.0, "uses": [{"requests": 1, "last": 2.0, **use} for use in uses],
    }  # fmt: skip
    return {"client": {**fields, **more}}


def partition(offsets: int = 5, producers: dict[int, tuple[int, int]] | None = None, **more: Any) -> dict[str, Any]:
    fields = {
        "cluster": "default", "upstream": "blue", "topic": "orders", "partition": 0, "offsets": offsets, "unsized": 0,
        "last": 2.0,
        "producers": [
            {"id": number, "epoch": epoch, "offsets": count, "last": 2.0}
            for number, (epoch, count) in (producers or {-1: (-1, offsets)}).items()
        ],
    }  # fmt: skip
    return {"partition": {**fields, **more}}


def record(*lines: dict[str, Any]) -> KproxyRecord:
    return KproxyRecord.read([HEAD, *lines], "default", "kp-1")


def test_lines_of_a_client_are_one_client() -> None:
    read = record(
        client({"use": "reads", "topic_id": ID}), client({"use": "groups", "name": "g"}, last=9.0),
        client({"use": "writes", "transaction": "tx", "topic": "out"}), client({"use": "reads", "topic": "x"}, cluster="b"),
        client({"use": "of a later version", "name": "x"}),
    )  # fmt: skip
    (merged,) = merge_records([read], "green", {ID: "orders"}).clients
    assert set(merged.uses) == {(READS, "orders"), (GROUPS, "g")}
    assert set(merged.transactions) == {("tx", WRITES, "out")}
    assert merged.last == 9.0


def test_what_went_to_the_target_is_left_out() -> None:
    merged = merge_records([record(client(upstream="green"), partition(upstream="green"))], "green", {})
    assert (merged.clients, merged.partitions) == ((), ())


def test_partitions_of_two_kproxies_are_summed_by_name_and_id() -> None:
    by_id = {key: value for key, value in partition(7)["partition"].items() if key != "topic"} | {"topic_id": ID}
    merged = merge_records([record(partition(5)), record({"partition": by_id})], "green", {ID: "orders"})
    (part,) = merged.partitions
    assert (part.topic, part.offsets, part.producers) == ("orders", 12, {-1: RecordedProducer(-1, 12)})


def test_what_another_observer_had_counted_before_is_subtracted() -> None:
    now = record(partition(9, {-1: (-1, 4), 7: (3, 5)})).minus(record(partition(5, {7: (2, 5)})))
    assert now.partitions[0].offsets == 4
    assert now.partitions[0].producers == {-1: RecordedProducer(-1, 4), 7: RecordedProducer(3, 0)}


BROKEN: list[Any] = [
    [], [{}], [{"observation": 1}], [{"observation": {"record": "r", "since": "x", "left_out": {}}}],
    [HEAD, {}], [HEAD, {"client": 7}], [HEAD, client(uses=None)], [HEAD, client(uses=[7])], [HEAD, client(first=True)],
    [HEAD, client({"use": "reads"})], [HEAD, client({"use": "reads", "topic": "x" * 400})],
    [HEAD, client({"use": "reads", "topic_id": "AA"})], [HEAD, client(client_id="x" * 2000)],
    [HEAD, partition(partition=None)], [HEAD, partition(offsets=float("inf"))], [HEAD, {"partition": {**partition()["partition"], "producers": 7}}],
    [HEAD, client(uses=[{}] * 200_000)],
]  # fmt: skip


@pytest.mark.parametrize("lines", BROKEN, ids=range(len(BROKEN)))
def test_lines_of_no_kproxy_are_an_error_in_one_line(lines: Any) -> None:
    with pytest.raises(AdminError, match="kp-1 returned no valid record"):
        KproxyRecord.read(lines, "default", "kp-1")


# The file

SOURCE = SourceChange(
    1.0, 2.0, {"g": GroupUse(("orders",), ("app",))}, {"tx": TransactionUse(7, ("out",), ("g",))},
    (Writing("orders", 0, 7, 1, 5000, -1),), {("orders", 0): 5}, ("the log",),
)  # fmt: skip
USAGE = replace(
    merge_records([record(client({"use": "reads", "topic": "orders"}), partition())], "green", {}),
    began=1.0,
    ended=2.0,
    kproxies=(KproxyCoverage("kp-1", 1.0, 2.0, ((1.0, 1.5),), "gone", {"names": 3}),),
    source=SOURCE,
)


def test_the_file_has_all(tmp_path: Path) -> None:
    write_usage(USAGE, tmp_path / "observed.json")
    assert read_usage(tmp_path / "observed.json") == USAGE
    assert [path.name for path in tmp_path.iterdir()] == ["observed.json"]


@pytest.mark.parametrize(
    "text", ["", "[]", "7", "{}", '{"format": 99}', '{"format": 1}', "[" * 100_000, '{"format": 1, "began": null}']
)
def test_another_file_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "observed.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="kproxy migrate observe") as refused:
        read_usage(path)
    assert "\n" not in str(refused.value)


def test_a_file_with_other_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "observed.json"
    write_usage(USAGE, path)
    document = json.loads(path.read_text())
    for key in ("clients", "partitions", "kproxies", "source"):
        for value in (7, "x", [7], [{}]):
            path.write_text(json.dumps({**document, key: value}))
            with pytest.raises(ConfigError):
                read_usage(path)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="allowed: a file that can be written"):
        write_usage(USAGE, tmp_path / "none" / "observed.json")


def test_what_was_not_recorded_is_said() -> None:
    texts = [str(finding) for finding in coverage_findings(USAGE)]
    assert [text.split(":")[1].split(" for ")[0].split(" what ")[0] for text in texts]
    assert any("did not answer at the end" in text for text in texts)
    assert any("was restarted" in text for text in texts)
    assert any("had no room in its record: 3 times names" in text for text in texts)
    assert any("could not be read: the log" in text for text in texts)
    never = ObservedUsage(1.0, 2.0, kproxies=(KproxyCoverage("kp-2", problem="refused"),))
    assert "was not observed" in str(next(iter(coverage_findings(never))))


# Who goes round the kproxies

COMPLETE = (KproxyCoverage("kp-1", 1.0, 2.0),)


def observed(*writings: Writing, producers: dict[int, tuple[int, int]], unsized: int = 0) -> ObservedUsage:
    part = RecordedPartition(
        "", "orders", 0, 5, unsized, 2.0, {n: RecordedProducer(*values) for n, values in producers.items()}
    )
    return ObservedUsage(
        1.0, 2.0, partitions=(part,), kproxies=COMPLETE, source=SourceChange(1.0, 2.0, writings=writings)
    )


@pytest.mark.parametrize(
    ("writing", "producers", "expected"),
    [
        (Writing("orders", 0, 7, 1, 5000), {7: (1, 3)}, ""),
        (Writing("orders", 0, 7, 1, 5000), {7: (2, 3)}, ""),  # seen later than the log was read
        (Writing("orders", 0, 7, 2, 5000), {7: (1, 3)}, "producer id 7, epoch 2, last at 1970-01-01T00:00:05"),
        (Writing("orders", 0, 8, 1, -1, 4), {7: (1, 3)}, "producer id 8, epoch 1, 4 records"),
        (Writing("orders", 0, -1, -1, 5000, 3), {-1: (-1, 3)}, ""),
        (Writing("orders", 0, -1, -1, 5000, 3), {-1: (-1, 2)}, "without a producer id, 1 record, last at 1970"),
        (Writing("orders", 0, -1, -1, 1 << 62, 3), {}, "without a producer id, 3 records"),
        (Writing("others", 1, 7, 1, 0), {7: (1, 3)}, "partition 1: producer id 7"),
    ],
)
def test_who_goes_round_is_named(writing: Writing, producers: dict[int, tuple[int, int]], expected: str) -> None:
    findings = list(check_unseen(observed(writing, producers=producers)))
    assert bool(findings) == bool(expected)
    if findings:
        (finding,) = findings
        assert finding.severity is ERROR
        assert expected in finding.text
        assert f"--allow-unseen {writing.topic}" in finding.text


def test_what_cannot_be_counted_is_not_named() -> None:
    assert not list(check_unseen(observed(Writing("orders", 0, -1, -1, 0, 9), producers={}, unsized=1)))


def test_what_is_allowed_or_uncertain_stops_nothing() -> None:
    usage = observed(Writing("orders", 0, 8, 1, 0), producers={})
    assert next(check_unseen(usage, ["ord*"])).severity is NOTE
    restarted = replace(usage, kproxies=(replace(COMPLETE[0], gaps=((1.0, 1.1),)),))
    finding = next(check_unseen(restarted))
    assert finding.severity is WARNING
    assert "recorded nothing" in finding.text
