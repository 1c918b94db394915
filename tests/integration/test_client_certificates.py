"""A client's certificate is its login at kproxy: real clients, and a broker whose authorizer knows each user."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ResourceType,
)

from kproxy.dev.devcluster import DevCluster
from kproxy.protocol.wire.api import ApiKey
from kproxy.users.verifier import ScramVerifier
from tests.harness import acls
from tests.harness.clients.flow import create_topic
from tests.harness.clients.kafka_python import KafkaProducer
from tests.harness.clients.rawclient import RawClient
from tests.harness.clusters.steady import STEADY
from tests.harness.process import PATIENCE_S, Kproxy, wait_logged, wait_until
from tests.harness.tls import Authority

pytestmark = pytest.mark.integration

KEYS = {"alice": "alices-key-at-brokers", "kproxy": "kproxys-key-at-brokers"}
TOPIC, RULES = "of-alice", "RULE:^CN=([^,]+),.*$/$1/L"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ILLEGAL_SASL_STATE = (34).to_bytes(2)
Start = Callable[..., Kproxy]


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """alice may write to one topic, and read it; kproxy's own user may do nothing."""
    listener = "listener.name.client.plain"
    users = " ".join(f'user_{name}="{key}"' for name, key in KEYS.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    properties = {
        "sasl.enabled.mechanisms": "PLAIN",
        f"{listener}.sasl.jaas.config": f"{module} required {users};",
        # kproxy must log in again in each session of a client, which sees nothing of it.
        f"{listener}.connections.max.reauth.ms": "3000",
    }
    with DevCluster(1, client_protocol="SASL_PLAINTEXT", properties={**AUTHORIZER, **STEADY, **properties},
                    controller_properties=AUTHORIZER) as made:  # fmt: skip
        create_topic(made.direct_bootstrap, TOPIC, 1)
        rights = [
            acls.right("alice", ResourceType.TOPIC, TOPIC, operation)
            for operation in (AclOperation.WRITE, AclOperation.READ)
        ]
        acls.allow(made.direct_bootstrap, rights)
        yield made


@pytest.fixture
def start(
    cluster: DevCluster, authority: Authority, own_kproxy: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Start:
    """Makes a kproxy in front of the brokers' SASL listener that demands certificates."""
    cert, key = authority.files("127.0.0.1", "localhost")
    users = tmp_path / "users.yaml"
    users.touch(0o600)
    users.write_text(f"users:\n  alice:\n    logins:\n      default: {{username: alice, password: {KEYS['alice']}}}\n")

    def make(*more: str, password: str = KEYS["kproxy"], as_user: bool = True, **options: Any) -> Kproxy:
        if password:
            monkeypatch.setenv("KPROXY_SASL_PASSWORD", password)
        tls = ("--client-tls-cert", str(cert), "--client-tls-key", str(key), "--client-tls-ca", str(authority.pem))
        login = ("--client-tls-principal-rules", RULES, "--sasl", "PLAIN", "--sasl-username", "kproxy")
        of_user = ("--login-as", "user", "--users-file", str(users)) if as_user else ()
        return own_kproxy(cluster.bootstrap, *tls, *login, *of_user, *more, **options)

    return make


def librdkafka(authority: Authority, user: str) -> dict[str, Any]:
    pem = str(authority.client(user))
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.pem),
        "ssl.certificate.location": pem,
        "ssl.key.location": pem,
    }


def java(authority: Authority, user: str, path: Path) -> str:
    path.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority.pem}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={authority.client(user)}\ndefault.api.timeout.ms=15000\nrequest.timeout.ms=5000\n"
    )
    return str(path)


def write(producer: Producer) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    producer.produce(TOPIC, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    return errors[0]


def test_the_user_of_a_certificate_works(
    cluster: DevCluster, authority: Authority, start: Start, tmp_path: Path
) -> None:
    """Java, librdkafka and kafka-python; the brokers see the login that the users file has for the user."""
    proxy = start("--log-level", "debug")
    producer = Producer({"bootstrap.servers": proxy.bootstrap, **librdkafka(authority, "Alice")})
    assert write(producer) is None
    context = ssl.create_default_context(cafile=str(authority.pem))
    context.load_cert_chain(authority.client("alice"))
    python = KafkaProducer(bootstrap_servers=proxy.bootstrap, security_protocol="SSL", ssl_context=context)
    python.send(TOPIC, b"x").get(PATIENCE_S)
    assert {session["user"] for session in json.loads(proxy.get("/sessions")[1])} == {"alice"}
    python.close()
    config = java(authority, "alice", tmp_path / "client.properties")
    to = ("--bootstrap-server", proxy.bootstrap, "--topic", TOPIC, "--command-config", config)
    done = cluster.tool("kafka-console-producer", *to, input="x\n")
    assert done.returncode == 0, done.stderr
    more = ("--partition", "0", "--offset", "earliest", "--max-messages", "3", "--timeout-ms", "60000")
    assert cluster.tool("kafka-console-consumer", *to, *more).stdout.split() == ["x", "x", "x"]
    before = proxy.log.count("SASL: logged in again")
    wait_until(lambda: proxy.log.count("SASL: logged in again") > before, "kproxy logs in again in a session")
    assert write(producer) is None
    assert proxy.metric("kproxy_client_logins_total", mechanism="certificate", outcome="success") >= 3
    assert not [key for key in KEYS.values() if key in proxy.log + proxy.get("/sessions")[1] + proxy.get("/status")[1]]


def test_rules_are_for_the_user_of_a_certificate(authority: Authority, start: Start) -> None:
    proxy = start("--rules", "user=alice deny produce *")
    error = write(Producer({"bootstrap.servers": proxy.bootstrap, **librdkafka(authority, "alice")}))
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    wait_logged(proxy, "user alice")


def refused(client: Any, proxy: Kproxy, why: str) -> bool:
    client.poll(0.1)
    return why in proxy.log


def test_certificates_without_a_user(cluster: DevCluster, authority: Authority, start: Start, tmp_path: Path) -> None:
    """A user without a login for the brokers, and a CA that kproxy does not trust."""
    proxy = start()
    client = AdminClient({"bootstrap.servers": proxy.bootstrap, **librdkafka(authority, "bob")})
    wait_until(partial(refused, client, proxy, "user bob has no login for default"), "bob is refused")
    config = java(authority, "bob", tmp_path / "client.properties")
    done = cluster.tool("kafka-topics", "--bootstrap-server", proxy.bootstrap, "--list", "--command-config", config)
    assert done.returncode != 0
    assert "Received error CLUSTER_AUTHORIZATION_FAILED" in done.stderr + done.stdout
    stranger = Authority(tmp_path, "stranger")
    settings = {**librdkafka(stranger, "alice"), "ssl.ca.location": str(authority.pem)}
    client = AdminClient({"bootstrap.servers": proxy.bootstrap, **settings})
    wait_until(partial(refused, client, proxy, "the client's certificate is not valid"), "it is refused")
    assert proxy.metric("kproxy_client_logins_total", mechanism="certificate", outcome="success") == 0


def test_sasl_after_a_certificate_never_reaches_the_broker(authority: Authority, start: Start) -> None:
    """A broker would take it for a new login of kproxy's, as another user."""
    proxy = start()
    context = ssl.create_default_context(cafile=str(authority.pem))
    context.load_cert_chain(authority.client("alice"))
    host = proxy.bootstrap.rpartition(":")[0]
    with RawClient(proxy.bootstrap) as client:
        client.socket = context.wrap_socket(client.socket, server_hostname=host)
        assert client.ask(ApiKey.SASL_HANDSHAKE, 1, b"\0\5PLAIN")[:2] == ILLEGAL_SASL_STATE
        assert client.ask(ApiKey.SASL_AUTHENTICATE, 1, b"\0\0\0\4\0a\0b")[:2] == ILLEGAL_SASL_STATE
        assert client.works()


@pytest.mark.parametrize("by_certificate", [True, pytest.param(False, marks=pytest.mark.matrix)])
def test_the_broker_refuses_the_login_of_all_users(
    cluster: DevCluster, authority: Authority, own_kproxy: Start, start: Start, tmp_path: Path, *, by_certificate: bool
) -> None:
    """Clients get an answer, and the log of kproxy says why. When the password is right again, clients work."""
    key, config, users = tmp_path / "key", tmp_path / "client.properties", tmp_path / "users"
    for path in (key, users):
        path.touch(0o600)
    key.write_text(KEYS["kproxy"])
    users.write_text(
        f"users:\n  alice:\n    SCRAM-SHA-512: {ScramVerifier.from_password('SCRAM-SHA-512', 'x').text()}\n"
    )
    if by_certificate:
        proxy = start("--sasl-password-file", str(key), password="", as_user=False)
        java(authority, "alice", config)
        expected = "Received error CLUSTER_AUTHORIZATION_FAILED"
    else:
        login = ("--sasl", "PLAIN", "--sasl-username", "kproxy", "--sasl-password-file", str(key))
        proxy = own_kproxy(cluster.bootstrap, "--client-sasl", "SCRAM-SHA-512", "--users-file", str(users), *login)
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={module} required username="alice" password="x";\n'
        )
        expected = "SaslAuthenticationException: kproxy has no login that the brokers accept; its log has the reason"
    key.write_text("wrong")
    to = ("kafka-topics", "--bootstrap-server", proxy.bootstrap, "--list", "--command-config", str(config))
    done = cluster.tool(*to)
    assert done.returncode != 0
    assert expected in done.stderr + done.stdout, proxy.log
    wait_logged(proxy, "Invalid username or password")
    key.write_text(KEYS["kproxy"])
    done = cluster.tool(*to)
    assert done.returncode == 0, done.stderr
