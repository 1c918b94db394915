"""Kafka's own frameworks and what only today's Java client can: Streams, Connect, share groups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kproxy.dev.devcluster.jars import cache_directory, fetch
from kproxy.dev.devcluster.tools import Programs
from tests.harness.programs.javac import compiled
from tests.matrix.client import HERE, Client

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kproxy</groupId>
  <artifactId>frameworks</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = "    <dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency>"
_ARTIFACTS = ("kafka-streams", "connect-runtime")
# The connectors for files: the newest that there are in Maven. What they need comes in the version of the others.
_FILE_CONNECTORS = ("org.apache.kafka", "connect-file", "4.3.1")


@dataclass(frozen=True)
class Java(Client):
    """A program of tests/matrix/java that has Streams beside the client: `program` is DIRECTORY/CLASS."""

    program: str = ""

    def command(self) -> Sequence[str]:
        programs = _programs(self.version)
        sources = [HERE / "java/Told.java", HERE / f"java/{self.program}.java"]
        classes = cache_directory() / "matrix" / f"java-{self.program.replace('/', '-')}-{self.version}"
        return compiled(programs, sources, classes, f"matrix.{self.program.rpartition('/')[2]}")


@dataclass(frozen=True)
class Connect(Client):
    """A Connect worker in distributed mode, which programs/connect.py drives."""

    def command(self) -> Sequence[str]:
        java = worker(self.version)
        return [sys.executable, str(HERE / "programs/connect.py"), str(len(java)), *java]


def worker(version: str) -> list[str]:
    """The command line of a Connect worker in distributed mode, without the file of its properties."""
    sources = [HERE / "java/connect/AppInfoParser.java"]
    classes = cache_directory() / "matrix" / f"java-connect-{version}"
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return list(compiled(_programs(version), sources, classes, main, log_level="info"))


def _programs(version: str) -> Programs:
    wanted = [("org.apache.kafka", one, version) for one in _ARTIFACTS]
    wanted += [_FILE_CONNECTORS, ("org.slf4j", "slf4j-simple", "1.7.36")]
    pom = _POM.format(dependencies="\n".join(_DEPENDENCY.format(*one) for one in wanted))
    return replace(Programs.of(version), jars=fetch(f"frameworks-{version}", f"Kafka {version} Streams, Connect", pom))
