"""docs/troubleshooting.md is what the tables give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kproxy.advice import remedies
from kproxy.advice.remedies.own import all_messages
from tools.troubleshooting import DOCUMENT, page


def test_the_document_is_the_page(tmp_path: Path) -> None:
    """To mend it: `make troubleshooting`."""
    made = tmp_path / "page.md"
    subprocess.run([sys.executable, "-m", "tools.troubleshooting", str(made)], check=True, cwd=DOCUMENT.parents[1])

    assert DOCUMENT.read_text() == page() == made.read_text()


def test_each_message_is_on_the_page() -> None:
    shown = page().replace(r"\|", "|")

    assert all(message.text in shown for remedy in remedies.all_remedies() for message in remedy.messages)
    assert all(f"`{message.pattern}`" in shown for message in all_messages())


def test_only_tables_have_lines_that_are_too_long() -> None:
    assert [line for line in page().splitlines() if len(line) > 120 and not line.startswith(("|", "1. ["))] == []
