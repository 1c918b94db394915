"""What the preflight of a switch says about producers that go round the kproxies, by the file of an observation."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from kproxy.base.diagnostic import ERROR, NOTE, WARNING
from kproxy.base.errors import ConfigError
from kproxy.migrate.switch.unseen_check import UnseenCheck
from kproxy.migrate.usage.observed import KproxyCoverage, ObservedUsage, write_usage
from kproxy.migrate.usage.replies import RecordedClient
from kproxy.migrate.usage.sourcestate import GroupUse, SourceChange, Writing

CLIENT = RecordedClient("", "", "h", "reader-1", "java", 1.0, 2.0)
USAGE = ObservedUsage(
    1.0, 2.0, (CLIENT,), kproxies=(KproxyCoverage("kp-1", 1.0, 2.0),),
    source=SourceChange(
        1.0, 2.0, {"g": GroupUse(("orders",), ("reader-1", "stranger")), "h": GroupUse((), ("reader-1",))},
        writings=(Writing("orders", 0, 7, 1, -1),),
    ),
)  # fmt: skip


def test_without_an_observation_it_is_not_known(tmp_path: Path) -> None:
    (finding,) = UnseenCheck(tmp_path / "none.json").before()
    assert finding.severity is NOTE
    assert "it was not observed" in finding.text


def test_a_producer_stops_the_switch_unless_it_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "observed.json"
    write_usage(replace(USAGE, ended=time.time()), path)
    producer, group = UnseenCheck(path).before()
    assert (producer.severity, producer.subject) == (ERROR, "topic orders")
    assert (group.severity, group.subject) == (WARNING, "group g")
    assert "no kproxy has recorded: stranger" in group.text
    assert [finding.severity for finding in UnseenCheck(path, ("ord*",)).before()] == [NOTE, WARNING]


def test_an_old_observation_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "observed.json"
    write_usage(replace(USAGE, source=None), path)
    (finding,) = UnseenCheck(path).before()
    assert finding.severity is WARNING
    assert "observe again" in finding.text


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "observed.json"
    path.write_text("{}")
    with pytest.raises(ConfigError, match="kproxy migrate observe"):
        list(UnseenCheck(path).before())
