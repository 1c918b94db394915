"""TLS to real brokers and to real clients, with keys and stores as their users make them.

The brokers' names resolve nowhere, and their certificates have these names: what is dialled is another address.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

from kproxy.dev.devcluster import DevCluster, ListenerSpec
from tests.harness.clients.kafka_python import KafkaConsumer, KafkaProducer
from tests.harness.clients.rawclient import METADATA, RawClient
from tests.harness.process import Kproxy, wait_until
from tests.harness.tls import Authority, keytool
from tests.harness.topics import create_topic, local_addresses, note_failures, read, read_topic, unique, values

pytestmark = pytest.mark.integration

BROKERS = "*.cluster.internal"
PASSWORD = "a-password-of-brokers"
STORE_PASSWORD = "geheim-geheim"
RECORDS = [b"record-%d" % number for number in range(6)]
Start = Callable[..., Kproxy]


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[DevCluster]:
    """Two brokers. MUTUAL requires client certificates; EXPIRED and STRANGER have certificates that are no good."""

    def identity(listener: str, store: Path) -> dict[str, str]:
        prefix = f"listener.name.{listener.lower()}.ssl"
        return {
            f"{prefix}.keystore.location": str(store),
            f"{prefix}.keystore.type": "PKCS12",
            f"{prefix}.keystore.password": PASSWORD,
        }

    good = authority.pkcs12(PASSWORD, BROKERS, "127.0.0.1", file="broker")
    expired = authority.pkcs12(PASSWORD, BROKERS, "127.0.0.1", expired=True, file="expired")
    stranger = Authority(authority.directory, "stranger").pkcs12(PASSWORD, BROKERS, "127.0.0.1", file="stranger")
    properties = {
        **identity("CLIENT", good),
        **identity("MUTUAL", good),
        **identity("EXPIRED", expired),
        **identity("STRANGER", stranger),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.location": str(authority.pem),
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "message.max.bytes": "20000000",
        "replica.fetch.max.bytes": "20000000",
    }
    advertised = "kafka-{id}.cluster.internal:{port}"
    listeners = [ListenerSpec(name, advertised, "SSL") for name in ("MUTUAL", "EXPIRED", "STRANGER")]
    with DevCluster(brokers=2, client_protocol="SSL", extra_listeners=listeners, properties=properties) as made:
        yield made


def bootstrap(cluster: DevCluster, listener: str) -> str:
    return ",".join(str(address) for address in cluster.listener(listener).values())


@pytest.fixture(scope="module")
def kproxy(cluster: DevCluster, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kproxy]:
    """TLS to the brokers, plaintext to the clients."""
    directory = tmp_path_factory.mktemp("kproxy-tls")
    args = ("--tls", "--tls-ca", str(authority.pem))
    with Kproxy(directory, cluster.bootstrap, *args, forbidden=["cluster.internal"]) as made:
        yield made


# TLS to the brokers


def test_which_address_is_which_broker_is_learned_through_tls(cluster: DevCluster, kproxy: Kproxy) -> None:
    for node, address in cluster.dial.items():
        shown = kproxy.node(node)
        assert (shown["route"], shown["dial"], shown["problem"]) == ("learned", str(address), None)


def test_confluent(cluster: DevCluster, kproxy: Kproxy) -> None:
    works_with_confluent(cluster, kproxy, {})


def test_kafka_python(cluster: DevCluster, kproxy: Kproxy) -> None:
    works_with_kafka_python(cluster, kproxy, {})


def test_java(cluster: DevCluster, kproxy: Kproxy, tmp_path: Path) -> None:
    works_with_java(cluster, kproxy, tmp_path, "")


def test_large_messages(cluster: DevCluster, kproxy: Kproxy) -> None:
    topic = create_topic(cluster.direct_bootstrap, partitions=2, replicas=2, max_message_bytes="20000000")
    large = [bytes([number]) * 10_000_000 for number in range(4)]
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": kproxy.bootstrap, "message.max.bytes": 20_000_000})
    for number, record in enumerate(large):
        producer.produce(topic, record, partition=number % 2, on_delivery=note_failures(failed))
    assert producer.flush(60) == 0
    assert not failed
    more = {"fetch_message_max_bytes": 20_000_000, "receive_message_max_bytes": 200_000_000}
    assert values(read_topic(kproxy.bootstrap, topic, partitions=2, **more)) == large


def test_mutual_tls_with_stores_of_java(
    cluster: DevCluster, authority: Authority, own_kproxy: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trust store as keytool makes them by default, and the key in a JKS store."""
    trust, store, pkcs12_store = tmp_path / "trust.p12", tmp_path / "client.jks", tmp_path / "client.p12"
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", authority.pem,
            "-keystore", trust, "-storepass", STORE_PASSWORD)  # fmt: skip
    made = authority.pkcs12(STORE_PASSWORD, "client-7")
    made.rename(pkcs12_store)
    keytool("-importkeystore", "-srckeystore", pkcs12_store, "-srcstorepass", STORE_PASSWORD,
            "-destkeystore", store, "-deststoretype", "JKS", "-deststorepass", STORE_PASSWORD)  # fmt: skip
    monkeypatch.setenv("KPROXY_TLS_CA_PASSWORD", STORE_PASSWORD)
    monkeypatch.setenv("KPROXY_TLS_KEY_PASSWORD", STORE_PASSWORD)
    for cert in (store, pkcs12_store):
        args = ("--tls", "--tls-ca", str(trust), "--tls-cert", str(cert), "--log-level", "debug")
        proxy = own_kproxy(bootstrap(cluster, "MUTUAL"), *args)
        works_with_confluent(cluster, proxy, {})
        shown = proxy.log + proxy.get("/status")[1] + proxy.get("/metrics")[1]
        assert STORE_PASSWORD not in shown


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_a_trust_store_of_several_authorities(
    cluster: DevCluster, authority: Authority, own_kproxy: Start, tmp_path: Path, store_type: str
) -> None:
    """Without its password, which Java does not need either to read a JKS trust store."""
    trust = tmp_path / "trust"
    for alias, one in (("other", Authority(tmp_path, "other")), ("ours", authority)):
        keytool("-importcert", "-noprompt", "-alias", alias, "-file", one.pem,
                "-keystore", trust, "-storetype", store_type, "-storepass", STORE_PASSWORD)  # fmt: skip
    args = ["--tls", "--tls-ca", str(trust)]
    if store_type == "PKCS12":
        config = tmp_path / "kproxy.yaml"
        config.write_text(f"tls-ca-password: {STORE_PASSWORD}\n")
        args += ["-c", str(config)]
    proxy = own_kproxy(cluster.bootstrap, *args)
    with RawClient(proxy.bootstrap) as client:
        assert client.works()


# What is wrong with a broker


def complaint(proxy: Kproxy, words: str) -> str:
    """The line in which kproxy says it, and no traceback."""
    wait_until(lambda: words in proxy.log, f"kproxy says: {words}\n{proxy.log}")
    return next(line for line in proxy.log.splitlines() if words in line)


def refuses(proxy: Kproxy, reason: str) -> None:
    """A client is closed at once, and the failure is counted."""
    with RawClient(proxy.bootstrap) as client:
        assert not client.works()
    assert proxy.metric("kproxy_upstream_dial_failures_total", reason=reason) > 0


@pytest.mark.parametrize(
    ("listener", "reason", "words"),
    [
        ("EXPIRED", "tls-expired", "TLS: the broker's certificate, or one above it, has expired: renew it"),
        ("STRANGER", "tls-untrusted", "TLS: the broker's certificate is from a CA that kproxy does not trust: set the"),
        (
            "INTERNAL",
            "tls-closed",
            "TLS: the connection was closed during the handshake: its listener may be PLAINTEXT",
        ),
    ],
)
def test_no_tls_with_this_listener(
    cluster: DevCluster, authority: Authority, own_kproxy: Start, listener: str, reason: str, words: str
) -> None:
    address = str(cluster.listener(listener)[1])
    proxy = own_kproxy(address, "--tls", "--tls-ca", str(authority.pem), ready=False)
    assert f"{address}: {words}" in complaint(proxy, words)
    assert words in wait_until(lambda: proxy.get("/readyz")[1], "the admin endpoint answers")
    refuses(proxy, reason)


def test_a_wrong_name(cluster: DevCluster, authority: Authority, own_kproxy: Start) -> None:
    port = cluster.dial[1].port
    proxy = own_kproxy(f"localhost:{port}", "--tls", "--tls-ca", str(authority.pem), ready=False)
    words = f"TLS: the broker's certificate is for {BROKERS}, 127.0.0.1, not for localhost: set the right name"
    complaint(proxy, words)
    refuses(proxy, "tls-name")


@pytest.mark.parametrize("name", ["kafka-2.cluster.internal", "*"])
def test_a_name_for_all_brokers(cluster: DevCluster, authority: Authority, own_kproxy: Start, name: str) -> None:
    servers = ",".join(f"localhost:{address.port}" for address in cluster.dial.values())
    proxy = own_kproxy(servers, "--tls", "--tls-ca", str(authority.pem), "--tls-server-name", name)
    assert [node["problem"] for node in proxy.status()["nodes"]] == [None, None]


def test_insecure_says_so(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(bootstrap(cluster, "EXPIRED"), "--tls", "--tls-insecure")
    assert "WARNING" in complaint(proxy, "--tls-insecure: kproxy checks NO certificate")
    with RawClient(proxy.bootstrap) as client:
        assert client.works()


def test_a_broker_that_requires_a_certificate(cluster: DevCluster, authority: Authority, own_kproxy: Start) -> None:
    """With TLS 1.3 the broker says it after the handshake; its alert may be lost in the reset that follows."""
    proxy = own_kproxy(bootstrap(cluster, "MUTUAL"), "--tls", "--tls-ca", str(authority.pem), ready=False)
    wait_until(lambda: "--tls-cert" in proxy.log, "kproxy says what is missing")
    with RawClient(proxy.bootstrap) as client:
        assert not client.works()
    wait_until(lambda: proxy.metric("kproxy_upstream_dial_failures_total", node="bootstrap") > 0, "it is counted")


def test_a_tls_listener_without_tls(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap, ready=False)
    assert "use --tls" in complaint(proxy, "SSL or SASL_SSL")


# TLS to the clients


def test_what_to_do_about_a_tls_listener_is_a_line_to_paste(cluster: DevCluster, own_kproxy: Start) -> None:
    proxy = own_kproxy(cluster.bootstrap, ready=False)
    line = complaint(proxy, "the listener expects TLS: kproxy run -b ")
    assert line.endswith(" --tls")


@pytest.fixture(scope="module")
def secure(cluster: DevCluster, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kproxy]:
    """TLS on both sides; clients must show a certificate."""
    cert, key = authority.files("localhost", "127.0.0.1")
    ours = ("--client-tls-cert", str(cert), "--client-tls-key", str(key), "--client-tls-ca", str(authority.pem))
    args = ("--tls", "--tls-ca", str(authority.pem), "--advertise", "localhost", *ours)
    with Kproxy(tmp_path_factory.mktemp("kproxy-secure"), cluster.bootstrap, *args) as made:
        yield made


@pytest.fixture(scope="module")
def user(authority: Authority) -> Path:
    """The certificate and key of a client, in one file."""
    return authority.one_file("user-7")


def confluent_tls(authority: Authority, user: Path) -> dict[str, Any]:
    files = {"ssl.certificate.location": str(user), "ssl.key.location": str(user)}
    return {"security.protocol": "SSL", "ssl.ca.location": str(authority.pem), **files}


def test_confluent_with_a_certificate(cluster: DevCluster, secure: Kproxy, authority: Authority, user: Path) -> None:
    works_with_confluent(cluster, secure, confluent_tls(authority, user))


def test_kafka_python_with_a_certificate(cluster: DevCluster, secure: Kproxy, authority: Authority, user: Path) -> None:
    files = {"ssl_cafile": str(authority.pem), "ssl_certfile": str(user), "ssl_keyfile": str(user)}
    works_with_kafka_python(cluster, secure, {"security_protocol": "SSL", **files})


def test_java_with_a_certificate(cluster: DevCluster, secure: Kproxy, authority: Authority, tmp_path: Path) -> None:
    store = authority.pkcs12(STORE_PASSWORD, "user-9")
    works_with_java(
        cluster,
        secure,
        tmp_path,
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority.pem}\n"
        f"ssl.keystore.type=PKCS12\nssl.keystore.location={store}\nssl.keystore.password={STORE_PASSWORD}\n",
    )


def test_a_client_without_a_certificate_or_without_tls(secure: Kproxy, authority: Authority) -> None:
    host, _, port = secure.bootstrap.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 30) as sock,
        authority.client_context().wrap_socket(sock, server_hostname="localhost") as tls,
        pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"),  # in TLS 1.3 it comes after the handshake
    ):
        tls.recv(1)
    complaint(secure, "TLS: the client showed no certificate, which --client-tls-ca requires")
    with RawClient(secure.bootstrap) as client:
        assert not client.works()
    complaint(secure, "the client spoke plaintext; kproxy expects TLS there")
    assert secure.metric("kproxy_refused_total", reason="client-tls-certificate") >= 1
    assert secure.metric("kproxy_refused_total", reason="client-speaks-plaintext") >= 1


def test_a_tls_client_without_client_tls(kproxy: Kproxy, authority: Authority) -> None:
    host, _, port = kproxy.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as sock, pytest.raises(OSError, match=r"(?i)eof|reset"):
        authority.client_context().wrap_socket(sock, server_hostname="localhost")
    assert "--client-tls-cert" in complaint(kproxy, "the client spoke TLS")


# Files that change


class Steady(RawClient):
    """A client with a certificate, on one connection that must never be cut off."""

    def __init__(self, proxy: Kproxy, authority: Authority) -> None:
        super().__init__(proxy.bootstrap)
        try:
            self.socket = authority.client_context("user-7").wrap_socket(self.socket, server_hostname="localhost")
        except OSError:
            self.close()
            raise

    def asks(self) -> bool:
        """Whether a question is answered; False if the connection is closed instead."""
        try:
            return len(self.ask(METADATA, 1, struct.pack(">i", 0))) > 8
        except (OSError, EOFError):
            return False

    @property
    def certificate(self) -> bytes:
        """What kproxy has shown to it."""
        assert isinstance(self.socket, ssl.SSLSocket)
        return self.socket.getpeercert(True) or b""


def replace(path: Path, data: bytes) -> None:
    """As a careful program does it: the file exists at every moment."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    os.replace(new, path)


def test_certificates_change_under_load(
    cluster: DevCluster, authority: Authority, own_kproxy: Start, user: Path, tmp_path: Path
) -> None:
    mine, shown = tmp_path / "upstream.pem", tmp_path / "kproxy.pem"
    replace(mine, authority.one_file("client-7").read_bytes())
    replace(shown, authority.one_file("localhost", "127.0.0.1").read_bytes())
    proxy = own_kproxy(
        bootstrap(cluster, "MUTUAL"), "--tls", "--tls-ca", str(authority.pem), "--tls-cert", str(mine),
        "--client-tls-cert", str(shown), "--client-tls-ca", str(authority.pem), "--advertise", "localhost",
    )  # fmt: skip
    topic = create_topic(cluster.direct_bootstrap, partitions=2, replicas=2)
    failed: list[KafkaError] = []
    dropped: list[KafkaError] = []
    producer = Producer(
        {"bootstrap.servers": proxy.bootstrap, "error_cb": dropped.append, **confluent_tls(authority, user)}
    )
    records = [b"%d" % number for number in range(2000)]

    def produce(part: list[bytes]) -> None:
        for number, record in enumerate(part):  # to both brokers, so that it is connected to both from the first on
            producer.produce(topic, record, partition=number % 2, on_delivery=note_failures(failed))
        assert producer.flush(60) == 0

    def new_client_works() -> bool:
        with Steady(proxy, authority) as client:
            return client.asks()

    produce(records[:500])
    with Steady(proxy, authority) as steady:
        assert steady.asks()

        # A new certificate for clients.
        replace(shown, authority.one_file("localhost", "127.0.0.1").read_bytes())
        produce(records[500:1000])
        with Steady(proxy, authority) as again:
            assert again.asks()
            assert again.certificate != steady.certificate
        assert steady.asks()

        # A new certificate for the brokers, which these do not take: so it is in use.
        cert, key = authority.files("client-7", expired=True)
        replace(mine, cert.read_bytes() + key.read_bytes())
        assert not new_client_works()
        produce(records[1000:1500])
        assert steady.asks()

        # A broken file changes nothing; the one after it does.
        replace(mine, b"broken")
        assert not new_client_works()
        assert f"--tls-cert {mine}: " in complaint(proxy, "new connections use the previous files")
        replace(mine, authority.one_file("client-8").read_bytes())
        assert new_client_works()
        produce(records[1500:])
        assert steady.asks()
    assert not failed
    assert not [error for error in dropped if error.code() == KafkaError._TRANSPORT]
    assert values(read_topic(cluster.direct_bootstrap, topic, partitions=2)) == sorted(records)


# Clients


def works_with_confluent(cluster: DevCluster, proxy: Kproxy, config: dict[str, Any]) -> None:
    config = {"bootstrap.servers": proxy.bootstrap, **config}
    brokers = AdminClient(config).list_topics(timeout=30).brokers
    assert {one.id: f"{one.host}:{one.port}" for one in brokers.values()} == local_addresses(proxy)
    assert set(brokers) == set(cluster.node_ids)
    topic = create_topic(cluster.direct_bootstrap, partitions=2, replicas=2)
    failed: list[KafkaError] = []
    producer = Producer(config)
    for number, record in enumerate(RECORDS):
        producer.produce(topic, record, partition=number % 2, on_delivery=note_failures(failed))
    assert producer.flush(60) == 0
    assert not failed
    reader = Consumer({**config, "group.id": unique("group"), "auto.offset.reset": "earliest"})
    try:
        reader.subscribe([topic])
        assert values(read(reader, len(RECORDS))) == RECORDS
    finally:
        reader.close()


def works_with_kafka_python(cluster: DevCluster, proxy: Kproxy, config: dict[str, str]) -> None:
    topic = create_topic(cluster.direct_bootstrap, partitions=2, replicas=2)
    config = {"bootstrap_servers": proxy.bootstrap, **config}
    producer = KafkaProducer(**config)
    reader = KafkaConsumer(topic, **config, group_id=unique("group"), auto_offset_reset="earliest")
    try:
        for number, record in enumerate(RECORDS):
            producer.send(topic, record, partition=number % 2)
        producer.flush(60)
        got: list[bytes] = []

        def complete() -> bool:
            got.extend(one.value for some in reader.poll(timeout_ms=2000).values() for one in some)
            return len(got) >= len(RECORDS)

        wait_until(complete, "all records")
        assert sorted(got) == RECORDS
    finally:
        reader.close()
        producer.close(30)


def works_with_java(cluster: DevCluster, proxy: Kproxy, directory: Path, config: str) -> None:
    topic = create_topic(cluster.direct_bootstrap, partitions=2, replicas=2)
    file = directory / "client.properties"
    file.write_text(config)
    where = ("--bootstrap-server", proxy.bootstrap, "--topic", topic, "--command-config", str(file))
    lines = "".join(f"{record.decode()}\n" for record in RECORDS)
    done = cluster.tool("kafka-console-producer", *where, input=lines)
    assert done.returncode == 0, done.stderr
    until = ("--from-beginning", "--max-messages", str(len(RECORDS)), "--timeout-ms", "60000")
    done = cluster.tool("kafka-console-consumer", *where, *until)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.encode().splitlines()) == RECORDS
