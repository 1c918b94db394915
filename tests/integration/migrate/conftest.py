"""Two clusters of one broker each, and a Spark of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.harness.clients.spark import connector, session, settings, spark_home
from tests.harness.clusters.twosides import TwoSides, two_sides
from tests.harness.migration.carried import apart
from tests.harness.migration.switched import Switched


@pytest.fixture(scope="package")
def clusters() -> Iterator[TwoSides]:
    """Blue and green. Their producer ids differ, as after `kproxy migrate prepare`."""
    with two_sides() as made:
        apart(made)
        yield made


@pytest.fixture(scope="module")
def sides(clusters: TwoSides) -> TwoSides:
    """The same clusters, with a migration of the file's own."""
    return clusters.migration()


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose tasks may fail once."""
    home = spark_home(tmp_path_factory.mktemp("spark"))
    with session(home, settings(spark_master="local[2,2]", spark_jars=connector())) as made:
        yield made


@pytest.fixture
def start(sides: TwoSides, tmp_path: Path) -> Iterator[Callable[..., Switched]]:
    """Makes kproxies that can lead their clients from blue to green."""
    blue, green = (cluster.bootstrap for cluster in sides.clusters)
    with ExitStack() as held:

        def make(name: str = "kproxy", *args: str, **more: bool) -> Switched:
            return held.enter_context(Switched(tmp_path / name, blue, green, *args, **more))

        yield make
