"""Java's archive of the classes that Spark loads (class-data sharing): with it, Spark starts in half the time.

It is created once for each pyspark and each Java, by a session that does nothing else, and lies among kproxy's jars.
Java checks that it fits, and starts without an archive that does not.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from kproxy.dev.devcluster.jars import cache_directory, exclusive_lock, find_java

# JVMs that live for a minute spend most of it compiling.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Less than half of what a test may take, as one waits for it.
_TIMEOUT_S = 120

_SESSION = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession
options, home = sys.argv[1:]
conf = {"spark.driver.extraJavaOptions": options, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
spark = SparkSession.builder.master("local[2]").config(map={**conf, "spark.local.dir": home}).getOrCreate()
spark.range(1000).selectExpr("id % 7 as k", "sha2(cast(id as string), 256) as h").groupBy("k").count().collect()
spark.sparkContext.parallelize(range(4), 2).map(str).collect()
spark.stop()
gateway = SparkContext._gateway
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()  # it writes the archive at its end
"""


@cache
def java_options() -> str:
    """Return options for the JVMs of Spark's driver and executors."""
    archive = _archive()
    with suppress(OSError, subprocess.TimeoutExpired):
        archive.parent.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(archive.with_suffix(".lock"), None):
            if not archive.exists():
                _make(archive)
        if archive.stat().st_size:
            # Java says on stdout why it does without an archive that does not fit.
            return f"{_QUICK} -XX:SharedArchiveFile={archive} -Xlog:disable -Xlog:all=error:stderr"
    return _QUICK


def _archive() -> Path:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    what = f"{Path(find_java()).resolve()} {jars} {jars.stat().st_mtime_ns} {_QUICK}"
    return cache_directory() / f"spark-{pyspark.__version__}-{hashlib.sha256(what.encode()).hexdigest()[:8]}.jsa"


def _make(archive: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    with tempfile.TemporaryDirectory(prefix=f".{archive.name}.", dir=archive.parent) as directory:
        made = Path(directory, archive.name)
        command = [sys.executable, "-c", _SESSION, f"{_QUICK} -XX:ArchiveClassesAtExit={made}", directory]
        subprocess.run(
            command, cwd=directory, env=own | {"SPARK_LOCAL_IP": "127.0.0.1"}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
        made.touch()  # an empty one says that it was tried
        made.rename(archive)
