"""What is given to attach, as it goes to the executors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kproxy.base.errors import ConfigError
from kproxy.spark.configuration import build_host_config, find_secrets
from kproxy.spark.host import HostConfig


def test_bootstrap_servers() -> None:
    told = build_host_config("kafka-1.example:9092,kafka-2.example:9092")
    assert told.requires == "all"
    assert yaml.safe_load(told.text) == {"bootstrap-servers": "kafka-1.example:9092,kafka-2.example:9092"}


def test_a_file_goes_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text("# ours\nbootstrap-servers: kafka.example\nlisten: 127.0.0.1:20000\n")
    told = build_host_config(file)
    assert told == build_host_config(str(file)) == HostConfig("127.0.0.1:20000", file.read_text())


def test_a_mapping_is_what_stands_in_a_file() -> None:
    given = {"admin": "off", "clusters": [{"name": "a", "bootstrap-servers": ["k1", "k2"], "map": [], "tls": True}]}
    assert yaml.safe_load(build_host_config(given).text) == given


@pytest.mark.parametrize(("given", "named"), [(None, "None"), (5, "of type int"), (["k"], "of type list")])
def test_something_else(given: Any, named: str) -> None:
    with pytest.raises(
        ConfigError, match=f"must be bootstrap servers, the path of a file, or a dict, and not {named}$"
    ):
        build_host_config(given)


def test_the_same_is_the_same_in_any_order() -> None:
    assert build_host_config({"bootstrap-servers": "k", "tls": True}) == build_host_config(
        {"tls": True, "bootstrap-servers": "k"}
    )


def test_variables_of_the_driver_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPROXY_LISTEN", "127.0.0.1:20000")
    assert build_host_config("kafka.example").listen != "127.0.0.1:20000"


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match=r"^tlss: no such key; did you mean tls\?$"):
        build_host_config({"bootstrap-servers": "kafka.example", "tlss": True})
    with pytest.raises(ConfigError, match=r"^listen: port 0 would be another port on each host"):
        build_host_config({"bootstrap-servers": "kafka.example", "listen": "127.0.0.1:0"})
    with pytest.raises(ConfigError, match=r"remove exit-with and admin-quit$"):
        build_host_config({"bootstrap-servers": "kafka.example", "exit-with": "/tmp/done"})
    with pytest.raises(ConfigError, match=r"^no-such\.yaml: does not exist"):
        build_host_config("no-such.yaml")


def test_what_may_be_secret_is_not_shown() -> None:
    assert "hidden" not in repr(build_host_config({"bootstrap-servers": "k", "sasl": "PLAIN", "sasl-password": "hidden",
                                         "sasl-username": "u"}))  # fmt: skip


def test_the_port_is_the_same_for_the_same_configuration_only(tmp_path: Path) -> None:
    one = build_host_config("kafka.example")
    assert one == build_host_config({"bootstrap-servers": "kafka.example"})
    assert one.listen != build_host_config("kafka-2.example").listen
    file = tmp_path / "kproxy.yaml"
    file.write_text("bootstrap-servers: kafka.example\n")
    assert build_host_config(file) == build_host_config(file)
    for number in range(300):
        host, _, port = build_host_config(f"kafka-{number}.example").listen.rpartition(":")
        # Node ports follow, all of them below those that Linux gives to connections.
        assert host == "127.0.0.1"
        assert 20500 <= int(port) < 32500


def test_how_many_brokers_must_be_reachable() -> None:
    assert build_host_config({"bootstrap-servers": "k", "ready-requires": "one"}).requires == "one"
    assert build_host_config({"bootstrap-servers": "k", "ready-requires": "one"}, "all").requires == "all"
    with pytest.raises(ConfigError, match=r"^ready_requires: 'two' is not known; allowed: all, one, none$"):
        build_host_config("k", "two")


def test_secrets_that_are_shipped(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("hidden")
    login = {"sasl": "PLAIN", "sasl-username": "u"}
    assert find_secrets(build_host_config({"bootstrap-servers": "k", **login, "sasl-password": "hidden"})) == [
        "sasl-password"
    ]
    assert (
        find_secrets(build_host_config({"bootstrap-servers": "k", **login, "sasl-password-file": str(password)})) == []
    )
    assert find_secrets(build_host_config({"bootstrap-servers": "k", "via": "http://u:hidden@proxy:1"})) == ["via"]
    assert find_secrets(build_host_config({"bootstrap-servers": "k", "via": "http://proxy:1"})) == []
    several = [
        {"name": "a", "bootstrap-servers": "a", "listen": "127.0.0.1:21000"},
        {"name": "b", "bootstrap-servers": "b", "listen": "127.0.0.1:22000", **login, "sasl-password": "hidden"},
    ]
    assert find_secrets(build_host_config({"clusters": several})) == ["sasl-password"]
    client = tmp_path / "client.properties"
    plain = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hidden";'
    client.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={plain}\n")
    assert find_secrets(build_host_config({"bootstrap-servers": "k", "client-config": str(client)})) == []
