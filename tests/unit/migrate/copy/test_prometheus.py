from __future__ import annotations

import re
import urllib.request
from unittest.mock import Mock

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.migrate.copier.state import PartitionState
from kproxy.migrate.copy import progress as module
from kproxy.migrate.copy.display import serve_metrics
from kproxy.migrate.copy.progress import CopyProgress
from kproxy.migrate.copy.rounds import PartitionBacklog
from tests.harness.servers.ways import free_port


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Mock:
    made = Mock()
    made.monotonic.return_value = 1000.0
    monkeypatch.setattr(module, "time", made)
    return made


def _state(position: int) -> PartitionState:
    return PartitionState("t", 0, position, position, position, position)


def _numbers(progress: CopyProgress | None) -> str:
    where = Address("127.0.0.1", free_port())
    with serve_metrics(str(where), lambda: progress):
        return urllib.request.urlopen(f"http://{where}/metrics", timeout=10).read().decode()


def test_before_the_copy_has_begun_there_are_no_numbers() -> None:
    assert "kproxy_migrate_lag_offsets{" not in _numbers(None)


def test_retention_that_comes_near(clock: Mock) -> None:
    """Of two partitions that the source deletes faster than kproxy copies, the one that it reaches first counts."""
    progress = CopyProgress("move")
    for now, deleted in ((1000.0, 0), (1010.0, 1000)):
        clock.monotonic.return_value = now
        for partition, ahead in ((0, 6300), (1, 64_000)):
            position = ahead + deleted // 10
            progress.start_round(PartitionBacklog("t", partition, position, 100_000, 1.0), _state(position), deleted)
        progress.start_round(PartitionBacklog("calm", 0, 10, 100, 1.0), _state(10), 0)
    numbers = _numbers(progress)
    found = re.search(r'kproxy_migrate_overtaken_seconds{migration="move",topic="t"} (.+)', numbers)
    assert found is not None
    # 5,400 apart; the source deletes 100 a second, and a share of 14 a second of the whole copy is its.
    assert float(found[1]) == pytest.approx(63.1, abs=0.1)
    assert 'overtaken_seconds{migration="move",topic="calm"}' not in numbers
    assert 'kproxy_migrate_lag_offsets{migration="move",topic="calm"} 90.0' in numbers


def test_a_port_that_is_taken_is_one_line() -> None:
    where = f"127.0.0.1:{free_port()}"
    with serve_metrics(where, lambda: None), pytest.raises(ConfigError, match="allowed: a free port"):  # noqa: SIM117
        with serve_metrics(where, lambda: None):
            pass
