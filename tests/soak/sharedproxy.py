"""A kproxy that serves the cluster of honest clients beside clusters that harm it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import yaml

from kproxy.net.freeports import HOST
from tests.soak.ports import Ports
from tests.soak.proxy import PLACES, Proxy
from tests.soak.site import Site

_NODE_PORTS = 60
"""Local ports of a hostile cluster, and so the most listeners that it can have beside its bootstrap listener."""

_PIPE = 65536


class OutputPipe:
    """Copies from a pipe to a file. While it is `paused`, the pipe fills, as when a terminal is stopped with Ctrl-S."""

    def __init__(self, path: Path) -> None:
        reading, self.writing = os.pipe()
        self._flowing = threading.Event()
        self._flowing.set()
        self._thread = threading.Thread(target=self._copy, args=(reading, path), name="output", daemon=True)
        self._thread.start()

    def pause(self) -> None:
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    def close(self) -> None:
        """Copy the rest, and end. No process may have the pipe any more."""
        os.close(self.writing)
        self.resume()
        self._thread.join(30)

    def _copy(self, reading: int, path: Path) -> None:
        with open(reading, "rb", buffering=0) as source, path.open("ab", buffering=0) as log:
            while data := source.read(_PIPE):
                log.write(data)
                self._flowing.wait()


class SharedProxy(Proxy):
    """`hostile` is where the clients of each of its other clusters connect: their bootstrap servers, by name."""

    cluster = "here"
    # While kproxy reads 99,000 endpoints it needs 30 MB more, of which the allocator keeps a part; it does not add up.
    more_memory = 48 << 20

    def __init__(self, name: str, directory: Path, ports: Ports, site: Site, brokers: dict[str, str]) -> None:
        super().__init__(name, directory, ports, site)
        directory = directory / name
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate = directory / "peer.pem"
        self.hostile: dict[str, str] = {}
        self.hostile_nodes: dict[str, list[str]] = {}
        options: dict[str, dict[str, Any]] = {
            "plain": {},
            "logins": {"sasl": "PLAIN", "sasl-username": "kproxy", "sasl-password": "kproxy"},
            "secured": {"client-tls-cert": str(self.certificate), "client-tls-key": str(self.certificate)},
        }
        clusters: list[dict[str, Any]] = [self._here(site)]
        for cluster, more in options.items():
            row = ports.row(1 + _NODE_PORTS)
            self.hostile[cluster] = f"{HOST}:{row[0]}"
            self.hostile_nodes[cluster] = [f"{HOST}:{port}" for port in row[1:]]
            clusters.append(
                {
                    "name": cluster,
                    "bootstrap-servers": brokers.get(cluster, brokers["plain"]),
                    "listen": self.hostile[cluster],
                    "node-ports": f"{row[1]}-{row[-1]}",
                    "max-connections": PLACES,
                    "retire-after": "2s",
                    **more,
                }
            )
        file = directory / "kproxy.yaml"
        file.write_text(yaml.safe_dump({"clusters": clusters}))
        file.chmod(0o600)
        self._upstream = ""
        self._args = ("-c", str(file))
        self._more_files = len(options) * (2 * PLACES + _NODE_PORTS + 1)
        self.output = OutputPipe(directory / "kproxy.log")
        self._output = self.output.writing

    def end(self) -> None:
        super().end()
        self.output.close()

    def _here(self, site: Site) -> dict[str, Any]:
        return {
            "name": self.cluster,
            "bootstrap-servers": site.bootstrap,
            "cluster-id": site.here.cluster_id,
            "listen": self.bootstrap,
            "node-ports": f"{self._row[1]}-{self._row[-1]}",
            "max-connections": PLACES,
        }
