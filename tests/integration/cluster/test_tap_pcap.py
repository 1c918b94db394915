"""`kproxy tap --pcap`: what Wireshark reads in the file, and what nobody finds in it."""

from __future__ import annotations

import base64
import json
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.kafka_python import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
)
from tests.harness.clients.rawclient import METADATA
from tests.harness.clients.spark import PASSWORD
from tests.harness.process import Kproxy, wait_until
from tests.harness.programs.shark import Dissected, dissect, needs_tshark
from tests.harness.topics import create_topic, produce, read, read_topic, unique, values
from tests.unit.kafka_frames import request

pytestmark = [pytest.mark.integration, needs_tshark]

PORTS = range(1, 65536)
_LOOKS = 8
RECORD = f"record-{uuid4().hex}".encode()
CONFIGURED = "7654321"  # a value of a topic's configuration
NOTED = f"noted-{uuid4().hex}"  # what an application commits beside its offset
# By mechanism, the password. The users of SCRAM are called as their mechanism.
USERS = {"PLAIN": PASSWORD, **{name: f"secret-{uuid4().hex}" for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")}}
NEW_PASSWORD = f"fresh-{uuid4().hex}"


@contextmanager
def capturing(proxy: Kproxy, file: Path, *arguments: str, out: Path | None = None) -> Iterator[list[str]]:
    """It writes while this lasts, and ends by Ctrl-C. What it says is in the list then."""
    name = "-" if out is not None else str(file)
    command = [sys.executable, "-m", "kproxy", "tap", "--admin", proxy.admin, "--pcap", name, *arguments]
    said: list[str] = []
    target = (out or file.with_suffix(".out")).open("wb")
    process = subprocess.Popen(command, stdout=target, stderr=subprocess.PIPE, text=True)

    def there() -> bool:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        return (out or file).exists() and (out or file).stat().st_size > 0

    try:
        wait_until(there, "the capture has begun")
        yield said
        sizes: list[int] = []

        def quiet() -> bool:  # what has passed comes within two tenths of a second
            sizes.append((out or file).stat().st_size)
            return len(sizes) > _LOOKS and len(set(sizes[-_LOOKS:])) == 1

        wait_until(quiet, "the file grows no more")
    finally:
        process.send_signal(signal.SIGINT)
        said.append(process.communicate(timeout=30)[1])
        target.close()
    assert "Traceback" not in said[0], said[0]


def complaints(packets: list[Dissected]) -> list[Dissected]:
    """What Wireshark finds wrong in versions that it knows and reads rightly."""
    return [one for one in packets if one.complaints and one.known and not one.misread]


def frames_of(packets: list[Dissected]) -> set[tuple[str, str]]:
    return {(one.api, one.kind) for one in packets if one.known}


def has(file: Path, *secrets: bytes | str) -> list[bytes]:
    """Which of these, or their base64, are in the file."""
    raw = file.read_bytes()
    texts = [one if isinstance(one, bytes) else one.encode() for one in secrets]
    return [one for one in texts if one in raw or base64.b64encode(one).rstrip(b"=") in raw]


@pytest.fixture
def proxy(cluster: DevCluster, own_kproxy: Callable[..., Kproxy]) -> Kproxy:
    return own_kproxy(cluster.bootstrap)


def test_what_an_older_client_does(cluster: DevCluster, proxy: Kproxy, tmp_path: Path) -> None:
    """In versions that each Wireshark of the last years knows: nothing is malformed, and everything is there."""
    topic, group = create_topic(cluster.direct_bootstrap), unique("group")
    file = tmp_path / "kafka.pcapng"
    config = {"bootstrap_servers": proxy.bootstrap, "api_version": (2, 3)}
    with capturing(proxy, file) as said:
        producer = KafkaProducer(**config)
        for number in range(30):
            producer.send(topic, RECORD, partition=number % 3)
        producer.flush(60)
        producer.close(30)
        reader = KafkaConsumer(topic, **config, group_id=group, auto_offset_reset="earliest")
        got: list[bytes] = []

        def complete() -> bool:
            got.extend(one.value for some in reader.poll(timeout_ms=2000).values() for one in some)
            return len(got) >= 30

        wait_until(complete, "all records")
        reader.commit()
        reader.close()
    packets = dissect(file, PORTS)
    assert not complaints(packets)
    both = ("Request", "Response")
    for api in ("Metadata", "Produce", "Fetch", "FindCoordinator", "OffsetCommit", "Offsets", "JoinGroup"):
        assert {(api, kind) for kind in both} <= {(one.api, one.kind) for one in packets}, api
    assert {("Produce", "Request"), ("Fetch", "Response"), ("Metadata", "Response")} <= frames_of(packets)
    assert [one for one in packets if one.api == "Produce" and "are left out here" in one.comment]
    assert not has(file, RECORD, "cluster.internal")
    assert topic.encode() in file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "wireshark -d tcp.port==" in said[0]


def test_what_a_client_of_today_does(cluster: DevCluster, proxy: Kproxy, tmp_path: Path) -> None:
    """Wireshark 4.0 does not know most of these versions. Those that it knows are as they should be."""
    topic, group = create_topic(cluster.direct_bootstrap), unique("group")
    file = tmp_path / "kafka.pcapng"
    with capturing(proxy, file):
        produce(proxy.bootstrap, topic, [RECORD] * 12)
        produce(proxy.bootstrap, topic, [RECORD * 20_000])
        reader = Consumer({
            "bootstrap.servers": proxy.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "client.id": "today",
        })  # fmt: skip
        try:
            reader.subscribe([topic])
            assert len(read(reader, 13)) == 13
            reader.commit(asynchronous=False)
        finally:
            reader.close()
        admin = KafkaAdminClient(bootstrap_servers=proxy.bootstrap)
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": CONFIGURED})])
        admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        admin.close()
    packets = dissect(file, PORTS)
    assert not complaints(packets)
    assert {"ApiVersions", "Metadata", "Produce", "Fetch", "OffsetCommit"} <= {one.api for one in packets}
    assert ("ApiVersions", "Request") in frames_of(packets)
    assert not [one for one in packets if "not shown" in one.comment], "an API without a definition"
    assert not has(file, RECORD, CONFIGURED, "cluster.internal")
    assert file.stat().st_size < 300_000


def test_filters_and_a_pipe(cluster: DevCluster, own_kproxy: Callable[..., Kproxy], tmp_path: Path) -> None:
    proxy = own_kproxy(cluster.bootstrap)
    topic = create_topic(cluster.direct_bootstrap)
    out = tmp_path / "piped.pcapng"
    with capturing(proxy, tmp_path / "none", "--api", "Metadata", out=out):
        produce(proxy.bootstrap, topic, [RECORD])
    assert {one.api for one in dissect(out, PORTS)} == {"Metadata", ""}
    assert len(values(read_topic(cluster.direct_bootstrap, topic))) == 1


def test_a_reader_that_reads_nothing(cluster: DevCluster, proxy: Kproxy) -> None:
    """What waits for it is bounded in bytes, and it hears how many frames it has missed."""
    host, _, port = proxy.admin.rpartition(":")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((host, int(port)))
        slow.sendall(b"GET /tap/frames HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        to, _, at = proxy.bootstrap.rpartition(":")
        asked = request(METADATA, 1, body=struct.pack(">i", 0), client_id="x" * 30_000)
        with socket.create_connection((to, int(at))) as client, client.makefile("rb") as answers:
            for _ in range(1_500):  # 45 MB
                client.sendall(asked)
                answers.read(struct.unpack(">i", answers.read(4))[0])
        assert proxy.rss < 200 * 1024 * 1024
        received = b""
        slow.settimeout(60)
        while b'{"lost": ' not in received:
            data = slow.recv(1 << 20)
            assert data, "it was let go before it heard what it has missed"
            received = received[-100:] + data
    assert "Traceback" not in proxy.log


def test_a_file_that_exists(cluster: DevCluster, own_kproxy: Callable[..., Kproxy], tmp_path: Path) -> None:
    file = tmp_path / "kafka.pcapng"
    file.write_text("mine")
    command = [sys.executable, "-m", "kproxy", "tap", "--admin", "127.0.0.1:1", "--pcap", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr == f"kproxy: --pcap: {file} exists: give the name of a new file, or remove it\n"
    assert file.read_text() == "mine"


# Logins


@pytest.fixture(scope="module")
def scram_users(cluster: DevCluster) -> None:
    """The first user of each mechanism is made directly."""
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap})
    users = [upsert(name, password) for name, password in USERS.items() if name != "PLAIN"]
    for done in admin.alter_user_scram_credentials(users).values():
        done.result(30)


def upsert(mechanism: str, password: str) -> UserScramCredentialUpsertion:
    kind = ScramMechanism.SCRAM_SHA_256 if mechanism.endswith("256") else ScramMechanism.SCRAM_SHA_512
    return UserScramCredentialUpsertion(mechanism, ScramCredentialInfo(kind, 4096), password.encode(), b"the-salt")


@pytest.mark.usefixtures("scram_users")
def test_passwords_are_nowhere(cluster: DevCluster, login_kproxy: Kproxy, tmp_path: Path) -> None:
    """Of clients that log in, and of one that gives a user a new password."""
    proxy = login_kproxy
    topic = create_topic(cluster.direct_bootstrap, replicas=1)
    file = tmp_path / "kafka.pcapng"
    with capturing(proxy, file):
        for mechanism, password in USERS.items():
            user = "spark" if mechanism == "PLAIN" else mechanism
            login = {
                "bootstrap.servers": proxy.bootstrap, "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password,
            }  # fmt: skip
            producer = Producer(login)
            producer.produce(topic, RECORD)
            assert producer.flush(60) == 0
            KafkaAdminClient(
                bootstrap_servers=proxy.bootstrap, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism,
                sasl_plain_username=user, sasl_plain_password=password,
            ).close()  # fmt: skip
        admin = AdminClient(login)
        for done in admin.alter_user_scram_credentials([upsert("SCRAM-SHA-256", NEW_PASSWORD)]).values():
            done.result(30)
    packets = dissect(file, PORTS)
    assert not complaints(packets)
    seen = {(one.api, one.kind) for one in packets}
    assert {("SaslHandshake", "Request"), ("SaslAuthenticate", "Request"), ("SaslAuthenticate", "Response")} <= seen
    assert not has(file, *USERS.values(), NEW_PASSWORD, RECORD, "the-salt", "n,,n=", "cluster.internal")
    assert b"SCRAM-SHA-512" in file.read_bytes()  # the mechanism, and the user of this name
    # The lines that leave kproxy have been emptied before.
    assert proxy.metric("kproxy_requests_total", api="SaslAuthenticate") > 0


def test_what_leaves_kproxy(login_kproxy: Kproxy) -> None:
    """The lines themselves, as GET /tap/frames has them."""
    proxy = login_kproxy
    lines: list[bytes] = []
    command = ["curl", "-sN", f"http://{proxy.admin}/tap/frames"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as curl:
        assert curl.stdout is not None
        try:
            assert curl.stdout.readline() == b"\n"
            AdminClient({
                "bootstrap.servers": proxy.bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
                "sasl.username": "spark", "sasl.password": USERS["PLAIN"],
            }).list_topics(timeout=30)  # fmt: skip
            while not any(b'"api":"Metadata"' in line for line in lines):
                lines.append(curl.stdout.readline())
        finally:
            curl.terminate()
    told = [json.loads(line) for line in lines if line.strip()]
    tokens = [one for one in told if one["api"] == "SaslAuthenticate" and one["from"] == "client"]
    assert tokens
    assert all(one["left_out"] > len(USERS["PLAIN"]) for one in tokens)
    assert not [one for one in told if USERS["PLAIN"].encode() in base64.b64decode(one["frame"])]
