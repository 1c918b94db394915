"""A stand-in for the socket of Docker or Podman, with the part of the Engine API that kproxy uses."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"


def ok(value: object) -> bytes:
    """Return an answer with this document."""
    body = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def _listed(identity: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return a container as a list shows it: without its aliases and its hostname."""
    config, networks = told.get("Config") or {}, (told.get("NetworkSettings") or {}).get("Networks") or {}
    return {
        "Id": identity,
        "Image": config.get("Image"),
        "Names": [told.get("Name", "/?")],
        "Labels": config.get("Labels"),
        "NetworkSettings": {"Networks": {name: {"IPAddress": one["IPAddress"]} for name, one in networks.items()}},
    }


class Engine:
    """An engine at a Unix socket.

    `containers` by id, as `docker inspect` shows them, and `networks`. `answer` may return anything else. `asked` has
    the requests.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.containers: dict[str, dict[str, Any]] = {}
        self.networks = ["bridge", "n"]
        self.asked: list[str] = []
        self.answer: Callable[[str], bytes | None] = lambda target: None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                request = connection.recv(65536).decode()
                target = unquote(request.split()[1]) if request else ""
                self.asked.append(target)
                answer = self.answer(target)
                connection.sendall(self._told(target) if answer is None else answer)

    def _told(self, target: str) -> bytes:
        if target == "/networks":
            return ok([{"Name": name} for name in self.networks])
        kind, _, name = target.removeprefix("/").partition("/")
        if kind == "networks":
            return ok({"Name": name}) if name in self.networks else NOT_FOUND
        if name.startswith("json"):
            return ok([_listed(one, told) for one, told in self.containers.items()])
        return ok(self.containers[name.partition("/")[0]])

    def add(
        self, name: str, image: str, env: dict[str, str] | None = None, ports: dict[str, list[str]] | None = None,
        project: str = "", command: list[str] | None = None, address: str = "", service: str = "",
        aliases: Sequence[str] = (), hostname: str = "",
    ) -> str:  # fmt: skip
        """Add a container and return its id. `ports`: by "9092/tcp", where each is published."""
        labels = {"com.docker.compose.project": project, "com.docker.compose.service": service}
        bound = {}
        for private, publics in (ports or {}).items():
            bound[private] = [dict(zip(("HostIp", "HostPort"), one.rsplit(":", 1), strict=True)) for one in publics]
        identity = f"{len(self.containers) + 0xABC:064x}"[::-1]
        self.containers[identity] = {
            "Id": identity,
            "Name": f"/{name}",
            "Config": {
                "Image": image, "Env": [f"{key}={value}" for key, value in (env or {}).items()], "Cmd": command,
                "Labels": {key: value for key, value in labels.items() if value}, "Hostname": hostname,
            },
            "NetworkSettings": {"Networks": {"n": {"IPAddress": address, "Aliases": list(aliases)}}, "Ports": bound},
        }  # fmt: skip
        return identity
