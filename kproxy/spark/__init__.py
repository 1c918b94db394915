"""kproxy beside Spark: the driver and the executors reach Kafka through a kproxy on each of their hosts.

    bootstrap = kproxy.spark.attach(spark, "kafka.example:9092")

    attaching      `attach`: starts or joins kproxy on the driver's host and on each executor's
    pluginjar      `plugin`: with it, executors that join later have kproxy before their first task
    defaults       the settings that Spark has before, which the plugin's add to
    package        what is given to Spark, made from a checkout: jar, wheel, archive
    relocatable    the archive: a Python with kproxy for hosts that have none
    configuration  checks what a user gives to `attach`, and makes of it what each host is told
    host           joins and leaves the proxy of a host
    keeper         the process that keeps the proxy for as long as somebody has a lease
    proxy          the kproxy that the keeper runs
    executor       finds the executor of a Python task

kproxy does not depend on pyspark, and imports it only for `plugin`. `host`, `keeper` and `executor` need no other
package at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["attach", "plugin"]


def attach(spark: Any, config_or_bootstrap: str | os.PathLike[str] | Mapping[str, Any], timeout: float = 60.0) -> str:
    """Start or join kproxy on the driver's host and on each executor's, and wait until all of them are ready.

    Takes a SparkSession and bootstrap servers, the path of a YAML file, or what stands in one. Returns the bootstrap
    server for Kafka, which is the same on every host. Ends with `spark.stop()`. A second call does nothing.

    Raises ConfigError for mistakes and for what kproxy cannot have on a host, UpstreamError when it is not ready in
    `timeout` seconds; one line that says the host.
    """
    from kproxy.spark.attaching import attach

    return attach(spark, config_or_bootstrap, timeout)


def plugin(
    config: str | os.PathLike[str] | None = None,
    jars: Sequence[str] = (),
    packages: Sequence[str] = (),
    plugins: Sequence[str] = (),
    python: str | None = None,
) -> dict[str, str]:
    """Settings for `SparkSession.builder.config(map=…)`: with them, executors that join later have kproxy before their
    first task. See `kproxy.spark.pluginjar.settings`."""
    from kproxy.spark.pluginjar import settings

    return settings(config, jars, packages=packages, plugins=plugins, python=python)
