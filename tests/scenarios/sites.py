"""The clusters of the scenarios, and clients that try to use them from some host."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kproxy.dev.devcluster import DevCluster
from tests.harness.network import KPROXY, PYTHON, Host
from tests.harness.topics import create_topic, read_topic, unique, values
from tests.scenarios.roundtrip import RECORDS

PARTITIONS = 6
NAMES = {f"kafka-{node}.vpc.internal": f"10.0.0.1{node}" for node in (1, 2, 3)}
"""What the brokers of `cloud` advertise, for hosts that can reach them."""
Done: TypeAlias = "subprocess.CompletedProcess[str]"


@dataclass
class Site:
    """A cluster, and the host that has its brokers, each at an address of its own."""

    host: Host
    cluster: DevCluster

    def topic(self) -> str:
        """Make a topic with partitions on every broker; its name."""
        replicas = min(3, len(self.cluster.node_ids))
        return self.host.call(create_topic, self.cluster.direct_bootstrap, PARTITIONS, replicas)

    def records(self, topic: str, partitions: int = PARTITIONS) -> list[bytes]:
        """The values of all records of a topic, read where the brokers are."""
        return values(self.host.call(read_topic, self.cluster.direct_bootstrap, topic, partitions))

    def java(self, tool: str, bootstrap: str, *args: str) -> list[str]:
        """The command line of one of Kafka's tools."""
        return self.cluster.programs.command(tool, "--bootstrap-server", bootstrap, *args, heap="64m")


@dataclass
class Sites:
    """The two clusters. Their brokers have the same names.

    | | brokers | advertised | really at |
    |---|---|---|---|
    | `cloud` | 1, 2, 3 | `kafka-{id}.vpc.internal:9092` | `10.0.0.1{id}:9092` |
    | `other` | 1 | `kafka-{id}.vpc.internal:9092` | `10.1.0.1{id}:9093` |

    The broker of `other` is in a Docker network too, 172.18.0.0/16, with the listeners of test_three_listeners.py.
    """

    cloud: Site
    other: Site


def fails(host: Host, client: str, bootstrap: str, topic: str) -> str:
    """A client on this host cannot use the cluster; what it says."""
    done = host.run(*roundtrip(client, bootstrap, topic, "never"))
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    return said


def works(
    host: Host,
    client: str,
    site: Site,
    bootstrap: str = "{bootstrap}",
    through: str = "",
    env: Mapping[str, str] | None = None,
) -> None:
    """A client on this host sends records to every broker of the cluster and reads them back.

    `through` has the options of the `kproxy exec` around it; without them it uses `bootstrap` directly.
    """
    topic, word = site.topic(), unique("word")
    client_command = roundtrip(client, bootstrap, topic, word)
    command = [*kproxy_exec(through), *client_command] if through else client_command
    done = host.run(*command, env={"KPROXY_CONNECT_TIMEOUT": "1s", **(env or {})})
    assert done.returncode == 0, done.stdout + done.stderr
    assert site.records(topic) == sorted(f"{word}-{number}".encode() for number in range(RECORDS))


def kproxy_exec(options: str) -> list[str]:
    """`kproxy exec OPTIONS --`."""
    return [*KPROXY, "exec", *options.split(), "--"]


def roundtrip(client: str, bootstrap: str, topic: str, word: str) -> list[str]:
    """The client's command line."""
    return [PYTHON, "-m", "tests.scenarios.roundtrip", client, bootstrap, topic, word]
