"""Two clusters with other logins: blue knows users by SCRAM, green the same users by PLAIN and other names.

Each has an authorizer, whose log says who did what. Clients know the passwords at blue, and only kproxy those at green.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourcePatternType, ResourceType

from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster
from tests.harness import acls
from tests.harness.clusters.steady import STEADY
from tests.harness.migration.switched import BLUE, GREEN, Switched

OLD = {"alice": "alices-password-of-the-tests", "bob": "bobs-password-of-the-tests", "carol": "carols-password"}
NAMES = {"alice": "sa-4711", "bob": "sa-4712", "carol": "sa-4713"}
KEYS = {"sa-4711": "alices-key-of-the-tests", "sa-4712": "bobs-key-of-the-tests", "sa-4713": "carols-key-of-the-tests"}
OWN = {"kproxy": "kproxys-key-of-the-tests"}
SECRETS = (*OLD.values(), *KEYS.values(), *OWN.values())
SECURITY = "org.apache.kafka.common.security"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
# What it allows is logged at this level.
_LOGGED = "-Dorg.slf4j.simpleLogger.log.kafka.authorizer.logger=debug"
# `kafka-dump-log`, now and in Kafka 3.
_DUMPS = ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments")
_DECISION = re.compile(
    r"Principal = (\S+) is (Allowed|Denied) operation = (\S+) from host = \S+ on resource = (\w+):LITERAL:(\S+)"
    r" for request = (\w+)"
)


@dataclass(frozen=True)
class Decision:
    """A line of an authorizer's log."""

    principal: str
    allowed: bool
    operation: str
    resource: str
    name: str
    request: str


@contextmanager
def two_logins(
    versions: tuple[str, str] = (DEFAULT_VERSION, DEFAULT_VERSION), *, reauth_ms: int = 0, **properties: str
) -> Iterator[Mapping[str, DevCluster]]:
    """Start blue and green. `reauth_ms`: at green, kproxy must log in again in each session after that time."""
    listener = "listener.name.client"
    scram = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
    }
    users = " ".join(f'user_{name}="{password}"' for name, password in {**KEYS, **OWN}.items())
    plain = {
        "sasl.enabled.mechanisms": "PLAIN",
        f"{listener}.plain.sasl.jaas.config": f"{SECURITY}.plain.PlainLoginModule required {users};",
    }
    if reauth_ms:
        plain[f"{listener}.plain.connections.max.reauth.ms"] = str(reauth_ms)
    both = {**AUTHORIZER, **STEADY, **{name.replace("_", "."): value for name, value in properties.items()}}
    blue, green = (
        DevCluster(
            1, version=version, client_protocol="SASL_PLAINTEXT", properties={**both, **logins},
            controller_properties=AUTHORIZER,
        )
        for version, logins in zip(versions, (scram, plain), strict=True)
    )  # fmt: skip
    with started(blue, green) as clusters:
        for name, password in OLD.items():
            set_scram_password(blue, name, password)
        yield clusters


@contextmanager
def started(blue: DevCluster, green: DevCluster) -> Iterator[Mapping[str, DevCluster]]:
    """Start both, with authorizers (AUTHORIZER) that log also what they allow."""
    with ExitStack() as held:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JAVA_TOOL_OPTIONS", _LOGGED)
            held.enter_context(blue)
            held.enter_context(green)
        yield {BLUE: blue, GREEN: green}


def set_scram_password(cluster: DevCluster, name: str, password: str) -> None:
    """Make a SCRAM user at the brokers."""
    done = cluster.tool(
        "kafka-configs", "--bootstrap-server", cluster.direct_bootstrap, "--alter", "--entity-type", "users",
        "--entity-name", name, "--add-config", f"SCRAM-SHA-512=[password={password}]",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def allow(
    cluster: DevCluster,
    user: str,
    name: str,
    kind: ResourceType = ResourceType.TOPIC,
    operation: AclOperation = AclOperation.WRITE,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> None:
    """Give a user a right, by default to write to a topic."""
    acls.allow(cluster.direct_bootstrap, [acls.right(user, kind, name, operation, pattern)])


def decisions(cluster: DevCluster) -> list[Decision]:
    """Return what the authorizers of a cluster have decided so far."""
    found = []
    for log in cluster.directory.glob("node-*/kafka.log"):
        for principal, verdict, operation, kind, name, request in _DECISION.findall(log.read_text(errors="replace")):
            found.append(Decision(principal, verdict == "Allowed", operation, kind, name, request))
    return found


def import_users(blue: DevCluster, directory: Path, *with_login: str) -> Path:
    """Return a users file with the users of blue, from its metadata log, and the logins of some at green."""
    file, dump = directory / "users.yaml", directory / "log.txt"
    log = next(blue.directory.glob("node-1/data/__cluster_metadata-0/*.log"))
    for program in _DUMPS:
        dumped = blue.tool(program, "--cluster-metadata-decoder", "--files", str(log))
        if not dumped.returncode:
            break
    dump.write_text(dumped.stdout)
    users("import", file, dump)
    for name in with_login:
        users("login", file, name, GREEN, "--username", NAMES[name], stdin=KEYS[NAMES[name]])
    return file


def users(*words: str | Path, stdin: str = "") -> None:
    """Run a command of `kproxy users`."""
    command = [sys.executable, "-m", "kproxy", "users", *map(str, words)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def own_login(directory: Path) -> dict[str, str]:
    """Return the options with which kproxy itself logs in to green."""
    key = directory / "key"
    key.touch(0o600)
    key.write_text(OWN["kproxy"])
    return {"sasl": "PLAIN", "sasl-username": "kproxy", "sasl-password-file": str(key)}


def swapping(clusters: Mapping[str, DevCluster], users_file: Path, directory: Path) -> Switched:
    """Return a kproxy that passes logins through to blue, and swaps them for those of green."""
    directory.mkdir(exist_ok=True)
    blue, green = clusters[BLUE], clusters[GREEN]
    cluster_id = str(AdminClient({"bootstrap.servers": blue.direct_bootstrap}).list_topics(timeout=30).cluster_id)
    options: dict[str, dict[str, object]] = {
        BLUE: {"map": [f"node:1={blue.dial[1]}"], "login-as": "client", "cluster-id": cluster_id},
        GREEN: {"map": [f"node:1={green.dial[1]}"], **own_login(directory), "login-as": "user"},
    }
    flags = ["--client-sasl", "SCRAM-SHA-512", "--users-file", str(users_file)]
    return Switched(directory / "kproxy", str(blue.dial[1]), str(green.dial[1]), *flags, options=options)
