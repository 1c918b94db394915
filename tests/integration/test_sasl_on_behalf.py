"""SASL on the client's behalf: clients without credentials, and kproxy logs in to real brokers."""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import run
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kproxy.client.ask import questions
from kproxy.client.ask.channel import ConnectionChannel
from kproxy.client.sasl.exchange import SaslExchange, SaslSession
from kproxy.client.sasl.login import authenticate
from kproxy.client.sasl.mechanism import Mechanism, Plain, Scram
from kproxy.dev.devcluster import DevCluster
from kproxy.dev.devcluster.properties import ListenerSpec
from kproxy.net.dial.stream import Stream
from kproxy.protocol.rewrite.endpoints import Endpoint
from kproxy.protocol.wire.messages import encode_request
from tests.harness.clients.flow import Flow, JavaFlow
from tests.harness.clients.kafka_python import KafkaConsumer, KafkaProducer
from tests.harness.clients.rawclient import METADATA, RawClient
from tests.harness.clusters.steady import STEADY
from tests.harness.process import PATIENCE_S, Kproxy, wait_logged, wait_until
from tests.harness.servers.kdc import Kdc, needs_kdc
from tests.harness.servers.oidc import AUDIENCE, OidcServer
from tests.harness.servers.oidc_server import HURRIED
from tests.harness.tls import Authority
from tests.harness.topics import create_topic, local_addresses, produce, read_topic, unique, values

pytestmark = pytest.mark.integration

RECORDS = [b"record-%d" % number for number in range(6)]
LIFETIME_MS = 3_600_000
# Of one mechanism, and of tokens that are good for longer.
SHORT, SHORT_MS = "SCRAM-SHA-256", 10_000
USER = f"user,=-{uuid4().hex[:8]}"
# Characters that mean something in a shell, in JAAS, in .properties, in SCRAM; and one that SASLprep would replace.
PASSWORD = f'p"w\\ ,=;$ª{uuid4().hex}'
CLIENT_SECRET = f"secret-{uuid4().hex}"
WRONG = f"wrong-{uuid4().hex}"
KEYTAB_PASSWORD = uuid4().hex
# Listeners more: for clients that have no proxy, and SASL_SSL.
TRUTHFUL, ENCRYPTED = "TRUTHFUL", "ENCRYPTED"
SECURITY = "org.apache.kafka.common.security"
KINDS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


def in_jaas(text: str) -> str:
    """As a value stands within quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


@pytest.fixture(scope="module")
def oidc() -> Iterator[OidcServer]:
    with OidcServer("kproxy-client", CLIENT_SECRET) as server:
        yield server


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc | None]:
    """None where there is none."""
    if needs_kdc.args[0]:
        yield None
        return
    with Kdc() as made:
        made.principal("alice", KEYTAB_PASSWORD)
        # All brokers have one key, whatever name a client asks for; which one it asked for is in the KDC's log.
        for host in ("brokers.cluster.internal", "127.0.0.1", "kafka-1.cluster.internal", "kafka-2.cluster.internal"):
            made.principal(f"kafka/{host}", "the-brokers-key")
        yield made


@pytest.fixture(scope="module")
def cluster(oidc: OidcServer, kdc: Kdc | None, authority: Authority) -> Iterator[DevCluster]:
    """Two brokers, where clients have to log in."""
    listener = "listener.name.client"
    properties = {
        f"{listener}.plain.sasl.jaas.config": (
            f'{SECURITY}.plain.PlainLoginModule required user_plain="{in_jaas(PASSWORD)}";'
        ),
        f"{listener}.scram-sha-256.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
        f"{listener}.oauthbearer.sasl.jaas.config": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": (
            f"{SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.truthful.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.truthful.scram-sha-512.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
        "listener.name.encrypted.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.encrypted.scram-sha-512.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
        "listener.name.encrypted.ssl.keystore.type": "PKCS12",
        "listener.name.encrypted.ssl.keystore.location": str(
            authority.pkcs12("changeit", "127.0.0.1", "kafka-1.cluster.internal", "kafka-2.cluster.internal")
        ),
        "listener.name.encrypted.ssl.keystore.password": "changeit",
        "sasl.oauthbearer.jwks.endpoint.url": oidc.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": oidc.issuer,
        "connections.max.reauth.ms": str(LIFETIME_MS),
        **STEADY,
        f"{listener}.{SHORT.lower()}.connections.max.reauth.ms": str(SHORT_MS),
        f"{listener}.oauthbearer.connections.max.reauth.ms": str(SHORT_MS),
    }
    mechanisms = ["PLAIN", *KINDS, "OAUTHBEARER"]
    java = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={oidc.jwks_url}"]
    if kdc is not None:
        mechanisms.append("GSSAPI")
        java.append(f"-Djava.security.krb5.conf={kdc.directory}/krb5.conf")
        properties["sasl.kerberos.service.name"] = "kafka"
        properties[f"{listener}.gssapi.sasl.jaas.config"] = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
            f' keyTab="{kdc.keytab("kafka/brokers.cluster.internal")}" principal="kafka/brokers.cluster.internal";'
        )
    properties["sasl.enabled.mechanisms"] = ",".join(mechanisms)
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("JAVA_TOOL_OPTIONS", " ".join(java))
        more = (
            ListenerSpec(TRUTHFUL, protocol="SASL_PLAINTEXT"),
            ListenerSpec(ENCRYPTED, "kafka-{id}.cluster.internal:9093", "SASL_SSL"),
        )
        made = DevCluster(2, client_protocol="SASL_PLAINTEXT", extra_listeners=more, properties=properties)
        stack.enter_context(made)
        patch.undo()
        for mechanism in KINDS:
            set_password(made, mechanism, USER, PASSWORD)
        yield made


def set_password(cluster: DevCluster, mechanism: str, user: str, password: str) -> None:
    info = ScramCredentialInfo(KINDS[mechanism], 4096)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap})
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(30)


@pytest.fixture
def secure_kproxy(
    cluster: DevCluster, own_kproxy: Callable[..., Kproxy], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Kproxy]]:
    """Makes a kproxy with these flags, and these words in its environment; nothing it shows has a secret."""
    made: list[Kproxy] = []

    def make(*args: str, ready: bool = True, bootstrap: str = "", **environment: str) -> Kproxy:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        made.append(own_kproxy(bootstrap or cluster.bootstrap, "--log-level", "debug", *args, ready=ready))
        return made[-1]

    yield make
    for proxy in made:
        shown = [proxy.log, *(proxy.get(page)[1] for page in ("/status", "/metrics", "/readyz"))]
        for text in shown:
            assert not [secret for secret in (PASSWORD, CLIENT_SECRET, WRONG, "eyJ", USER) if secret in text]


def with_plain(secure_kproxy: Callable[..., Kproxy]) -> Kproxy:
    return secure_kproxy("--sasl", "PLAIN", "--sasl-username", "plain", KPROXY_SASL_PASSWORD=PASSWORD)


def works(cluster: DevCluster, proxy: Kproxy) -> None:
    """A client that knows of no login writes and reads, at each broker."""
    told = {one.id: f"{one.host}:{one.port}" for one in AdminClient({"bootstrap.servers": proxy.bootstrap})
            .list_topics(timeout=30).brokers.values()}  # fmt: skip
    assert told == local_addresses(proxy)
    assert set(told) == set(cluster.node_ids)
    topic = create_topic(cluster.direct_bootstrap, 2, 1)
    for partition in range(2):
        produce(proxy.bootstrap, topic, RECORDS, partition)
    assert values(read_topic(proxy.bootstrap, topic, 2)) == sorted(RECORDS * 2)


# Mechanisms


@pytest.mark.parametrize("mechanism", KINDS)
def test_scram(cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], mechanism: str) -> None:
    proxy = secure_kproxy("--sasl", mechanism, "--sasl-username", USER, KPROXY_SASL_PASSWORD=PASSWORD)
    works(cluster, proxy)


def test_plain_with_every_kind_of_client(
    cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], tmp_path: Path
) -> None:
    """kproxy's own questions are asked after the login: it knows the nodes at once, and which address is which."""
    proxy = with_plain(secure_kproxy)
    assert {node["id"]: (node["dial"], node["route"]) for node in proxy.status()["nodes"]} == {
        node: (str(dial), "learned") for node, dial in cluster.dial.items()
    }
    works(cluster, proxy)
    topic = create_topic(cluster.direct_bootstrap, 2, 1)
    producer = KafkaProducer(bootstrap_servers=proxy.bootstrap)
    for sent in [producer.send(topic, record) for record in RECORDS[:3]]:
        sent.get(PATIENCE_S)  # close() would give up in silence
    producer.close()
    lines = "".join(f"{record.decode()}\n" for record in RECORDS[3:])
    done = cluster.tool("kafka-console-producer", "--bootstrap-server", proxy.bootstrap, "--topic", topic, input=lines)
    assert done.returncode == 0, done.stderr
    reader = KafkaConsumer(bootstrap_servers=proxy.bootstrap, group_id=unique("group"), auto_offset_reset="earliest")
    got: list[bytes] = []
    try:
        # If it joins before it knows of the topic, it gives itself no partitions, and may wait minutes for more.
        wait_until(lambda: len(reader.partitions_for_topic(topic) or ()) == 2, "it knows the topic")
        reader.subscribe([topic])
        wait_until(
            lambda: got.extend(r.value for some in reader.poll(2000).values() for r in some) or len(got) >= 6, "all"
        )
    finally:
        reader.close()
    assert sorted(got) == RECORDS
    to = ("--bootstrap-server", proxy.bootstrap, "--topic", topic, "--from-beginning", "--max-messages", "6")
    done = cluster.tool("kafka-console-consumer", *to, "--timeout-ms", "60000")
    assert sorted(done.stdout.encode().splitlines()) == RECORDS, done.stderr


def test_oauthbearer_by_client_credentials(
    cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], oidc: OidcServer
) -> None:
    """One token serves all connections; the brokers check its signature, issuer and audience."""
    before = oidc.asked
    arguments = ["--sasl", "OAUTHBEARER", "--oauth-token-url", oidc.token_url, "--sasl-username", oidc.client]
    proxy = secure_kproxy(
        *arguments, "--oauth-scope", "produce", "--oauth-extensions", "traceId=7", KPROXY_SASL_PASSWORD=CLIENT_SECRET
    )
    works(cluster, proxy)
    assert oidc.asked == before + 1
    proxy.stop()
    failing = secure_kproxy(*arguments, KPROXY_SASL_PASSWORD=WRONG, ready=False)
    wait_until(lambda: "answers 401 (invalid_client); check the client id and secret" in failing.log, "the reason")
    asked = oidc.asked
    for _ in range(5):
        refused(failing)
    assert oidc.asked == asked


def test_oauthbearer_with_a_token_command(
    cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], oidc: OidcServer, tmp_path: Path
) -> None:
    command = (
        f"curl -s -u {oidc.client}:{CLIENT_SECRET} -d grant_type=client_credentials -d scope=produce {oidc.token_url}"
    )
    script = tmp_path / "token command"
    script.write_text(
        f'#!/bin/sh\necho run >> {tmp_path}/runs\n{command} | sed \'s/.*"access_token": *"//; s/".*//\'\n'
    )
    script.chmod(0o700)
    works(cluster, secure_kproxy("--sasl", "OAUTHBEARER", "--oauth-token-command", f"'{script}' once"))
    assert (tmp_path / "runs").read_text().split() == ["run"]


@needs_kdc
@pytest.mark.parametrize("way", ["keytab", "ticket"])
def test_gssapi(cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], kdc: Kdc, way: str, tmp_path: Path) -> None:
    """The principal that the KDC is asked for has the advertised host, whatever is dialled."""
    if way == "keytab":
        arguments = ["--kerberos-keytab", str(kdc.keytab("alice")), "--sasl-username", "alice"]
        environment = kdc.environment
    else:
        arguments, environment = [], {**kdc.environment, "KRB5CCNAME": str(tmp_path / "cache")}
        kdc.run("kinit", "alice", input=KEYTAB_PASSWORD, **environment)
    asked = len(kdc.log.read_text())
    works(cluster, secure_kproxy("--sasl", "GSSAPI", *arguments, **environment))
    for node in cluster.node_ids:
        assert f"for kafka/kafka-{node}.cluster.internal@" in kdc.log.read_text()[asked:]


# Sessions that last longer than a login (KIP-368)


@pytest.mark.parametrize(
    "seconds", [pytest.param(22, marks=pytest.mark.matrix), pytest.param(60, marks=pytest.mark.soak)]
)
def test_sessions_outlast_logins_of_ten_seconds(
    cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], oidc: OidcServer, tmp_path: Path, seconds: float
) -> None:
    """Brokers close a connection whose login is over. No client is to notice: not one connection is opened anew, and
    every record arrives once and in order. Of librdkafka and Java, by password and by token.
    """
    by_password = secure_kproxy("--sasl", SHORT, "--sasl-username", USER, KPROXY_SASL_PASSWORD=PASSWORD)
    by_token = secure_kproxy(
        *("--sasl", "OAUTHBEARER", "--oauth-token-url", oidc.token_url, "--oauth-scope", "produce"),
        *("--sasl-username", oidc.client + HURRIED),
        KPROXY_SASL_PASSWORD=CLIENT_SECRET,
    )
    proxies = (by_password, by_token)
    told: list[KafkaError] = []
    topics = [create_topic(cluster.direct_bootstrap, 2, 1) for _ in proxies]
    asked = oidc.asked
    with (
        Flow(by_password.bootstrap, topics[0], 2, error_cb=told.append) as flow,
        JavaFlow(cluster.programs, by_token.bootstrap, topics[1], tmp_path) as java,
    ):

        def connections() -> list[float]:
            totals = [proxy.metric("kproxy_sessions_total") for proxy in proxies]
            return totals + [proxy.metric("kproxy_sessions_open") for proxy in proxies]

        for again in (False, True, True):  # a machine may be too busy to log in within the last second of a lifetime
            late = again
            before = connections()
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                flow.wait_flowing()
                java.wait_flowing()
            if connections() == before:
                break
        assert connections() == before
    assert late or not told
    assert oidc.asked > asked
    for proxy in proxies:
        wait_logged(proxy, "SASL: logged in again, for ")
    assert late or not [line for proxy in proxies for line in proxy.log.splitlines() if "WARNING" in line]


def test_a_password_that_is_no_good_any_more(
    cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], tmp_path: Path
) -> None:
    """The session ends, with one line and counted; with the new password the client is back."""
    user, file = unique("user"), tmp_path / "password"
    file.write_text(PASSWORD)
    set_password(cluster, SHORT, user, PASSWORD)
    proxy = secure_kproxy("--sasl", SHORT, "--sasl-username", user, "--sasl-password-file", str(file))
    with RawClient(proxy.bootstrap) as client:
        assert client.works()
        set_password(cluster, SHORT, user, PASSWORD + "-new")
        assert client.wait_closed()
    wait_until(lambda: proxy.metric("kproxy_refused_total", side="upstream", reason="sasl") == 1, "it is counted")
    (line,) = [line for line in proxy.log.splitlines() if "closed a connection to the bootstrap server" in line]
    assert "SASL: the broker refused the login" in line
    file.write_text(PASSWORD + "-new")
    assert answers(proxy)


def test_a_client_that_logs_in_too(cluster: DevCluster, secure_kproxy: Callable[..., Kproxy]) -> None:
    proxy = with_plain(secure_kproxy)
    with RawClient(proxy.bootstrap) as client:
        assert client.works()
        client.send(17, 1, b"\0\5PLAIN")
        assert client.wait_closed()
    wait_until(lambda: "remove the credentials from the client" in proxy.log, "the advice")
    assert proxy.metric("kproxy_refused_total", side="client", reason="client-logs-in") == 1
    works(cluster, proxy)


# Where the secrets are


def test_a_client_properties_of_javas(
    cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], tmp_path: Path
) -> None:
    """The very file with which Kafka's own tool logs in, and whose servers that cannot use."""
    file = tmp_path / "client.properties"
    jaas = f'{SECURITY}.scram.ScramLoginModule required \nusername="{USER}" password="{in_jaas(PASSWORD)}";'
    escaped = jaas.replace("\\", "\\\\").replace("\n", "\\\n  ").replace("ª", "\\u00aa")
    file.write_text(
        f"# as it is\nbootstrap.servers = {cluster.bootstrap}\nsecurity.protocol: SASL_PLAINTEXT\n"
        f"sasl.mechanism SCRAM-SHA-512\nsasl.jaas.config={escaped}\n"
        "key.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
    )
    java = ("--bootstrap-server", str(cluster.listener(TRUTHFUL)[1]), "--command-config", str(file))
    done = cluster.tool("kafka-topics", *java, "--list")
    assert done.returncode == 0, done.stderr
    works(cluster, secure_kproxy("--client-config", str(file)))


def test_sasl_ssl(
    cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], tmp_path: Path, authority: Authority
) -> None:
    """TLS first, with the advertised names, and the login within."""
    file = tmp_path / "client.properties"
    servers = ",".join(str(address) for address in cluster.listener(ENCRYPTED).values())
    jaas = f'{SECURITY}.scram.ScramLoginModule required username="{USER}" password="{in_jaas(PASSWORD)}";'
    file.write_text(
        f"bootstrap.servers={servers}\nsecurity.protocol=SASL_SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.pem}\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=" + jaas.replace("\\", "\\\\") + "\n",
        "utf-8",
    )
    works(cluster, secure_kproxy("--client-config", str(file), bootstrap=servers))


def test_a_password_that_changes(cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], tmp_path: Path) -> None:
    """A file is read for each login; a command is run again when its password is refused."""
    user, file = unique("user"), tmp_path / "password"
    passwords = [f"{PASSWORD}-{number}" for number in range(2)]

    def change(password: str) -> None:
        file.write_text(password + "\n")
        set_password(cluster, "SCRAM-SHA-256", user, password)

    change(passwords[0])
    login = ("--sasl", "SCRAM-SHA-256", "--sasl-username", user)
    by_file = secure_kproxy(*login, "--sasl-password-file", str(file))
    by_command = secure_kproxy(*login, "--sasl-password-command", f"cat {file}")
    for proxy in (by_file, by_command):
        works(cluster, proxy)
    change(passwords[1])
    for proxy in (by_file, by_command):
        wait_until(lambda proxy=proxy: answers(proxy), "a login with the new password")


def answers(proxy: Kproxy) -> bool:
    """Whether a connection that is opened now gets through."""
    try:
        with RawClient(proxy.bootstrap) as client:
            return client.works()
    except (OSError, EOFError):
        return False


def refused(proxy: Kproxy) -> None:
    """A client's connection is closed at once."""
    with RawClient(proxy.bootstrap) as client:
        client.send(18, 0, b"")
        assert client.wait_closed()


# What goes wrong


def test_a_wrong_password_is_not_tried_again_and_again(
    cluster: DevCluster, secure_kproxy: Callable[..., Kproxy], tmp_path: Path
) -> None:
    """Clients are refused within two seconds, brokers hear of it once in a while; the log says it in one line."""
    file = tmp_path / "password"
    file.write_text(WRONG)
    before = failed_logins(cluster)
    login = ("--sasl", "SCRAM-SHA-256", "--sasl-username", USER, "--sasl-password-file", str(file))
    proxy = secure_kproxy(*login, ready=False)
    wait_until(lambda: "no bootstrap server answers" in proxy.log, "the first attempt")
    for _ in range(4):
        refused(proxy)
    assert 1 <= failed_logins(cluster) - before <= 3
    line = next(line for line in proxy.log.splitlines() if "no bootstrap server answers" in line)
    assert "SASL: the broker refused the login" in line
    assert line.endswith("check sasl-username and the password; trying again")
    assert "SASL: the broker refused the login" in proxy.get("/readyz")[1]
    assert proxy.status()["login_refused"] is True
    assert proxy.metric("kproxy_upstream_dial_failures_total", node="bootstrap", reason="sasl") >= 4
    file.write_text(PASSWORD)  # other credentials are tried at once
    assert answers(proxy)
    proxy.wait_ready()
    assert proxy.status()["login_refused"] is False


def test_a_command_does_not_wait_for_a_wrong_password(cluster: DevCluster) -> None:
    """Waiting is of no use, so `kproxy exec` says it long before its timeout."""
    login = ("--sasl", "PLAIN", "--sasl-username", "plain", "--timeout", "1h")
    command = [sys.executable, "-m", "kproxy", "exec", "-b", cluster.bootstrap, *login, "--", "echo", "ran"]
    environment = {**os.environ, "KPROXY_SASL_PASSWORD": WRONG}
    done = run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (done.returncode, done.stdout) == (125, "")
    said = next(line for line in done.stderr.splitlines() if "no bootstrap server answers: " in line)
    assert "SASL: the broker refused the login" in said
    assert "; check sasl-username and the password" in said
    assert done.stderr.splitlines()[-1] == "kproxy: the command is not run; the lines above say why"
    assert WRONG not in done.stderr


def failed_logins(cluster: DevCluster) -> int:
    """As the brokers' own logs have them."""
    logs = (cluster.directory / f"node-{node}" / "kafka.log" for node in cluster.node_ids)
    return sum(log.read_text().count("Failed authentication with") for log in logs)


def test_a_mechanism_that_is_not_enabled(secure_kproxy: Callable[..., Kproxy]) -> None:
    proxy = secure_kproxy("--sasl", "AWS_MSK_IAM", ready=False)
    wait_until(lambda: "SASL: the broker has not enabled AWS_MSK_IAM: set sasl to one of" in proxy.log, "the reason")
    wait_logged(proxy, "SCRAM-SHA-512")


def test_a_listener_without_sasl(cluster: DevCluster, secure_kproxy: Callable[..., Kproxy]) -> None:
    login = ("--sasl", "PLAIN", "--sasl-username", "plain")
    proxy = secure_kproxy(*login, KPROXY_SASL_PASSWORD=PASSWORD, bootstrap=cluster.direct_bootstrap, ready=False)
    wait_until(lambda: "SASL: the broker's listener does not support SASL: remove sasl" in proxy.log, "the reason")


def test_a_password_that_cannot_be_had(secure_kproxy: Callable[..., Kproxy], tmp_path: Path) -> None:
    login = ("--sasl", "PLAIN", "--sasl-username", "plain")
    proxy = secure_kproxy(*login, "--sasl-password-command", "sh -c 'exit 3'", ready=False)
    wait_until(lambda: "SASL: the command 'sh' ended with code 3" in proxy.log, "the reason")
    proxy.stop()
    os.environ.pop("KPROXY_SASL_PASSWORD", None)
    proxy = secure_kproxy(*login, "--sasl-password-file", str(tmp_path / "none"), ready=False)
    wait_until(lambda: "none cannot be read: No such file or directory" in proxy.log, "the reason")


# What kproxy says to brokers


def connect(cluster: DevCluster) -> socket.socket:
    connection = socket.create_connection((cluster.dial[1].host, cluster.dial[1].port))
    connection.setblocking(False)
    return connection


async def log_in(cluster: DevCluster, exchange: SaslExchange) -> SaslSession:
    with connect(cluster) as connection:
        result = await authenticate(ConnectionChannel(Stream(connection)), exchange, 10)
        assert len(await scout_nodes(connection)) == 2
        return result


async def scout_nodes(connection: socket.socket) -> tuple[Endpoint, ...]:
    """What the broker tells those that are logged in."""
    ask = ConnectionChannel(Stream(connection))
    return (await questions.nodes_question(await questions.ask_versions(ask)).ask(ask)).nodes


@pytest.mark.parametrize("mechanism", ["PLAIN", *KINDS])
async def test_raw_tokens_and_every_version(cluster: DevCluster, mechanism: str) -> None:
    """Brokers before 1.0 had SaslHandshake v0 alone; later ones still take it."""

    def login() -> Mechanism:
        return Plain("plain", PASSWORD) if mechanism == "PLAIN" else Scram(mechanism, USER, PASSWORD)

    for versions in ({17: 0}, {17: 1, 36: 0}, {17: 1, 36: 1}, {17: 1, 36: 2}):
        result = await log_in(cluster, SaslExchange(login(), versions))
        assert result.versions == versions
        lifetime = SHORT_MS if mechanism == SHORT else LIFETIME_MS
        assert result.lifetime_ms == (lifetime if versions.get(36) else 0)
    assert (await log_in(cluster, SaslExchange(login()))).versions == {17: 1, 36: 2}


async def test_again_on_the_same_connection(cluster: DevCluster) -> None:
    """KIP-368: between other requests, whose answers come in their turn."""
    with connect(cluster) as connection:
        ask = ConnectionChannel(Stream(connection))
        first = await authenticate(ask, SaslExchange(Scram("SCRAM-SHA-512", USER, PASSWORD)), 10)
        await scout_nodes(connection)
        exchange = SaslExchange(Scram("SCRAM-SHA-512", USER, PASSWORD), first.versions, first_id=2**31 - 9)
        ask.send(encode_request(METADATA, 1, 5, struct.pack(">i", 0)))
        ask.send(exchange.first_request())
        assert (await ask.receive(10))[:4] == struct.pack(">i", 5)
        again = exchange.next_request(await ask.receive(10))
        while again is not None:
            again = exchange.next_request(await ask.request(again, 10))
        assert exchange.result == first
        await scout_nodes(connection)
