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

from kproxy.devcluster import DEFAULT_VERSION
from tests.harness.twosides import until
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
    text, started = "org.apache.kafka.connect.storage.StringConverter", "REST server listening at http://"
    settings = {
        "bootstrap.servers": bootstrap, "group.id": f"{name}-workers", "config.storage.topic": f"{name}-configs",
        "offset.storage.topic": f"{name}-offsets", "status.storage.topic": f"{name}-status",
        "offset.storage.partitions": "3", "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1", "status.storage.replication.factor": "1", "key.converter": text,
        "value.converter": text, "listeners": "http://127.0.0.1:0", "plugin.discovery": "service_load",
        "offset.flush.interval.ms": "1000",
    }  # fmt: skip
    (directory / "worker.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    log = directory / "worker.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [*worker(DEFAULT_VERSION), str(directory / "worker.properties")], stdout=file, stderr=file
        )
    try:

        def url() -> str:
            assert process.poll() is None, log.read_text()[-4000:]
            _, said, rest = log.read_text().rpartition(started)
            return f"http://{rest.split('/')[0]}" if said and "/" in rest else ""

        until(url, "the worker does not say where it listens")
        yield url()
        process.terminate()
        process.wait(60)
    finally:
        process.kill()
        process.wait()


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
