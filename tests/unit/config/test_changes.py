"""What is different between two configurations, and whether a reload can take it over."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.config import ClusterConfig, Config
from kproxy.config.changes import changed_settings, compare
from kproxy.config.declarations import LOGIN, REACH, TLS, Reload
from kproxy.config.options import all_settings

A = {"name": "a", "bootstrap_servers": ["a:1"]}
B = {"name": "b", "bootstrap_servers": ["b:1"], "listen": "h:9"}


def config(cluster: dict[str, Any] | None = None, **process: Any) -> Config:
    return made({"bootstrap_servers": ["a:9092"], **(cluster or {})}, **process)


def made(*clusters: dict[str, Any], **process: Any) -> Config:
    return Config(clusters=tuple(ClusterConfig(**cluster) for cluster in clusters), **process)


@pytest.mark.parametrize(
    ("cluster", "process", "line"),
    [
        ({"bootstrap_servers": ["a:9092", "b:1"]}, {}, "bootstrap-servers: a:9092, b:1"),
        ({"map": ["node:2=x:1"]}, {}, "map: node:2=x:1"),
        ({"via": ["socks5://me:pw@proxy:1080"]}, {}, "via: socks5://me:***@proxy:1080"),
        ({"connect_timeout": "2s"}, {}, "connect-timeout: 2s"),
        ({"tls": True}, {}, "tls: true"),
        ({"max_request_size": "1MiB"}, {}, "max-request-size: 1MiB"),
        ({}, {"log_level": "debug"}, "log-level: debug"),
        ({}, {"drain_timeout": "1m"}, "drain-timeout: 1m"),
        ({}, {"ready_requires": "all"}, "ready-requires: all"),
    ],
)  # fmt: skip
def test_what_is_live(cluster: dict[str, Any], process: dict[str, Any], line: str) -> None:
    found = compare(config(), config(cluster, **process))
    assert (list(found.lines), list(found.refused)) == ([line], [])


@pytest.mark.parametrize(
    ("cluster", "process", "line"),
    [
        ({"listen": "127.0.0.1:1"}, {}, "listen has changed (127.0.0.1:19092 → 127.0.0.1:1)"),
        ({"node_ports": "20000-20009"}, {}, "node-ports has changed (the 200 ports after listen → 20000-20009)"),
        ({"advertise": "h"}, {}, "advertise has changed (the host of listen → h)"),
        ({"cluster_id": "x"}, {}, "cluster-id has changed (the id of the first bootstrap server that answers → x)"),
        ({}, {"admin": None}, "admin has changed (127.0.0.1:19091 → off)"),
        ({}, {"log_format": "json"}, "log-format has changed (auto → json)"),
        ({}, {"admin_token": "s" * 16}, "admin-token has changed"),
        ({"name": "other"}, {}, "cluster other would have ports of cluster default, which is removed"),
    ],
)  # fmt: skip
def test_what_needs_a_restart(cluster: dict[str, Any], process: dict[str, Any], line: str) -> None:
    found = compare(config(), config(cluster, **process))
    assert found.refused[0] == f"{line}: only a restart can change that"
    assert all("added" in one or "removed" in one for one in found.lines)


def test_clusters_are_compared_by_name_in_any_order() -> None:
    before = made(A, B)
    turned = made({**B, "map": ["x=y"]}, A)
    assert list(compare(before, turned).lines) == ["cluster b: map: x=y"]
    fewer = compare(before, made(A))
    assert (list(fewer.lines), list(fewer.refused)) == (["cluster b: removed"], [])
    more = compare(made(A), before)
    assert (list(more.lines), list(more.refused)) == (["cluster b: added"], [])
    assert compare(before, before) == compare(turned, turned)
    assert not compare(before, before).lines


def test_no_secret_is_shown() -> None:
    login = {"sasl": "PLAIN", "sasl_username": "me"}
    found = compare(config({**login, "sasl_password": "first"}), config({**login, "sasl_password": "second"}))
    assert list(found.lines) == ["sasl-password: another value"]


def test_a_changed_login_or_connection_drains_the_cluster() -> None:
    """Sessions that were opened in the former way must not outlive it; what no session depends on drains none."""
    by_key = {setting.key: setting for setting in all_settings()}
    for option in by_key.values():
        if option.group in (TLS, LOGIN):
            assert option.reload is Reload.DRAINS_ALL
    assert by_key["via"].reload is Reload.DRAINS_ALL
    assert by_key["map"].reload is by_key["bootstrap-servers"].reload is Reload.DRAINS_ROUTES
    live = {key for key, option in by_key.items() if option.reload is Reload.LIVE}
    assert live == {
        "accept-new-cluster-after", "client-config", "connect-timeout", "retire-after", "max-connections",
        "max-request-size", "ready-requires", "drain-timeout", "log-level",
    }  # fmt: skip
    assert {option.group for option in by_key.values()} > {REACH}


def test_which_options_of_a_cluster_have_changed() -> None:
    one, other = config().clusters[0], config({"map": ["x=y"], "tls": True}).clusters[0]
    assert {setting.key for setting in changed_settings(one, other)} == {"map", "tls"}
    assert not changed_settings(one, one)
