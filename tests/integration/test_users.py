"""`kproxy users import` from what Kafka's and ZooKeeper's own tools print of real clusters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from kproxy.dev.devcluster import DevCluster
from kproxy.users.decoys import common_forms
from kproxy.users.usersfile import read_users_file
from tests.harness.clusters.zookeeper import with_zookeeper
from tests.harness.process import wait_until

pytestmark = pytest.mark.integration

# ZooKeeper's paths encode it, and the texts of the tools have these characters too.
ODD = "it's, =b"
PASSWORDS = {"alice": "pencil", ODD: "p=w $ª", "carol": "carols"}
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


def kproxy_users(*words: str | Path) -> CompletedProcess[str]:
    command = [sys.executable, "-m", "kproxy", "users", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def set_passwords(tool: Callable[..., CompletedProcess[str]], bootstrap: str, secrets: dict[str, str]) -> None:
    """Give users passwords: of 8192 iterations for SHA-256, the default for SHA-512. Carol then loses the former."""
    for config in (f"{SHA_256}=[iterations=8192,password={{}}]", f"{SHA_512}=[password={{}}]"):
        for name, password in secrets.items():
            alter_user(tool, bootstrap, name, "--add-config", config.format(password))
    alter_user(tool, bootstrap, "carol", "--delete-config", SHA_256)


def alter_user(tool: Callable[..., CompletedProcess[str]], bootstrap: str, name: str, *words: str) -> None:
    command = ("kafka-configs", "--bootstrap-server", bootstrap, "--alter", "--entity-type", "users")
    done = tool(*command, "--entity-name", name, *words)
    assert done.returncode == 0, done.stderr


def assert_imported(file: Path, names: set[str]) -> None:
    """Check that each user of the file has the password that the cluster was given, for both mechanisms."""
    users = read_users_file(file).users
    assert users.keys() == names
    # An unknown user gets salts in the form in which Kafka makes them.
    assert {form.salt_size for form in common_forms(users.values()).values()} == {0}
    for user in users.values():
        expected = {SHA_256: 8192, SHA_512: 4096} if user.name != "carol" else {SHA_512: 4096}
        assert {mechanism: verifier.iterations for mechanism, verifier in user.verifiers.items()} == expected
        for verifier in user.verifiers.values():
            assert verifier.is_of(PASSWORDS[user.name])
            assert not verifier.is_of(PASSWORDS[user.name] + "x")


def test_the_metadata_log_of_kraft_and_its_snapshot(tmp_path: Path) -> None:
    # A snapshot after each record that is some bytes long.
    properties = {"metadata.log.max.record.bytes.between.snapshots": "100"}
    with DevCluster(1, properties=properties) as cluster:
        set_passwords(cluster.tool, cluster.direct_bootstrap, dict.fromkeys(PASSWORDS, "former"))
        set_passwords(cluster.tool, cluster.direct_bootstrap, PASSWORDS)
        described = cluster.tool("kafka-configs", "--bootstrap-server", cluster.direct_bootstrap, "--describe",
                                 "--entity-type", "users")  # fmt: skip
        files = sorted(cluster.directory.glob("node-1/data/__cluster_metadata-0/*.log"))
        snapshots: list[Path] = []

        def has_snapshot() -> bool:
            paths = cluster.directory.glob("node-1/data/__cluster_metadata-0/*.checkpoint")
            snapshots[:] = sorted(path for path in paths if not path.name.startswith("0" * 20))
            return bool(snapshots)

        wait_until(has_snapshot, "a snapshot of the metadata log")
        dumped = tmp_path / "log.txt"
        dumped.write_text(dump(cluster, files))
        snapshot = tmp_path / "snapshot.txt"
        snapshot.write_text(dump(cluster, snapshots[-1:]))
    refused = kproxy_users("import", tmp_path / "none.yaml", "-")
    assert refused.returncode == 2
    (tmp_path / "described.txt").write_text(described.stdout)
    refused = kproxy_users("import", tmp_path / "none.yaml", tmp_path / "described.txt")
    assert "kafka-configs --bootstrap-server prints no keys" in refused.stderr
    for source in (dumped, snapshot):
        file = tmp_path / f"{source.stem}.yaml"
        done = kproxy_users("import", file, *([source] if source is dumped else [source, dumped]))
        assert (done.returncode, done.stdout) == (0, "imported 3 users: 3 added, 0 changed\n"), done.stderr
        assert_imported(file, set(PASSWORDS))
    assert "USER_SCRAM_CREDENTIAL_RECORD" in snapshot.read_text()


def dump(cluster: DevCluster, files: list[Path]) -> str:
    """Return what kafka-dump-log prints of files of the metadata log."""
    assert files
    names = ",".join(map(str, files))
    done = cluster.tool("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", names)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_zookeeper(tmp_path: Path) -> None:
    with with_zookeeper("3.9.2", [1]) as cluster:
        tool = cluster.programs.run
        set_passwords(tool, cluster.direct_bootstrap, PASSWORDS)
        for name in ("alice", "dave"):
            alter_user(tool, cluster.direct_bootstrap, name, "--add-config", "consumer_byte_rate=1024")
        of_client = ("--entity-type", "clients", "--entity-name", "x", "--add-config", "consumer_byte_rate=1024")
        alter_user(tool, cluster.direct_bootstrap, ODD, *of_client)
        described = tool("kafka-configs", "--zookeeper", cluster.zookeeper, "--describe", "--entity-type", "users")
        shell = ("org.apache.zookeeper.ZooKeeperMain", "-server", cluster.zookeeper)
        listed = tool(*shell, "ls", "/config/users").stdout.splitlines()[-1].strip("[]").split(", ")
        # A shell script prints the path of each node before what the tool prints of it.
        nodes = "".join(f"/config/users/{n}\n{tool(*shell, 'get', '-s', f'/config/users/{n}').stdout}" for n in listed)
        alice = tool(*shell, "get", "/config/users/alice").stdout
    note = "note: dave: left out: no SCRAM verifier, only other settings such as quotas\n"
    for name, text in (("described", described.stdout), ("nodes", nodes)):
        source, file = tmp_path / f"{name}.txt", tmp_path / f"{name}.yaml"
        source.write_text(text)
        done = kproxy_users("import", file, source)
        assert done.stdout == f"imported 3 users: 3 added, 0 changed\n{note}", done.stderr
        assert_imported(file, set(PASSWORDS))
    source, file = tmp_path / "alice.txt", tmp_path / "alice.yaml"
    source.write_text(alice)
    assert kproxy_users("import", file, source).returncode == 2
    done = kproxy_users("import", file, source, "--user", "alice")
    assert (done.returncode, done.stdout) == (0, "imported 1 user: 1 added, 0 changed\n")
    assert_imported(file, {"alice"})
