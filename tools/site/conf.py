"""Settings of Sphinx for the documentation site, which `make docs` builds from the Markdown files of the repository.

The files stay as a forge shows them. MyST reads CommonMark with the tables and the anchors of GitHub, so the site
shows the same. What only the site needs is added while they are read: the navigation, and the two forms of a picture.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "kproxy"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "deploy/**.md"]
myst_heading_anchors = 6
myst_enable_extensions = ["attrs_inline"]
highlight_language = "none"
smartquotes = False
suppress_warnings = ["misc.highlighting_failure"]  # a page cuts lines of a configuration with "…"

html_theme = "furo"
html_title = "kproxy"
html_copy_source = False
html_show_sphinx = False
# The pages name no other server: no fonts, no analytics.
html_theme_options = {"top_of_page_buttons": []}

# A page that is in no list is an error of `make docs`.
NAVIGATION = {
    "Start": [
        "docs/README",
        "docs/install",
        "docs/macos",
        "docs/guide",
        "docs/python",
        "docs/doctor",
        "docs/listeners",
        "docs/troubleshooting",
    ],
    "Connect": [
        "docs/scenarios",
        "docs/forwards",
        "docs/recipes/README",
        "docs/recipes/*",
        "docs/spark",
        "docs/spark-managed",
    ],
    "Run": [
        "deploy/README",
        "deploy/*/README",
        "docs/configuration",
        "docs/admin",
        "docs/metrics",
        "docs/access",
        "docs/logins",
        "docs/security",
    ],
    "Check": ["docs/lint", "docs/findings"],
    "Migrate": ["docs/migration", "docs/migration-switch", "docs/migration-offsets", "docs/flip"],
    "Look up": ["docs/compatibility", "docs/performance", "docs/protocol", "docs/architecture", "CHANGELOG"],
    "Take part": ["CONTRIBUTING", "SECURITY"],
}
# As GitHub wants two forms of a picture: https://docs.github.com/get-started/writing-on-github (the picture element).
_PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img alt="(?P<alt>[^"]+)" src="(?P<light>[^"]+)">\s*</picture>'
)


def _complete(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add what only the site needs to the text of a page."""
    source[0] = _PICTURE.sub(r"![\g<alt>](\g<light>){.only-light}![\g<alt>](\g<dark>){.only-dark}", source[0])
    if docname == root_doc:
        for caption, pages in NAVIGATION.items():
            head = f"```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n"
            source[0] += f"\n{head}\n" + "\n".join(f"/{page}" for page in pages) + "\n```\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx, which calls this."""
    app.connect("source-read", _complete)
    return {"parallel_read_safe": True}
