"""docs/listeners.md and its picture say what the cells of the scenarios say."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tests.harness.clusters.listeners import CELLS
from tools.listenerspicture import PAGE, PICTURE, page, picture


def test_page_and_picture_are_made_from_the_cells() -> None:
    """If not: python -m tools.listenerspicture"""
    assert PAGE.read_text() == page(PAGE.read_text())
    assert PICTURE.read_text() == picture()


def test_every_cell_is_on_the_page_and_in_the_picture() -> None:
    rows = re.findall(r"\| (?:works|fails) \|", PAGE.read_text())
    assert len(rows) == len(CELLS)
    drawn = [one.get("class") for one in ElementTree.fromstring(PICTURE.read_text()).iter() if one.tag.endswith("rect")]
    assert drawn.count("good") == len([cell for _, cell in CELLS if cell.fault is None])
    assert drawn.count("bad") == len([cell for _, cell in CELLS if cell.fault is not None])
