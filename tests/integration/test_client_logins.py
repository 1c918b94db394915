"""Clients log in at kproxy: real clients, and frame for frame what a real broker answers to the same bytes."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kproxy.dev.devcluster import DevCluster
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.messages import encode_request, read_response
from kproxy.users.verifier import HASHES, ScramVerifier
from tests.harness.clients.flow import Flow
from tests.harness.clients.flow import create_topic as flow_topic
from tests.harness.clients.kafka_python import KafkaConsumer, KafkaProducer
from tests.harness.clusters.steady import STEADY
from tests.harness.process import PATIENCE_S, Kproxy, wait_logged, wait_until
from tests.harness.topics import create_topic, read_topic, unique, values

pytestmark = pytest.mark.integration

# The same user at the brokers and at kproxy, with another password: so nothing of one login can be good for the other.
USER, PASSWORD, AT_BROKERS = "alice", f"pä,= {uuid4().hex}", f"brokers-{uuid4().hex}"
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
SECURITY = "org.apache.kafka.common.security"
LIFETIME_MS = 3_000
RECORDS = [b"record-%d" % number for number in range(6)]
# A broker waits so long; kproxy too, so the test need not.
_WAIT = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    listener = "listener.name.client"
    properties = {
        f"{listener}.plain.sasl.jaas.config": (
            f'{SECURITY}.plain.PlainLoginModule required user_alice="{AT_BROKERS}" user_raw="raw-password";'
        ),
        **{
            f"{listener}.{name.lower()}.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;"
            for name in HASHES
        },
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{listener}.plain.connections.max.reauth.ms": str(LIFETIME_MS),
        **STEADY,
    }
    with DevCluster(1, client_protocol="SASL_PLAINTEXT", properties=properties) as made:
        admin = AdminClient({"bootstrap.servers": made.direct_bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(USER, info, AT_BROKERS.encode())
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(PATIENCE_S)
        yield made


@pytest.fixture(scope="module")
def users_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("users") / "users.yaml"
    users = {USER: PASSWORD, "raw": "raw-password", "bob": "of-bob"}
    lines = ["users:"]
    for name, password in users.items():
        lines.append(f"  {name}:")
        lines += [f"    {kind}: {ScramVerifier.from_password(kind, password).text()}" for kind in HASHES]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)
    return path


UPSTREAM: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "PLAIN": ("--sasl", "PLAIN", "--sasl-username", USER),
    "SCRAM-SHA-512": ("--sasl", "SCRAM-SHA-512", "--sasl-username", USER),
}
# Each mechanism and each upstream once; all pairs are in the matrix.
PAIRS = [
    pytest.param(mechanism, upstream, marks=() if at == other else pytest.mark.matrix)
    for at, mechanism in enumerate(MECHANISMS)
    for other, upstream in enumerate(UPSTREAM)
]


@pytest.fixture
def login_kproxy(
    cluster: DevCluster, own_kproxy: Callable[..., Kproxy], users_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Kproxy]]:
    """Makes a kproxy with users that logs in at the brokers so; nothing that it shows has a secret."""
    made: list[Kproxy] = []

    def make(upstream: str, *more: str) -> Kproxy:
        arguments = [
            "--users-file",
            str(users_file),
            *(word for name in MECHANISMS for word in ("--client-sasl", name)),
        ]
        if upstream == "nothing":
            server = cluster.direct_bootstrap
        else:
            server = cluster.bootstrap
            monkeypatch.setenv("KPROXY_SASL_PASSWORD", AT_BROKERS)
        made.append(own_kproxy(server, "--log-level", "debug", *arguments, *UPSTREAM[upstream], *more))
        return made[-1]

    yield make
    for proxy in made:
        for text in (proxy.log, *(proxy.get(page)[1] for page in ("/status", "/metrics", "/sessions"))):
            assert not [secret for secret in (PASSWORD, AT_BROKERS, "raw-password", "wrong!") if secret in text]


def login(mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def java_login(path: Path, mechanism: str, password: str = PASSWORD) -> str:
    module = f"{SECURITY}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{SECURITY}.scram.ScramLoginModule"
    password = password.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{USER}" password="{password}";\n'
    )
    return str(path)


@pytest.mark.parametrize(("mechanism", "upstream"), PAIRS)
def test_clients_write_and_read(
    cluster: DevCluster, login_kproxy: Callable[..., Kproxy], mechanism: str, upstream: str, tmp_path: Path
) -> None:
    """librdkafka, kafka-python and Java, each with a login that the brokers would refuse."""
    proxy = login_kproxy(upstream)
    topic = create_topic(cluster.direct_bootstrap, 1, 1)
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": proxy.bootstrap, "error_cb": errors.append, **login(mechanism)})
    for record in RECORDS[:2]:
        producer.produce(topic, record)
    assert not producer.flush(PATIENCE_S)
    assert not errors
    settings = {
        "bootstrap_servers": proxy.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    python = KafkaProducer(**settings)
    for sent in [python.send(topic, record) for record in RECORDS[2:4]]:
        sent.get(PATIENCE_S)
    (user,) = {session["user"] for session in json.loads(proxy.get("/sessions")[1]) if session["user"]}
    assert user == USER
    python.close()
    config = java_login(tmp_path / "client.properties", mechanism)
    lines = "".join(f"{record.decode()}\n" for record in RECORDS[4:])
    to = ("--bootstrap-server", proxy.bootstrap, "--topic", topic)
    done = cluster.tool("kafka-console-producer", *to, "--command-config", config, input=lines)
    assert done.returncode == 0, done.stderr
    more = ("--from-beginning", "--max-messages", "6", "--timeout-ms", "60000")
    done = cluster.tool("kafka-console-consumer", *to, "--command-config", config, *more)
    assert sorted(done.stdout.encode().splitlines()) == RECORDS, done.stderr
    reader = KafkaConsumer(topic, group_id=None, auto_offset_reset="earliest", **settings)
    got: list[bytes] = []

    def has_all() -> bool:
        got.extend(record.value for records in reader.poll(2000).values() for record in records)
        return len(got) >= len(RECORDS)

    with contextlib.closing(reader):
        wait_until(has_all, "all")
    assert sorted(got) == RECORDS == sorted(values(read_topic(cluster.direct_bootstrap, topic, 1)))
    assert proxy.metric("kproxy_client_logins_total", mechanism=mechanism, outcome="success") >= 6


def fails(proxy: Kproxy, settings: dict[str, str]) -> None:
    """A client of librdkafka reports that its login failed."""
    errors: list[Any] = []
    every: dict[str, Any] = {"bootstrap.servers": proxy.bootstrap, "error_cb": errors.append, **settings}
    admin = AdminClient(every)
    wait_until(lambda: admin.poll(0.1) or any("uthentication" in str(each) for each in errors), "it fails")


def test_wrong_logins_of_real_clients(cluster: DevCluster, login_kproxy: Callable[..., Kproxy], tmp_path: Path) -> None:
    proxy = login_kproxy("nothing")
    wrong = ((USER, "wrong!"), ("nobody", PASSWORD), (USER, AT_BROKERS))
    for mechanism, (user, password) in zip(MECHANISMS, wrong, strict=True):
        fails(proxy, login(mechanism, user, password))
    config = java_login(tmp_path / "client.properties", "PLAIN", "wrong!")
    done = cluster.tool("kafka-topics", "--bootstrap-server", proxy.bootstrap, "--list", "--command-config", config)
    assert (
        "SaslAuthenticationException: Authentication failed: Invalid username or password" in done.stderr + done.stdout
    )
    done = cluster.tool("kafka-topics", "--bootstrap-server", proxy.bootstrap, "--list")  # without a login
    assert done.returncode != 0
    assert proxy.metric("kproxy_client_logins_total", mechanism="PLAIN", outcome="refused") >= 2
    wait_logged(proxy, "the password is wrong, or there is no such user")


# Frame for frame

V, H, A = ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
VERSIONS = (V, 3, {"ClientSoftwareName": "raw", "ClientSoftwareVersion": "1"})
GOOD, BAD = b"\0raw\0raw-password", b"\0raw\0wrong!"


def handshake(version: int, name: str = "PLAIN") -> tuple[ApiKey, int, dict[str, Any]]:
    return H, version, {"Mechanism": name}


def token(version: int, data: bytes = GOOD) -> tuple[ApiKey, int, dict[str, Any]]:
    return A, version, {"AuthBytes": data}


METADATA: tuple[ApiKey, int, dict[str, Any]] = (ApiKey.METADATA, 1, {"Topics": []})
HEARTBEAT = (ApiKey.HEARTBEAT, 0, {"GroupId": "g", "GenerationId": 1, "MemberId": "m"})
SCRIPTS: dict[str, list[Any]] = {
    **{f"login {h}.{a}": [VERSIONS, handshake(h), token(a), METADATA] for h, a in ((1, 0), (1, 1), (1, 2))},
    "login without ApiVersions": [handshake(1), token(2), METADATA],
    "raw tokens": [handshake(0), GOOD, METADATA],
    "raw tokens after ApiVersions": [VERSIONS, handshake(0), GOOD, METADATA],
    "wrong raw token": [handshake(0), BAD],
    "a request as a raw token": [handshake(0), METADATA],
    **{f"wrong password {a}": [handshake(1), token(a, BAD)] for a in (0, 1, 2)},
    "unknown user": [handshake(1), token(1, b"\0nobody\0x")],
    "two tokens": [handshake(1), token(1, b"\0raw")],
    "four tokens": [handshake(1), token(1, b"\0raw\0raw-password\0x")],
    "no user": [handshake(1), token(1, b"\0\0x")],
    "no password": [handshake(1), token(1, b"\0raw\0")],
    "another identity": [handshake(1), token(1, b"root\0raw\0raw-password")],
    "its own identity": [handshake(1), token(1, b"raw\0raw\0raw-password")],
    "empty token": [handshake(1), token(1, b"")],
    "metadata first": [METADATA],
    "metadata after ApiVersions": [VERSIONS, METADATA],
    "authenticate first": [token(1)],
    "authenticate after ApiVersions": [VERSIONS, token(1)],
    "ApiVersions twice": [VERSIONS, VERSIONS],
    "ApiVersions 0 twice": [(V, 0, {}), (V, 0, {})],
    "invalid ApiVersions, then a valid one": [
        (V, 3, {"ClientSoftwareName": "!", "ClientSoftwareVersion": "1"}),
        VERSIONS,
    ],
    "ApiVersions within": [handshake(1), (V, 0, {})],
    "handshake twice": [handshake(1), handshake(1)],
    "unknown mechanism": [handshake(1, "GSSAPI")],
    "unknown mechanism 0": [handshake(0, "GSSAPI")],
    "mechanism in lower case": [handshake(1, "plain")],
    "handshake of version 2": [(H, 2, {"Mechanism": "PLAIN"})],
    "scram, malformed": [handshake(1, "SCRAM-SHA-256"), token(1, b"n,,n=raw")],
    "scram, channel binding": [handshake(1, "SCRAM-SHA-256"), token(1, b"p=tls-unique,,n=raw,r=x")],
    "scram, other flag": [handshake(1, "SCRAM-SHA-256"), token(1, b"y,,n=raw,r=x")],
    "authenticate again": [handshake(1), token(1), token(1), METADATA],
    "SCRAM, authenticate again": [handshake(1), token(2), token(2), METADATA],
    "new login": [handshake(1), token(1), handshake(1), token(1), METADATA],
    "new login, another mechanism": [handshake(1), token(1), handshake(1, "SCRAM-SHA-256"), token(1)],
    "new login, unknown mechanism": [handshake(1), token(1), handshake(1, "GSSAPI")],
    "new login, wrong password": [handshake(1), token(1), handshake(1), token(1, BAD)],
    "two new logins in a second": [handshake(1), token(1), handshake(1), token(1), handshake(1), METADATA],
    "GSSAPI without a handshake": [b"\x60\x81" + bytes(40)],
    "garbage": [b"garbage that is no request"],
    "heartbeat first": [HEARTBEAT],
}


def play(address: str, script: list[Any]) -> list[Any]:
    """Send each message, and return what came: the fields of answers, tokens, or "closed"."""
    host, _, port = address.rpartition(":")
    seen: list[Any] = []
    with socket.create_connection((host, int(port)), timeout=_WAIT) as sock:
        for number, message in enumerate(script, 1):
            raw = isinstance(message, bytes)
            try:
                if raw:
                    sock.sendall(struct.pack(">i", len(message)) + message)
                else:
                    key, version, fields = message
                    sock.sendall(encode_request(key, version, number, fields))
                answer = receive(sock)
            except (EOFError, ConnectionError):
                seen.append("closed")
                return seen
            seen.append(answer if raw else shown(message[0], message[1], number, answer))
        sock.shutdown(socket.SHUT_WR)
    return seen


def receive(sock: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", exactly(sock, 4))
    return exactly(sock, size)


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def shown(key: ApiKey, version: int, number: int, answer: bytes) -> Any:
    """Return an answer without what differs between a broker and kproxy, or between two runs."""
    assert struct.unpack_from(">i", answer) == (number,)
    if key is ApiKey.METADATA:
        return "metadata"
    if key is V:
        return "versions", struct.unpack_from(">h", answer, 4)[0]
    try:
        fields = read_response(key, version, answer, 4)
    except Exception:  # noqa: BLE001  # of an unknown version
        return answer
    if "Mechanisms" in fields:
        fields["Mechanisms"] = sorted(fields["Mechanisms"])
    if fields.get("SessionLifetimeMs"):
        fields["SessionLifetimeMs"] = "some"
    return fields


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_bytes_get_the_same_answers_as_at_a_broker(
    cluster: DevCluster, shared_kproxy: Kproxy, name: str
) -> None:
    """A user of the brokers and of kproxy with the same password sends the same to both."""
    assert play(shared_kproxy.bootstrap, SCRIPTS[name]) == play(str(cluster.dial[1]), SCRIPTS[name])


@pytest.fixture(scope="module")
def shared_kproxy(cluster: DevCluster, users_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kproxy]:
    arguments = ["--users-file", str(users_file), *(word for name in MECHANISMS for word in ("--client-sasl", name))]
    directory = tmp_path_factory.mktemp("kproxy")
    with Kproxy(directory, cluster.direct_bootstrap, *arguments, "--client-login-lifetime", "3s") as proxy:
        yield proxy


def test_a_login_that_expires(shared_kproxy: Kproxy) -> None:
    """The first request after the lifetime closes the connection; a new login in its place keeps it."""
    for renews in (False, True):
        host, _, port = shared_kproxy.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=_WAIT) as sock:
            for number, message in enumerate((handshake(1), token(2)), 1):
                sock.sendall(encode_request(message[0], message[1], number, message[2]))
                answer = receive(sock)
            assert read_response(A, 2, answer, 4)["SessionLifetimeMs"] == 3000
            sock.settimeout(4.0)  # the lifetime has begun before its answer came
            with pytest.raises(TimeoutError):
                sock.recv(1)
            sock.settimeout(_WAIT)
            if renews:
                for number, message in enumerate((handshake(1), token(2)), 3):
                    sock.sendall(encode_request(message[0], message[1], number, message[2]))
                    receive(sock)
            sock.sendall(encode_request(ApiKey.METADATA, 1, 9, {"Topics": []}))
            if renews:
                assert receive(sock)
            else:
                with pytest.raises((EOFError, ConnectionError)):
                    receive(sock)
    wait_logged(shared_kproxy, "the login of the client has expired")


@pytest.mark.parametrize(
    "lifetimes",
    [
        3,
        pytest.param(20, marks=pytest.mark.matrix),
        pytest.param(600, marks=[pytest.mark.soak, pytest.mark.timeout(5400)]),
    ],
)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_clients_log_in_again_under_load(
    cluster: DevCluster, login_kproxy: Callable[..., Kproxy], mechanism: str, lifetimes: int
) -> None:
    """Both sides log in again: the client every 3 s, kproxy every 3 s. Nothing is lost, and no connection ends.

    A day of hourly lifetimes is 24; the soak has 600. A machine that is too busy may log in late; then again.
    """
    proxy = login_kproxy("PLAIN", "--client-login-lifetime", "3s")
    topic = unique("again")
    flow_topic(cluster.direct_bootstrap, topic, 2)

    def logins() -> float:
        return proxy.metric("kproxy_client_logins_total", mechanism=mechanism, outcome="success")

    with Flow(proxy.bootstrap, topic, 2, **login(mechanism)) as flow:
        flow.wait_flowing()
        before = logins()
        for lifetime in range(1, lifetimes + 1):
            # Of two clients, each with a connection at least.
            wait_until(lambda number=lifetime: logins() >= before + 4 * number, f"lifetime {lifetime}")  # type: ignore[misc]
            flow.wait_flowing()
    wait_logged(proxy, "SASL: logged in again, for ")
    assert proxy.metric("kproxy_client_logins_total", mechanism=mechanism, outcome="refused") == 0


def test_tokens_and_passwords_of_the_cluster_are_refused(
    cluster: DevCluster, login_kproxy: Callable[..., Kproxy]
) -> None:
    proxy = login_kproxy("nothing")
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap, **login("PLAIN")})
    change = UserScramCredentialUpsertion("mallory", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"x")
    (done,) = admin.alter_user_scram_credentials([change]).values()
    with pytest.raises(Exception, match="clients log in at kproxy"):
        done.result(PATIENCE_S)
    host, _, port = proxy.bootstrap.rpartition(":")
    # Of version 1: no renewers, any lifetime; a token's HMAC and a time; all owners.
    renewed = b"\0\0\0\1x" + bytes(8)
    requests = [
        (ApiKey.CREATE_DELEGATION_TOKEN, bytes(12)),
        (ApiKey.RENEW_DELEGATION_TOKEN, renewed),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, renewed),
        (ApiKey.DESCRIBE_DELEGATION_TOKEN, b"\xff" * 4),
    ]
    with socket.create_connection((host, int(port)), timeout=_WAIT) as sock:
        for number, message in enumerate((handshake(1), token(2)), 1):
            sock.sendall(encode_request(message[0], message[1], number, message[2]))
            receive(sock)
        for number, (key, body) in enumerate(requests, 3):
            sock.sendall(encode_request(key, 1, number, body))
            assert struct.unpack_from(">ih", receive(sock)) == (number, 65)


def test_rules_for_users(cluster: DevCluster, login_kproxy: Callable[..., Kproxy]) -> None:
    """bob may not write, whatever versions he has learned before his login; alice may."""
    topic = create_topic(cluster.direct_bootstrap, 1, 1)
    proxy = login_kproxy("nothing", "--rules", f"user=alice allow produce {topic}", "--rules", "deny produce *")
    for user, password, works in ((USER, PASSWORD, True), ("bob", "of-bob", False)):
        errors: list[Any] = []
        producer = Producer({"bootstrap.servers": proxy.bootstrap, **login("SCRAM-SHA-256", user, password)})
        producer.produce(topic, b"x", on_delivery=lambda error, message, to=errors: to.append(error))  # type: ignore[misc]
        assert not producer.flush(PATIENCE_S)
        assert [error is None for error in errors] == [works]
    wait_logged(proxy, "user bob")
    (refused,) = proxy.status()["access"]["latest"]
    assert (refused["user"], refused["name"]) == ("bob", topic)
