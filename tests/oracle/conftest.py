"""The oracle's process, one for the test run, and the report of what it judged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kproxy.dev.devcluster.jars import DEFAULT_VERSION
from kproxy.protocol.rewrite.apiversions import TABLE_VERSIONS, newest_version
from kproxy.protocol.wire.api import APIS
from tests.oracle.oracle_jvm import Oracle
from tests.oracle.oracle_session import Tally


@pytest.fixture(scope="package")
def oracle() -> Iterator[Oracle]:
    with Oracle(DEFAULT_VERSION) as running:
        running.limit((api.value, api.oldest, newest_version(api, TABLE_VERSIONS)) for api in APIS.values())
        yield running


@pytest.fixture(scope="package")
def tally(figures: list[str]) -> Iterator[Tally]:
    counted = Tally()
    yield counted
    keys = {key for key, _ in counted.calls}
    figures.append(
        f"Kafka's oracle: {counted.requests} requests and {counted.verdicts.total()} responses"
        f" of {len(keys)} APIs in {len(counted.calls)} versions went through kproxy:"
    )
    figures += [f"  {count:>9}  {verdict}" for verdict, count in sorted(counted.verdicts.items())]
