"""Draws the status page in several sizes, light and dark, with problems and with many brokers.

python -m tools.pagesizes DIRECTORY
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.harness.clients.browser import Browser
from tests.harness.servers.livepage import crowded, shown, troubled, update


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for what, made in (("troubled", troubled), ("crowded", crowded)):
            with shown(browser, made(-200)) as live:
                for second in range(-198, 1, 2):
                    if not -120 < second < -90:  # no viewer was connected then
                        update(browser, live, made(second))
                for width, height in ((320, 900), (768, 1024), (1280, 900), (1920, 1200), (3840, 2160)):
                    browser.size(width, height)
                    time.sleep(0.4)
                    for dark in (False, True):
                        browser.dark(dark)
                        browser.js("scrollTo(0, 0)")
                        name = f"{what}-{width}-{'dark' if dark else 'light'}.png"
                        browser.screenshot(directory / name, whole=True)
        print("\n".join(browser.console) or "nothing on the console")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
