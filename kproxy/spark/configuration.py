"""What a user gives to `attach`, checked on the driver and made into what every host is told."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from kproxy.config import Config, load
from kproxy.errors import ConfigError
from kproxy.spark.host import Shipped
from kproxy.spark.proxy import DEFAULTS

Given: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""Bootstrap servers, the path of a YAML file, or what stands in one."""


def shipped(given: Given) -> Shipped:
    """Check it and make it one text. Raises ConfigError with every mistake.

    Text is the path of a file if it ends as those do or has a slash; else it is bootstrap servers. Variables `KPROXY_*`
    do not count, as they are others on each host.
    """
    if isinstance(given, Mapping):
        text = json.dumps(given, default=str, sort_keys=True)
        config = _checked(text)
    elif isinstance(given, os.PathLike) or "/" in given or given.endswith((".yaml", ".yml")):
        path = Path(given)
        config = load({}, {}, path, DEFAULTS)
        text = path.read_text()
    else:
        return shipped({"bootstrap-servers": given})
    if config.exit_with or config.admin_quit:
        raise ConfigError("kproxy.spark ends kproxy with the last application; leave out exit-with and admin-quit")
    listen = config.clusters[0].listen
    if listen.port == 0:
        raise ConfigError("listen: port 0 would be another port on each host; allowed: one that is free on all of them")
    return Shipped(str(listen), text)


def _checked(text: str) -> Config:
    # In a file of this user alone, as all that reads configurations reads files.
    with tempfile.NamedTemporaryFile("w", prefix="kproxy-") as file:
        file.write(text)
        file.flush()
        try:
            return load({}, {}, Path(file.name), DEFAULTS)
        except ConfigError as error:
            raise ConfigError(*(line.replace(f"{file.name}:1: ", "") for line in error.problems)) from None
