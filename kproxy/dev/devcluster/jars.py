"""Kafka's own jars, fetched once from Maven into a cache directory, and the Java that runs them.

The cache is `$KPROXY_CACHE`, else `$XDG_CACHE_HOME/kproxy`, else `~/.cache/kproxy`. Each version has a directory, named
after the version and the request to Maven, so a later kproxy with other jars never changes a directory that a running
cluster uses. A directory appears there in one step, by a rename, when it is complete; a lock keeps two processes from
fetching the same version twice.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kproxy.base import java
from kproxy.base.errors import ConfigError
from kproxy.base.process import run_program

DEFAULT_VERSION = "4.4.0"

# The client and broker log through slf4j 1.7; without a binding every line would be lost. This one needs no
# configuration file and writes to stderr, in every version of Kafka alike.
_SLF4J_VERSION = "1.7.36"

# Kafka before 2.4 asks for ZooKeeper 3.4, whose client cannot read an address as Java 14 and newer print it.
_ZOOKEEPER_VERSION = "3.5.9"

# Two bindings of slf4j at once: which one wins is chance. Kafka before 4.0 brings these.
_OTHER_BINDINGS = "slf4j-log4j12,slf4j-reload4j"

# Long enough for a first fetch over a slow line, short enough that a dead line ends.
_FETCH_TIMEOUT_S = 900

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kproxy</groupId>
  <artifactId>devcluster</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""

_DEPENDENCY = "    <dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency>"

# Spark's connector brings Kafka's client and its pool; what pyspark has already stays out.
_SPARK_CONNECTOR = """    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_{scala}</artifactId><version>{version}</version>
      <exclusions>
{exclusions}
      </exclusions>
    </dependency>"""
_EXCLUSION = "        <exclusion><groupId>{0}</groupId><artifactId>{1}</artifactId></exclusion>"
_IN_PYSPARK = (
    ("org.apache.spark", "spark-tags_{scala}"),
    *((group, "*") for group in ("org.apache.hadoop", "org.scala-lang", "org.scala-lang.modules", "org.slf4j")),
    *((group, "*") for group in ("com.github.luben", "com.google.code.findbugs", "org.lz4", "org.xerial.snappy")),
)

Progress = Callable[[str], None]


def find_java(version: str = DEFAULT_VERSION) -> str:
    """Return the path of a `java` that is new enough for this version of Kafka. Raises ConfigError if there is none."""
    major = version.split(".")[0]
    return java.find_java(17 if major.isdigit() and int(major) >= 4 else 11, f"Kafka {version}")


def fetch_jars(version: str = DEFAULT_VERSION, progress: Progress | None = None) -> Path:
    """Return the directory with the jars of this version of Kafka, fetched with Maven unless the cache has it.

    Raises ConfigError if Maven is missing or fails, or if the version is invalid.
    """
    if not re.fullmatch(r"[0-9]+(\.[0-9]+){1,2}([-.][A-Za-z0-9]+)*", version):
        raise ConfigError(f"'{version}' is not a version of Kafka: write it like {DEFAULT_VERSION}")
    return fetch(f"kafka-{version}", f"Kafka {version}", _pom(version), progress)


def fetch(name: str, what: str, pom: str, progress: Progress | None = None) -> Path:
    """Return the directory with the jars that a POM depends on, fetched with Maven unless the cache has it.

    The directory's name begins with `name`; `what` names it in messages. Raises ConfigError if Maven is missing or
    fails.
    """
    complete = _place(name, pom)
    cache = complete.parent
    if complete.is_dir():
        return complete
    mvn = _find_maven(what)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(cache / f"{complete.name}.lock", progress):
            if not complete.is_dir():  # another process may have fetched it while this one waited
                _fetch(mvn, what, pom, complete, progress)
    except OSError as error:
        raise ConfigError(f"the cache directory {cache} cannot be used: {error}; set KPROXY_CACHE to another") from None
    return complete


def check_requirements(version: str = DEFAULT_VERSION) -> None:
    """Check that Java and, if jars must be fetched, Maven exist. Raises ConfigError with all that is missing."""
    problems: list[str] = []
    try:
        find_java(version)
    except ConfigError as error:
        problems += error.problems
    try:
        if not _place(f"kafka-{version}", _pom(version)).is_dir():
            _find_maven(f"Kafka {version}")
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(*problems)


def _place(name: str, pom: str) -> Path:
    """Return the directory for the jars of this POM."""
    return cache_directory() / f"{name}-{hashlib.sha256(pom.encode()).hexdigest()[:8]}"


def _find_maven(what: str) -> str:
    """Return the path of Maven, which fetches `what`. Raises ConfigError."""
    mvn = java.find_program("mvn", home="MAVEN_HOME")
    if mvn is None:
        manager = next((program for program in ("apt-get", "brew") if shutil.which(program)), None)
        how = f" ({manager} install maven)" if manager else ""
        raise ConfigError(f"mvn was not found: install Apache Maven{how}, which fetches {what} (once)")
    return mvn


def fetch_spark_connector(version: str, progress: Progress | None = None) -> list[Path]:
    """Return the jars with which this version of Spark reads and writes Kafka, and that pyspark lacks.

    pyspark has Spark for Scala 2.13 since 4.0, and for 2.12 before. Raises ConfigError as `fetch`.
    """
    scala = "2.12" if version.startswith("3.") else "2.13"
    exclusions = "\n".join(_EXCLUSION.format(*artifact).format(scala=scala) for artifact in _IN_PYSPARK)
    connector = _SPARK_CONNECTOR.format(scala=scala, version=version, exclusions=exclusions)
    what = f"the Kafka connector of Spark {version}"
    jars = fetch(f"spark-kafka-{version}", what, _POM.format(dependencies=connector), progress)
    return sorted(jars.glob("*.jar"))


def class_path(jars: Path) -> str:
    """Return all jars of a directory for Java's `-cp`, which expands the star itself."""
    return str(jars / "*")


def cache_directory() -> Path:
    """Return the directory of all fetched files; it may not exist yet."""
    if own := os.environ.get("KPROXY_CACHE"):
        return Path(own).expanduser().absolute()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg, "kproxy").absolute()
    return Path("~/.cache/kproxy").expanduser().absolute()


def _pom(version: str) -> str:
    before_2_4 = tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < (2, 4)
    wanted = [
        ("org.apache.kafka", "kafka_2.12" if before_2_4 else "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
        ("org.slf4j", "slf4j-simple", _SLF4J_VERSION),
    ]
    if before_2_4:
        wanted.append(("org.apache.zookeeper", "zookeeper", _ZOOKEEPER_VERSION))
    return _POM.format(dependencies="\n".join(_DEPENDENCY.format(*artifact) for artifact in wanted))


@contextmanager
def exclusive_lock(path: Path, progress: Progress | None) -> Iterator[None]:
    """Hold an exclusive lock between processes while the context is open."""
    import fcntl  # not on every platform; only needed when something has to be fetched

    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if progress:
                progress("waiting for another process that prepares the same jars")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(mvn: str, what: str, pom: str, complete: Path, progress: Progress | None) -> None:
    """Let Maven copy the jars to a directory beside the complete one, then rename it."""
    if progress:
        progress(f"fetching {what} with Maven (tens of MB, only once)")
    for left_over in complete.parent.glob(f".{complete.name}.*"):
        shutil.rmtree(left_over, ignore_errors=True)  # of a process that was killed: the lock is ours now
    partial = Path(tempfile.mkdtemp(prefix=f".{complete.name}.", dir=complete.parent))
    try:
        (partial / "pom.xml").write_text(pom)
        jars = partial / "jars"
        command = [mvn, "-q", "-B", "-f", str(partial / "pom.xml"), "dependency:copy-dependencies"]
        try:
            words = [*command, f"-DoutputDirectory={jars}", f"-DexcludeArtifactIds={_OTHER_BINDINGS}"]
            done = run_program(words, stdin=subprocess.DEVNULL, timeout=_FETCH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"Maven did not fetch {what} within {_FETCH_TIMEOUT_S} s: check the network") from None
        if done.returncode != 0 or not any(jars.glob("*.jar")):
            raise ConfigError(f"Maven could not fetch {what}: {_reason(done.stdout + done.stderr)}")
        jars.rename(complete)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _reason(output: str) -> str:
    """Return Maven's first error line without its markers; it names the artifact, or the network error."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    errors = [line.removeprefix("[ERROR]").strip() for line in plain.splitlines() if "[ERROR]" in line]
    lines = errors or [line.strip() for line in plain.splitlines() if line.strip()]
    return (lines or ["it printed nothing"])[0].split(" -> ")[0]
