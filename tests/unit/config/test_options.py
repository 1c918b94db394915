"""The declaration: its defaults, the ports that follow from it, and configurations that code builds itself."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import pytest

from kproxy.base.address import Address
from kproxy.config import Advertise, ClusterConfig, Config, PortRange
from kproxy.config.options import all_settings

BROKER = (Address("kafka", 9092),)


def cluster(**values: object) -> ClusterConfig:
    return ClusterConfig(bootstrap_servers=BROKER, **values)  # type: ignore[arg-type]


def test_the_defaults_are_those_that_the_documentation_promises() -> None:
    config = Config(clusters=(cluster(),))
    assert config.clusters[0].name == "default"
    assert config.clusters[0].listen == Address("127.0.0.1", 19092)
    assert config.clusters[0].advertise is None
    assert config.clusters[0].map == ()
    assert config.clusters[0].connect_timeout == 5.0
    assert config.clusters[0].retire_after == 600.0
    assert config.clusters[0].max_connections == 10_000
    assert config.clusters[0].max_request_size == 104_857_600
    assert config.admin == Address("127.0.0.1", 19091)
    assert config.ready_requires == "one"
    assert (config.admin_quit, config.admin_token, config.exit_with) == (False, None, ())
    assert config.drain_timeout == 10.0
    assert (config.log_format, config.log_level) == ("auto", "info")


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        cluster().listen = Address("127.0.0.1", 1)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "bound", "window"),
    [
        ({}, None, PortRange(19093, 19292)),
        ({"listen": Address("127.0.0.1", 65500)}, None, PortRange(65501, 65535)),
        ({"node_ports": PortRange(5, 9)}, 40000, PortRange(5, 9)),
        ({"listen": Address("127.0.0.1", 0)}, 40000, PortRange(40001, 40200)),
        ({"listen": Address("127.0.0.1", 0)}, 65535, PortRange(65335, 65534)),
        ({"listen": Address("127.0.0.1", 0)}, 65400, PortRange(65200, 65399)),
    ],
)
def test_the_window_of_node_ports(values: dict[str, object], bound: int | None, window: PortRange) -> None:
    assert cluster(**values).effective_node_ports(bound) == window


@pytest.mark.parametrize(
    ("listen", "admin", "bound", "window"),
    [
        ("127.0.0.1:19000", "127.0.0.1:19091", None, PortRange(19092, 19291)),
        ("127.0.0.1:19000", "0.0.0.0:19200", None, PortRange(19201, 19400)),
        ("0.0.0.0:19000", "127.0.0.1:19001", None, PortRange(19002, 19201)),
        ("localhost:19000", "127.0.0.1:19091", None, PortRange(19092, 19291)),
        ("127.0.0.1:19000", "127.0.0.1:19201", None, PortRange(19001, 19200)),
        ("127.0.0.1:19000", "10.0.0.1:19091", None, PortRange(19001, 19200)),
        ("127.0.0.1:65400", "127.0.0.1:65500", None, PortRange(65501, 65535)),
        ("127.0.0.1:0", "127.0.0.1:40100", 40000, PortRange(40101, 40300)),
        ("127.0.0.1:0", "127.0.0.1:65300", 65400, PortRange(65100, 65299)),
        ("127.0.0.1:0", "127.0.0.1:65100", 65400, PortRange(65200, 65399)),
        ("127.0.0.1:0", "127.0.0.1:65500", 65400, PortRange(65200, 65399)),
    ],
)
def test_the_window_of_node_ports_gives_way_to_the_admin_port(
    listen: str, admin: str, bound: int | None, window: PortRange
) -> None:
    one = cluster(listen=Address.parse(listen))
    config = Config(clusters=(one,), admin=Address.parse(admin))
    assert config.clusters[0].effective_node_ports(bound) == window


@pytest.mark.parametrize(
    ("advertise", "port"), [(None, 19095), (Advertise("proxy"), 19095), (Advertise("proxy", 29000), 29002)]
)
def test_the_advertised_port_of_a_node(advertise: Advertise | None, port: int) -> None:
    assert cluster(advertise=advertise).advertised_port(19095) == port


def test_code_that_builds_a_wrong_configuration_hears_of_it() -> None:
    with pytest.raises(ValueError, match="node-ports: 19090-19099 contains 19092, the port of listen"):
        cluster(node_ports=PortRange(19090, 19099))
    with pytest.raises(ValueError, match=r"admin 127\.0\.0\.1:19092 overlap"):
        Config(clusters=(cluster(),), admin=Address("127.0.0.1", 19092))
    with pytest.raises(ValueError, match="clusters: is empty"):
        Config(clusters=())
    with pytest.raises(ValueError, match="bootstrap-servers: is empty"):
        ClusterConfig(bootstrap_servers=())


def test_names_of_options_are_unique_and_fit_every_source() -> None:
    settings = all_settings()
    flags = [flag for s in settings for flag in (s.flag, s.short, s.off) if flag]
    assert len(set(flags)) == len(flags)
    for setting in settings:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", setting.key)
        assert setting.env == "KPROXY_" + setting.key.upper().replace("-", "_")
        assert setting.help.endswith(".")
        assert setting.kind.allowed
