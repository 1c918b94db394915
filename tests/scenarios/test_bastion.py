"""A laptop from which only a bastion host can be reached, by SSH.

    laptop ──── ssh ────▶ bastion.example ────▶ kafka-1.vpc.internal:9092
    198.51.100.50         198.51.100.22         kafka-2.vpc.internal:9092
                          10.0.0.22             kafka-3.vpc.internal:9092

Names of brokers mean something to the bastion alone. The user has a key, and the bastion in ~/.ssh/known_hosts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.harness.network import KPROXY, Host
from tests.harness.servers.ways import Home, make_key, tool
from tests.scenarios.sites import NAMES, Site, fails, kproxy_exec, works

pytestmark = pytest.mark.integration

BROKER = "kafka-1.vpc.internal:9092"
VIA = f"-b {BROKER} --via ssh://root@bastion.example"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def env(home: Home) -> Mapping[str, str]:
    """The user's. An agent of whoever runs the tests must not help."""
    return {"HOME": str(home.path), "SSH_AUTH_SOCK": ""}


@pytest.fixture(autouse=True)
def bastion(host: Callable[..., Host], home: Home, tmp_path: Path) -> Iterator[Host]:
    """With OpenSSH's server, which has the user's key and whose key the user has."""
    make_key(tmp_path / "host_key")
    config = tmp_path / "sshd_config"
    config.write_text(
        f"ListenAddress 198.51.100.22\nHostKey {tmp_path}/host_key\nAuthorizedKeysFile {home.key}.pub\n"
        "PermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\nPidFile none\n"
    )
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # without it sshd does not start; its service makes it
    home.known_hosts.write_text(f"bastion.example {(tmp_path / 'host_key.pub').read_text()}")
    made = host("bastion", "198.51.100.22/24", "10.0.0.22/24", names=NAMES)
    with made.running(tool("sshd"), "-D", "-e", "-f", str(config), listening="198.51.100.22:22"):
        yield made


@pytest.fixture
def laptop(host: Callable[..., Host]) -> Host:
    return host("laptop", "198.51.100.50/24", names={"bastion.example": "198.51.100.22"})


def test_through_the_bastion(laptop: Host, cloud: Site, env: Mapping[str, str]) -> None:
    said = fails(laptop, "librdkafka", BROKER, cloud.topic())
    assert f"Failed to resolve '{BROKER}': Name or service not known" in said
    works(laptop, "librdkafka", cloud, through=VIA, env=env)


def test_a_bastion_with_another_key_than_the_user_knows(laptop: Host, home: Home, env: Mapping[str, str]) -> None:
    home.known_hosts.write_text(f"bastion.example {home.key.with_suffix('.pub').read_text()}")
    done = laptop.run(*kproxy_exec(f"{VIA} --timeout 3s"), "true", env=env)
    assert done.returncode == 125
    assert "host key" in done.stderr


def doctor(host: Host, env: Mapping[str, str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Its exit code, and its report."""
    done = host.run(*KPROXY, "doctor", "--json", *arguments, env=env)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def faults(report: dict[str, Any]) -> list[str]:
    return [one["fault"] for one in report["findings"] if one["severity"] == "error"]


def test_what_the_doctor_says_of_brokers_behind_the_bastion(laptop: Host, cloud: Site, env: Mapping[str, str]) -> None:
    """All is well behind the hop, which a client cannot use: the line that works is kproxy's, with the hop in it."""
    code, report = doctor(laptop, env, *VIA.split())
    assert (code, faults(report)) == (1, ["kproxy-needed"])
    finding = report["findings"][0]
    assert (finding["symptom"], finding["subjects"]) == ("name-not-resolved", [BROKER])
    assert "kproxy reaches the cluster with --via ssh://root@bastion.example." in finding["text"]
    assert "does not reach it from this machine: kafka-1.vpc.internal:9092: this machine cannot" in finding["text"]
    assert [one["verdict"] for one in report["nodes"]] == ["ok"] * 3
    line = report["works_now"]
    assert (line["works"], line["reached"], line["nodes"]) == (True, 3, 3)
    assert line["command"] == ["kproxy", "run", *VIA.split()]
    works(laptop, "librdkafka", cloud, through=" ".join(line["command"][2:]), env=env)

    said = laptop.run(*KPROXY, "doctor", *VIA.split(), env=env).stdout
    assert "Nothing is wrong" not in said
    assert f"kproxy run {VIA}\n" in said
    assert "Failed to resolve 'kafka-1.vpc.internal:9092'" in " ".join(said.split())


def test_a_hop_that_a_variable_names_is_in_the_line(laptop: Host, cloud: Site, env: Mapping[str, str]) -> None:
    code, report = doctor(laptop, {**env, "KPROXY_VIA": "ssh://root@bastion.example"}, "-b", BROKER)
    assert (code, report["works_now"]["command"]) == (1, ["kproxy", "run", *VIA.split()])


def test_a_machine_that_needs_no_hop(host: Callable[..., Host], cloud: Site, env: Mapping[str, str]) -> None:
    inside = host("inside", "198.51.100.51/24", "10.0.0.51/24", names={**NAMES, "bastion.example": "198.51.100.22"})
    code, report = doctor(inside, env, *VIA.split())
    assert (code, report["verdict"], report["works_now"]) == (0, "healthy", None)
    assert [one["verdict"] for one in report["without_kproxy"]] == ["ok"] * 4
    said = inside.run(*KPROXY, "doctor", *VIA.split(), env=env).stdout
    words = " ".join(said.split())
    assert "With --via ssh://root@bastion.example, kproxy reaches 3 brokers. Tried without that, too:" in words
    assert "needs no kproxy" not in words
    works(inside, "librdkafka", cloud, bootstrap=BROKER)


def test_commands_go_along_the_hop(laptop: Host, cloud: Site, env: Mapping[str, str]) -> None:
    _, report = doctor(laptop, env, *VIA.split(), "--topic", "nowhere")
    assert faults(report) == ["kproxy-needed", "topic-unknown"]
    fix = report["findings"][1]["fix"][0]
    assert fix.startswith(f"kproxy exec {VIA} -- kafka-acls --bootstrap-server '{{bootstrap}}' --add ")


def test_the_bastion_resolves_the_names(laptop: Host, env: Mapping[str, str]) -> None:
    code, report = doctor(laptop, env, "kafka-9.vpc.internal:9092", "--via", "ssh://root@bastion.example")
    assert (code, faults(report)) == (1, ["name-not-resolved"])
    why = report["findings"][0]["text"]
    assert "the last hop, ssh://root@bastion.example, cannot resolve the name" in why
    assert "only the resolver of a private network knows" in why
    assert "this machine" not in why
    command = "ssh root@bastion.example getent hosts kafka-9.vpc.internal   # there the name is resolved"
    assert report["findings"][0]["fix"] == [command]


def test_the_doctor_explains_an_ssh_server_as_one(laptop: Host, home: Home, env: Mapping[str, str]) -> None:
    """Without a word about SOCKS."""
    home.known_hosts.write_text("")
    code, report = doctor(laptop, env, *VIA.split())
    assert (code, faults(report)) == (1, ["hop-failed"])
    assert "the host key of bastion.example" in report["findings"][0]["text"]
    assert report["findings"][0]["fix"] == [
        "ssh-keygen -F bastion.example   # the key that this user knows, if any",
        "ssh root@bastion.example true   # shows the server's key: compare it before you accept it",
    ]
    assert report["findings"][0]["messages"] == []
    said = laptop.run(*KPROXY, "doctor", *VIA.split(), env=env).stdout
    assert "SOCKS" not in said
    assert "curl" not in said
