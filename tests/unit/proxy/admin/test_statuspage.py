"""The document of the status page and its headers; tests/integration/test_page.py opens it in a browser."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from kproxy.proxy.admin import statuspage
from kproxy.proxy.admin.statuspage import document


def policy() -> dict[str, str]:
    directives = document()[1]["Content-Security-Policy"].split("; ")
    return {name: value for name, _, value in (one.partition(" ") for one in directives)}


def inline(tag: str) -> list[str]:
    return re.findall(rf"<{tag}>(.*?)</{tag}>", document()[0].decode(), re.DOTALL)


def hash_of(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_the_policy_allows_what_is_in_the_page_and_nothing_else() -> None:
    (style,), (script,) = inline("style"), inline("script")
    assert policy() == {
        "default-src": "'none'",
        "style-src": hash_of(style),
        "script-src": hash_of(script),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert document()[1]["Referrer-Policy"] == "no-referrer"
    assert document()[1]["Content-Type"] == "text/html; charset=utf-8"


def test_the_page_needs_nothing_else() -> None:
    text = document()[0].decode()
    assert len(document()[0]) < 150_000
    assert '<link rel="stylesheet"' not in text
    assert "<script src" not in text
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[\w/.]*", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, which nobody fetches
    assert set(re.findall(r'(?:href|src)="([^"]*)"', text)) >= {"status", "metrics", "readyz"}
    assert not re.search(r"\s(?:on\w+|style)=", text)


def test_the_script_makes_no_html_of_texts() -> None:
    (script,) = inline("script")
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|cssText"
    assert not re.search(forbidden, script)


def test_the_files_of_the_page_are_in_the_package() -> None:
    there = {file.name for file in files("kproxy.proxy.admin.statuspage").iterdir()}
    assert {"page.html", "page.css", *statuspage._SCRIPTS} <= there
    assert {name for name in there if name.endswith(".js")} == set(statuspage._SCRIPTS)


def test_the_page_is_made_once() -> None:
    assert document() is document()
