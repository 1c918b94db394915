"""docs/metrics.md and the Grafana dashboard say what the table of metrics says: nothing missing, nothing invented."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.metrics import LATENCY_BOUNDS, MAX_CALLS, MAX_REASONS
from kproxy.proxy.metrics.exposition import runtime_registry
from kproxy.proxy.metrics.families import FAMILIES
from tests.unit.proxy.metrics.scraped import sample_names

ROOT = Path(__file__).parents[4]
DOCUMENT = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/kproxy.json").read_text(encoding="utf-8"))

NAME = re.compile(r"\b(?:kproxy|process|python)_\w+")
LABELS = {name: {*f.labels, *(["le"] if f.kind == "histogram" else [])} for f in FAMILIES for name in sample_names(f)}
SCRAPE_LABELS = {"job", "instance"}  # Prometheus adds them


def runtime_names() -> set[str]:
    """What prometheus-client tells of the process."""
    return {sample.name for family in runtime_registry().collect() for sample in family.samples}


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    section = DOCUMENT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    paragraphs = section.split("\n\n")
    lines = next(paragraph for paragraph in paragraphs if paragraph.lstrip().startswith("|")).strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_document_has_every_metric_with_type_unit_and_labels() -> None:
    documented = [
        (name.strip("`"), kind, re.findall(r"`(\w+)`", labels)) for name, kind, labels, _ in rows("What kproxy counts")
    ]
    declared = [(f.name, f"{f.kind} ({f.unit})" if f.unit else f.kind, list(f.labels)) for f in FAMILIES]
    assert documented == declared


def test_the_document_has_every_metric_of_the_process() -> None:
    documented = {name.strip("`") for name, _, _ in rows("The process")}
    if sys.platform == "linux":
        assert documented == runtime_names()
    else:
        assert documented >= runtime_names()


def test_the_document_has_every_label() -> None:
    documented = [name.strip("`") for name, _ in rows("Labels")]
    assert len(documented) == len(set(documented))
    assert set(documented) == set().union(*LABELS.values())


def test_the_document_has_the_bounds_and_limits() -> None:
    milliseconds = [f"{bound * 1000:g}" for bound in LATENCY_BOUNDS if bound < 1]
    seconds = [f"{bound:g}" for bound in LATENCY_BOUNDS if bound >= 1]
    bounds = f"{', '.join(milliseconds[:-1])} and {milliseconds[-1]} ms, {', '.join(seconds[:-1])} and {seconds[-1]} s"
    text = " ".join(DOCUMENT.split())
    assert bounds in text
    assert f"{MAX_CALLS} pairs of API and version" in text
    assert f"at most {MAX_REASONS};" in text


def test_the_document_uses_only_names_that_exist() -> None:
    documented = {name.strip("`") for name, *_ in rows("The process")}
    known = {f.name for f in FAMILIES} | LABELS.keys() | documented
    assert set(NAME.findall(DOCUMENT)) <= known


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        yield panel
        yield from panel.get("panels", ())


EXPRESSIONS = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
VARIABLES = DASHBOARD["templating"]["list"]


@pytest.mark.skipif(sys.platform != "linux", reason="process_* metrics are read from /proc")
@pytest.mark.parametrize(
    "expression", [*EXPRESSIONS, *(v["query"]["query"] for v in VARIABLES if v["type"] == "query")]
)
def test_a_dashboard_query_uses_names_that_exist(expression: str) -> None:
    names = NAME.findall(expression)
    assert names
    labels = set(SCRAPE_LABELS)
    for name in names:
        assert name in LABELS or name in runtime_names()
        labels |= LABELS.get(name, set())
    matched = re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', expression)
    grouped = [label for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in group.split(", ")]
    asked = re.findall(r"^label_values\(.*, (\w+)\)$", expression)
    assert {*matched, *grouped, *asked} <= labels


def test_the_dashboard_shows_every_metric() -> None:
    used = set(NAME.findall(" ".join(EXPRESSIONS)))
    assert [f.name for f in FAMILIES if used.isdisjoint(sample_names(f))] == []


def test_the_dashboard_can_be_imported() -> None:
    assert DASHBOARD["uid"] == "kproxy"
    assert "id" not in DASHBOARD  # else Grafana takes it for one that it has
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))
    declared = [variable["name"] for variable in VARIABLES]
    used = set(re.findall(r"\$\{?(\w+)", json.dumps([DASHBOARD["panels"], VARIABLES])))
    assert used - {"__rate_interval", "__all"} == set(declared)
    for panel in panels():
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"


def test_the_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in panels()]
    for one, other in itertools.combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)
