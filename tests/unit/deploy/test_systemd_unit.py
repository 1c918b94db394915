"""The systemd unit: understood by systemd, hardened, and in step with kproxy's own limits."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.exits import USAGE
from kproxy.config import Config
from kproxy.config.kinds import duration
from tests.unit.deploy.deployed import CONTAINER_FILE, ROOT, config_of_text, run_config, try_command

UNIT = ROOT / "deploy" / "systemd" / "kproxy.service"
SPARK = ROOT / "deploy" / "spark" / "systemd" / "spark.conf"
EXECUTABLE = "/opt/kproxy/bin/kproxy"

# systemd.unit(5), systemd.service(5), systemd.exec(5), systemd.resource-control(5) of systemd 252: what the unit uses.
KNOWN = {
    "Unit": "Description After Wants StartLimitIntervalSec StartLimitBurst",
    "Service": """Type EnvironmentFile ExecStart ExecReload KillSignal KillMode TimeoutStopSec Restart RestartSec
        RestartPreventExitStatus LimitNOFILE MemoryMax TasksMax DynamicUser CapabilityBoundingSet AmbientCapabilities
        NoNewPrivileges ProtectSystem ProtectHome PrivateTmp PrivateDevices PrivateUsers ProtectClock
        ProtectControlGroups ProtectHostname ProtectKernelLogs ProtectKernelModules ProtectKernelTunables ProtectProc
        RemoveIPC RestrictNamespaces RestrictRealtime RestrictSUIDSGID LockPersonality MemoryDenyWriteExecute
        RestrictAddressFamilies SystemCallArchitectures SystemCallFilter SystemCallErrorNumber UMask""",
    "Install": "WantedBy",
}
# What the drop-in for nodes of Spark adds.
KNOWN_OF_SPARK = {
    "Unit": "Before",
    "Service": "ExecStartPost TimeoutStartSec Restart LoadCredential",
}


def settings(text: str) -> dict[str, dict[str, list[str]]]:
    """Section → key → its values, in their order."""
    sections: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
            sections[section] = {}
        elif line and not line.startswith(("#", ";")):
            key, equals, value = line.partition("=")
            assert equals, f"not a setting: {line}"
            sections[section].setdefault(key, []).append(value)
    return sections


def service(key: str) -> str:
    (value,) = settings(UNIT.read_text())["Service"][key]
    return value


def config() -> Config:
    executable, *words = service("ExecStart").split()
    assert executable == EXECUTABLE
    return run_config(words, files={CONTAINER_FILE: ROOT / "config" / "kproxy.yaml"})


def complaints(text: str, directory: Path, drop_in: str = "") -> list[str]:
    """What systemd says of the unit, where it is; else which keys are not known."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return [
            f"unknown key '{key}' in section [{section}]"
            for part, known in ((text, KNOWN), (drop_in, KNOWN_OF_SPARK))
            for section, keys in settings(part).items()
            for key in keys
            if key not in known.get(section, "").split()
        ]
    unit = directory / UNIT.name
    unit.write_text(text.replace(EXECUTABLE, sys.executable))  # it must exist
    (directory / f"{UNIT.name}.d").mkdir()
    (directory / f"{UNIT.name}.d" / SPARK.name).write_text(drop_in.replace(EXECUTABLE, sys.executable))
    done = subprocess.run(
        [analyze, "verify", "--man=no", unit], capture_output=True, text=True, timeout=60, check=False
    )
    return [line for line in done.stderr.splitlines() if UNIT.name in line]


def test_systemd_has_nothing_to_say(tmp_path: Path) -> None:
    assert complaints(UNIT.read_text(), tmp_path) == []


def test_systemd_would_say_it(tmp_path: Path) -> None:
    found = complaints(UNIT.read_text().replace("ProtectClock=", "ProtectClocks="), tmp_path)

    assert len(found) == 1
    assert "ProtectClocks" in found[0]


def test_every_key_is_one_of_systemd_s() -> None:
    found = settings(UNIT.read_text())

    assert {section: set(keys) for section, keys in found.items()} == {
        section: set(keys.split()) for section, keys in KNOWN.items()
    }


def test_the_command_is_kproxy_s() -> None:
    assert config().clusters[0].bootstrap_servers


def test_stopping_waits_longer_than_draining() -> None:
    assert service("KillSignal") == "SIGTERM"
    assert duration(0, 3600).parse(service("TimeoutStopSec")) > config().drain_timeout


def test_there_are_descriptors_for_every_connection_and_listener() -> None:
    cluster = config().clusters[0]

    assert int(service("LimitNOFILE")) > 2 * cluster.max_connections + len(cluster.effective_node_ports()) + 100


def test_a_wrong_configuration_is_not_tried_again() -> None:
    assert service("Restart") == "on-failure"
    assert service("RestartPreventExitStatus") == str(USAGE)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateDevices", "yes"),
        ("CapabilityBoundingSet", ""),
        ("MemoryDenyWriteExecute", "yes"),
        ("RestrictNamespaces", "yes"),
    ],
)
def test_it_is_hardened(key: str, value: str) -> None:
    assert service(key) == value


def test_names_can_be_resolved() -> None:
    # glibc looks at the machine's addresses through netlink, and asks systemd-resolved through a local socket.
    assert set(service("RestrictAddressFamilies").split()) == {"AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"}


def test_the_variables_come_from_beside_the_file() -> None:
    assert service("EnvironmentFile") == "-/etc/kproxy/kproxy.env"  # with a dash: it may be missing


# On a node of Spark


def with_credentials() -> str:
    """The drop-in with what is commented out."""
    return SPARK.read_text().replace("#Load", "Load")


@pytest.mark.parametrize("text", [SPARK.read_text(), with_credentials()], ids=["as it is", "with a password"])
def test_systemd_has_nothing_to_say_of_the_drop_in(text: str, tmp_path: Path) -> None:
    assert complaints(UNIT.read_text(), tmp_path, text) == []


def test_systemd_would_say_it_of_the_drop_in(tmp_path: Path) -> None:
    (found,) = complaints(UNIT.read_text(), tmp_path, SPARK.read_text().replace("TimeoutStartSec", "TimeoutStarts"))
    assert "TimeoutStarts" in found


def test_the_unit_counts_as_started_when_kproxy_is_ready() -> None:
    added = settings(SPARK.read_text())["Service"]
    (after,) = added["ExecStartPost"]
    dash, executable, *words = after[:1], *after[1:].split()
    try_command(words, {})
    assert (dash, executable, words[0]) == ("-", EXECUTABLE, "wait")
    assert float(added["TimeoutStartSec"][0]) > duration(0, 3600).parse(words[-1])


def test_the_configuration_of_a_node() -> None:
    path = SPARK.with_name("kproxy.yaml")
    commented = re.sub(r"^#(?=[a-z-]+: )", "", path.read_text(), flags=re.M)
    (plain,), (full,) = config_of_text(path.read_text()).clusters, config_of_text(commented).clusters
    (credential,) = settings(with_credentials())["Service"]["LoadCredential"]
    assert plain.listen == full.listen == Address("127.0.0.1", 19092)
    assert full.sasl_password_file == Path("/run/credentials", UNIT.name, credential.partition(":")[0])


def test_instances_differ_from_the_unit_only_where_they_must() -> None:
    """The user, without which they could not, and the admin address, which each has for itself."""
    instances = UNIT.with_name("kproxy@.service").read_text()
    one, several = settings(UNIT.read_text()), settings(instances)
    assert several["Service"].pop("User") == ["kproxy"]
    (command,) = several["Service"].pop("ExecStart")
    (alone,) = one["Service"].pop("ExecStart")
    assert command == f"{alone} --reuse-port --admin 127.0.0.1:1908%i"
    assert several["Unit"].pop("Description") == [f"{one['Unit'].pop('Description')[0]}, instance %i"]
    assert several == one
    words = command.replace("%i", "9").split()[1:]
    made = run_config(words, files={CONTAINER_FILE: ROOT / "config" / "kproxy.yaml"})
    assert (made.reuse_port, made.admin) == (True, Address("127.0.0.1", 19089))
