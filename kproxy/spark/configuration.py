"""The configuration that a user gives to `attach`: checked on the driver, and made into what every host is told."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from kproxy.base.errors import ConfigError
from kproxy.config import LoadedConfig, read
from kproxy.config.options import all_settings
from kproxy.proxy.status.readiness import LEVELS
from kproxy.spark.host import HostConfig
from kproxy.spark.proxy import defaults

ConfigSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""Bootstrap servers, the path of a YAML file, or what stands in one."""

# Where kproxy listens if nobody says: below the ports that Linux assigns to connections, node ports included.
_PORTS = range(20500, 32500)


def build_host_config(given: ConfigSource, ready_requires: str | None = None) -> HostConfig:
    """Check it and make it one text. Raises ConfigError with every mistake.

    Text is the path of a file if it ends as those do or has a slash; else it is bootstrap servers. Variables `KPROXY_*`
    do not count, as they are others on each host. `ready_requires` overrides the option of that name.

    Without `listen`, the port comes from a hash of the configuration: it is the same on every host, and two
    configurations on one host do not collide.
    """
    if ready_requires is not None and ready_requires not in LEVELS:
        raise ConfigError(f"ready_requires: {ready_requires!r} is not known; allowed: {', '.join(LEVELS)}")
    text, loaded = _read(given)
    config = loaded.config
    if config.exit_with or config.admin_quit:
        raise ConfigError("kproxy.spark ends kproxy with the last application: remove exit-with and admin-quit")
    listen = config.clusters[0].listen
    if listen.port == 0:
        raise ConfigError("listen: port 0 would be another port on each host; allowed: one that is free on all of them")
    return HostConfig(str(listen), text, ready_requires or config.ready_requires)


def type_name(given: object) -> str:
    """For messages about an argument that is of a wrong type; not its value, which may have a secret."""
    return "None" if given is None else f"of type {type(given).__name__}"


def is_path(given: str | os.PathLike[str]) -> bool:
    """Whether that names a file; else it is bootstrap servers."""
    return isinstance(given, os.PathLike) or "/" in given or given.endswith((".yaml", ".yml"))


def find_secrets(told: HostConfig) -> list[str]:
    """The keys of the secrets that are in the text itself. Files and commands that the text names do not count."""
    document = yaml.safe_load(told.text)
    keys = [setting.key for setting in all_settings() if setting.option.secret]
    given = [document, *document.get("clusters", ())]
    found = [key for key in keys if any(part.get(key) for part in given)]
    if any(hop.password is not None for cluster in _load_text(told.text).config.clusters for hop in cluster.via):
        found.append("via")
    return found


def check_secrets(told: HostConfig, way_out: str) -> None:
    """For a Spark that does not authenticate. Raises ConfigError if the configuration has secrets, as everybody who
    reaches the driver could get them. `way_out` says how a user can allow that."""
    if keys := find_secrets(told):
        raise ConfigError(
            f"the configuration has a secret ({', '.join(keys)}), and spark.authenticate is not true, so everybody who"
            " reaches the driver's port can get it; allowed: spark.authenticate=true, or the secret in a file on each"
            f" host (sasl-password-file, client-config), or {way_out}"
        )


def _read(given: ConfigSource) -> tuple[str, LoadedConfig]:
    if isinstance(given, Mapping):
        text = json.dumps(given, default=str, sort_keys=True)
        return text, _load_text(text)
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(
            f"the configuration must be bootstrap servers, the path of a file, or a dict, and not {type_name(given)}"
        )
    if is_path(given):
        path = Path(given)
        read({}, {}, path, defaults(_listen("")))  # says which file, and what is wrong with it
        text = path.read_text()
        return text, read({}, {}, path, defaults(_listen(text)))
    return _read({"bootstrap-servers": given})


def _load_text(text: str) -> LoadedConfig:
    # In a file of this user alone, as all that reads configurations reads files.
    with tempfile.NamedTemporaryFile("w", prefix="kproxy-") as file:
        file.write(text)
        file.flush()
        try:
            return read({}, {}, Path(file.name), defaults(_listen(text)))
        except ConfigError as error:
            raise ConfigError(*(line.replace(f"{file.name}:1: ", "") for line in error.problems)) from None


def _listen(text: str) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return f"127.0.0.1:{_PORTS[number % len(_PORTS)]}"
