"""The set-ups that the field publishes are found healthy: a linter that cries wolf is not used twice."""

from __future__ import annotations

import pytest

from kproxy.advice.lint.filekinds import Kind
from tests.unit.advice.lint import examples
from tests.unit.advice.lint.helpers import report, shown

EVERY = [
    *((name, "compose.yml", text) for name, text in examples.COMPOSE.items()),
    *((name, "server.properties", text) for name, text in examples.SERVER.items()),
    *((name, "kafka.yaml", text) for name, text in examples.KUBERNETES.items()),
    *((name, name, text) for name, text in examples.CLIENT.items()),
]


@pytest.mark.parametrize(("name", "file", "text"), EVERY, ids=[name for name, _, _ in EVERY])
def test_nothing_is_found(name: str, file: str, text: str) -> None:
    found = report({file: text})
    assert found.unreadable == {}
    assert list(found.findings) == [], shown(found)


@pytest.mark.parametrize(("name", "file", "text"), EVERY, ids=[name for name, _, _ in EVERY])
def test_line_ends_of_windows_make_no_difference(name: str, file: str, text: str) -> None:
    found = report({file: text.replace("\n", "\r\n")})
    assert list(found.findings) == [], shown(found)


def test_the_kind_is_seen_in_the_content() -> None:
    from kproxy.advice.lint.filekinds import recognise
    from kproxy.advice.lint.source import Source

    for texts, kind in (
        (examples.COMPOSE, Kind.COMPOSE),
        (examples.SERVER, Kind.SERVER),
        (examples.KUBERNETES, Kind.KUBERNETES),
    ):
        assert {recognise(Source("x", text)) for text in texts.values()} == {kind}
    assert [recognise(Source("x", text)) for text in examples.CLIENT.values()] == [
        Kind.CLIENT,
        Kind.CONNECT,
        Kind.SPARK,
    ]
