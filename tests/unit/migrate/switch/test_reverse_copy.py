"""The copy back of a switch that was undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kproxy.base.diagnostic import Diagnostic
from kproxy.base.errors import ConfigError, KproxyError, UpstreamError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch import reverse_copy
from kproxy.migrate.switch.reverse_copy import ReverseCopy

MIGRATION = Migration({"bootstrap-servers": "a:1"}, {"bootstrap-servers": "b:1"}, "m")
ENDPOINTS = ClusterEndpoints("a:1", "b:1", "A", "B")


def raising(error: KproxyError) -> Callable[..., list[Diagnostic]]:
    def fail(*_: object) -> list[Diagnostic]:
        raise error

    return fail


@pytest.mark.parametrize(
    "error",
    [
        UpstreamError("timeout", "a:1: no broker replied"),
        ConfigError("the target has no topic x: nothing was prepared"),
    ],
)
def test_what_cannot_be_cleaned_up_does_not_hide_what_came_of_the_switch(
    monkeypatch: pytest.MonkeyPatch, error: KproxyError
) -> None:
    """The source does not answer, or nothing was prepared there so far."""
    monkeypatch.setattr(reverse_copy, "list_topics", lambda _: ["t"])
    monkeypatch.setattr(reverse_copy, "ClusterPair", raising(error))
    lines: list[str] = []
    copy = ReverseCopy(None, MIGRATION, ENDPOINTS, lines.append)
    with pytest.raises(type(error)):
        copy.prepare()
    assert copy.is_prepared, "so that it is undone"
    copy.undo()
    again = "kproxy migrate switch FILE --abort tries to undo it again"
    assert lines == [f"reverse copy: what was prepared on the source stays: {error}. {again}"]
