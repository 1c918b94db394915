"""What kproxy adds to Spark's settings, as the real spark-submit and the real pyspark read it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import kproxy.spark
from kproxy.spark.pluginjar import CLASS, build_cached_jar
from tests.harness.clients.spark import environment, needs_spark, spark_home

pytestmark = [pytest.mark.integration, needs_spark, pytest.mark.timeout(600)]

SOURCE = Path(kproxy.spark.__file__).with_name("KproxyPlugin.java")

# A job that starts no session. Its name says with which settings it would start one.
SHOW = """\
import json
import sys
from pyspark import SparkConf, SparkContext

if sys.argv[1:]:
    from kproxy.spark import plugin
    found = plugin(jars=sys.argv[1:2], packages=sys.argv[2:])
else:
    SparkContext._ensure_initialized()
    found = dict(SparkConf().getAll())
print("found", json.dumps(found))
"""

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>{}</artifactId><version>1.0</version></project>
"""


@dataclass(frozen=True)
class Site:
    """A SPARK_HOME and its defaults, in a directory whose name has a blank."""

    directory: Path
    variables: Mapping[str, str]

    def jar(self, name: str) -> Path:
        """Another's, with nothing in it."""
        path = self.directory / name
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("empty", b"")
        return path

    def defaults(self, **settings: str | Path) -> None:
        lines = [f"spark.{key.replace('_', '.')} {value}" for key, value in settings.items()]
        (self.directory / "spark-defaults.conf").write_text("\n".join(lines))

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.variables, cwd=self.directory, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def shown(self, *command: str) -> dict[str, str]:
        """What the job printed."""
        [line] = [line for line in self.run(*command).splitlines() if line.startswith("found ")]
        found: dict[str, str] = json.loads(line.removeprefix("found "))
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    directory = tmp_path / "a site"
    directory.mkdir()
    (directory / "show.py").write_text(SHOW)
    (directory / "kproxy.yaml").write_text("bootstrap-servers: kafka.example\n")
    home = spark_home(directory)
    own = {"PYTHONPATH": os.pathsep.join(sys.path), "SPARK_CONF_DIR": str(directory), "PYTHON": sys.executable}
    own["JAVA_TOOL_OPTIONS"] = f"'-Duser.home={directory}'"
    made = Site(directory, environment(home) | own)
    for name in ("connector", "other"):
        # Where Ivy looks for a package before it asks anybody.
        repository = f".m2/repository/org/example/{name}/1.0"
        (directory / repository).mkdir(parents=True)
        (directory / repository / f"{name}-1.0.pom").write_text(POM.format(name))
        made.jar(f"{repository}/{name}-1.0.jar")
    return made


def uris(*paths: Path) -> str:
    return ",".join(path.as_uri() for path in paths)


def test_spark_submit_gets_the_defaults_and_the_plugin(site: Site) -> None:
    """Also paths with blanks, through the shell."""
    kafka, other = site.jar("kafka.jar"), site.jar("an other.jar")
    site.defaults(jars=kafka, plugins="com.example.Plugin", app_name="of the site")
    conf = f"conf kproxy.yaml --jars '{other}'"
    command = f'exec "$SPARK_HOME"/bin/spark-submit $("$PYTHON" -m kproxy.spark {conf}) show.py'
    found = site.shown("/bin/sh", "-c", command)
    assert found["spark.jars"] == uris(kafka, other, build_cached_jar())
    assert found["spark.plugins"] == f"com.example.Plugin,{CLASS}"
    assert found["spark.app.name"] == "of the site"
    assert found["spark.kproxy.config"] == (site.directory / "kproxy.yaml").as_uri()


def test_a_session_gets_what_spark_submit_had(site: Site) -> None:
    """The job asks for the plugin; jars come from the defaults and from a package."""
    kafka = site.jar("kafka.jar")
    site.defaults(jars=kafka, jars_packages="org.example:connector:1.0", jars_ivy=site.directory / "ivy")
    submit = str(site.directory / "spark" / "bin" / "spark-submit")
    package = site.directory / "ivy" / "jars" / "org.example_connector-1.0.jar"
    expected = {"spark.jars": f"{uris(kafka, package)},/of/job.jar,{build_cached_jar()}", "spark.plugins": CLASS}
    assert site.shown(submit, "show.py", "/of/job.jar") == expected


@pytest.mark.matrix
def test_a_session_of_spark_submit_gets_other_packages(site: Site) -> None:
    """What the job itself asks for, too."""
    site.defaults(jars_ivy=site.directory / "ivy")
    submit = str(site.directory / "spark" / "bin" / "spark-submit")
    other = site.directory / "ivy" / "jars" / "org.example_other-1.0.jar"
    found = site.shown(submit, "show.py", "/of/job.jar", "org.example:other:1.0")
    assert {*found["spark.jars"].split(",")} == {other.as_uri(), "/of/job.jar", str(build_cached_jar())}


@pytest.mark.matrix
def test_a_session_gets_what_a_new_one_would_have(site: Site) -> None:
    """The same without spark-submit: it is asked for packages, of the defaults and others."""
    kafka = site.jar("kafka.jar")
    site.defaults(jars=kafka, jars_packages="org.example:connector:1.0", jars_ivy=site.directory / "ivy")
    package = site.directory / "ivy" / "jars" / "org.example_connector-1.0.jar"
    other = package.with_name("org.example_other-1.0.jar")
    expected = {"spark.jars": f"{uris(kafka, package)},/of/job.jar,{build_cached_jar()}", "spark.plugins": CLASS}
    assert site.shown(sys.executable, "show.py", "/of/job.jar") == expected
    found = site.shown(sys.executable, "show.py", "/of/job.jar", "org.example:other:1.0")
    assert {*found["spark.jars"].split(",")} == {*expected["spark.jars"].split(","), other.as_uri()}


def test_a_package_that_is_nowhere(site: Site) -> None:
    site.defaults(jars_packages="no-package", jars_ivy=site.directory / "ivy")
    program = "import kproxy.spark\ntry: kproxy.spark.plugin()\nexcept Exception as error: print(error)"
    said = site.run(sys.executable, "-c", program)
    assert said.startswith("spark-submit cannot tell the settings that it begins with: ")
    assert said.count("\n") == 1
    assert "no-package" in said


def test_commands_of_the_plugin(site: Site) -> None:
    assert site.run(sys.executable, "-m", "kproxy.spark", "jar") == f"{build_cached_jar()}\n"
    assert "bootstrap-servers: kafka.example" in site.run(sys.executable, "-m", "kproxy.spark", "ship", "kproxy.yaml")
    with pytest.raises(AssertionError, match=r"^no-such\.yaml: does not exist; allowed: a readable YAML file\n"):
        site.run(sys.executable, "-m", "kproxy.spark", "ship", "no-such.yaml")


def test_a_jar_is_for_every_spark(tmp_path: Path) -> None:
    """Its classes are for Java 8, which Spark 3.5 runs on, with nothing of Scala's; and it says its version."""
    with zipfile.ZipFile(build_cached_jar()) as archive:
        classes = [name for name in archive.namelist() if name.endswith(".class")]
        assert f"{CLASS.replace('.', '/')}.class" in classes
        for name in classes:
            code = archive.read(name)
            assert int.from_bytes(code[6:8], "big") <= 52
            assert b"scala/" not in code
        assert b"Implementation-Version: " in archive.read("META-INF/MANIFEST.MF")


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no javac, which knows the classes of Java 8")
def test_the_plugin_needs_no_newer_java(tmp_path: Path) -> None:
    home = spark_home(tmp_path)
    command = ["javac", "--release", "8", "-Xlint:none", "-cp", f"{home}/jars/*", "-d", str(tmp_path), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
