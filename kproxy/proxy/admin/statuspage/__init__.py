"""The status page: one HTML document that needs nothing else, made of these files once.

    __init__      `document`: the page with its style and its script in it, and the headers that it must have

`page.html` is the frame, `page.css` how it looks, the scripts what it does; the first lines of `page.js` say how. They
become one function, in the order of `_SCRIPTS`. What the page shows
comes from `/live` and is text from outside: client ids, addresses, messages. So the headers allow this style and
this script and no others, and the script never makes HTML of a text.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

_STYLE = '<link rel="stylesheet" href="page.css">'
_SCRIPT = '<script src="page.js"></script>'
_SCRIPTS = ("text.js", "lists.js", "state.js", "picture.js", "words.js", "page.js")


@cache
def document() -> tuple[bytes, dict[str, str]]:
    """Return the page in UTF-8 and its headers."""
    directory = files(__name__)
    frame, style, *scripts = ((directory / name).read_text("utf-8") for name in ("page.html", "page.css", *_SCRIPTS))
    script = '"use strict";\n(() => {\n' + "\n".join(scripts) + "})();\n"
    page = frame.replace(_STYLE, f"<style>{style}</style>").replace(_SCRIPT, f"<script>{script}</script>")
    policy = {
        "default-src": "'none'",
        "style-src": _hash(style),
        "script-src": _hash(script),
        "connect-src": "'self'",
        "img-src": "data:",  # the icon
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }
    return page.encode(), headers


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
