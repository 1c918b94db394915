"""The picture of docs/performance.md, read as XML."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import picture, report, tables
from bench.loads import LOADS, Kind, Load
from bench.native import SMALL
from bench.peers import DIRECT, HAPROXY, KPROXY
from bench.picture import COLUMNS, PICTURE, UNIT, WIDTH, draw

SVG = "{http://www.w3.org/2000/svg}"
DOCUMENT = tables.DOCUMENT.read_text(encoding="utf-8")
GROUPS = {group.table: group.title for groups in COLUMNS for group in groups}


def bars(svg: str) -> dict[tuple[str, str], ElementTree.Element]:
    """The bars, by the heading of their group and their load."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        for bar in group.iter(f"{SVG}rect"):
            found[group.attrib["data-group"], bar.attrib["data-load"]] = bar
    return found


def rows(table: str) -> Iterator[list[str]]:
    """The cells of one table of the page, without its heads."""
    text = DOCUMENT.partition(f"<!-- bench {table} -->\n")[2].partition("<!-- end -->")[0]
    for line in text.splitlines()[2:]:
        yield [cell.strip(" `") for cell in line.split("|")[1:-1]]


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


def page(*loads: tuple[str, str]) -> str:
    """A page whose only table has these loads and ratios."""
    lines = "".join(f"| `{name}` | 200 | 100 | 90 | {ratio} |\n" for name, ratio in loads)
    return f"<!-- bench bulk -->\n| load | direct | haproxy | kproxy | ratio |\n| --- | --- |\n{lines}<!-- end -->\n"


def test_the_page_shows_the_picture_of_its_own_tables() -> None:
    """To mend it: `python -m bench.picture`."""
    assert PICTURE.read_text(encoding="utf-8") == draw(DOCUMENT)
    assert f"]({PICTURE.name})" in DOCUMENT


def test_every_load_is_in_it() -> None:
    drawn = bars(draw(DOCUMENT))
    assert {load.name for load in LOADS} <= {load for _, load in drawn}
    for table in ("bulk", "partitions", "frames", "tls", "clients"):
        assert {load for group, load in drawn if group == GROUPS[table]} == {row[0] for row in rows(table)}


@pytest.mark.parametrize("table", ["bulk", "partitions", "frames", "tls", "clients"])
def test_a_bar_is_as_long_as_kproxy_is_fast(table: str) -> None:
    """Against the throughputs in the table, of which the ratio is made."""
    drawn = bars(draw(DOCUMENT))
    for name, _, haproxy, kproxy, *_ in rows(table):
        length = float(drawn[GROUPS[table], name].attrib["width"])
        assert length / UNIT == pytest.approx(number(kproxy) / number(haproxy), rel=0.02, abs=0.006), name


def test_one_request_at_a_time_is_shown_by_throughput_too() -> None:
    """Its own table has latencies, of which less is better."""
    drawn = bars(draw(DOCUMENT))
    ratios = {name: kproxy.split(" / ")[0] for name, _, kproxy, *_ in rows("variants")}
    for name in ("ping-c1", "ping-c64"):
        assert float(drawn[GROUPS["variants"], name].attrib["width"]) / UNIT == pytest.approx(float(ratios[name]))


def test_bars_are_sorted_labelled_and_inside() -> None:
    root = ElementTree.fromstring(draw(DOCUMENT))
    height = float(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {WIDTH} {height:g}"
    for group in root.iter(f"{SVG}g"):
        lengths = [float(bar.attrib["width"]) for bar in group.iter(f"{SVG}rect")]
        tops = [float(bar.attrib["y"]) for bar in group.iter(f"{SVG}rect")]
        assert lengths == sorted(lengths, reverse=True)
        assert all(below - above >= 14 for above, below in itertools.pairwise(tops))
        assert max(tops) < height
        texts = [text.text or "" for text in group.iter(f"{SVG}text")]
        assert texts[0] == group.attrib["data-group"]
        for bar, label, figure in zip(group.iter(f"{SVG}rect"), texts[1::2], texts[2::2], strict=True):
            assert label == bar.attrib["data-load"]
            assert float(figure) * UNIT == pytest.approx(float(bar.attrib["width"]))
        for text in group.iter(f"{SVG}text"):
            # Nothing is cut off: a character takes less than 6 pixels.
            x, room = float(text.attrib["x"]), 6 * len(text.text or "")
            assert (x - room if text.get("text-anchor") == "end" else WIDTH - x - room) > -1, text.text


def test_both_colour_schemes_are_there_and_nothing_is_fetched() -> None:
    svg = draw(DOCUMENT)
    style = ElementTree.fromstring(svg).findtext(f"{SVG}style") or ""
    light, media, dark = style.partition("@media (prefers-color-scheme: dark)")
    assert media
    colours = r"^([\w .]+) \{[^}]*?\b(?:fill|stroke): (#[0-9a-f]{6})"
    by_scheme = [dict(re.findall(colours, part, re.MULTILINE)) for part in (light, dark)]
    used = {f".{name}" for name in re.findall(r'class="([\w ]+)"', svg)} - {".title", ".group"}
    for scheme in by_scheme:
        assert {"text", *(name.replace(" ", ".") for name in used)} == scheme.keys()
    assert not by_scheme[0].items() & by_scheme[1].items()
    assert not re.search(r"href|url\(|@import|<script", svg)


def test_any_name_makes_well_formed_xml() -> None:
    drawn = bars(draw(page(('fetch<&">-1', "1.10"), ("fetch-2", "0.50"))))
    assert [(load, bar.attrib["width"], bar.attrib["class"]) for (_, load), bar in drawn.items()] == [
        ('fetch<&">-1', "110", "bar fast"),
        ("fetch-2", "50", "bar slow"),
    ]


def test_what_was_not_measured_has_no_bar() -> None:
    drawn = bars(draw(page(("fetch-1", ""), ("fetch-2", "0.50"))))
    assert list(drawn) == [(GROUPS["bulk"], "fetch-2")]
    assert bars(draw("# A page without tables\n")) == {}


def test_a_run_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"cpu_s_per_gb": 0.2, "rss_mib": 40.0, "load_busy": 1.0, "foreign": 0.0}
    speeds = {DIRECT: 200.0, HAPROXY: 100.0, KPROXY: 80.0}
    entry = report.with_ratios(
        Load("fetch", Kind.BULK, SMALL, 1, 1), {peer: figures | {"mb_per_s": speed} for peer, speed in speeds.items()}
    )
    machine = {"cores": 2, "cpu": "a CPU", "kernel": "6", "python": "3"}
    run = {"loads": {"fetch-16K-c1": entry}, "machine": machine, "seconds": 60}
    (tmp_path / "bench.json").write_text(json.dumps(run))
    monkeypatch.setattr(picture, "PICTURE", tmp_path / "picture.svg")
    monkeypatch.setattr("sys.argv", ["picture", str(tmp_path / "bench.json")])
    picture.main()
    drawn = bars((tmp_path / "picture.svg").read_text())
    assert {load: bar.attrib["width"] for (group, load), bar in drawn.items() if group == GROUPS["bulk"]} == {
        "fetch-16K-c1": "80"
    }
    assert tables.DOCUMENT.read_text(encoding="utf-8") == DOCUMENT
