"""Real brokers in containers of a real Podman, none of whose ports is published: `--via docker://NETWORK`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.harness.process import Kproxy, wait_until
from tests.harness.programs.podman import Podman, podman
from tests.harness.topics import create_topic, read_topic, unique
from tests.matrix.client import HERE

pytestmark = [pytest.mark.integration, pytest.mark.matrix, pytest.mark.timeout(600)]

BROKERS = ("kafka1", "kafka2", "kafka3")


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    with podman(tmp_path_factory.mktemp("podman")) as made:
        made.python("brokers", BROKERS, HERE / "programs/brokers.py", "3")
        wait_until(lambda: "ready" in made.said("brokers"), "the brokers are ready", 240)
        yield made


@pytest.fixture
def kproxy(containers: Podman, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Kproxy]:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{containers.socket}")
    via = f"docker://{containers.network}"
    with Kproxy(tmp_path, "kafka1:9091", "--via", via, forbidden=BROKERS) as made:
        yield made


def write(producer: Producer, topic: str, count: int) -> list[object]:
    """To all partitions; what the producer was told of each record that failed."""
    failed: list[object] = []
    for number in range(count):
        producer.produce(
            topic, str(number).encode(), partition=number % 6,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )  # fmt: skip
    assert producer.flush(120) == 0
    return failed


def values(bootstrap: str, topic: str) -> list[int]:
    return sorted(int(message.value() or b"-1") for message in read_topic(bootstrap, topic, 6))


def test_records_pass_to_brokers_in_a_network_of_containers(kproxy: Kproxy) -> None:
    topic = create_topic(kproxy.bootstrap, 6, 3)
    assert write(Producer({"bootstrap.servers": kproxy.bootstrap}), topic, 600) == []
    assert values(kproxy.bootstrap, topic) == list(range(600))


def test_a_container_whose_address_changes(kproxy: Kproxy, containers: Podman) -> None:
    """Another container has its former address. The producer goes on."""
    topic = create_topic(kproxy.bootstrap, 6, 3)
    producer = Producer({"bootstrap.servers": kproxy.bootstrap})
    assert write(producer, topic, 60) == []
    before, aliases = containers.address("brokers"), [word for name in BROKERS for word in ("--alias", name)]
    containers.do("network", "disconnect", containers.network, "brokers")
    containers.do("run", "-d", "--name", unique("other"), "--network", containers.network, "--ip", before, "--ulimit",
                  "nofile=4096:4096", "--ulimit", "nproc=4096:4096", "--rootfs", "/:O", "sleep", "600")  # fmt: skip
    containers.do("network", "connect", *aliases, containers.network, "brokers")
    assert containers.address("brokers") != before
    assert write(producer, topic, 60) == []
    assert values(kproxy.bootstrap, topic) == sorted([*range(60), *range(60)])


@pytest.mark.parametrize(
    ("server", "network", "says"),
    [
        ("kafka9:9091", "{network}", "no container of network {network} is called 'kafka9' (it has: "),
        ("kafka1:9091", "nowhere", "there is no network 'nowhere' (there are: "),
        ("kafka1:1", "{network}", "nothing listens on that port"),
    ],
    ids=["name", "network", "port"],
)
def test_what_is_not_there(containers: Podman, tmp_path: Path, server: str, network: str, says: str) -> None:
    own = {"DOCKER_HOST": f"unix://{containers.socket}", "HOME": str(tmp_path)}
    via = f"docker://{network.format(network=containers.network)}"
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", "doctor", "--via", via, server],
        env={**os.environ, **own, "COLUMNS": "1000"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert says.format(network=containers.network) in " ".join(done.stdout.split())
