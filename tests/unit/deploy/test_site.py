"""The documentation site: built as `make docs` does, from the files of the repository."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.deploy.deployed import DOCUMENTS, ROOT

pytestmark = pytest.mark.timeout(700)  # Sphinx takes 15 s alone, and ten times as long on a busy machine

SETTINGS = ROOT / "tools" / "site"


def build(tree: Path, site: Path, settings: Path = SETTINGS) -> subprocess.CompletedProcess[str]:
    (words,) = re.findall(r"^\t\$\(BIN\)/python (-m sphinx .*)$", (ROOT / "Makefile").read_text(), re.M)
    replaced = {"$(or $(BUILDER),html)": "html", "tools/site": str(settings), "build/doctrees": f"{site}.doctrees"}
    for old, new in {**replaced, "$(SITE)": str(site), " . ": f" {tree} "}.items():
        assert old in words
        words = words.replace(old, new)
    command = [sys.executable, *words.split()]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    built = build(ROOT, folder)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_document_is_a_page_and_can_be_searched(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    for path in DOCUMENTS:
        page = path.relative_to(ROOT).with_suffix("")
        assert (site / f"{page}.html").is_file()
        assert f'"{page}"' in index


def test_a_page_loads_nothing_from_other_servers(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img|source|iframe)\b[^>]*\b(?:src|href)=\"([^\"]+)", page.read_text())
        assert loaded
        assert not [address for address in loaded if "//" in address]


def test_a_picture_has_a_light_and_a_dark_form(site: Path) -> None:
    for page in ("README.html", "docs/admin.html"):
        pictures = dict(re.findall(r"<img [^>]*class=\"only-(\w+)\"[^>]*src=\"([^\"]+)", (site / page).read_text()))
        assert pictures.keys() == {"light", "dark"}
        assert all((site / page).parent.joinpath(picture).is_file() for picture in pictures.values())


@pytest.mark.parametrize("link", ["docs/nowhere.md", "docs/here.md#nowhere", "nowhere.png"])
def test_a_link_that_leads_nowhere_fails(link: str, tmp_path: Path) -> None:
    """In a tree of two documents, whose navigation has both."""
    tree, settings = tmp_path / "tree", tmp_path / "settings"
    shutil.copytree(SETTINGS, settings, ignore=shutil.ignore_patterns("__pycache__"))
    settings.joinpath("conf.py").write_text(
        re.sub(
            r"^NAVIGATION = .*?^}",
            'NAVIGATION = {"A": ["docs/*"]}',
            (SETTINGS / "conf.py").read_text(),
            flags=re.S | re.M,
        )
    )
    (tree / "docs").mkdir(parents=True)
    (tree / "docs" / "here.md").write_text("# Here\n")
    for text, is_right in (("[a](docs/here.md#here)", True), (f"[a]({link})", False)):
        (tree / "README.md").write_text(f"# A\n\n{text}\n")
        built = build(tree, tmp_path / "site", settings)
        assert (built.returncode == 0) == is_right, built.stderr
    assert "nowhere" in built.stderr
