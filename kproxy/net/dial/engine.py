"""Requests to Docker or Podman through their socket (Docker Engine API, which Podman supports too).

Any program may listen at the socket, so responses are bounded in size and time.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kproxy.base.messages.hops import DOCKER_PERMISSION_DENIED
from kproxy.base.printable import one_line

_SECONDS = 3.0
_MOST = 8 * 1024 * 1024


# Where programs for macOS have the socket of the engine in their virtual machine; Docker's own may lead there too.
_IN_HOME = (
    ("Docker Desktop", ".docker/run/docker.sock"),
    ("OrbStack", ".orbstack/run/docker.sock"),
    ("Colima", ".colima/default/docker.sock"),
    ("Rancher Desktop", ".rd/docker.sock"),
)


class EngineError(Exception):
    """The engine does not answer, or refuses; `str()` is one line.

    `not_found` is true if the requested object does not exist.
    """

    def __init__(self, text: str, *, not_found: bool = False) -> None:
        self.not_found = not_found
        super().__init__(text)


def find_sockets() -> Iterator[tuple[str, Path]]:
    """Return the sockets that exist, each with the name of its engine; DOCKER_HOST precedes Docker's default."""
    seen: set[str] = set()
    docker_host = os.environ.get("DOCKER_HOST", "")
    docker = (
        Path(docker_host.removeprefix("unix://")) if docker_host.startswith("unix://") else Path("/var/run/docker.sock")
    )
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    for name, path in (
        ("Docker", docker),
        *((program, Path.home() / path) for program, path in _IN_HOME),
        ("Podman", Path(runtime) / "podman/podman.sock"),
        ("Podman", Path("/run/podman/podman.sock")),
    ):
        if path.exists() and (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield name, path


def check_id(container_id: object) -> str:
    """Return the id if it is fit for a path. Raises EngineError."""
    if not isinstance(container_id, str) or not re.fullmatch("[0-9a-zA-Z]{1,128}", container_id):
        raise EngineError("a container has no id")
    return container_id


def get(path: Path, target: str) -> Any:
    """Return a JSON document. Raises EngineError. It blocks."""
    try:
        status, body = _request(path, target)
        if len(body) > _MOST:
            raise ValueError("its answer is too long")
        if status == 404:
            raise EngineError("it has no such object", not_found=True)
        if status != 200:
            raise ValueError(f"it answers {status}")
        return json.loads(body)
    except PermissionError:
        raise EngineError(DOCKER_PERMISSION_DENIED(path=path)) from None
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise EngineError(f"{path}: {one_line(why, 200)}") from None


def _request(path: Path, target: str) -> tuple[int, bytes]:
    connection = _UnixConnection(str(path))
    try:
        connection.request("GET", target, headers={"Connection": "close"})
        with connection.getresponse() as response:
            return response.status, response.read(_MOST + 1)
    finally:
        connection.close()


class _UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)
