"""kproxy beside Spark: the driver and the executors reach Kafka through a kproxy on each of their hosts.

    bootstrap = kproxy.spark.attach(spark, "kafka.example:9092")

    attachment     `attach`: starts or joins kproxy on the driver's host and on each executor's host
    pluginjar      `plugin`: with it, executors that join later have kproxy before their first task
    defaults       the Spark settings that exist before the plugin's are added
    package        builds the plugin jar, the wheel and the archive from a checkout
    relocatable    the archive: a Python with kproxy for hosts without Python
    source         what a program gives to `attach`: bootstrap servers, a file, or a dict
    configuration  checks the configuration given to `attach`, and makes the text that each host receives
    host           joins and leaves the proxy of a host; finds the executor of a task
    keeper         the process that runs the proxy of a host while a process holds a lease
    proxy          the kproxy that the keeper runs
    wording        replaces flags by keys of the configuration file in kproxy's messages
    logtail        the common log of proxy and keeper, and its warnings
    tasks          the Python tasks by which `attach` reaches executors without the plugin

kproxy does not depend on pyspark, and imports it only for `plugin` and for jobs of `attach`. `host`, `keeper`,
`logtail` and `executor` need no other package at all.
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

    Takes a SparkSession and bootstrap servers, the path of a YAML file, or the content of such a file as a dict.
    Returns the bootstrap server for Kafka, which is the same on every host. kproxy ends with `spark.stop()`. A second
    call does nothing.

    Waits for the executors that Spark starts at first (`kproxy.spark.attachment`). `ready_requires`: with "one", a
    host is ready if one broker is reachable from there, and kproxy only warns of the others. The default is the value
    of the configuration, or "all". Warnings of kproxy go to the logger `kproxy.spark`.

    Raises ConfigError for mistakes in the configuration, for a login that the brokers refuse, for a port that kproxy
    cannot have on a host, and for secrets that any process that reaches the driver could read (unless
    `allow_unauthenticated`). Raises UpstreamError if kproxy is not ready in `timeout` seconds. Each error is one line
    that names the host. No lease remains after an error.
    """
    from kproxy.spark.attachment import attach

    return attach(spark, config_or_bootstrap, timeout, ready_requires, allow_unauthenticated)


def detach(spark: Any) -> None:
    """Give back the leases of `attach` before the application ends.

    A proxy stops when no other application uses it. Does nothing if the application is not attached.
    """
    from kproxy.spark.attachment import detach

    detach(spark)


def plugin(
    config: str | os.PathLike[str] | None = None,
    jars: Sequence[str] = (),
    packages: Sequence[str] = (),
    plugins: Sequence[str] = (),
    python: str | None = None,
) -> dict[str, str]:
    """Return settings for `SparkSession.builder.config(map=…)` that load kproxy's Spark plugin.

    With the plugin, executors that join later have kproxy before their first task. See
    `kproxy.spark.pluginjar.settings`.
    """
    from kproxy.spark.pluginjar import plugin_settings

    return plugin_settings(config, jars, packages=packages, plugins=plugins, python=python)
