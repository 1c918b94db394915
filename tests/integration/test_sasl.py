"""SASL from the client to the broker, through kproxy: every mechanism that is not bound to the broker's name.

kproxy has no credentials and looks into none. So it cannot ask for the nodes at its start, and learns them from the
first client that has logged in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.kafka_python import KafkaAdminClient, KafkaConsumer, KafkaProducer
from tests.harness.clients.rawclient import METADATA, RawClient
from tests.harness.process import Kproxy, wait_logged, wait_until
from tests.harness.servers.peers import Peer, Road, closing
from tests.harness.topics import create_topic, local_addresses, note_failures, read, read_topic, unique, values

pytestmark = pytest.mark.integration

SASL_HANDSHAKE = 17
REAUTH_MS = 2000
RECORDS = [b"record-%d" % number for number in range(6)]


def unsecured_token(user: str, expires_in: int) -> str:
    """A JWS without a signature (RFC 7515), which a broker takes that was told of no keys."""
    now = int(time.time())
    claims = {"sub": user, "iat": now - 7200, "exp": now + expires_in, "jti": uuid4().hex}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), ""])


@dataclass(frozen=True, slots=True)
class Login:
    """A user; `secret` is the password, of OAUTHBEARER the token."""

    mechanism: str
    user: str
    secret: str

    def __str__(self) -> str:
        return self.mechanism

    def confluent(self, bootstrap: str) -> dict[str, Any]:
        """Configuration of confluent-kafka."""
        config = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism,
        }
        if self.mechanism == "OAUTHBEARER":
            return {**config, "oauth_cb": lambda _: (self.secret, time.time() + 3600)}
        return {**config, "sasl.username": self.user, "sasl.password": self.secret}

    def kafka_python(self, bootstrap: str) -> dict[str, str]:
        """Configuration of kafka-python."""
        return {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.secret,
        }

    def java(self, directory: Path) -> str:
        """The path of a client.properties."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        path = directory / "client.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={self.mechanism}\n"
            f'sasl.jaas.config={module} required username="{self.user}" password="{self.secret}";\n'
        )
        return str(path)

    @property
    def plain_token(self) -> bytes:
        """What PLAIN sends (RFC 4616)."""
        return f"\0{self.user}\0{self.secret}".encode()

    @property
    def wrong(self) -> Login:
        """The same user with a secret that the broker does not take."""
        is_token = self.mechanism == "OAUTHBEARER"
        return replace(self, secret=EXPIRED if is_token else WRONG)


WRONG = f"wrong-{uuid4().hex}"
EXPIRED = unsecured_token("late-user", -3600)

PLAIN, SCRAM_256, SCRAM_512 = (
    Login(mechanism, f"user-{uuid4().hex[:8]}", f"secret-{uuid4().hex}")
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
)
# It is made when the tests are collected, and must outlive the slowest run.
OAUTH = Login("OAUTHBEARER", "token-user", unsecured_token("token-user", 24 * 3600))
LOGINS = [PLAIN, SCRAM_256, SCRAM_512, OAUTH]
WITH_PASSWORD = LOGINS[:3]


def sasl_cluster(brokers: int, **properties: str) -> DevCluster:
    """A cluster whose client listener takes all four mechanisms; the brokers among themselves need none."""
    security, listener = "org.apache.kafka.common.security", "listener.name.client"
    scram = f"{security}.scram.ScramLoginModule required;"
    return DevCluster(
        brokers=brokers,
        client_protocol="SASL_PLAINTEXT",
        properties={
            "sasl.enabled.mechanisms": ",".join(login.mechanism for login in LOGINS),
            f"{listener}.plain.sasl.jaas.config": (
                f'{security}.plain.PlainLoginModule required user_{PLAIN.user}="{PLAIN.secret}";'
            ),
            f"{listener}.scram-sha-256.sasl.jaas.config": scram,
            f"{listener}.scram-sha-512.sasl.jaas.config": scram,
            f"{listener}.oauthbearer.sasl.jaas.config": (f"{security}.oauthbearer.OAuthBearerLoginModule required;"),
            **{name.replace("_", "."): value for name, value in properties.items()},
        },
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """Three brokers, with the users of SCRAM. Clients have no other way than to log in."""
    with sasl_cluster(3) as made:
        admin = AdminClient({"bootstrap.servers": made.direct_bootstrap})
        kinds = {SCRAM_256: ScramMechanism.SCRAM_SHA_256, SCRAM_512: ScramMechanism.SCRAM_SHA_512}
        users: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(login.user, ScramCredentialInfo(kind, 4096), login.secret.encode())
            for login, kind in kinds.items()
        ]
        for done in admin.alter_user_scram_credentials(users).values():
            done.result(30)
        yield made


def maps(cluster: DevCluster) -> list[str]:
    """What to tell kproxy, which without credentials cannot find out who is who."""
    return [word for node, dial in cluster.dial.items() for word in ("--map", f"node:{node}={dial}")]


@pytest.fixture(scope="module")
def kproxy(cluster: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kproxy]:
    args = (*maps(cluster), "--log-level", "debug")
    directory = tmp_path_factory.mktemp("kproxy-sasl")
    with Kproxy(directory, cluster.bootstrap, *args, forbidden=["cluster.internal"]) as made:
        yield made


@pytest.fixture(autouse=True)
def no_secrets_shown(request: pytest.FixtureRequest, no_leak: None) -> Iterator[None]:
    """After each test, those of wrong passwords too."""
    yield
    if "kproxy" in request.fixturenames:
        no_secrets(request.getfixturevalue("kproxy"))


def no_secrets(proxy: Kproxy) -> None:
    """Neither kproxy's log nor its pages have a password, a token or the name of a user."""
    assert proxy.metric("kproxy_requests_total", api="SaslHandshake") > 0
    shown = [proxy.log, *(proxy.get(page)[1] for page in ("/status", "/metrics"))]
    hidden = {WRONG, EXPIRED, *(text for login in LOGINS for text in (login.user, login.secret))}
    hidden |= {base64.b64encode(text.encode()).decode().rstrip("=") for text in hidden}
    for text in shown:
        assert not [secret for secret in hidden if secret in text]


def addresses(login: Login, bootstrap: str) -> dict[int, str]:
    """Node id → address, as a client that logs in is told."""
    brokers = AdminClient(login.confluent(bootstrap)).list_topics(timeout=30).brokers
    return {broker.id: f"{broker.host}:{broker.port}" for broker in brokers.values()}


def is_local(found: dict[int, str], proxy: Kproxy, cluster: DevCluster) -> bool:
    return found == local_addresses(proxy) and set(found) == set(cluster.node_ids)


# Clients


@pytest.mark.parametrize("login", LOGINS, ids=str)
def test_confluent(cluster: DevCluster, kproxy: Kproxy, login: Login) -> None:
    assert is_local(addresses(login, kproxy.bootstrap), kproxy, cluster)
    topic = create_topic(cluster.direct_bootstrap)
    failed: list[KafkaError] = []
    producer = Producer(login.confluent(kproxy.bootstrap))
    for number, record in enumerate(RECORDS):
        producer.produce(topic, record, partition=number % 3, on_delivery=note_failures(failed))
    assert producer.flush(60) == 0
    assert not failed
    group = {"group.id": unique("group"), "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reader = Consumer({**login.confluent(kproxy.bootstrap), **group})
    try:
        reader.subscribe([topic])
        assert values(read(reader, len(RECORDS))) == RECORDS
        reader.commit(asynchronous=False)
        placed = reader.committed([TopicPartition(topic, number) for number in range(3)], timeout=30)
        assert [one.offset for one in placed] == [2, 2, 2]
    finally:
        reader.close()


@pytest.mark.parametrize("login", WITH_PASSWORD, ids=str)
def test_kafka_python(cluster: DevCluster, kproxy: Kproxy, login: Login) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    config = login.kafka_python(kproxy.bootstrap)
    producer = KafkaProducer(**config)
    reader = KafkaConsumer(topic, **config, group_id=unique("group"), auto_offset_reset="earliest")
    admin = KafkaAdminClient(**config)
    try:
        brokers = admin.describe_cluster()["brokers"]
        found = {broker["broker_id"]: f"{broker['host']}:{broker['port']}" for broker in brokers}
        assert is_local(found, kproxy, cluster)
        for number, record in enumerate(RECORDS):
            producer.send(topic, record, partition=number % 3)
        producer.flush(60)
        got: list[bytes] = []

        def complete() -> bool:
            got.extend(one.value for some in reader.poll(timeout_ms=2000).values() for one in some)
            return len(got) >= len(RECORDS)

        wait_until(complete, "all records")
        assert sorted(got) == RECORDS
    finally:
        admin.close()
        reader.close()
        producer.close(30)


def test_a_java_producer(cluster: DevCluster, kproxy: Kproxy, tmp_path: Path) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    to = ("--bootstrap-server", kproxy.bootstrap, "--topic", topic)
    lines = "".join(f"{record.decode()}\n" for record in RECORDS)
    done = cluster.tool("kafka-console-producer", *to, "--command-config", SCRAM_256.java(tmp_path), input=lines)
    assert done.returncode == 0, done.stderr
    assert values(read_topic(cluster.direct_bootstrap, topic)) == RECORDS


def test_a_java_consumer(cluster: DevCluster, kproxy: Kproxy, tmp_path: Path) -> None:
    topic = create_topic(cluster.direct_bootstrap)
    producer = Producer({"bootstrap.servers": cluster.direct_bootstrap})
    for record in RECORDS:
        producer.produce(topic, record)
    assert producer.flush(60) == 0
    until = ("--from-beginning", "--max-messages", str(len(RECORDS)), "--timeout-ms", "60000")
    where = ("--bootstrap-server", kproxy.bootstrap, "--topic", topic, "--command-config", SCRAM_512.java(tmp_path))
    done = cluster.tool("kafka-console-consumer", *where, *until)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.encode().splitlines()) == RECORDS


# What the broker refuses


def said_to_confluent(login: Login, bootstrap: str) -> str:
    """The authentication error that a client is told."""
    told: list[KafkaError] = []
    client = Producer({**login.confluent(bootstrap), "error_cb": told.append})

    def refused() -> list[KafkaError]:
        client.poll(0.1)
        return [error for error in told if error.code() == KafkaError._AUTHENTICATION]

    return str(wait_until(refused, "the broker's answer")[0].str())


@pytest.mark.parametrize("login", LOGINS, ids=str)
def test_a_wrong_secret_gives_the_brokers_own_error(cluster: DevCluster, kproxy: Kproxy, login: Login) -> None:
    through, direct = (said_to_confluent(login.wrong, to) for to in (kproxy.bootstrap, cluster.bootstrap))

    def reason(said: str) -> str:
        return said.partition(": ")[2].partition(" (after")[0]  # without the address and the time that it took

    assert reason(through) == reason(direct)
    assert "invalid_token" in through if login is OAUTH else "Authentication failed" in through, through
    assert set(addresses(login, kproxy.bootstrap)) == set(cluster.node_ids)


def test_a_java_tool_with_a_wrong_password(cluster: DevCluster, kproxy: Kproxy, tmp_path: Path) -> None:
    config = SCRAM_256.wrong.java(tmp_path)
    done = cluster.tool("kafka-topics", "--bootstrap-server", kproxy.bootstrap, "--list", "--command-config", config)
    assert done.returncode != 0
    assert "due to invalid credentials with SASL mechanism SCRAM-SHA-256" in done.stdout + done.stderr


def test_a_client_that_does_not_log_in(cluster: DevCluster, kproxy: Kproxy) -> None:
    """The broker closes the connection, and so does kproxy."""
    with RawClient(kproxy.bootstrap) as client:
        assert client.works()  # ApiVersions needs no login
        client.send(METADATA, 1, struct.pack(">i", 0))
        assert client.wait_closed()
    assert set(addresses(PLAIN, kproxy.bootstrap)) == set(cluster.node_ids)


def test_a_mechanism_that_names_the_host(kproxy: Kproxy) -> None:
    """It passes through, and the log says once why a broker will refuse it."""
    for _ in range(2):
        with RawClient(kproxy.bootstrap) as client:
            assert client.ask(SASL_HANDSHAKE, 1, string("GSSAPI"))[:2] == struct.pack(">h", 33)  # not enabled
    assert kproxy.log.count("a client logs in with GSSAPI, which includes the host that the client connects to") == 1
    wait_logged(kproxy, "Let kproxy log in instead: --sasl GSSAPI")


# SaslHandshake version 0: tokens without any header


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def exchange(client: RawClient, token: bytes) -> bytes:
    """Send a raw token, and give the raw token that answers it."""
    client.socket.sendall(struct.pack(">i", len(token)) + token)
    (size,) = struct.unpack(">i", client._exactly(4))
    return client._exactly(size)


def handshake(client: RawClient, mechanism: str) -> None:
    answer = client.ask(SASL_HANDSHAKE, 0, string(mechanism))
    assert answer[:2] == b"\0\0", answer


def brokers(metadata: bytes) -> dict[int, str]:
    """Node id → address in a Metadata response, version 1; racks are null."""
    (count,) = struct.unpack_from(">i", metadata)
    found, at = {}, 4
    for _ in range(count):
        node, length = struct.unpack_from(">ih", metadata, at)
        host = metadata[at + 6 : at + 6 + length].decode()
        port, rack = struct.unpack_from(">ih", metadata, at + 6 + length)
        assert rack == -1
        found[node] = f"{host}:{port}"
        at += 6 + length + 6
    return found


def test_raw_tokens_and_then_metadata(cluster: DevCluster, kproxy: Kproxy) -> None:
    with RawClient(kproxy.bootstrap) as client:
        handshake(client, "PLAIN")
        assert exchange(client, PLAIN.plain_token) == b""
        for _ in range(2):
            found = brokers(client.ask(METADATA, 1, struct.pack(">i", 0)))
            assert is_local(found, kproxy, cluster)


def test_raw_tokens_of_several_steps(cluster: DevCluster, kproxy: Kproxy) -> None:
    """SCRAM-SHA-256 by hand (RFC 5802): the broker proves itself, so what it said came as it said it."""
    with RawClient(kproxy.bootstrap) as client:
        handshake(client, SCRAM_256.mechanism)
        first = f"n={SCRAM_256.user},r={uuid4().hex}"
        challenge = exchange(client, f"n,,{first}".encode()).decode()
        nonce, salt, iterations = (part[2:] for part in challenge.split(","))
        final = f"c=biws,r={nonce}"
        spoken = f"{first},{challenge},{final}".encode()
        salted = hashlib.pbkdf2_hmac("sha256", SCRAM_256.secret.encode(), base64.b64decode(salt), int(iterations))
        key = sha256(salted, b"Client Key")
        signature = sha256(hashlib.sha256(key).digest(), spoken)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        verifier = exchange(client, f"{final},p={proof}".encode())
        assert verifier == b"v=" + base64.b64encode(sha256(sha256(salted, b"Server Key"), spoken))
        found = brokers(client.ask(METADATA, 1, struct.pack(">i", 0)))
    assert is_local(found, kproxy, cluster)


def sha256(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def test_a_wrong_raw_token(cluster: DevCluster, kproxy: Kproxy) -> None:
    """Version 0 has no words for it: the broker just closes."""
    with RawClient(kproxy.bootstrap) as client:
        handshake(client, "PLAIN")
        with pytest.raises((EOFError, ConnectionError)):
            exchange(client, PLAIN.wrong.plain_token)
    assert set(addresses(PLAIN, kproxy.bootstrap)) == set(cluster.node_ids)


# kproxy's start, and sessions that end


AUTHENTICATED_ONLY = (
    "the brokers list their nodes for authenticated clients only; kproxy learns the nodes, and checks which broker it"
    " has reached, when a client has logged in"
)


def test_start_with_three_brokers(cluster: DevCluster, own_kproxy: Callable[..., Kproxy]) -> None:
    proxy = own_kproxy(cluster.bootstrap, *maps(cluster))
    wait_until(lambda: AUTHENTICATED_ONLY in proxy.log, "the log says why there are no nodes")
    assert proxy.status()["nodes"] == []
    assert is_local(addresses(SCRAM_256, proxy.bootstrap), proxy, cluster)
    for node, dial in cluster.dial.items():
        wait_until(partial(dialled, proxy, node, str(dial)), f"the route to broker {node}")
        with RawClient(proxy.node(node)["local"]) as client:
            assert client.works()


def dialled(proxy: Kproxy, node: int, dial: str) -> bool:
    return bool(proxy.node(node).get("dial") == dial)


@pytest.fixture(scope="module")
def lone() -> Iterator[DevCluster]:
    """One broker, where nobody stays logged in for long."""
    with sasl_cluster(1, connections_max_reauth_ms=str(REAUTH_MS)) as made:
        yield made


def test_start_with_one_broker(lone: DevCluster, own_kproxy: Callable[..., Kproxy]) -> None:
    """Its name resolves nowhere: the client's first attempt to reach it may fail, but it tries again."""
    proxy = own_kproxy(lone.bootstrap)
    assert proxy.status()["nodes"] == []
    topic = create_topic(lone.direct_bootstrap, 1, 1)
    failed: list[KafkaError] = []
    producer = Producer(PLAIN.confluent(proxy.bootstrap))
    for record in RECORDS:
        producer.produce(topic, record, on_delivery=note_failures(failed))
    assert producer.flush(60) == 0
    assert not failed
    wait_logged(proxy, AUTHENTICATED_ONLY)
    assert (proxy.node(1)["route"], proxy.node(1)["dial"], proxy.node(1)["checked"]) == (
        "learned",
        str(lone.dial[1]),
        True,
    )
    assert values(read_topic(lone.direct_bootstrap, topic, 1)) == RECORDS


def test_a_broker_that_accepts_connections_again(lone: DevCluster, own_kproxy: Callable[..., Kproxy]) -> None:
    """kproxy has no credentials: a connection shows that something listens there, and the log says no more."""
    with Peer(closing) as forward:
        address = forward.address
    proxy = own_kproxy(lone.bootstrap, "--map", f"node:1={address}")
    with suppress(KafkaException):  # it learns of the broker, and cannot reach it
        AdminClient(PLAIN.confluent(proxy.bootstrap)).list_topics(timeout=5)
    wait_logged(proxy, f"{address}: connection refused")
    with Road(lambda: str(lone.dial[1]), port=int(address.rpartition(":")[2])):
        wait_logged(proxy, f"{address} accepts connections again; which broker it is, kproxy asks when a client")
        assert "can be reached again" not in proxy.log
        assert not proxy.node(1)["checked"]
        topic = create_topic(lone.direct_bootstrap, 1, 1)
        producer = Producer(PLAIN.confluent(proxy.bootstrap))  # it connects to the broker itself
        producer.produce(topic, RECORDS[0])
        assert producer.flush(60) == 0
        wait_until(lambda: proxy.node(1)["checked"], "a client's session has shown which broker it is")


def test_reauthentication(lone: DevCluster, own_kproxy: Callable[..., Kproxy]) -> None:
    """A session ends after REAUTH_MS unless the client logs in again, on the same connection (KIP-368)."""
    proxy = own_kproxy(lone.bootstrap, "--log-level", "debug")
    topic = create_topic(lone.direct_bootstrap, 1, 1)
    failed: list[KafkaError] = []
    told: list[KafkaError] = []
    sent = 0
    late = False
    config = {"enable.idempotence": True, "linger.ms": 1, "error_cb": told.append}
    producer = Producer({**PLAIN.confluent(proxy.bootstrap), **config})

    def send() -> None:
        nonlocal sent
        for _ in range(20):
            producer.produce(topic, b"%d" % sent, on_delivery=note_failures(failed))
            sent += 1
            producer.poll(0.005)

    def seen() -> tuple[float, float]:
        """Connections to the broker, and logins on them."""
        logins = proxy.metric("kproxy_requests_total", api="SaslAuthenticate", node="1")
        return proxy.metric("kproxy_sessions_total", node="1"), logins

    send()
    assert producer.flush(60) == 0  # it has found its broker
    mark = seen()
    assert min(mark) >= 1

    def logged_in_again() -> bool:
        """Twice on one connection, so the first time has prolonged the session. A client that comes too late, as on a
        busy machine, has to connect again, and the count begins again."""
        nonlocal mark, late
        send()
        now = seen()
        if now[0] != mark[0]:
            mark, late = now, True
        return now[1] >= mark[1] + 2

    wait_until(logged_in_again, "two more logins on one connection")
    assert producer.flush(60) == 0
    assert not failed
    assert late or KafkaError._AUTHENTICATION not in [error.code() for error in told]
    written = [message.value() for message in read_topic(lone.direct_bootstrap, topic, 1)]
    assert written == [b"%d" % number for number in range(sent)]
    no_secrets(proxy)
