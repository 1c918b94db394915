"""Kafka's own Java programs: the brokers, and the command line tools by their usual names."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kproxy.base.errors import ConfigError
from kproxy.dev.devcluster.jars import DEFAULT_VERSION, Progress, class_path, fetch_jars, find_java

# The scripts of Kafka's distribution, and the class that each of them runs (4.4).
TOOLS: Mapping[str, str] = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}

# Those that another class ran before 4.4.
_BEFORE_4_4: Mapping[str, str] = {"kafka-configs": "kafka.admin.ConfigCommand"}

# Small and quick to start: the serial collector and the first compiler alone. Nothing here is a benchmark.
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


@dataclass(frozen=True, slots=True)
class Programs:
    """One version of Kafka, ready to run. Make it with `Programs.of(version)`."""

    java: str
    jars: Path
    options: Sequence[str] = ()
    """Further options of Java."""
    version: str = DEFAULT_VERSION

    @classmethod
    def of(cls, version: str = DEFAULT_VERSION, progress: Progress | None = None) -> Programs:
        """Find Java and fetch the jars if they are not in the cache. Raises ConfigError if that fails."""
        return cls(java=find_java(version), jars=fetch_jars(version, progress), version=version)

    @property
    def archive(self) -> Path:
        """The path of Java's archive of their classes, which `archive.py` may have made: one for each Java."""
        java = os.path.realpath(self.java)
        age = os.path.getmtime(java) if os.path.exists(java) else 0
        return self.jars / f"classes-{hashlib.sha256(f'{java} {age}'.encode()).hexdigest()[:8]}.jsa"

    def command(self, main: str, *args: str, heap: str = "256m", log_level: str = "warn") -> list[str]:
        """Return the command line that runs a tool (a key of TOOLS) or any other class with a `main`."""
        if main not in TOOLS and "." not in main:
            raise ConfigError(f"'{main}' is not one of Kafka's tools: give a class name or one of {', '.join(TOOLS)}")
        return [
            self.java,
            f"-Xmx{heap}",
            *_JVM,
            *self._sharing(),
            *self.options,
            f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
            "-cp",
            class_path(self.jars),
            self._main_class(main),
            *args,
        ]

    def is_before(self, major: int, minor: int) -> bool:
        """Return whether this is a version of Kafka before `major`.`minor`."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:2]) < (major, minor)

    def _main_class(self, main: str) -> str:
        return _BEFORE_4_4[main] if main in _BEFORE_4_4 and self.is_before(4, 4) else TOOLS.get(main, main)

    def _sharing(self) -> Sequence[str]:
        archive = self.archive
        if not archive.exists() or not archive.stat().st_size:
            return ()
        # Java reports on stdout why it ignores an archive that does not fit.
        return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr")

    def run(
        self, main: str, *args: str, input: str | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end; look at `returncode`, `stdout` and `stderr` yourself.

        `timeout` is in seconds; when it is over the tool is killed and subprocess.TimeoutExpired raised.
        """
        return subprocess.run(
            self.command(main, *args),
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            start_new_session=True,  # Ctrl-C on the terminal is for the parent to answer
        )
