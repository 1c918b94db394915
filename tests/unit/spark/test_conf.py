"""python -m kproxy.spark conf, with a jar that was made before, so without Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.spark.__main__ import main
from kproxy.spark.pluginjar import plugin_settings

JAR = ["--plugin-jar", "/opt/kproxy-spark.jar"]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.jars /opt/kafka.jar\nspark.plugins com.nvidia.spark.SQLPlugin")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    assert main(["conf", *words]) == 0
    parts = capsys.readouterr().out.split()
    assert parts[::2] == ["--conf"] * (len(parts) // 2)
    return dict(part.split("=", 1) for part in parts[1::2])


def test_it_adds_to_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, *JAR) == {
        "spark.plugins": "com.nvidia.spark.SQLPlugin,kproxy.spark.KproxyPlugin",
        "spark.jars": "/opt/kafka.jar,/opt/kproxy-spark.jar",
    }


def test_it_adds_to_what_else_is_wanted(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, properties = directory / "kproxy.yaml", directory / "job.properties"
    file.write_text("bootstrap-servers: kafka.example\n")
    properties.write_text("spark.plugins com.example.Plugin")
    options = ["--properties-file", str(properties), "--jars", "a.jar,b.jar", "--python", "./env/bin/python"]
    assert said(capsys, str(file), *JAR, *options) == {
        "spark.plugins": "com.example.Plugin,kproxy.spark.KproxyPlugin",
        "spark.jars": "a.jar,b.jar,/opt/kproxy-spark.jar",
        "spark.kproxy.config": str(file),
        "spark.kproxy.python": "./env/bin/python",
    }


def test_a_site_that_has_the_plugin(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its jar is there too, be it among Spark's: nothing is compiled."""
    (directory / "spark-defaults.conf").write_text("spark.plugins com.example.Plugin, kproxy.spark.KproxyPlugin")
    assert said(capsys) == {"spark.plugins": "com.example.Plugin,kproxy.spark.KproxyPlugin"}


def test_mistakes_are_one_line(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = directory / "kproxy.yaml"
    file.write_text("bootstrap-servres: kafka.example\n")
    for words, expected in (
        ([str(file)], f"{file}:1: bootstrap-servres: no such key; did you mean bootstrap-servers?"),
        (["no-such.yaml"], "no-such.yaml: does not exist; allowed: a readable YAML file"),
        (["kafka.example:9092"], "kafka.example:9092: does not exist; allowed: a readable YAML file"),
        (["--properties-file", "no.conf"], "no.conf: cannot be read: No such file or directory"),
        ([*JAR, "--python", "my env/python"], "spark.kproxy.python: 'my env/python' has a blank;"),
    ):
        assert main(["conf", *words]) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith(expected)


def test_a_session_adds_too(directory: Path) -> None:
    before = {"spark.plugins": "kproxy.spark.KproxyPlugin,x.Y", "spark.jars": "/opt/kproxy-spark.jar", "spark.z": "1"}
    found = plugin_settings(jars=["c.jar"], plugins=["v.W"], plugin_jar="/opt/kproxy-spark.jar", before=before)
    assert found == {
        "spark.plugins": "kproxy.spark.KproxyPlugin,x.Y,v.W",
        "spark.jars": "/opt/kproxy-spark.jar,c.jar",
    }
