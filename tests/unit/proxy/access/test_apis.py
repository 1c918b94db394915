"""The table of all APIs in the documents."""

from __future__ import annotations

from pathlib import Path

from kproxy.protocol.wire.api import APIS
from kproxy.proxy.access.apis import reference_table

ROOT = Path(__file__).parents[4]


def test_the_document_has_the_table() -> None:
    """To mend it: put the output of `reference_table()` between the two marks."""
    text = (ROOT / "docs" / "access.md").read_text()
    table = text.partition("<!-- apis: begin -->\n")[2].partition("<!-- apis: end -->")[0]
    assert table == reference_table()
    assert all(f"| {key} | {api.name} |" in table for key, api in APIS.items())
