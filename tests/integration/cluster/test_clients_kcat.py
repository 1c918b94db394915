"""kcat (librdkafka of another age than confluent-kafka's) through kproxy."""

from __future__ import annotations

import json
import subprocess

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.process import Kproxy
from tests.harness.topics import create_topic, local_addresses, needs_kcat, unique

pytestmark = [pytest.mark.integration, needs_kcat]


def kcat(kproxy: Kproxy, *args: str, input: str | None = None) -> str:
    done = subprocess.run(
        ["kcat", "-b", kproxy.bootstrap, *args], input=input, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_metadata_has_local_addresses_only(cluster: DevCluster, kproxy: Kproxy) -> None:
    topic = create_topic(kproxy.bootstrap)
    listed = json.loads(kcat(kproxy, "-L", "-J", "-t", topic))
    assert {one["id"]: one["name"] for one in listed["brokers"]} == local_addresses(kproxy)
    partitions = listed["topics"][0]["partitions"]
    assert sorted(one["partition"] for one in partitions) == [0, 1, 2]
    assert {one["leader"] for one in partitions} <= set(cluster.node_ids)


def test_records_with_keys_and_headers_through_a_group(kproxy: Kproxy) -> None:
    topic, group = create_topic(kproxy.bootstrap), unique("kcat")
    lines = "".join(f"key{number}:value{number}\n" for number in range(200))
    kcat(kproxy, "-P", "-t", topic, "-K:", "-H", "origin=kcat", "-z", "snappy", input=lines)
    read = kcat(kproxy, "-G", group, "-e", "-q", "-X", "auto.offset.reset=earliest", "-f", "%k:%s %h\n", topic)
    assert sorted(read.splitlines()) == sorted(f"{line} origin=kcat" for line in lines.splitlines())
    # What the group committed holds: nothing is left for its next member.
    again = kcat(kproxy, "-G", group, "-e", "-q", "-X", "auto.offset.reset=earliest", topic)
    assert again == ""
    ends = [kcat(kproxy, "-Q", "-t", f"{topic}:{partition}:-1") for partition in range(3)]
    assert sum(int(text.rsplit("offset", 1)[1]) for text in ends) == 200
