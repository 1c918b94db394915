"""The report of a migration in a real browser: without scripts, on a telephone, on a screen and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kproxy.migrate.copier.state import PartitionState
from kproxy.migrate.journal.switch_journal import SWITCHING, SwitchEntry
from kproxy.migrate.report.movepage import render_page
from kproxy.migrate.report.record import MigrationRecord
from kproxy.migrate.report.status import MigrationStatus
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.verify.results import VerifiedRange
from tests.harness.clients.browser import Browser, NoAxe, chromium

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(chromium() is None, reason="chromium is not on this machine (apt-get install chromium)"),
]

HOSTILE = "<img src=x onerror=console.log('run')><script>console.log('run')</script>" + "x" * 170
SWITCH = SwitchEntry(
    "x1", SWITCHING, "default", "blue", "green", ("kp-1.prod.svc.cluster.local:19091", HOSTILE), ended=True,
    began=1_700_000_200_000, at=1_700_000_202_000, host="ops-1", pid=7, user="alice", held_seconds=1.25,
)  # fmt: skip
STATES = {
    (HOSTILE, partition): PartitionState(
        "orders", 0, 12_345_678_901, 1000, records=12_345_000_000, size=10**13, checksum=0xABC, at=1_700_000_000_000
    )
    for partition in range(30)
}
KEPT = {place: VerifiedRange(0, 12_345_678_901, 900, digest=0xDEF, at=1_700_000_100_000) for place in STATES}
STATUS = MigrationStatus("move", STATES, KEPT, ("readers",), {}, False, SWITCH)
MIGRATION = Migration({"bootstrap-servers": "old:1"}, {"bootstrap-servers": "new:1"})
RECORD = MigrationRecord(
    1_700_000_300_000, MIGRATION, STATUS, (SWITCH, replace(SWITCH, switch="x2")), (),
    {"readers": {("orders", 0): 17}},
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    page: Path = tmp_path_factory.mktemp("report") / "report.html"
    page.write_text(render_page(RECORD), encoding="utf-8")
    with Browser() as browser:
        browser.open(page.as_uri())
        browser.wait_for("document.readyState == 'complete'")
        yield browser
        assert browser.console == [], "nothing of a name runs"


@pytest.mark.parametrize("width", [400, 800, 1400])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_screen_and_is_accessible(browser: Browser, width: int, dark: bool) -> None:
    browser.size(width, 900)
    browser.dark(dark)
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert browser.js("document.querySelectorAll('script, img').length") == 0
    assert HOSTILE[:20] in browser.text("main")
    try:
        assert [one for one in browser.axe() if one.impact in ("serious", "critical")] == []
    except NoAxe as error:
        pytest.skip(str(error))


def test_a_narrow_screen_has_each_row_as_a_list(browser: Browser) -> None:
    browser.size(400, 900)
    cell = "document.querySelectorAll('.stacked td')[1]"
    assert browser.js(f"getComputedStyle({cell}).display") == "flex"
    assert browser.js(f"getComputedStyle({cell}, '::before').content") == '"Last record"'
    browser.size(1400, 900)
    assert browser.js(f"getComputedStyle({cell}).display") == "table-cell"


def test_nothing_is_cut_on_paper(browser: Browser) -> None:
    """A4 landscape, 273 mm of text: what is wider than the page is lost."""
    browser.size(1032, 900)
    browser.send("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.js("document.documentElement.scrollWidth") <= 1032
        assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")
