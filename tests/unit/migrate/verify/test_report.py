"""What is said of a verification: no more than is known, and nothing of it is markup."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from kproxy.migrate.verify.differences import Difference
from kproxy.migrate.verify.report import group_topics, headline, percent, render_text, to_json, verified_text
from kproxy.migrate.verify.reportpage import render_page
from kproxy.migrate.verify.results import (
    LagSample,
    PartitionResult,
    VerificationReport,
    VerifiedRange,
    parse_verified_ranges,
    verified_key,
)

RIGHT = PartitionResult("orders", 0, "orders", 0, 1000, 1000, VerifiedRange(0, 1000, 900), records=900, blocks=1)
BEHIND = replace(RIGHT, partition=1, kept=VerifiedRange(0, 500, 400))
HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[2J"
BAD = PartitionResult(
    HOSTILE, 2, HOSTILE, 0, 1000, 1200, VerifiedRange(100, 400, 300, deleted=100), records=900, blocks=3, bad=2, extra=1, deleted=100,
    compacted_target=7, difference=Difference(HOSTILE, 2, HOSTILE, "value", 400, 400, 401, HOSTILE, HOSTILE),
    note="a note",
)  # fmt: skip


def report(*partitions: PartitionResult, **more: object) -> VerificationReport:
    found = tuple(one.difference for one in partitions if one.difference is not None)
    return replace(VerificationReport("move", 1_700_000_000_000, 12.5, partitions, None, found), **more)  # type: ignore[arg-type]


def test_what_is_right() -> None:
    one = report(RIGHT)
    assert one.exit_code == 0
    assert (
        headline(one) == "All 1 partitions are verified up to the offset that was copied when the verification began."
    )
    assert verified_text(RIGHT) == "verified up to source offset 1,000 of 1,000"


def test_never_just_ok() -> None:
    for one in (report(RIGHT), report(BEHIND), report(BAD), report(), report(RIGHT, sample_share=0.1)):
        assert "OK" not in "\n".join(render_text(one)) + render_page(one)
    assert report(BEHIND).exit_code == 1
    assert headline(report(RIGHT, BEHIND)) == "1 of 2 partitions are not verified up to the copied offset."
    assert headline(report()) == "Nothing has been copied yet, so nothing is verified."


def test_what_differs_is_said_first() -> None:
    lines = render_text(report(RIGHT, BAD))
    assert lines[0] == "1 of 2 partitions are not the same on both sides."
    assert group_topics(report(RIGHT, BAD))[0].name == HOSTILE
    said = " ".join(" ".join(lines).split())
    assert "verified from 100 up to source offset 400 of 1,000" in said
    assert "100 offsets cannot be verified any more: the source has deleted them" in said
    assert "7 from the target" in said
    assert "2 blocks differ of the 3 that were compared" in said
    assert all(len(line) <= 80 and line.isprintable() for line in lines)


def test_a_sampling_is_called_one() -> None:
    sampling = report(replace(RIGHT, total_blocks=20, kept=VerifiedRange(0, 0)), sample_share=0.05)
    assert headline(sampling).startswith("Sampling: 1 of 20 blocks compared, 900 records: no difference found. Nothing")
    assert sampling.exit_code == 0
    assert "Sampling of the migration move" in render_page(sampling)
    assert "verified up to" not in render_page(sampling) + "\n".join(render_text(sampling))
    assert report(BAD, sample_share=0.05).exit_code == 1


def test_percent_is_not_rounded_to_all_or_nothing() -> None:
    assert [percent(*pair) for pair in ((0, 0), (0, 9), (1, 10**9), (1, 2), (10**9 - 1, 10**9), (5, 5))] == [
        "–",
        "0 %",
        "0.1 %",
        "50 %",
        "99.9 %",
        "100 %",
    ]


def test_many_partitions_are_not_all_named() -> None:
    lines = render_text(report(*(replace(BEHIND, partition=n) for n in range(500))))
    assert len(lines) < 30
    assert "  and 490 more partitions" in lines


def test_the_page_needs_nothing_and_nothing_of_it_is_markup() -> None:
    samples = tuple(LagSample(1_700_000_000_000 + n * 1000, 1000 - n * 10) for n in range(50))
    made = render_page(report(RIGHT, BEHIND, BAD, lag=samples))
    for each in ("<script", "http", "url(", "@import", " src=", " href=", "\x1b", "\u202e"):
        assert each not in made.lower(), each
    assert "&lt;script&gt;" in made
    body = made.removeprefix("<!DOCTYPE html>").strip()
    body = body.replace('<meta charset="utf-8">', "").replace("<br>", "")
    body = body.replace('<meta name="viewport" content="width=device-width, initial-scale=1">', "")
    tree = ElementTree.fromstring(body)
    assert len(tree.findall(".//svg")) == 2
    assert len(tree.findall(".//polyline")) == 1
    assert render_page(report()).endswith("</html>\n")


def test_what_is_not_all_is_not_100_percent() -> None:
    """All that was copied is the same; somebody else has written behind it."""
    one = replace(RIGHT, extra=2, kept=replace(RIGHT.kept, unknown=2))
    shown = "\n".join(render_text(report(RIGHT, one)))
    assert "99.9 % verified differs" in shown
    assert "2 records on the target that were not copied from the source, 2 of them" in shown
    assert "█" * 20 + " 99" not in shown
    assert "100 %" not in shown + render_page(report(RIGHT, one)).partition("<svg")[2].partition("</svg>")[0]
    assert report(one).exit_code == 1


def test_what_all_partitions_have_is_said_once() -> None:
    lost = [replace(RIGHT, partition=n, kept=VerifiedRange(0, 0), note="it was deleted") for n in range(12)]
    assert "\n".join(render_text(report(*lost))).count("it was deleted") == 1
    assert "all 12 partitions: it was deleted" in "\n".join(render_text(report(*lost)))


def test_of_what_clients_write_nothing_is_said() -> None:
    one = replace(RIGHT, client_offsets=1234, undecided_offsets=5)
    said = " ".join(" ".join(render_text(report(one))).split())
    assert "1,234 offsets on the target after the last copied record were not compared: clients" in said
    assert "5 offsets at the end of the target's log belong to open transactions" in said
    assert (report(one).exit_code, one.is_complete) == (0, True)


def test_json() -> None:
    said = json.loads(json.dumps(to_json(report(RIGHT, BAD))))
    assert [one["verified_upto"] for one in said["partitions"]] == [1000, 400]
    assert said["differences"][0]["field"] == "value"


def test_once_more() -> None:
    """Everything that is still there; what the source has deleted was verified before, and stays so."""
    kept = VerifiedRange(100, 900, 800, deleted=30, compacted=2)
    assert kept.restart_at(0) == VerifiedRange(100, 100, deleted=30)
    assert kept.restart_at(100) == VerifiedRange(100, 100, deleted=30)
    assert kept.restart_at(400) == VerifiedRange(100, 400, deleted=30)
    assert kept.restart_at(2000) == VerifiedRange(100, 900, deleted=30)


@pytest.mark.parametrize("digest", [None, 0, 1, 2**64 - 1])
def test_the_digest_is_kept(digest: int | None) -> None:
    record = json.dumps(VerifiedRange(5, 900, 800, digest=digest).to_record(7)).encode()
    read = VerifiedRange.read(record)
    assert read is not None
    assert (read.digest, read.at) == (digest, 7)


def test_what_is_kept() -> None:
    kept = VerifiedRange(5, 900, 800, deleted=3, compacted=2)
    record = json.dumps(kept.to_record(1)).encode()
    assert json.loads(record)["upto"] == 900
    assert json.loads(record)["sampled"] is False
    assert parse_verified_ranges({verified_key(("t", 3)): record, verified_key(("u", 0)): b"{}", b'["job"]': b"x"}) == {
        ("t", 3): kept
    }
    old = kept.to_record(1)
    del old["foreign"]  # as an older kproxy wrote it
    assert VerifiedRange.read(json.dumps(old).encode()) == kept
    assert VerifiedRange.read(b"[]") is VerifiedRange.read(b"7") is VerifiedRange.read(None) is None
    assert verified_key(("t", 3)) == b'["verified","t",3]'
