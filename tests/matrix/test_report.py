"""The page that a run writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrix.report import FAILS, WORKS, Report, section, section_results, write_section


def test_every_cell_and_each_reason_once() -> None:
    report = Report(["a T", "b"], ["2.1.1", "4.0.0"], "17", ["2.1.1"])
    report.tell("a T", "2.1.1", WORKS)
    report.tell("b", "2.1.1", "-", "too old")
    report.tell("b", "4.0.0", FAILS)
    report.tell("a T", "4.0.0", "-", "too old")
    lines = report.text().splitlines()
    assert "| client | Kafka 2.1.1 | Kafka 4.0.0 |" in lines
    assert "| a T | works | - (1) |" in lines
    assert "| b | - (1) | **fails** |" in lines
    assert lines.count("1. too old") == 1


def test_equal_results_make_equal_text() -> None:
    texts = set()
    for order in (["a", "b"], ["b", "a"]):
        report = Report(["a", "b"], ["1"], "17", [])
        for row in order:
            report.tell(row, "1", "-", f"because of {row}")
        texts.add(report.text())
    assert len(texts) == 1


def test_the_parts_of_the_page_are_written_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("# before\n")
    monkeypatch.setattr("tests.matrix.report.PATH", page)
    write_section("Spark", ["3.5.9: works"])
    write_section("Python", ["3.11.2: works"])
    write_section("Python", ["3.11.2: works", "3.13.0: works"])
    parts = section("Python", ["3.11.2: works", "3.13.0: works"]) + section("Spark", ["3.5.9: works"])
    assert page.read_text() == "# before\n" + parts
    assert section_results("Python") == {"3.11.2": "works", "3.13.0": "works"}
    assert section_results("Moves") == {}
    Report([], ["1"], "17", []).write()
    assert page.read_text() == Report([], ["1"], "17", []).text() + parts


def test_what_was_not_run_again_stays() -> None:
    before = Report(["gone", "a T", "b"], ["2.1.1", "4.0.0"], "17", [])
    before.tell("gone", "4.0.0", WORKS)
    before.tell("a T", "2.1.1", "-", "too old")
    before.tell("a T", "4.0.0", WORKS)
    before.tell("b", "2.1.1", FAILS)
    report = Report(["a T", "b", "new"], ["2.1.1", "4.0.0"], "17", [])
    report.tell("b", "2.1.1", "-", "older still")
    report.tell("new", "4.0.0", "not run", "too old")
    report.remember(before.text())
    lines = report.text().splitlines()
    assert lines[lines.index("|---|---|---|") + 1 :][:6] == [
        "| a T | - (1) | works |",
        "| b | - (2) |  |",
        "| new |  | not run (1) |",
        "",
        "1. too old",
        "2. older still",
    ]
    again = Report(["a T", "b", "new"], ["2.1.1", "4.0.0"], "17", [])
    again.remember(report.text())
    assert again.text() == report.text()
