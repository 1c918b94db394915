"""The set-ups that the field publishes are found healthy: a linter that cries wolf is not used twice."""

from __future__ import annotations

import pytest

from kproxy.advice.lint.filekinds import FileKind
from tests.unit.advice.lint import brokenfiles, examples, morepublished, published
from tests.unit.advice.lint.helpers import report, shown

EVERY = [
    *((name, "compose.yml", text) for name, text in examples.COMPOSE.items()),
    *((name, "server.properties", text) for name, text in examples.SERVER.items()),
    *((name, "kafka.yaml", text) for name, text in examples.KUBERNETES.items()),
    *((name, name, text) for name, text in examples.CLIENT.items()),
    *((name, name, text) for name, text in brokenfiles.HEALTHY.items()),
    *published.EXAMPLES,
    *morepublished.EXAMPLES,
]


@pytest.mark.parametrize(("name", "file", "text"), EVERY, ids=[name for name, _, _ in EVERY])
def test_nothing_is_found(name: str, file: str, text: str) -> None:
    found = report({file: text})
    assert found.unreadable == {}
    assert not any("it has no" in line for line in found.unchecked), found.unchecked
    assert list(found.findings) == [], shown(found)


@pytest.mark.parametrize(("name", "file", "text"), EVERY, ids=[name for name, _, _ in EVERY])
def test_line_ends_of_windows_make_no_difference(name: str, file: str, text: str) -> None:
    found = report({file: text.replace("\n", "\r\n")})
    assert list(found.findings) == [], shown(found)


def test_the_kind_is_seen_in_the_content() -> None:
    from kproxy.advice.lint.filekinds import recognise_kind
    from kproxy.advice.lint.source import SourceFile

    for texts, kind in (
        (examples.COMPOSE, FileKind.COMPOSE),
        (examples.SERVER, FileKind.SERVER),
        (examples.KUBERNETES, FileKind.KUBERNETES),
    ):
        assert {recognise_kind(SourceFile("x", text)) for text in texts.values()} == {kind}
    assert [recognise_kind(SourceFile("x", text)) for text in examples.CLIENT.values()] == [
        FileKind.CLIENT,
        FileKind.CONNECT,
        FileKind.SPARK,
    ]
