"""Which groups have members, by the states that brokers list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kproxy.migrate.clusters import groups
from kproxy.migrate.clusters.groups import GroupMembers, ListedGroup, read_occupied_groups

ADMIN: Any = None


def listed(monkeypatch: pytest.MonkeyPatch, *found: tuple[str, str, str]) -> None:
    """Let the brokers list these groups: name, kind, state."""
    monkeypatch.setattr(
        groups, "list_groups", lambda _: (ListedGroup(name, kind, state, "", 1) for name, kind, state in found)
    )


@pytest.mark.parametrize("kind", ["classic", "consumer", "share", "streams"])
def test_groups_of_each_kind(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Not only of those whose members kproxy can read."""
    listed(
        monkeypatch, ("joining", kind, "Reconciling"), ("at work", kind, "Stable"), ("other", kind, "Stable"),
        ("left", kind, "Empty"), ("ended", kind, "Dead"),
    )  # fmt: skip
    assert read_occupied_groups(ADMIN, lambda name: name != "other") == ["at work", "joining"]


def test_groups_without_states(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: object, wants: Callable[[str], bool]) -> GroupMembers:
        members = {"at work": frozenset({"a-1"}), "left": frozenset[str](), "other": frozenset({"b-1"})}
        return {name: ids for name, ids in members.items() if wants(name)}

    monkeypatch.setattr(groups, "read_members", read)
    listed(monkeypatch, ("at work", "classic", ""), ("left", "classic", ""), ("other", "classic", ""))
    assert read_occupied_groups(ADMIN, lambda name: name != "other") == ["at work"]
