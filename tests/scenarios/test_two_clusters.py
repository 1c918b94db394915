"""Two clusters whose brokers have the same names: staging and production, made from the same template.

               ┌─▶ staging.example:19001, …:19002, …:19003 ──▶ kafka-1.vpc.internal, kafka-2…, kafka-3…
    laptop ────┤
               └─▶ production.example:9092 ──────────────────▶ kafka-1.vpc.internal

/etc/hosts can say only once where kafka-1.vpc.internal is. Who did that for staging, and then talks to production,
writes to staging; at best a line in the log warns of it. In kproxy a broker belongs to its cluster, whatever its name.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.clients.flow import create_topic
from tests.harness.network import PYTHON, Host
from tests.harness.topics import unique
from tests.scenarios.roundtrip import RECORDS
from tests.scenarios.sites import Sites, fails, kproxy_exec, roundtrip

pytestmark = pytest.mark.integration

STAGING = "staging.example:19001,staging.example:19002,staging.example:19003"
PRODUCTION = "production.example:9092"
BOTH = f"""
clusters:
  - name: staging
    bootstrap-servers: {STAGING}
  - name: production
    bootstrap-servers: {PRODUCTION}
"""
GATEWAYS = {"staging.example": "203.0.113.1", "production.example": "203.0.113.2"}


@pytest.fixture(autouse=True)
def gateways(host: Callable[..., Host], sites: Sites) -> Iterator[None]:
    staging = host("staging", "10.0.0.1/24", "203.0.113.1/24", "203.0.113.11/24")
    production = host("production", "10.1.0.1/24", "203.0.113.2/24")
    ports = [f"203.0.113.1:1900{node}=10.0.0.1{node}:9092" for node in (1, 2, 3)]
    # What /etc/hosts below says of kafka-1.vpc.internal.
    named = "203.0.113.11:9092=10.0.0.11:9092"
    with (
        staging.running(PYTHON, "-m", "tests.harness.servers.forward", *ports, named, until="forwarding"),
        production.running(
            PYTHON, "-m", "tests.harness.servers.forward", "203.0.113.2:9092=10.1.0.11:9093", until="forwarding"
        ),
    ):
        yield


@pytest.fixture
def topic(sites: Sites) -> str:
    """The same name in both clusters; one partition, which broker 1 has."""
    name = unique("topic")
    for site in (sites.cloud, sites.other):
        site.host.call(create_topic, site.cluster.direct_bootstrap, name, assignment=[[1]])
    return name


def in_both(sites: Sites, topic: str) -> tuple[list[bytes], list[bytes]]:
    """The records of staging and of production."""
    return sites.cloud.records(topic, 1), sites.other.records(topic, 1)


def sent(word: str) -> list[bytes]:
    return sorted(f"{word}-{number}".encode() for number in range(RECORDS))


def test_names_lead_to_the_wrong_cluster(host: Callable[..., Host], sites: Sites, topic: str) -> None:
    laptop = host("laptop", "203.0.113.50/24", names={**GATEWAYS, "kafka-1.vpc.internal": "203.0.113.11"})
    done = laptop.run(*roundtrip("kafka-python", PRODUCTION, topic, "for-production"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert in_both(sites, topic) == (sent("for-production"), [])


def test_one_kproxy_for_both(host: Callable[..., Host], sites: Sites, topic: str, tmp_path: Path) -> None:
    laptop = host("laptop", "203.0.113.50/24", names=GATEWAYS)
    assert "Failed to resolve 'kafka-" in fails(laptop, "librdkafka", STAGING, topic)
    assert "Failed to resolve 'kafka-1.vpc.internal:9092'" in fails(laptop, "librdkafka", PRODUCTION, topic)

    (tmp_path / "both.yaml").write_text(BOTH)
    commands = [
        shlex.join(roundtrip("librdkafka", f"{{bootstrap:{name}}}", topic, f"for-{name}"))
        for name in ("staging", "production")
    ]
    done = laptop.run(*kproxy_exec(f"-c {tmp_path}/both.yaml"), "sh", "-c", " && ".join(commands))
    assert done.returncode == 0, done.stdout + done.stderr
    assert in_both(sites, topic) == (sent("for-staging"), sent("for-production"))
