"""The table of what clients have said, in docs/flip.md, has all that are tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.migration.flipseen import VARIABLE, named, note, seen
from tests.soak.switchclients import ALL
from tools.flipseen import DOCUMENT, rows, written

_BY_HAND = {f"{library} consumer, assigned by hand" for library in ("java", "librdkafka", "kafka-python")}


def test_each_client_that_is_tried_has_a_row() -> None:
    document = DOCUMENT.read_text()
    there = {client for client, _ in rows(document)}
    assert there >= {kind.name for kind in ALL} | _BY_HAND
    assert written(document, []) == document


def test_clients_of_the_soak_have_the_names_of_the_table() -> None:
    known = [kind for kind in ALL if kind.program != "franz" and not kind.shares]
    assert [named(kind.program, kind.does, kind.properties) for kind in known] == [kind.name for kind in known]


def test_text_is_kept_without_numbers_and_replaces_older_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["acked 1 0 7", "lost 0 1", "failed 3 org.apache.kafka.X: at 127.0.0.1", "aborted 1 5 Y", "begun again"]
    said = seen([*lines, "lost 0"])
    assert said == {"lost": 2, "failed (X)": 1, "aborted (Y)": 1, "begun again": 1}
    monkeypatch.setenv(VARIABLE, str(tmp_path / "seen"))
    note("a", "soak, 1 switches", said)
    note("a", "soak, 2 switches", {})
    noted = (tmp_path / "seen").read_text().splitlines()
    assert json.loads(noted[0])["said"] == said
    document = written("before\n<!-- python -m tools.flipseen: begin -->\n<!-- end -->\nafter\n", noted)
    assert rows(document) == {("a", "soak, 2 switches"): "nothing"}
    assert rows(written(document, noted[:1])) == {
        ("a", "soak, 1 switches"): "aborted (Y) × 1, begun again × 1, failed (X) × 1, lost × 2"
    }
    assert document.startswith("before\n")
    assert document.endswith("after\n")
