"""How many executors Spark starts at first, by its settings."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.spark import attachment

DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}


class Context:
    """What is asked of a SparkContext: its master and its settings."""

    def __init__(self, master: str, settings: dict[str, str]) -> None:
        self.master = master
        self._settings = settings

    def getConf(self) -> Any:
        return self._settings


@pytest.mark.parametrize(
    ("master", "settings", "wanted"),
    [
        ("yarn", {}, 2),
        ("yarn", {"spark.executor.instances": "7"}, 7),
        ("k8s://https://api:443", {"spark.executor.instances": "3"}, 3),
        ("yarn", {**DYNAMIC, "spark.executor.instances": "7"}, 0),
        ("yarn", {**DYNAMIC, "spark.dynamicAllocation.minExecutors": "4"}, 4),
        ("yarn", {"spark.executor.instances": "0"}, 1),
        ("local-cluster[3,1,1024]", {}, 3),
        ("local-cluster[ 2 , 1 , 512 ]", {"spark.executor.instances": "9"}, 2),
        ("spark://one:7077,two:7077", {}, 1),
        ("spark://one:7077", {"spark.cores.max": "8"}, 1),
        ("spark://one:7077", {"spark.cores.max": "8", "spark.executor.cores": "2"}, 4),
        ("spark://one:7077", {"spark.cores.max": "1", "spark.executor.cores": "2"}, 1),
    ],
)
def test_executors(master: str, settings: dict[str, str], wanted: int) -> None:
    assert attachment.expected_executors(Context(master, settings)) == wanted
