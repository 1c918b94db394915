"""What a switch waits for in any direction: the sessions of members that were led away from where their group goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import ANY

import pytest

from kproxy.base.diagnostic import ERROR
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch import switch_run
from kproxy.migrate.switch.fleet import KproxyFleet
from kproxy.migrate.switch.switch_run import SwitchContext, SwitchRun


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def led(said: list[str]) -> SwitchRun:
    section = SwitchSection(KproxySelection(()), "green")
    return SwitchRun(SwitchContext(None, ANY, ANY, KproxyFleet([]), section, said.append, lambda _: None))


def occupied(monkeypatch: pytest.MonkeyPatch, answers: Iterator[list[str]]) -> list[list[str]]:
    """Answer with these groups, which have members, one list after another; return which groups were asked for."""
    asked: list[list[str]] = []

    def read(_: object, wants: Callable[[str], bool]) -> list[str]:
        asked.append([group for group in ("a", "b") if wants(group)])
        return next(answers)

    monkeypatch.setattr(switch_run, "read_occupied_groups", read)
    monkeypatch.setattr(switch_run, "_POLL_INTERVAL", 0.0)
    return asked


ADMIN: Any = None


def test_it_waits_until_their_sessions_have_ended(
    led: SwitchRun, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = occupied(monkeypatch, iter([["b"], ["b"], []]))
    led.wait_for_sessions(ADMIN, lambda group: True)
    assert asked == [["a", "b"], ["b"], ["b"]], "only those that are left are looked at again"
    assert [line for line in said if "sessions of group b" in line] == said
    assert len(said) == 1
    assert not led.preflight.is_blocked


def test_who_does_not_go_stops_it(led: SwitchRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch_run, "_SESSION_TIMEOUT", 0.0)
    occupied(monkeypatch, iter([["a"]]))
    led.wait_for_sessions(ADMIN, lambda group: True)
    (found,) = led.preflight.findings
    assert (found.severity, found.subject) == (ERROR, "group a")
    assert "has members on the side to which clients are moved" in found.text


def test_who_is_told_to_go_back_waits_no_more(led: SwitchRun, monkeypatch: pytest.MonkeyPatch) -> None:
    occupied(monkeypatch, iter([["a"]]))
    led.abort("SIGINT was given")
    led.wait_for_sessions(ADMIN, lambda group: True)
    assert led.preflight.is_blocked
