from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.copy.sparksession import (
    _default_setting,
    _has_connector,
    _own_python,
    _with_c1_only,
    python_problem,
    spark_session,
    tuned_for_short_job,
)

pytest.importorskip("pyspark")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of Spark without anything."""
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    return tmp_path


@pytest.mark.parametrize("where", ["nowhere", "installation", "environment"])
def test_the_connector_is_fetched_only_if_nothing_gives_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    jar = "spark-sql-kafka-0-10_2.13-4.0.0.jar"
    if where == "installation":
        (home / "jars" / jar).touch()
    if where == "environment":
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars /opt/{jar} pyspark-shell")
    assert _has_connector() is (where != "nowhere")


def test_the_connector_in_the_configuration(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "spark.jars.packages  org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0\n"
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text(line)
    assert _has_connector()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "elsewhere"))
    assert not _has_connector()


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # pyspark leaves the launcher's pipes open
@pytest.mark.parametrize("reads_kafka", [False, True])
def test_spark_that_does_not_start_is_one_line(home: Path, reads_kafka: bool) -> None:
    """Here its launcher ends at once, as it does without Java, or when it cannot fetch a jar."""
    (home / "bin").mkdir()
    launcher = home / "bin" / "spark-submit"
    launcher.write_text("#!/bin/sh\nexit 1\n")
    launcher.chmod(0o755)
    with pytest.raises(ConfigError, match=r"^Spark did not start") as raised:
        spark_session("test", None, reads_kafka=reads_kafka).__enter__()
    assert ("spark-sql-kafka-0-10_2.1" in str(raised.value)) == reads_kafka
    assert "\n" not in str(raised.value)
    del raised
    gc.collect()  # pyspark leaves the launcher's pipe open: complain here, not in another test


@pytest.mark.parametrize("master", ["local", "local[*,4]", "local[2]", "local-cluster[2,1,1024]"])
@pytest.mark.parametrize("before", [None, "/opt/another/python3"])
def test_local_tasks_run_in_the_interpreter_that_has_kproxy(
    monkeypatch: pytest.MonkeyPatch, master: str, before: str | None
) -> None:
    if before is None:
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    else:
        monkeypatch.setenv("PYSPARK_PYTHON", before)
    with _own_python(master):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ.get("PYSPARK_PYTHON") == before


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "k8s://https://host:443", "localhost", ""])
def test_the_interpreter_of_a_clusters_tasks_is_the_users(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "./env/bin/python")
    with _own_python(master):
        assert os.environ["PYSPARK_PYTHON"] == "./env/bin/python"
    monkeypatch.delenv("PYSPARK_PYTHON")
    with _own_python(master):
        assert "PYSPARK_PYTHON" not in os.environ


def test_an_unfit_interpreter_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.9")
    trace = "Job aborted\n  at org.apache\nModuleNotFoundError: No module named 'kproxy'\n  at java.base\n"
    assert python_problem(Exception(trace)).startswith("the Python of Spark's tasks (python3.9) lacks kproxy: give all")
    trace = (
        "\n[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark\n"
    )
    said = python_problem(Exception(trace))
    assert "(python3.9) has another version than the driver's (3.9, and the driver has 3.11)" in said
    assert "\n" not in said
    assert python_problem(Exception("[PYTHON_VERSION_MISMATCH]")).startswith("the Python of Spark's tasks")
    assert python_problem(Exception("KeyError: 'kproxy'")) == ""


class Session:
    """Settings that a session begins with, and those that it has now; no JVM."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given = given
        self.now = {"spark.sql.shuffle.partitions": "200", "spark.sql.adaptive.enabled": "true"} | given
        self.now.setdefault("spark.sql.codegen.wholeStage", "true")
        self.sparkContext = self.conf = self

    def getConf(self) -> Session:
        return self

    def contains(self, key: str) -> bool:
        return key in self.given

    def get(self, key: str) -> str:
        return self.now[key]

    def set(self, key: str, value: str) -> None:
        self.now[key] = value


def test_a_job_of_few_records_has_other_settings_but_the_users() -> None:
    session = Session({"spark.sql.shuffle.partitions": "7"})
    before = dict(session.now)
    with tuned_for_short_job(session):
        assert session.now == {
            "spark.sql.shuffle.partitions": "7",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
        }
    assert session.now == before


@pytest.mark.parametrize(
    ("had", "now"),
    [
        ("", "-XX:TieredStopAtLevel=1"),
        ("-Dx=y -XX:+UseSerialGC", "-Dx=y -XX:+UseSerialGC -XX:TieredStopAtLevel=1"),
        ("-XX:TieredStopAtLevel=4", "-XX:TieredStopAtLevel=4"),
        ("-Dx=y -XX:-TieredCompilation", "-Dx=y -XX:-TieredCompilation"),
    ],
)
@pytest.mark.parametrize("line", ["spark.driver.extraJavaOptions  {}\n", "  spark.driver.extraJavaOptions={}  \n"])
def test_java_compiles_once_unless_the_user_says_otherwise(home: Path, line: str, had: str, now: str) -> None:
    (home / "conf").mkdir()
    comment = "# spark.driver.extraJavaOptions -Dno\nspark.driver.extraJavaOptionsX -Dno\n"
    (home / "conf" / "spark-defaults.conf").write_text(comment + (line.format(had) if had else ""))
    assert _with_c1_only(_default_setting("spark.driver.extraJavaOptions")) == now
    assert _with_c1_only(_default_setting("spark.executor.extraJavaOptions")) == "-XX:TieredStopAtLevel=1"
