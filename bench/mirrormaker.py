"""MirrorMaker 2 for the comparison with the copier: a Connect worker that runs its source connector.

The worker stays from load to load, so its JVM is warm; each copy is a connector of its own, with one task.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.machine import BenchError, start, stop
from kproxy.dev.devcluster.jars import class_path, fetch, find_java

# Maven Central has no Connect of Kafka 4.4.0, the version of the brokers.
_VERSION = "4.3.1"
AT_LEAST_ONCE, EXACTLY_ONCE = "mm2", "mm2-exactly-once"
MODES = (AT_LEAST_ONCE, EXACTLY_ONCE)
AT_LEAST_ONCE_TUNED = "mm2-tuned"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kproxy</groupId>
  <artifactId>mirrormaker</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = "    <dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency>"
# The JVM options of Kafka's own scripts for a worker, with a fixed heap.
_JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:+ExplicitGCInvokesConcurrent", "-server")
_STARTED = "REST server listening at http://"
_PATIENCE_S = 180.0
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
# Larger steps than the defaults (500 records a poll, 16 KB a batch, 1 MB a fetch): they cost MirrorMaker less.
TUNED = {
    "consumer.max.poll.records": "5000",
    "consumer.max.partition.fetch.bytes": str(8 << 20),
    "producer.override.batch.size": str(512 << 10),
    "producer.override.linger.ms": "5",
    "producer.override.buffer.memory": str(64 << 20),
    "producer.override.max.request.size": str(2 << 20),
}


def jars(progress: Callable[[str], None] | None = None) -> Path:
    """Return the jars of Connect and MirrorMaker. Needs the network if they are not cached. Raises ConfigError."""
    version = _VERSION
    wanted = [("org.apache.kafka", artifact, version) for artifact in ("connect-mirror", "connect-runtime")]
    wanted.append(("org.slf4j", "slf4j-simple", "1.7.36"))
    pom = _POM.format(dependencies="\n".join(_DEPENDENCY.format(*dependency) for dependency in wanted))
    return fetch(f"mirrormaker-{version}", f"MirrorMaker 2 of Kafka {version}", pom, progress)


class Worker:
    """A worker in distributed mode, beside the target."""

    def __init__(self, mode: str, source: str, target: str, pid: int, url: str) -> None:
        self.mode, self.pid = mode, pid
        self._source, self._target, self._url = source, target, url

    def start(self, name: str, topic: str, codec: str, settings: Mapping[str, str]) -> str:
        """Start to copy a topic; return its name on the target. `settings` override the defaults."""
        connector = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": "1",
            "source.cluster.alias": name,
            "target.cluster.alias": "target",
            "source.cluster.bootstrap.servers": self._source,
            "target.cluster.bootstrap.servers": self._target,
            "topics": topic,
            "key.converter": _BYTES,
            "value.converter": _BYTES,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "offset-syncs.topic.location": "target",
            "sync.topic.configs.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "refresh.topics.enabled": "false",
            "refresh.groups.enabled": "false",
            "consumer.auto.offset.reset": "earliest",
            "producer.override.compression.type": codec,
            **settings,
        }
        if self.mode == EXACTLY_ONCE:
            connector |= {"exactly.once.support": "required", "consumer.isolation.level": "read_committed"}
        until = time.monotonic() + _PATIENCE_S
        while self._ask("PUT", f"connectors/{name}/config", connector) is None:
            if time.monotonic() > until:
                raise BenchError(f"{self.mode} takes no connector")
            time.sleep(0.2)
        return f"{name}.{topic}"

    def check(self, name: str) -> None:
        """Raise BenchError if the connector has failed."""
        status = self._ask("GET", f"connectors/{name}/status", None) or {}
        for task in [status.get("connector", {}), *status.get("tasks", [])]:
            if task.get("state") == "FAILED":
                raise BenchError(f"{self.mode} has failed: {task.get('trace', '')[:1500]}")

    def end(self, name: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        while self._ask("DELETE", f"connectors/{name}", None) is None and time.monotonic() < until:
            time.sleep(0.2)

    def _ask(self, method: str, path: str, document: Mapping[str, str] | None) -> dict[str, Any] | None:
        """Send a request to the worker; return None while the worker is not ready for it."""
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(
            f"{self._url}/{path}", body, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
                return dict(json.loads(answer.read() or b"{}"))
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (404, 409, 500, 503):
                    return None
                raise BenchError(f"{method} {path}: {error.code}: {error.read().decode()[:1500]}") from None


@contextmanager
def worker(mode: str, source: str, target: str, directory: Path) -> Iterator[Worker]:
    """Start a worker. Raises BenchError if it does not start."""
    settings = {
        "bootstrap.servers": target,
        "group.id": f"{mode}-workers",
        "config.storage.topic": f"{mode}-configs",
        "offset.storage.topic": f"{mode}-offsets",
        "status.storage.topic": f"{mode}-status",
        **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "listeners": "http://127.0.0.1:0",
        "plugin.discovery": "service_load",
        "connector.client.config.override.policy": "All",
        "scheduled.rebalance.max.delay.ms": "0",
        "exactly.once.source.support": "enabled" if mode == EXACTLY_ONCE else "disabled",
    }
    file, log = directory / f"{mode}.properties", directory / f"{mode}.log"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [
        find_java(),
        *_JVM,
        "-Djava.awt.headless=true",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
        "-cp",
        class_path(jars()),
        "org.apache.kafka.connect.cli.ConnectDistributed",
        str(file),
    ]
    with log.open("wb") as out:
        process = start(command, [], stdout=out, stderr=out)
    try:
        until = time.monotonic() + _PATIENCE_S
        while _STARTED not in (output := log.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > until:
                raise BenchError(f"{mode} does not start: {output[-2000:]}")
            time.sleep(0.2)
        url = "http://" + output.rpartition(_STARTED)[2].split("/")[0].strip()
        yield Worker(mode, source, target, process.pid, url)
    finally:
        stop(process, 10)
