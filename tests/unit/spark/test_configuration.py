"""What is given to attach, as it goes to the executors."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kproxy.errors import ConfigError
from kproxy.spark.configuration import shipped
from kproxy.spark.host import Shipped


def test_bootstrap_servers() -> None:
    told = shipped("kafka-1.example:9092,kafka-2.example:9092")
    assert told.listen == "127.0.0.1:19092"
    assert yaml.safe_load(told.text) == {"bootstrap-servers": "kafka-1.example:9092,kafka-2.example:9092"}


def test_a_file_goes_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text("# ours\nbootstrap-servers: kafka.example\nlisten: 127.0.0.1:20000\n")
    told = shipped(file)
    assert told == shipped(str(file)) == Shipped("127.0.0.1:20000", file.read_text())


def test_a_mapping_is_what_stands_in_a_file() -> None:
    given = {"admin": "off", "clusters": [{"name": "a", "bootstrap-servers": ["k1", "k2"], "map": [], "tls": True}]}
    assert yaml.safe_load(shipped(given).text) == given


def test_the_same_is_the_same_in_any_order() -> None:
    assert shipped({"bootstrap-servers": "k", "tls": True}) == shipped({"tls": True, "bootstrap-servers": "k"})


def test_variables_of_the_driver_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPROXY_LISTEN", "127.0.0.1:20000")
    assert shipped("kafka.example").listen == "127.0.0.1:19092"


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match=r"^tlss: no such key; did you mean tls\?$"):
        shipped({"bootstrap-servers": "kafka.example", "tlss": True})
    with pytest.raises(ConfigError, match=r"^listen: port 0 would be another port on each host"):
        shipped({"bootstrap-servers": "kafka.example", "listen": "127.0.0.1:0"})
    with pytest.raises(ConfigError, match=r"leave out exit-with and admin-quit$"):
        shipped({"bootstrap-servers": "kafka.example", "exit-with": "/tmp/done"})
    with pytest.raises(ConfigError, match=r"^no-such\.yaml: does not exist"):
        shipped("no-such.yaml")


def test_what_may_be_secret_is_not_shown() -> None:
    assert "hidden" not in repr(shipped({"bootstrap-servers": "k", "sasl": "PLAIN", "sasl-password": "hidden",
                                         "sasl-username": "u"}))  # fmt: skip
