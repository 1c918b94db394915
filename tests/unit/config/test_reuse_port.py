"""Kproxies that share ports: what their configurations must say, and what is said of `workers`, which are no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.base.errors import ConfigError
from kproxy.config import Config, load

INSTEAD = "was removed; allowed: several kproxies with reuse-port, see docs/performance.md#more-than-one-core"
SERVERS = {"bootstrap_servers": "kafka:9092"}


def problems(flags: dict[str, Any], env: dict[str, str], file: Path | None) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load({**SERVERS, **flags}, env, file)
    return list(raised.value.problems)


def test_workers_say_what_to_write_instead(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text("admin: off\nworkers: 4\n")
    assert problems({}, {}, file) == [f"{file}:2: workers: {INSTEAD}"]
    assert problems({}, {"KPROXY_WORKERS": "4"}, None) == [f"KPROXY_WORKERS: {INSTEAD}"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            {"listen": "127.0.0.1:0"},
            "--listen: 127.0.0.1:0 has port 0, and reuse-port needs one that all kproxies know; allowed: HOST:PORT",
        ),
        (
            {"forward": ("0=registry:8081",)},
            "--forward: has port 0, and reuse-port needs one that all kproxies know; allowed: PORT=HOST:PORT",
        ),
    ],
)
def test_ports_must_be_said(flags: dict[str, Any], expected: str) -> None:
    assert problems({"reuse_port": True, **flags}, {}, None) == [expected]
    load({**SERVERS, **flags}, {}, None)


def window(**flags: Any) -> str:
    config: Config = load({**SERVERS, "listen": "127.0.0.1:19092", **flags}, {}, None)
    return str(config.clusters[0].effective_node_ports())


def test_the_ports_of_nodes_do_not_depend_on_the_admin_address() -> None:
    """Which is another one in each kproxy."""
    assert window(admin="127.0.0.1:19093") == "19094-19293"
    assert window(admin="127.0.0.1:19081", reuse_port=True) == "19093-19292"
    (overlap,) = problems({"admin": "127.0.0.1:19093", "reuse_port": True}, {}, None)
    assert "overlap" in overlap
