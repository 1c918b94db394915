"""The oracle's process, one for the test run, and the report of what it judged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kproxy.devcluster.jars import DEFAULT_VERSION
from kproxy.wire.api import APIS
from tests.oracle.oracle_jvm import Oracle
from tests.oracle.oracle_session import Tally

_TALLY = Tally()


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    with Oracle(DEFAULT_VERSION) as running:
        running.limit((api.key, api.oldest, api.newest) for api in APIS.values())
        yield running


@pytest.fixture(scope="session")
def tally() -> Tally:
    return _TALLY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _TALLY.requests:
        return
    terminalreporter.section("Kafka's oracle")
    keys = {key for key, _ in _TALLY.calls}
    terminalreporter.line(
        f"{_TALLY.requests} requests and {_TALLY.verdicts.total()} responses"
        f" of {len(keys)} APIs in {len(_TALLY.calls)} versions went through kproxy:"
    )
    for verdict, count in sorted(_TALLY.verdicts.items()):
        terminalreporter.line(f"  {count:>9}  {verdict}")
