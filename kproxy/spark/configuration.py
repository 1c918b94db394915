"""The configuration that a user gives to `attach`: its checks, and the text that each host receives."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from kproxy.base.errors import ConfigError
from kproxy.base.messages.start import SECRET_UNPROTECTED
from kproxy.config import LoadedConfig, read
from kproxy.config.options import all_settings
from kproxy.proxy.status.readiness import LEVELS
from kproxy.spark.host import HostConfig
from kproxy.spark.proxy import defaults
from kproxy.spark.source import ConfigSource, is_path, type_name

# Default ports of kproxy: below the ports that Linux assigns to connections, node ports included.
_PORTS = range(20500, 32500)


def build_host_config(source: ConfigSource, ready_requires: str | None = None) -> HostConfig:
    """Check a configuration and make it one text.

    Raises ConfigError with every mistake. A string is the path of a file if it ends like one or has a slash, otherwise
    it is bootstrap servers. Variables `KPROXY_*` are ignored, because each host has others. `ready_requires` overrides
    the option of that name.

    Without `listen`, the port comes from a hash of the configuration: it is the same on every host, and two
    configurations on one host do not collide.
    """
    if ready_requires is not None and ready_requires not in LEVELS:
        raise ConfigError(f"ready_requires: {ready_requires!r} is not known; allowed: {', '.join(LEVELS)}")
    text, loaded = _read(source)
    config = loaded.config
    if config.exit_with or config.admin_quit:
        raise ConfigError("kproxy.spark ends kproxy with the last application: remove exit-with and admin-quit")
    listen = config.clusters[0].listen
    if listen.port == 0:
        raise ConfigError("listen: port 0 would be another port on each host; allowed: one that is free on all of them")
    return HostConfig(str(listen), text, ready_requires or config.ready_requires)


def find_secrets(config: HostConfig) -> list[str]:
    """Return the keys of secrets in the text itself, without those in files and commands that it names."""
    document = yaml.safe_load(config.text)
    keys = [setting.key for setting in all_settings() if setting.secret]
    mappings = [document, *document.get("clusters", ())]
    secret_keys = [key for key in keys if any(part.get(key) for part in mappings)]
    if any(hop.password is not None for cluster in _load_text(config.text).config.clusters for hop in cluster.via):
        secret_keys.append("via")
    return secret_keys


def check_secrets(config: HostConfig, permission: str) -> None:
    """Raise ConfigError if the configuration has secrets, for a Spark that does not authenticate.

    Any process that reaches the driver could read them. `permission` says how a user can allow that.
    """
    if keys := find_secrets(config):
        raise ConfigError(SECRET_UNPROTECTED(keys=", ".join(keys), permission=permission))


def _read(source: ConfigSource) -> tuple[str, LoadedConfig]:
    if isinstance(source, Mapping):
        text = json.dumps(source, default=str, sort_keys=True)
        return text, _load_text(text)
    if not isinstance(source, str | os.PathLike):
        raise ConfigError(
            f"the configuration must be bootstrap servers, the path of a file, or a dict, and not {type_name(source)}"
        )
    if is_path(source):
        path = Path(source)
        read({}, {}, path, defaults(_listen("")))  # says which file, and what is wrong with it
        text = path.read_text()
        return text, read({}, {}, path, defaults(_listen(text)))
    return _read({"bootstrap-servers": source})


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
