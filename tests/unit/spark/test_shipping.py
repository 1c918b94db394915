"""What the plugin's driver is given to pass on: a Spark that does not authenticate is given no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kproxy.spark.__main__ import main

SECRET = "a-password-of-tests"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kproxy.yaml"
    path.write_text(f"bootstrap-servers: kafka.example\nsasl: PLAIN\nsasl-username: me\nsasl-password: {SECRET}\n")
    return path


def test_a_spark_that_authenticates(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ship", str(file)]) == 0
    assert SECRET in json.loads(capsys.readouterr().out)["text"]


def test_a_spark_that_does_not(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ship-openly", str(file)]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert SECRET not in said.err
    assert "has a secret (sasl-password), and spark.authenticate is not true" in said.err
    assert "spark.kproxy.allowUnauthenticated=true" in said.err


def test_without_a_secret_it_does_not_matter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kproxy.yaml"
    path.write_text("bootstrap-servers: kafka.example\n")
    shipped = []
    for how in ("ship", "ship-openly"):
        assert main([how, str(path)]) == 0
        shipped.append(capsys.readouterr().out)
    assert shipped[0] == shipped[1]
