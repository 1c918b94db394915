"""How many executors an application is to have soon after its start, from Spark's settings."""

from __future__ import annotations

import re
from typing import Any

_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,.*\]")


def expected_executors(context: Any) -> int:
    """Takes a SparkContext. At least one, but for dynamic allocation.

    - With dynamic allocation: its minimum, which is 0 unless set. More come when there is work.
    - Spark on YARN and Kubernetes starts `spark.executor.instances` (2 by default).
    - A standalone cluster starts as many as `spark.cores.max` has room for. Without it, Spark takes every core of the
      cluster, and only its master knows how many executors that makes.
    """
    conf, master = context.getConf(), str(context.master)

    def number(key: str, otherwise: int) -> int:
        return int(conf.get(key, str(otherwise)))

    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return number("spark.dynamicAllocation.minExecutors", 0)
    if master.startswith(("yarn", "k8s")):
        return max(1, number("spark.executor.instances", 2))
    if found := _LOCAL_CLUSTER.fullmatch(master):
        return int(found[1])
    cores = number("spark.executor.cores", 0)
    return max(1, number("spark.cores.max", 0) // cores) if cores else 1
