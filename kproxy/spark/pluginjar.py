"""The Spark plugin: its jar, made once from `KproxyPlugin.java`, and the settings with which a session has it.

A plugin must be a class of Java's. janino, which Spark brings, compiles it, so no JDK is needed; in a JVM of its own,
as the driver's takes its memory and class path from settings that are not complete yet.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kproxy.devcluster.jars import cache_directory
from kproxy.errors import ConfigError
from kproxy.java import find_java

CLASS = "kproxy.spark.KproxyPlugin"
CONFIG_SETTING = "spark.kproxy.config"
_SOURCE = Path(__file__).with_name("KproxyPlugin.java")


def settings(config: os.PathLike[str] | str | None = None, jars: Sequence[str] = ()) -> dict[str, str]:
    """What a session must be made with to have the plugin; `jars` are others that it wants in spark.jars.

    With the path of a YAML file on the driver's host, no call of `attach` is needed. Raises ConfigError without Spark's
    jars or Java.
    """
    found = {"spark.plugins": CLASS, "spark.jars": ",".join([*jars, str(jar())])}
    return found | ({CONFIG_SETTING: os.path.abspath(config)} if config else {})


def jar() -> Path:
    """The plugin, compiled for the Spark of the installed pyspark. Raises ConfigError."""
    spark, version = _spark()
    source = _SOURCE.read_text()
    key = hashlib.sha256(f"{version}\n{source}".encode()).hexdigest()[:12]
    made = cache_directory() / f"spark-plugin-{key}.jar"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        partial = made.with_name(f".{made.name}.{os.getpid()}")
        with zipfile.ZipFile(partial, "w") as archive:
            for name, code in _compiled(source, spark).items():
                archive.writestr(name.replace(".", "/") + ".class", code)
        partial.rename(made)
    return made


def _spark() -> tuple[Path, str]:
    """Where Spark's jars are, and its version."""
    try:
        import pyspark
        from pyspark.find_spark_home import _find_spark_home

        jars = Path(_find_spark_home(), "jars")
    except ImportError:
        jars = None
    if jars is None or not any(jars.glob("janino-*.jar")):
        raise ConfigError(
            "kproxy's Spark plugin needs pyspark with Spark's jars: pip install pyspark, or set SPARK_HOME"
        )
    return jars, pyspark.__version__


def _compiled(source: str, jars: Path) -> dict[str, bytes]:
    """Name of a class → its code."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    py4j = next(jars.glob("py4j-*.jar"))
    port = launch_gateway(
        jarpath=str(py4j),
        classpath=f"{jars}/*",
        javaopts=["-Xmx256m"],
        die_on_exit=True,
        java_path=find_java(17, "Spark"),
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        java: Any = gateway.jvm
        compiler = java.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(java.Thread.currentThread().getContextClassLoader())
        compiler.setTargetVersion(8)
        compiler.cook(source)
        return {str(name): bytes(code) for name, code in compiler.getBytecodes().items()}
    finally:
        gateway.shutdown()
