"""`python -m kproxy.advice.remedies FILE` writes docs/troubleshooting.md."""

from __future__ import annotations

import sys
from pathlib import Path

from kproxy.advice.remedies.page import page

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
