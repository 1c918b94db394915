"""kproxy beside Spark: the driver and the executors reach Kafka through a kproxy on each of their hosts.

    bootstrap = kproxy.spark.attach(spark, "kafka.example:9092")

    attaching      `attach`: starts or joins kproxy on the driver's host and on each executor's
    expected       how many executors `attach` waits for
    pluginjar      `plugin`: with it, executors that join later have kproxy before their first task
    defaults       the settings that Spark has before, which the plugin's add to
    package        what is given to Spark, made from a checkout: jar, wheel, archive
    relocatable    the archive: a Python with kproxy for hosts that have none
    configuration  checks what a user gives to `attach`, and makes of it what each host is told
    host           joins and leaves the proxy of a host
    keeper         the process that keeps the proxy for as long as somebody has a lease
    proxy          the kproxy that the keeper runs
    wording        kproxy's messages, for those who have keys of a file in place of flags
    tail           the log of both, and what they warn of, read from it
    tasks          the Python tasks by which `attach` reaches executors without the plugin
    executor       finds the executor of a Python task

kproxy does not depend on pyspark, and imports it only for `plugin` and for jobs of `attach`. `host`, `keeper`, `tail`
and `executor` need no other package at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["attach", "detach", "plugin"]


def attach(
    spark: Any,
    config_or_bootstrap: str | os.PathLike[str] | Mapping[str, Any],
    timeout: float = 60.0,
    *,
    ready_requires: str | None = None,
    allow_unauthenticated: bool = False,
) -> str:
    """Start or join kproxy on the driver's host and on each executor's, and wait until all of them are ready.

    Takes a SparkSession and bootstrap servers, the path of a YAML file, or what stands in one. Returns the bootstrap
    server for Kafka, which is the same on every host. Ends with `spark.stop()`. A second call does nothing.

    Waits for the executors that Spark starts at first (`kproxy.spark.expected`). `ready_requires`: with "one", a host
    is ready if one broker is reachable from there, and the others are only warned of; the default is what the
    configuration says, or "all". What kproxy warns of goes to the logger `kproxy.spark`.

    Raises ConfigError for mistakes, for a login that the brokers refuse, for what kproxy cannot have on a host, and
    for secrets that Spark would give to everybody (unless `allow_unauthenticated`); UpstreamError when it is not ready
    in `timeout` seconds. Each is one line that says the host. Nothing is left then.
    """
    from kproxy.spark.attaching import attach

    return attach(spark, config_or_bootstrap, timeout, ready_requires, allow_unauthenticated)


def detach(spark: Any) -> None:
    """End what `attach` began, before the application ends; the proxies stop if nobody else uses them. Does nothing if
    the application is not attached."""
    from kproxy.spark.attaching import detach

    detach(spark)


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
