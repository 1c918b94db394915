"""`kproxy doctor` against real brokers: TLS, logins, rights, and the cluster's own troubles.

What the advertised addresses do is in tests/scenarios/test_doctor.py. Here all of them work from this machine, so that
the verdict is about what comes after the connection.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    ResourceType,
)
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from kproxy.base.faults import Fault
from kproxy.dev.devcluster import DevCluster, ListenerSpec
from kproxy.protocol.wire.api import ApiKey
from tests.harness import acls
from tests.harness.process import free_window, wait_until
from tests.harness.servers import peers
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer, Road
from tests.harness.tls import Authority
from tests.harness.topics import create_topic, produce, read_topic, unique

pytestmark = pytest.mark.integration

STORE_PASSWORD = "changeit"
USER, PASSWORD = "alice", f"secret-{uuid4().hex}"
TLS = ("GOOD", "NAMED", "EXPIRED", "FUTURE", "STRANGER", "MUTUAL")
# Debian keeps it where only root looks.
HAPROXY = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
RECORDS = [b"record-%d" % number for number in range(6)]


def store(authority: Authority, name: str, *names: str, **when: bool) -> Path:
    leaf = authority.leaf(*names, **when)
    key: Any = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    own, *above = (load_pem_x509_certificate(pem.bytes()) for pem in leaf.cert_chain_pems)
    how = BestAvailableEncryption(STORE_PASSWORD.encode())
    path = authority.directory / f"{name}.p12"
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"broker", key, own, above, how))
    return path


class Counter(Road):
    """The only way to the listener LOGIN. `logins` counts the tokens of logins that went along it."""

    logins = 0

    def _pass_on(self, connection: socket.socket) -> None:
        host, _, port = self.target().rpartition(":")
        with socket.create_connection((host, int(port))) as far:
            ends = {connection: far, far: connection}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    self.logins += end is connection and data[4:6] == struct.pack(">h", ApiKey.SASL_AUTHENTICATE)
                    ends[end].sendall(data)


@pytest.fixture(scope="module")
def login_port() -> int:
    return free_window(1)


@pytest.fixture(scope="module", autouse=True)
def counter(cluster: DevCluster, login_port: int) -> Iterator[Counter]:
    with Counter(lambda: str(cluster.listener("LOGIN")[1]), port=login_port) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(authority: Authority, login_port: int) -> Iterator[DevCluster]:
    """One broker that knows rights. Each of its TLS listeners has a certificate of another kind."""
    here = "127.0.0.1"
    stores = {
        "GOOD": store(authority, "good", here),
        "NAMED": store(authority, "named", "kafka.example"),
        "EXPIRED": store(authority, "expired", here, expired=True),
        "FUTURE": store(authority, "future", here, future=True),
        "STRANGER": store(Authority(authority.directory, "stranger"), "stranger", here),
        "MUTUAL": store(authority, "mutual", here),
    }
    properties = {
        f"listener.name.{name.lower()}.ssl.keystore.{key}": value
        for name, path in stores.items()
        for key, value in (("location", str(path)), ("type", "PKCS12"), ("password", STORE_PASSWORD))
    }
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    properties |= rights | {
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.location": str(authority.pem),
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            f' user_{USER}="{PASSWORD}" user_bob="{PASSWORD}";'
        ),
    }
    listeners = [ListenerSpec(name, protocol="SSL") for name in TLS]
    listeners.append(ListenerSpec("LOGIN", f"127.0.0.1:{login_port}", "SASL_PLAINTEXT"))
    with DevCluster(
        1, advertised="127.0.0.1:{port}", extra_listeners=listeners, properties=properties,
        controller_properties=rights,
    ) as made:  # fmt: skip
        yield made


def at(cluster: DevCluster, listener: str) -> str:
    return str(cluster.listener(listener)[1])


def doctor(*arguments: str, **environ: str) -> tuple[int, dict[str, Any]]:
    """Its exit code, and its report; no secret is in it."""
    done = run("doctor", "--connect-timeout", "2s", "--json", *arguments, **environ)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kproxy", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environ, timeout=120, check=False)
    for secret in environ.values():
        assert secret not in done.stdout + done.stderr
    return done


def problems(report: dict[str, Any]) -> list[str]:
    return [one["fault"] for one in report["findings"] if one["severity"] == "error"]


def works(line: dict[str, Any], cluster: DevCluster, **environ: str) -> None:
    """A client works through the line that was printed."""
    assert line["works"], line
    topic = create_topic(cluster.direct_bootstrap, 6, 1)
    roundtrip = ["-m", "tests.scenarios.roundtrip", "librdkafka", "{bootstrap}", topic, "word"]
    done = run("exec", *line["command"][2:], "--", sys.executable, *roundtrip, **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(read_topic(cluster.direct_bootstrap, topic, 6)) == 60


# TLS


@pytest.mark.parametrize(
    ("listener", "fault", "says"),
    [
        ("EXPIRED", Fault.CERTIFICATE_EXPIRED, "this machine's clock says"),
        ("FUTURE", Fault.CERTIFICATE_NOT_YET_VALID, "one of the two clocks is wrong"),
        ("STRANGER", Fault.CERTIFICATE_UNTRUSTED, "does not trust (issuer: "),
        ("MUTUAL", Fault.CLIENT_CERTIFICATE_MISSING, "requires a client certificate"),
    ],
)
def test_a_certificate_that_is_no_good(
    cluster: DevCluster, authority: Authority, listener: str, fault: Fault, says: str
) -> None:
    code, report = doctor(at(cluster, listener), "--tls", "--tls-ca", str(authority.pem))
    assert (code, problems(report)) == (1, [fault.value])
    assert says in report["findings"][0]["text"]
    assert report["findings"][0]["fix"]
    assert report["works_now"] is None


def test_a_certificate_with_another_name(cluster: DevCluster, authority: Authority) -> None:
    code, report = doctor(at(cluster, "NAMED"), "--tls", "--tls-ca", str(authority.pem))
    assert code == 1
    assert problems(report)[0] == Fault.CERTIFICATE_NAME.value
    assert "is not for 127.0.0.1. It has the names kafka.example." in report["findings"][0]["text"]
    assert "SAN=ip:127.0.0.1" in report["findings"][0]["fix"][0]
    assert "--tls-server-name" in report["works_now"]["command"]
    works(report["works_now"], cluster)


def test_plaintext_to_a_tls_listener(
    cluster: DevCluster, authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The CA is one that the machine trusts, and TLS was forgotten."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.pem))
    code, report = doctor(at(cluster, "GOOD"))
    assert (code, problems(report)) == (1, [Fault.PLAINTEXT_TO_TLS.value])
    fix = report["findings"][0]["fix"]
    assert fix[0] == "security.protocol=SSL"
    java(cluster, "GOOD", tmp_path, [line.replace("ca.pem", str(authority.pem)) for line in fix])
    assert report["bootstrap"][0]["spoken"] == "Kafka (TLS)"
    assert report["bootstrap"][0]["certificate"]["names"] == ["127.0.0.1"]
    assert "--tls" in report["works_now"]["command"]
    works(report["works_now"], cluster)


def test_several_findings_in_the_order_in_which_to_mend_them(cluster: DevCluster) -> None:
    code, report = doctor(at(cluster, "STRANGER"))
    assert code == 1
    assert problems(report) == [Fault.PLAINTEXT_TO_TLS.value, Fault.CERTIFICATE_UNTRUSTED.value]


def test_tls_to_a_plaintext_listener(cluster: DevCluster) -> None:
    code, report = doctor(at(cluster, "CLIENT"), "--tls")
    assert (code, problems(report)) == (1, [Fault.TLS_TO_PLAINTEXT.value])
    works(report["works_now"], cluster)


def test_a_client_certificate_that_is_refused(cluster: DevCluster, authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").one_file("somebody")
    code, report = doctor(at(cluster, "MUTUAL"), "--tls", "--tls-ca", str(authority.pem), "--tls-cert", str(other))
    assert (code, problems(report)) == (1, [Fault.CLIENT_CERTIFICATE_REFUSED.value])


def test_tls_that_is_right(cluster: DevCluster, authority: Authority) -> None:
    mine = authority.one_file("somebody")
    arguments = ("--tls", "--tls-ca", str(authority.pem), "--tls-cert", str(mine))
    for listener in ("GOOD", "MUTUAL"):
        code, report = doctor(at(cluster, listener), *arguments)
        assert (code, report["verdict"], problems(report)) == (0, "healthy", [])


# Logins and rights


def test_a_login_is_needed(cluster: DevCluster, tmp_path: Path) -> None:
    code, report = doctor(at(cluster, "LOGIN"))
    assert (code, problems(report)) == (1, [Fault.LOGIN_NEEDED.value])
    assert "it offers PLAIN" in report["findings"][0]["text"]
    fix = report["findings"][0]["fix"]
    assert fix[:2] == ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN"]
    assert "give the login" in report["not_checked"][0]
    java(
        cluster, "LOGIN", tmp_path, [line.replace("USER", USER).replace('"PASSWORD"', f'"{PASSWORD}"') for line in fix]
    )


def java(cluster: DevCluster, listener: str, directory: Path, lines: list[str]) -> None:
    """Kafka's own client works with these settings."""
    file = directory / "client.properties"
    file.write_text("\n".join([*lines, ""]))
    done = cluster.tool(
        "kafka-topics", "--bootstrap-server", at(cluster, listener), "--command-config", str(file), "--list"
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("listener", "mechanism", "password", "fault"),
    [
        ("LOGIN", "PLAIN", f"wrong-{uuid4().hex}", Fault.CREDENTIALS_REFUSED),
        ("LOGIN", "SCRAM-SHA-512", PASSWORD, Fault.SASL_MECHANISM),
        ("CLIENT", "PLAIN", PASSWORD, Fault.LOGIN_NOT_OFFERED),
    ],
    ids=["refused", "another mechanism", "no login"],
)
def test_a_login_that_fails(cluster: DevCluster, listener: str, mechanism: str, password: str, fault: Fault) -> None:
    arguments = ("--sasl", mechanism, "--sasl-username", USER)
    code, report = doctor(at(cluster, listener), *arguments, KPROXY_SASL_PASSWORD=password)
    assert (code, problems(report)) == (1, [fault.value])


def test_it_logs_in_once(cluster: DevCluster, counter: Counter) -> None:
    before = counter.logins
    arguments = (counter.address, "--sasl", "PLAIN", "--sasl-username", USER)
    code, report = doctor(*arguments, KPROXY_SASL_PASSWORD=PASSWORD)
    assert (code, report["verdict"]) == (0, "healthy")
    assert counter.logins - before == 1
    doctor(*arguments, KPROXY_SASL_PASSWORD=f"wrong-{uuid4().hex}")
    assert counter.logins - before == 2


def test_credentials_that_cannot_be_read(cluster: DevCluster, tmp_path: Path) -> None:
    arguments = ("--sasl", "PLAIN", "--sasl-username", USER, "--sasl-password-file", str(tmp_path / "none"))
    code, report = doctor(at(cluster, "LOGIN"), *arguments)
    assert (code, problems(report)) == (1, [Fault.CREDENTIALS_UNREADABLE.value])


def test_what_this_user_may_do(cluster: DevCluster) -> None:
    topic = create_topic(cluster.direct_bootstrap, 1, 1)
    arguments = (at(cluster, "LOGIN"), "--sasl", "PLAIN", "--sasl-username", USER, "--topic", topic)
    code, report = doctor(*arguments, KPROXY_SASL_PASSWORD=PASSWORD)
    assert (code, problems(report)) == (1, [Fault.TOPIC_UNKNOWN.value])

    allow(cluster, ResourceType.TOPIC, topic, AclOperation.READ)
    code, report = doctor(*arguments, KPROXY_SASL_PASSWORD=PASSWORD)
    assert (code, problems(report)) == (1, [Fault.NOT_AUTHORIZED.value])
    assert "The principal User:alice may not Write the topic" in report["findings"][0]["text"]
    command = report["findings"][0]["fix"][0].split()
    assert command[0] == "kafka-acls"
    command[command.index("--bootstrap-server") + 1] = cluster.direct_bootstrap
    done = cluster.tool(*command)
    assert done.returncode == 0, done.stderr

    code, report = doctor(*arguments, KPROXY_SASL_PASSWORD=PASSWORD)
    assert (code, problems(report), report["client"]["reads"]) == (0, [], {"0": "NONE"})


def test_a_client_that_only_reads_or_only_writes(cluster: DevCluster) -> None:
    topic, group = create_topic(cluster.direct_bootstrap, 1, 1), unique("group")
    allow(cluster, ResourceType.TOPIC, topic, AclOperation.READ)
    allow(cluster, ResourceType.GROUP, group, AclOperation.READ)
    arguments = (at(cluster, "LOGIN"), "--sasl", "PLAIN", "--sasl-username", USER, "--topic", topic)
    code, report = doctor(*arguments, "--group", group, KPROXY_SASL_PASSWORD=PASSWORD)
    assert (code, problems(report)) == (0, [])
    code, report = doctor(*arguments, "--acks", "1", KPROXY_SASL_PASSWORD=PASSWORD)
    assert (code, problems(report), report["client"]["reads"]) == (1, [Fault.NOT_AUTHORIZED.value], {})
    assert "may not Write the topic" in report["findings"][0]["text"]


@pytest.mark.parametrize("acks", ["acks=all", "request.required.acks=-1"])
def test_what_the_file_of_a_client_says_that_it_does(three: DevCluster, tmp_path: Path, acks: str) -> None:
    make_groups_topic(three)
    topic, file = create_topic(three.direct_bootstrap, 1, 3), tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={three.direct_bootstrap}\ngroup.id=from-its-file\n{acks}\n")
    _, report = doctor("--client-config", str(file), "--topic", topic)
    client = report["client"]
    assert (client["topic"], client["group"], client["acks"]) == (topic, "from-its-file", -1)
    assert client["coordinator"] is not None

    _, report = doctor("--client-config", str(file), "--topic", topic, "--acks", "1")
    assert (report["client"]["group"], report["client"]["acks"]) == (None, 1)


def test_what_this_user_may_do_with_a_group(cluster: DevCluster) -> None:
    """The broker says so although the user does not see the topic of the groups."""
    make_groups_topic(cluster)
    group = unique("group")
    arguments = (at(cluster, "LOGIN"), "--sasl", "PLAIN", "--sasl-username", USER, "--group", group)
    code, report = doctor(*arguments, KPROXY_SASL_PASSWORD=PASSWORD)
    assert (code, problems(report)) == (1, [Fault.NOT_AUTHORIZED.value])
    allow(cluster, ResourceType.GROUP, group, AclOperation.DESCRIBE)
    code, report = doctor(*arguments, KPROXY_SASL_PASSWORD=PASSWORD)
    assert (code, problems(report)) == (1, [Fault.NOT_AUTHORIZED.value])
    assert "may not use" in report["findings"][0]["text"]
    assert report["findings"][0]["text"].endswith("(the operation Read).")
    allow(cluster, ResourceType.GROUP, group, AclOperation.READ)
    code, report = doctor(*arguments, KPROXY_SASL_PASSWORD=PASSWORD)
    assert (code, problems(report), report["client"]["coordinator"]) == (0, [], 1)


def allow(cluster: DevCluster, kind: Any, name: str, operation: Any) -> None:
    acls.allow(cluster.direct_bootstrap, [acls.right(USER, kind, name, operation)])


def make_groups_topic(cluster: DevCluster) -> None:
    """A group that has committed makes the topic of the groups."""
    topic = create_topic(cluster.direct_bootstrap, 1, 1)
    produce(cluster.direct_bootstrap, topic, RECORDS)
    reader = Consumer(
        {"bootstrap.servers": cluster.direct_bootstrap, "group.id": "some", "auto.offset.reset": "earliest"}
    )
    try:
        reader.subscribe([topic])
        message = reader.poll(60)
        assert message is not None
        assert message.error() is None
        reader.commit(message, asynchronous=False)
    finally:
        reader.close()


def test_the_doctor_makes_nothing(authority: Authority) -> None:
    """Not even the topic of the groups, which a broker makes for whoever asks for a coordinator."""
    with DevCluster(1, advertised="127.0.0.1:{port}") as fresh:
        code, report = doctor(fresh.bootstrap, "--group", "mine", "--topic", "not-there")
        assert (code, problems(report)) == (1, [Fault.TOPIC_UNKNOWN.value])
        assert any("until a first client has used a group" in line for line in report["not_checked"])
        listed = fresh.tool("kafka-topics", "--bootstrap-server", fresh.direct_bootstrap, "--list")
        assert listed.stdout.split() == []


# What is no broker


@pytest.mark.parametrize(
    ("behave", "fault", "spoken"),
    [
        (peers.silent, Fault.SILENT, "nothing"),
        (peers.closing, Fault.CLOSED, "nothing: the server closes the connection"),
        (peers.saying(b"HTTP/1.1 400 Bad Request\r\n\r\n", first=False), Fault.NOT_KAFKA, "HTTP"),
        (peers.saying(b"SSH-2.0-OpenSSH_9.2\r\n", first=True), Fault.NOT_KAFKA, "SSH"),
        (peers.saying(b"nonsense and more of it", first=False), Fault.NOT_KAFKA, "something that is not Kafka"),
    ],
)
def test_what_is_no_broker(behave: Callable[[socket.socket], None], fault: Fault, spoken: str) -> None:
    with Peer(behave) as peer:
        code, report = doctor(peer.address, "--connect-timeout", "1s")
    assert (code, problems(report)) == (1, [fault.value])
    assert report["bootstrap"][0]["spoken"] == spoken


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(HAPROXY is None, reason="needs haproxy")
def test_a_listener_that_wants_the_proxy_protocol(cluster: DevCluster, tmp_path: Path) -> None:
    """As behind a load balancer of a cloud: who comes directly is not understood."""
    port = free_window(1)
    file = tmp_path / "haproxy.cfg"
    file.write_text(
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n"
        f"listen kafka\n  bind 127.0.0.1:{port} accept-proxy\n  server broker {at(cluster, 'CLIENT')}\n"
    )
    process = subprocess.Popen([str(HAPROXY), "-db", "-q", "-f", str(file)])
    try:
        wait_until(lambda: listens(port), "haproxy")
        code, report = doctor(f"127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait()
    assert (code, problems(report)) == (1, [Fault.NOT_KAFKA.value])
    assert report["bootstrap"][0]["spoken"] == "Kafka behind the PROXY protocol"


def test_a_broker_that_falls_silent() -> None:
    """It has said who it is, and answers no further question."""

    class Silent(FakeBroker):
        def answer(self, connection: socket.socket, request: bytes) -> bool:
            said_all = self.asked and struct.unpack_from(">h", request)[0] == ApiKey.METADATA
            return True if said_all else super().answer(connection, request)

    broker = Silent()
    with Peer(broker) as peer:
        host, _, port = peer.address.rpartition(":")
        broker.nodes = [(1, host, int(port))]
        _, report = doctor(peer.address, "--connect-timeout", "1s")
    assert "topics: no answer within 1 s" in report["not_checked"]


def test_many_brokers_behind_a_firewall() -> None:
    """Each step has its limit, and all addresses are tried at once; how long it takes is in docs/doctor.md."""
    with peers.black_hole() as hole:
        host, _, port = hole.rpartition(":")
        broker = FakeBroker([(node, host, int(port)) for node in range(50)])
        with Peer(broker) as peer:
            code, report = doctor(peer.address)
    assert code == 1
    assert problems(report) == [Fault.FILTERED.value, Fault.SAME_ADDRESS_TWICE.value]
    assert len(report["nodes"]) == 50
    assert all(node["reason"] == "timeout" for node in report["nodes"])


def test_a_port_that_is_closed() -> None:
    with peers.refused() as address:
        code, report = doctor(address)
    assert (code, problems(report)) == (1, [Fault.PORT_CLOSED.value])


def test_a_firewall() -> None:
    with peers.black_hole() as address:
        code, report = doctor(address, "--connect-timeout", "1s")
    assert (code, problems(report)) == (1, [Fault.FILTERED.value])


def test_a_hop_that_fails(cluster: DevCluster) -> None:
    secret = f"secret-{uuid4().hex}"
    with peers.refused() as address:
        done = run("doctor", at(cluster, "CLIENT"), "--via", f"socks5://me:{secret}@{address}", "--json")
    assert done.returncode == 1
    assert problems(json.loads(done.stdout)) == [Fault.HOP_FAILED.value]
    assert secret not in done.stdout + done.stderr


# The cluster's own troubles


@pytest.fixture(scope="module")
def three() -> Iterator[DevCluster]:
    with DevCluster(3, advertised="127.0.0.1:{port}", heap="128m") as made:
        yield made


def test_bootstrap_servers_of_different_clusters(cluster: DevCluster, three: DevCluster) -> None:
    code, report = doctor(f"{three.dial[1]},{at(cluster, 'CLIENT')}")
    assert (code, problems(report)) == (1, [Fault.MIXED_BOOTSTRAP.value])
    assert sum(line.startswith("bootstrap.servers=") for line in report["findings"][0]["fix"]) == 2


def test_a_broker_that_is_gone(three: DevCluster) -> None:
    """A real producer shows which acks it can have then."""
    topic, strict = (
        create_topic(three.direct_bootstrap, 3, 1),
        create_topic(three.direct_bootstrap, 3, 3, min_insync_replicas="3"),
    )
    three.kill(3)
    three.wait_fenced(3)
    try:
        code, report = doctor(str(three.dial[1]))
        for acks, fault, error in (("all", [Fault.NOT_ENOUGH_REPLICAS.value], "NOT_ENOUGH_REPLICAS"), ("1", [], None)):
            _, of_acks = doctor(str(three.dial[1]), "--topic", strict, "--acks", acks)
            assert problems(of_acks)[2:] == fault
            assert refusal(str(three.dial[1]), strict, acks) == error
    finally:
        three.restart(3)
    assert code == 1
    assert problems(report) == [Fault.BROKER_MISSING.value, Fault.NO_LEADER.value]
    assert report["findings"][0]["subjects"] == ["broker 3"]
    assert topic in report["findings"][1]["subjects"]


ANSI = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(*arguments: str, **environ: str) -> str:
    """What it prints on a terminal of 80 columns."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "kproxy", *arguments]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=os.environ | environ):
        os.close(terminal)
        printed = b""
        with contextlib.suppress(OSError):  # Linux reports the end of a terminal so
            while data := os.read(main, 65536):
                printed += data
        os.close(main)
    return printed.decode().replace("\r\n", "\n")


def test_the_end_of_a_topic_is_read(three: DevCluster) -> None:
    topic = create_topic(three.direct_bootstrap, 6, 1, min_insync_replicas="1")
    _, report = doctor(str(three.dial[1]), "--topic", topic, "--group", unique("group"))
    assert report["client"]["reads"] == {str(partition): "NONE" for partition in range(6)}
    _, report = doctor(str(three.dial[1]), "--topic", topic, "--acks", "all")
    assert (problems(report), report["client"]["min_in_sync"]) == ([], 1)
    assert any(f"writing to {topic}" in line for line in report["not_checked"])
    assert read_topic(three.direct_bootstrap, topic, 6) == []


def refusal(servers: str, topic: str, acks: str) -> str | None:
    """The broker's error for a record."""
    producer = Producer({"bootstrap.servers": servers, "acks": acks, "retries": 0, "message.timeout.ms": 30000})
    errors: list[Any] = []
    producer.produce(topic, b"record", on_delivery=lambda error, _: errors.append(error))
    producer.flush(60)
    return None if errors[0] is None else str(errors[0].name())


def test_what_a_person_sees(cluster: DevCluster, authority: Authority, tmp_path: Path) -> None:
    """In 80 columns, with a picture; what is copied from it is whole, and what matters comes last."""
    picture = tmp_path / "picture.svg"
    arguments = ("doctor", at(cluster, "NAMED"), "--tls", "--tls-ca", str(authority.pem))
    done = run(*arguments, "--svg", str(picture))
    assert done.returncode == 1
    assert picture.read_text().startswith("<svg ")
    coloured = on_terminal(*arguments)
    assert "\x1b[" in coloured
    assert "\x1b[" not in done.stdout + on_terminal(*arguments, NO_COLOR="1")
    for shown in (done.stdout, ANSI.sub("", coloured)):
        printed = shown.splitlines()
        sections = ["Why", "What your client will say", "Fix for good", "Works now", "Verdict"]
        assert [line for line in printed if line in sections] == sections
        assert [line for line in printed if len(line) > 80] == []
        assert "certificate is for another name" in printed[-1]
        line = shown.partition("\nWorks now\n")[2].partition("\n   Tried: ")[0].replace("\\\n", "")
        assert shlex.split(line) == json.loads(run(*arguments, "--json").stdout)["works_now"]["command"]
        steps = printed[: printed.index("client on this machine")]
        assert sum(line.startswith("  ok ") for line in steps) == 2  # of the address, of the questions there


def test_each_step_is_shown_on_request(cluster: DevCluster) -> None:
    def kinds(*more: str) -> list[str]:
        shown = run("doctor", at(cluster, "CLIENT"), *more).stdout.splitlines()
        return [line.split()[1] for line in shown if line.startswith("  ok ")]

    assert kinds() == ["reached", "asked"]
    assert kinds("-v")[:4] == ["resolve", "connect", "versions", "metadata"]


def test_two_clusters_of_one_file(cluster: DevCluster, three: DevCluster, tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text(
        "clusters:\n"
        f"- {{name: one, bootstrap-servers: '{at(cluster, 'CLIENT')}', listen: '127.0.0.1:0'}}\n"
        f"- {{name: three, bootstrap-servers: '{three.bootstrap}', listen: '127.0.0.1:0'}}\n"
    )
    done = run("doctor", "-c", str(file), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    reports = json.loads(done.stdout)
    assert [(one["name"], one["verdict"], len(one["nodes"])) for one in reports] == [
        ("one", "healthy", 1), ("three", "healthy", 3),
    ]  # fmt: skip


def test_mistakes_of_the_command_line() -> None:
    for arguments, says in (
        ((), "no bootstrap server is given"),
        (("nonsense:port",), "is not a port"),
        (("a:1", "-b", "b:1"), "the bootstrap servers are given twice"),
        (("a:1", "--acks", "all"), "--acks is about a topic; name it with --topic NAME"),
        (("a:1", "--topic", "t", "--acks", "2"), "'2' is not one of"),
        (("a:1", "--client", "perl:1"), "allowed: NAME:VERSION with one of java"),
    ):
        done = run("doctor", *arguments)
        assert done.returncode == 2
        assert says in done.stderr
        assert "Traceback" not in done.stderr
