"""The settings of an SSH server from the user's files: ~/.ssh/config and known_hosts, and the system's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from kproxy.base import regularfile
from kproxy.net.dial.connector import HopSpec

_CONFIG = ("~/.ssh/config", "/etc/ssh/ssh_config")
# ssh_config(5), UserKnownHostsFile and GlobalKnownHostsFile.
_USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
# The largest known_hosts, in bytes; one with the hosts of a whole company has some MiB.
_MOST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SshServer:
    """A server as `ssh` would resolve its name. `arguments` are those of asyncssh.create_connection."""

    host: str
    port: int
    user: str
    alias: str  # its host in known_hosts
    known_hosts: asyncssh.SSHKnownHosts
    proxy_jump: str | None
    proxy_command: Sequence[str] | None
    keepalive: float
    arguments: Mapping[str, Any]

    @property
    def known_as(self) -> str:
        """The server's name in known_hosts."""
        return self.alias if self.port == 22 else f"[{self.alias}]:{self.port}"

    @property
    def is_known(self) -> bool:
        """True if known_hosts has a key or an authority for the server."""
        port = self.port if self.port != 22 else None
        keys, authorities, *_ = asyncssh.match_known_hosts(self.known_hosts, self.alias, "", port)
        return bool(keys or authorities)


@dataclass(frozen=True, slots=True)
class JumpHost:
    """A server that ProxyJump names; a HopSpec."""

    host: str
    port: int | None
    user: str | None
    scheme: str = "ssh"
    password: str | None = None

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        return f"{user}{self.host}" + (f":{self.port}" if self.port else "")


def read_ssh_server(hop: HopSpec) -> SshServer:
    """Read the files. Raises ValueError for a mistake in them, OSError if one cannot be read."""
    arguments: dict[str, Any] = {
        "config": [path for path in map(_expand, _CONFIG) if path.is_file() and os.access(path, os.R_OK)]
    }
    if hop.port is not None:
        arguments["port"] = hop.port
    if hop.user is not None:
        arguments["username"] = hop.user
    # Without keys: asyncssh reads them when it needs them.
    options: Any = asyncssh.SSHClientConnectionOptions(host=hop.host, client_keys=None, **arguments)
    known_hosts = _read_known_hosts(
        *(options.config.get("UserKnownHostsFile") or _USER_KNOWN_HOSTS),
        *(options.config.get("GlobalKnownHostsFile") or _GLOBAL_KNOWN_HOSTS),
    )
    return SshServer(
        options.host,
        options.port,
        user=options.username,
        alias=options.host_key_alias or options.host,
        known_hosts=known_hosts,
        proxy_jump=options.tunnel,
        proxy_command=options.proxy_command,
        keepalive=options.keepalive_interval,
        arguments={**arguments, "known_hosts": known_hosts},
    )


def parse_proxy_jump(proxy_jump: str | None) -> Iterator[JumpHost]:
    """Return the servers of ProxyJump, `[user@]host[:port]` or a URL, separated by commas, in dialling order."""
    for text in (proxy_jump or "").split(","):
        user, _, host_port = text.strip().removeprefix("ssh://").rpartition("@")
        host, _, port = host_port.rpartition(":") if host_port.rpartition(":")[2].isdigit() else (host_port, "", "")
        if host:
            yield JumpHost(host.strip("[]"), int(port) if port else None, user or None)


def _expand(path: str) -> Path:
    return Path(path).expanduser()


def _read_known_hosts(*paths: str) -> asyncssh.SSHKnownHosts:
    """Read the readable files; like `ssh`, ignore malformed lines."""
    known_hosts = asyncssh.SSHKnownHosts()
    for path in map(_expand, paths):
        try:
            text = regularfile.read(path, _MOST).decode(errors="replace")
        except (OSError, ValueError):
            continue
        for line in text.splitlines():
            try:
                known_hosts.load(line)
            except ValueError:
                continue
    return known_hosts
