"""A switch of clients whose certificates are their logins: at green, each has a login by PLAIN or by SCRAM."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]

from kproxy.dev.devcluster import DevCluster
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.fleet import open_fleet
from kproxy.protocol.wire.acls import Right
from kproxy.proxy.switching.userchecks import LoginOutcome, UserCheck, UserCheckRequest
from tests.harness.clients.flow import create_topic
from tests.harness.clusters.steady import STEADY
from tests.harness.clusters.twologins import (
    AUTHORIZER,
    KEYS,
    NAMES,
    OWN,
    SECURITY,
    allow,
    decisions,
    own_login,
    set_scram_password,
    started,
)
from tests.harness.migration.switched import BLUE, GREEN, TOKEN, Switched
from tests.harness.process import PATIENCE_S, wait_until
from tests.harness.tls import Authority

pytestmark = pytest.mark.integration

TOPICS = {"alice": "of-alice", "bob": "of-bob"}
MECHANISMS = {"alice": "PLAIN", "bob": "SCRAM-SHA-512"}
RULES = "RULE:^CN=([^,]+),.*$/$1/L"
PASSWORD = "changeit"


@pytest.fixture(scope="module")
def clusters(authority: Authority) -> Iterator[Mapping[str, DevCluster]]:
    """Blue demands certificates, and knows kproxy's. Green demands a login; there, each user may write to one topic."""
    store = authority.pkcs12(PASSWORD, "kafka-1.cluster.internal", "127.0.0.1", file="broker")
    mutual = {
        "ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.pem), "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": RULES,
    }  # fmt: skip
    listener = "listener.name.client"
    users = {"kproxy": OWN["kproxy"], NAMES["alice"]: KEYS[NAMES["alice"]]}
    listed = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    logins = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{listener}.plain.sasl.jaas.config": f"{SECURITY}.plain.PlainLoginModule required {listed};",
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
    }
    blue, green = (
        DevCluster(1, client_protocol=protocol, properties={**AUTHORIZER, **STEADY, **properties},
                   controller_properties=AUTHORIZER)
        for protocol, properties in (("SSL", mutual), ("SASL_PLAINTEXT", logins))
    )  # fmt: skip
    with started(blue, green) as clusters:
        set_scram_password(green, NAMES["bob"], KEYS[NAMES["bob"]])
        for user, topic in TOPICS.items():
            for cluster, name in ((blue, "kproxy"), (green, NAMES[user])):
                create_topic(cluster.direct_bootstrap, topic, 1)
                allow(cluster, name, topic)
        allow(green, NAMES["alice"], "g-alice", ResourceType.GROUP, AclOperation.READ)
        yield clusters


@pytest.fixture
def two_sided(clusters: Mapping[str, DevCluster], authority: Authority, tmp_path: Path) -> Iterator[Switched]:
    cert, key = authority.files("127.0.0.1", "localhost")
    own, users = authority.client("kproxy"), tmp_path / "users.yaml"
    users.touch(0o600)
    logins = {
        user: {"logins": {GREEN: {"username": NAMES[user], "password": KEYS[NAMES[user]], "mechanism": mechanism}}}
        for user, mechanism in MECHANISMS.items()
    }
    users.write_text(json.dumps({"users": logins}))
    options: dict[str, dict[str, object]] = {
        BLUE: {"tls": True, "tls-ca": str(authority.pem), "tls-cert": str(own), "tls-key": str(own)},
        GREEN: {**own_login(tmp_path), "login-as": "user"},
    }
    addresses = [str(clusters[name].dial[1]) for name in (BLUE, GREEN)]
    for name, address in zip((BLUE, GREEN), addresses, strict=True):
        options[name]["map"] = [f"node:1={address}"]
    tls = ["--client-tls-cert", str(cert), "--client-tls-key", str(key), "--client-tls-ca", str(authority.pem)]
    login = ["--client-tls-principal-rules", RULES, "--users-file", str(users)]
    with Switched(tmp_path / "kproxy", *addresses, *tls, *login, options=options) as kproxy:
        wait_until(
            lambda: all(each["cluster_id"] and not each["problem"] for each in kproxy.seen()["upstreams"].values()),
            "both upstreams are known",
        )
        yield kproxy


class Writer:
    """A client that writes to one topic all the time. `problems`: records that were not acknowledged."""

    def __init__(self, kproxy: Switched, authority: Authority, user: str) -> None:
        pem = str(authority.client(user))
        self.producer = Producer(
            {
                "bootstrap.servers": kproxy.bootstrap, "security.protocol": "SSL", "client.id": f"of-{user}",
                "ssl.ca.location": str(authority.pem), "ssl.certificate.location": pem, "ssl.key.location": pem,
                "message.timeout.ms": 120_000, "allow.auto.create.topics": False,
            }
        )  # fmt: skip
        self.topic, self.acked = TOPICS[user], 0
        self.problems: list[KafkaError] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        while not self._stop.wait(0.02):
            self.producer.produce(self.topic, b"x", on_delivery=self._note)
            self.producer.poll(0)

    def _note(self, error: KafkaError | None, _: Any) -> None:
        if error is None:
            self.acked += 1
        else:
            self.problems.append(error)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self.producer.flush(PATIENCE_S) == 0

    def wait_more(self) -> None:
        before = self.acked
        wait_until(lambda: self.acked >= before + 20, f"{self.topic} is written to")


def test_there_and_back(
    clusters: Mapping[str, DevCluster], two_sided: Switched, authority: Authority, tmp_path: Path
) -> None:
    """Under load. At blue all clients are kproxy's user; at green each is its own, and kproxy has tried that before."""
    kproxy = two_sided
    with Writer(kproxy, authority, "alice") as alice, Writer(kproxy, authority, "bob") as bob:
        for turn, to in enumerate((GREEN, BLUE, GREEN)):
            for writer in (alice, bob):
                writer.wait_more()
            assert {session["user"] for session in json.loads(kproxy.get("/sessions")[1])} == {"alice", "bob"}
            checks = try_logins(kproxy, tmp_path, to)
            if to == GREEN:
                assert checks["alice"] == UserCheck(LoginOutcome.OWN, NAMES["alice"], rights=(True, False))
                assert checks["bob"] == UserCheck(LoginOutcome.OWN, NAMES["bob"], rights=(False, True))
                assert checks["carol"].outcome is LoginOutcome.MISSING
            else:
                assert {check.outcome for check in checks.values()} == {LoginOutcome.NO_LOGIN_NEEDED}
            kproxy.hold(switch=f"s{turn}", to=to)
            kproxy.must("flip", switch=f"s{turn}")
            kproxy.must("release", switch=f"s{turn}")
        for writer in (alice, bob):
            writer.wait_more()
    assert not alice.problems + bob.problems
    for name, users in ((BLUE, dict.fromkeys(TOPICS, "kproxy")), (GREEN, NAMES)):
        written = [each for each in decisions(clusters[name]) if each.request == "Produce"]
        for user, topic in TOPICS.items():
            principals = {(each.principal, each.allowed) for each in written if each.name == topic}
            assert principals == {(f"User:{users[user]}", True)}
    for page in (kproxy.log, *(kproxy.get(path)[1] for path in ("/status", "/sessions", "/metrics"))):
        assert not [key for key in (*KEYS.values(), *OWN.values()) if key in page]


def try_logins(kproxy: Switched, tmp_path: Path, upstream: str) -> dict[str, UserCheck]:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    rights = tuple(Right("Write", "Topic", topic) for topic in TOPICS.values())
    section = SwitchSection(KproxySelection((kproxy.admin,)), GREEN, token_file=token)
    with open_fleet(section) as fleet:
        request = UserCheckRequest("default", upstream, dict.fromkeys(NAMES, rights))
        return fleet.kproxies[0].check_users(request)
