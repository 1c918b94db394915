"""The Spark plugin: its jar, built once from `KproxyPlugin.java`, and the settings with which a session loads it.

A plugin must be a Java class. janino, which is part of Spark, compiles it, so no JDK is needed. It runs in a separate
JVM, because the driver's JVM takes its memory and class path from settings that are not complete yet. The class is the
same for every Spark from 3.5, and for both versions of Scala.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kproxy import __version__
from kproxy.base.errors import ConfigError
from kproxy.base.java import find_java
from kproxy.base.packages import install_command
from kproxy.base.process import run_program
from kproxy.dev.devcluster.jars import cache_directory
from kproxy.spark.defaults import JARS, PLUGINS, merge_lists, session_settings, spark_home

CLASS = "kproxy.spark.KproxyPlugin"
CONFIG_SETTING = "spark.kproxy.config"
PYTHON_SETTING = "spark.kproxy.python"
_SOURCE = Path(__file__).with_name("KproxyPlugin.java")

# janino runs this, and this runs janino: a file, the directory for its classes.
_COMPILER = """
public final class Compile {
    public static void main(String[] words) throws Exception {
        org.codehaus.janino.SimpleCompiler compiler = new org.codehaus.janino.SimpleCompiler();
        compiler.setTargetVersion(8);
        compiler.cook(words[0], new java.io.FileInputStream(words[0]));
        java.util.Iterator classes = compiler.getBytecodes().entrySet().iterator();
        while (classes.hasNext()) {
            java.util.Map.Entry one = (java.util.Map.Entry) classes.next();
            java.io.File file = new java.io.File(words[1], one.getKey() + ".class");
            java.nio.file.Files.write(file.toPath(), (byte[]) one.getValue(), new java.nio.file.OpenOption[0]);
        }
    }
}
"""


def plugin_settings(
    config: os.PathLike[str] | str | None = None,
    jars: Sequence[str] = (),
    *,
    plugins: Sequence[str] = (),
    packages: Sequence[str] = (),
    python: str | None = None,
    plugin_jar: str | None = None,
    before: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the settings with which a session has the plugin.

    They add to the settings `before`, which are read from Spark unless given, and to `jars`, `plugins` and `packages`:
    other entries for spark.jars, spark.plugins and spark.jars.packages. With the path of a YAML file on the driver's
    host, no call of `attach` is needed. `python` runs kproxy in place of Spark's own Python. `plugin_jar` is an
    existing jar. Raises ConfigError without Spark's jars or Java.
    """
    before = session_settings(packages) if before is None else before
    has_plugin = CLASS in merge_lists(before.get(PLUGINS, "")).split(",")  # the settings that name it have its jar too
    own = plugin_jar or ("" if has_plugin else str(build_cached_jar()))
    settings = {PLUGINS: merge_lists(before.get(PLUGINS, ""), *plugins, CLASS)}
    if listed := merge_lists(before.get(JARS, ""), *jars, own):
        settings[JARS] = listed
    if config:
        settings[CONFIG_SETTING] = os.path.abspath(config)
    if python:
        settings[PYTHON_SETTING] = python
    return settings


def build_cached_jar() -> Path:
    """Return the plugin's jar, compiled with the installed Spark unless the cache has it. Raises ConfigError."""
    source = _SOURCE.read_bytes()
    key = hashlib.sha256(b"%s\n%s" % (__version__.encode(), source)).hexdigest()[:12]
    made = cache_directory() / f"spark-plugin-{key}.jar"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        partial = made.with_name(f".{made.name}.{os.getpid()}")
        try:
            build_jar(partial, __version__)
            partial.rename(made)
        finally:
            partial.unlink(missing_ok=True)
    return made


def build_jar(file: Path, version: str, *licences: Path) -> None:
    """Build the jar, always the same from the same source. Raises ConfigError."""
    attributes = {"Manifest-Version": "1.0", "Implementation-Title": "kproxy-spark", "Implementation-Version": version}
    manifest = "".join(f"{key}: {value}\r\n" for key, value in attributes.items()) + "\r\n"
    entries = {"META-INF/MANIFEST.MF": manifest.encode()}
    entries |= {f"META-INF/{path.name}": path.read_bytes() for path in licences}
    for name, code in sorted(_compiled().items()):
        entries[name.replace(".", "/") + ".class"] = code
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def _spark_jars() -> Path:
    home = spark_home()
    if home is None or not any((home / "jars").glob("janino-*.jar")):
        raise ConfigError(
            f"kproxy's Spark plugin needs pyspark with Spark's jars: {install_command('pyspark')}, or set SPARK_HOME"
        )
    return home / "jars"


def _compiled() -> dict[str, bytes]:
    """Return the code of each compiled class by name."""
    java, jars = find_java(8, "Spark"), _spark_jars()
    with tempfile.TemporaryDirectory(prefix="kproxy-") as directory:
        compiler, classes = Path(directory, "Compile.java"), Path(directory, "classes")
        compiler.write_text(_COMPILER)
        classes.mkdir()
        command = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
        janino = ["org.codehaus.janino.SimpleCompiler", str(compiler), "Compile"]
        done = run_program([*command, *janino, str(_SOURCE), str(classes)])
        if done.returncode:
            why = next((line for line in done.stderr.splitlines() if "Exception" in line), f"code {done.returncode}")
            raise ConfigError(f"kproxy's Spark plugin cannot be compiled with {jars}: {why}")
        return {path.name.removesuffix(".class"): path.read_bytes() for path in classes.iterdir()}
