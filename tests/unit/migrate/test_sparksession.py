from __future__ import annotations

import gc
from pathlib import Path

import pytest

from kproxy.errors import ConfigError
from kproxy.migrate.sparksession import _has_connector, spark_session

pytest.importorskip("pyspark")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of Spark without anything."""
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    return tmp_path


def test_the_connector_is_fetched_only_if_nothing_gives_it() -> None:
    assert not _has_connector()


def test_the_connector_in_the_installation(home: Path) -> None:
    (home / "jars" / "spark-sql-kafka-0-10_2.13-4.0.0.jar").touch()
    assert _has_connector()


def test_the_connector_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars /opt/spark-sql-kafka-0-10_2.13-4.0.0.jar pyspark-shell")
    assert _has_connector()


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
