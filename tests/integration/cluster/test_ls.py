"""`kproxy ls` with real brokers: directly, through kproxy, with few rights, and after a broker has gone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.process import Kproxy, wait_until
from tests.harness.topics import consumer, create_topic, local_addresses, produce, read, unique

pytestmark = pytest.mark.integration

PASSWORD = f"secret-{uuid4().hex}"
ADMIN, NOBODY = "admin", "nobody"


def ls(*words: str, code: int = 0) -> str:
    """What `kproxy ls` prints."""
    command = [sys.executable, "-m", "kproxy", "ls", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr == ""
    assert PASSWORD not in done.stdout
    return done.stdout


def as_json(*words: str, code: int = 0) -> Any:
    return json.loads(ls(*words, "--json", code=code))


def test_one_server_is_enough_though_no_advertised_name_resolves(cluster: DevCluster) -> None:
    topic = create_topic(cluster.direct_bootstrap, 6)
    first = min(cluster.node_ids)
    seen = as_json(str(cluster.dial[first]), "--topic", topic, "--admin", "off")
    assert seen["cluster"]["id"] == cluster.cluster_id
    assert (seen["cluster"]["mode"], seen["cluster"]["controller"]) == ("kraft", 3000)
    assert {one["id"]: one["advertised"] for one in seen["brokers"]} == {
        node: str(address) for node, address in cluster.advertised.items()
    }
    (shown,) = seen["topics"]
    assert (shown["name"], len(shown["partitions"])) == (topic, 6)
    assert {one["leader"] for one in shown["partitions"]} == set(cluster.node_ids)
    assert all(sorted(one["isr"]) == sorted(one["replicas"]) for one in shown["partitions"])


def test_listeners_are_the_brokers_own(cluster: DevCluster) -> None:
    seen = as_json(cluster.bootstrap, "--listeners", "--admin", "off")
    for broker in seen["brokers"]:
        assert f"CLIENT://{broker['advertised']}" in broker["listeners"]["advertised.listeners"]
    text = ls(str(cluster.dial[1]), "--admin", "off")
    assert "listeners of broker 1:\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_groups_and_which_brokers_were_not_asked(cluster: DevCluster) -> None:
    topic, group = create_topic(cluster.direct_bootstrap), unique("group")
    produce(cluster.direct_bootstrap, topic, [b"x"])
    with consumer(cluster.direct_bootstrap, group_id=group) as member:
        member.subscribe([topic])
        read(member, 1)
        seen = as_json(cluster.bootstrap, "--groups", "--admin", "off")
    (found,) = [one for one in seen["groups"] if one["group"] == group]
    assert (found["state"], found["protocol_type"], found["kind"]) == ("Stable", "consumer", "classic")
    assert found["coordinator"] in cluster.node_ids
    text = ls(str(cluster.dial[1]), "--groups", "--admin", "off")
    for node in cluster.node_ids:
        assert (f"groups of broker {node}: not asked: " in text) is (node != 1)


def test_a_topic_that_is_not_there_is_not_created(cluster: DevCluster) -> None:
    missing = unique("missing")
    assert "missing, or not visible" in ls(cluster.bootstrap, "--topic", missing, "--admin", "off")
    assert missing not in ls(cluster.bootstrap, "--admin", "off")


def test_with_the_local_addresses_of_the_kproxy_that_runs(cluster: DevCluster, kproxy: Kproxy) -> None:
    seen = as_json(cluster.bootstrap, "--admin", kproxy.admin)
    assert {one["id"]: one["local"] for one in seen["brokers"]} == local_addresses(kproxy)
    assert seen["kproxy"] == {"admin": kproxy.admin, "bootstrap": kproxy.bootstrap}
    assert f"serves it: bootstrap.servers={kproxy.bootstrap}\n" in ls(cluster.bootstrap, "--admin", kproxy.admin)


def test_direct_and_through_kproxy_side_by_side(cluster: DevCluster, kproxy: Kproxy) -> None:
    create_topic(cluster.direct_bootstrap)
    for words in (["--admin", kproxy.admin], ["--admin", "off", "--through", kproxy.bootstrap]):
        text = ls(str(cluster.dial[1]), "--compare", *words)
        assert "nothing differs but addresses: " in text
        assert "DIFFERS" not in text
        for address in (*map(str, cluster.advertised.values()), *local_addresses(kproxy).values()):
            assert address in text


@pytest.fixture(scope="module")
def guarded() -> Iterator[DevCluster]:
    """Two brokers that know rights, with a login."""
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in (ADMIN, NOBODY))
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
    }
    jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    with DevCluster(
        2,
        client_protocol="SASL_PLAINTEXT",
        properties={
            **rights,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": jaas,
            "default.replication.factor": "2",
        },
        controller_properties=rights,
        heap="128m",
    ) as made:
        yield made


def login(directory: Path, user: str) -> list[str]:
    file = directory / "password"
    file.write_text(PASSWORD)
    return ["--sasl", "PLAIN", "--sasl-username", user, "--sasl-password-file", str(file), "--admin", "off"]


def test_a_login_is_needed(guarded: DevCluster) -> None:
    command = [sys.executable, "-m", "kproxy", "ls", guarded.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr == "kproxy: the brokers answer after a login only: log in with --sasl\n"


def test_few_rights(guarded: DevCluster, tmp_path: Path) -> None:
    topic = create_topic(guarded.direct_bootstrap, 2, 2)
    words = [str(guarded.dial[1]), *login(tmp_path, NOBODY)]
    text = ls(*words)
    assert topic not in text
    assert "controller not allowed to see (KRaft)" in text
    assert "\nlisteners: not allowed to see\n" in text
    assert topic in ls(str(guarded.dial[1]), *login(tmp_path, ADMIN))


def test_a_broker_that_has_gone_is_seen_in_its_partitions(guarded: DevCluster, tmp_path: Path) -> None:
    both = create_topic(guarded.direct_bootstrap, 2, 2)
    single = create_topic(guarded.direct_bootstrap, 2, 1)
    guarded.stop_broker(2)
    try:
        guarded.wait_fenced(2)
        look_at_what_is_left(guarded, both, single, tmp_path)
    finally:
        guarded.restart(2)


def look_at_what_is_left(guarded: DevCluster, both: str, single: str, tmp_path: Path) -> None:
    words = [str(guarded.dial[1]), "--topic", both, "--topic", single, *login(tmp_path, ADMIN)]

    def lines() -> list[str]:
        text = ls(*words).splitlines()
        return [line for line in text if "under-replicated" in line or "leaderless" in line]

    found = wait_until(lambda: len(lines()) == 2 and lines(), "both topics are marked")
    states = {line.split()[0]: line for line in found}
    assert states[both].endswith("2 under-replicated")
    assert "1 leaderless" in states[single]
    each = ls(*words, "--partitions")
    assert each.count("under-replicated") >= 2
