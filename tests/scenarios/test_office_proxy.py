"""A laptop in an office whose only way out is a proxy with a password.

    laptop ────▶ SOCKS5  proxy.office:1080 ────▶ kafka-1.vpc.internal:9092
    192.168.1.50 HTTP    proxy.office:8080 ────▶ kafka-2.vpc.internal:9092
                         192.168.1.2       ────▶ kafka-3.vpc.internal:9092

Kafka clients know nothing of such proxies. Names of brokers mean something to the proxy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.network import Host
from tests.harness.servers.ways import tool
from tests.scenarios.sites import NAMES, Site, fails, kproxy_exec, works

pytestmark = pytest.mark.integration

BROKER = "kafka-2.vpc.internal:9092"
PROXIES = ["socks5://me:s3cret@proxy.office:1080", "http://me:s3cret@proxy.office:8080"]


@pytest.fixture(autouse=True)
def proxy(host: Callable[..., Host], tmp_path: Path) -> Iterator[Host]:
    """With microsocks and tinyproxy."""
    made = host("proxy", "192.168.1.2/24", "10.0.0.2/24", names=NAMES)
    config = tmp_path / "tinyproxy.conf"
    config.write_text("Listen 192.168.1.2\nPort 8080\nBasicAuth me s3cret\nMaxClients 100\nTimeout 60\n")
    socks = [tool("microsocks"), "-i", "192.168.1.2", "-p", "1080", "-u", "me", "-P", "s3cret"]
    http = [tool("tinyproxy"), "-d", "-c", str(config)]
    with made.running(*socks, listening="192.168.1.2:1080"), made.running(*http, listening="192.168.1.2:8080"):
        yield made


@pytest.fixture
def laptop(host: Callable[..., Host]) -> Host:
    return host("laptop", "192.168.1.50/24", names={"proxy.office": "192.168.1.2"})


@pytest.mark.parametrize("via", PROXIES)
def test_through_the_proxy(via: str, laptop: Host, cloud: Site) -> None:
    said = fails(laptop, "librdkafka", BROKER, cloud.topic())
    assert f"Failed to resolve '{BROKER}': Name or service not known" in said
    works(laptop, "librdkafka", cloud, through=f"-b {BROKER} --via {via}")


@pytest.mark.parametrize("via", PROXIES)
def test_a_wrong_password(via: str, laptop: Host) -> None:
    options = f"-b {BROKER} --timeout 2s --via {via.replace('s3cret', 'wr0ng')}"
    done = laptop.run(*kproxy_exec(options), "true")
    assert (done.returncode, done.stdout) == (125, "")
    assert "password" in done.stderr
    assert "wr0ng" not in done.stderr
