"""A laptop from which only a bastion host can be reached, by SSH.

    laptop ──── ssh ────▶ bastion.example ────▶ kafka-1.vpc.internal:9092
    198.51.100.50         198.51.100.22         kafka-2.vpc.internal:9092
                          10.0.0.22             kafka-3.vpc.internal:9092

Names of brokers mean something to the bastion alone. The user has a key, and the bastion in ~/.ssh/known_hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.harness.network import Host
from tests.harness.ways import Home, make_key, tool
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
    assert "host key" in done.stderr.splitlines()[-1]
