"""The page that a run writes."""

from __future__ import annotations

from tests.matrix.report import FAILS, WORKS, Report


def test_every_cell_and_each_reason_once() -> None:
    report = Report(["a T", "b"], ["2.1.1", "4.0.0"], "17", ["2.1.1"])
    report.tell("a T", "2.1.1", WORKS)
    report.tell("b", "2.1.1", "-", "too old")
    report.tell("b", "4.0.0", FAILS)
    assert not report.complete
    report.tell("a T", "4.0.0", "-", "too old")
    assert report.complete
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
