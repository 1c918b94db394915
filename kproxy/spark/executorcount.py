"""The number of executors that an application starts with, from Spark's settings."""

from __future__ import annotations

import re
from typing import Any

_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,.*\]")


def expected_executors(context: Any) -> int:
    """Return the number of executors for a SparkContext: at least one, except with dynamic allocation.

    - With dynamic allocation: its minimum, which is 0 by default. More start when there is work.
    - On YARN and Kubernetes: `spark.executor.instances` (2 by default).
    - On a standalone cluster: as many as `spark.cores.max` has room for. Without it, Spark takes every core of the
      cluster, and only its master knows how many executors that makes.
    """
    conf, master = context.getConf(), str(context.master)

    def number(key: str, otherwise: int) -> int:
        return int(conf.get(key, str(otherwise)))

    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return number("spark.dynamicAllocation.minExecutors", 0)
    if master.startswith(("yarn", "k8s")):
        return max(1, number("spark.executor.instances", 2))
    if match := _LOCAL_CLUSTER.fullmatch(master):
        return int(match[1])
    cores = number("spark.executor.cores", 0)
    return max(1, number("spark.cores.max", 0) // cores) if cores else 1
