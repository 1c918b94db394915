"""A worker of Kafka Connect in distributed mode, what it is asked over HTTP, and connectors with files."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kproxy.dev.devcluster import DEFAULT_VERSION
from tests.harness.clusters.twosides import until
from tests.matrix.frameworks import worker


def ask(url: str, settings: Mapping[str, str] | None = None) -> Any:
    """The answer of a Connect worker; None while it is not ready to give one."""
    body = None if settings is None else json.dumps(settings).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="PUT" if body else "GET")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code not in (404, 409, 500, 503):
                raise
            return None


@contextmanager
def connect(directory: Path, bootstrap: str, name: str) -> Iterator[str]:
    """A distributed worker that has nothing but its topics; gives the URL of its REST server."""
    with Worker(directory, bootstrap, name) as one:
        yield one.url()
        one.process.terminate()
        one.process.wait(60)


class Worker:
    """One, with so many `replicas` of its topics."""

    def __init__(self, directory: Path, bootstrap: str, name: str, replicas: int = 1) -> None:
        self._log = directory / "worker.log"
        file = directory / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in _settings(bootstrap, name, replicas).items()))
        with self._log.open("w") as log:
            self.process = subprocess.Popen([*worker(DEFAULT_VERSION), str(file)], stdout=log, stderr=log)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def url(self) -> str:
        """Of its REST server, once it has begun."""
        until(self._url, "the worker does not say where it listens")
        return self._url()

    def _url(self) -> str:
        text = self._log.read_text()
        assert self.process.poll() is None, text[-4000:]
        _, said, rest = text.rpartition("REST server listening at http://")
        return f"http://{rest.split('/')[0]}" if said and "/" in rest else ""


def _settings(bootstrap: str, name: str, replicas: int) -> dict[str, str]:
    text, count = "org.apache.kafka.connect.storage.StringConverter", str(replicas)
    return {
        "bootstrap.servers": bootstrap, "group.id": f"{name}-workers", "config.storage.topic": f"{name}-configs",
        "offset.storage.topic": f"{name}-offsets", "status.storage.topic": f"{name}-status",
        "offset.storage.partitions": "3", "config.storage.replication.factor": count,
        "offset.storage.replication.factor": count, "status.storage.replication.factor": count, "key.converter": text,
        "value.converter": text, "listeners": "http://127.0.0.1:0", "plugin.discovery": "service_load",
        "offset.flush.interval.ms": "1000",
        # A worker without its coordinator for 3 s gets its tasks again after this; else in 300 s.
        "scheduled.rebalance.max.delay.ms": "5000",
    }  # fmt: skip


def file_connectors(name: str, from_: Path, to: Path) -> dict[str, dict[str, str]]:
    """The settings of two: lines of a file go to the topic, and the topic's records are lines of another file."""
    kind = "org.apache.kafka.connect.file.FileStream"
    return {
        f"{name}-source": {"connector.class": f"{kind}SourceConnector", "file": str(from_), "topic": name},
        f"{name}-sink": {
            "connector.class": f"{kind}SinkConnector", "file": str(to), "topics": name,
            "consumer.override.auto.offset.reset": "earliest",
        },
    }  # fmt: skip
