"""A real cluster on which clients can fail in every way, and these failures."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kproxy.advice.explain.explanation import explain
from kproxy.advice.explain.output import render
from kproxy.base.faults import Fault
from kproxy.dev.devcluster import DevCluster, ListenerSpec
from tests.harness.clients.failing.attempt import Attempt
from tests.harness.servers import peers
from tests.harness.tls import Authority
from tests.harness.topics import create_topic

_PASSWORD = "a-password-of-brokers"
_HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request"


@dataclass(frozen=True, slots=True)
class Site:
    """The listeners of the cluster.

    `CLIENT` advertises a name that resolves nowhere, `TLS` has a certificate for 127.0.0.1, `OTHER` one for another
    name, `LOGIN` takes PLAIN, `LOOP` advertises a closed port of localhost.
    """

    cluster: DevCluster
    ca: str
    other_ca: str
    closed: str
    hole: str
    web: str
    topic: str

    def listener(self, name: str) -> str:
        """Return the address of a listener of the only broker."""
        (address,) = self.cluster.listener(name).values()
        return str(address)

    @property
    def broker_log(self) -> Path:
        """Return the log of the only broker."""
        (log,) = self.cluster.directory.glob("*1*/kafka.log")
        return log


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failure: the attempt, and its fault.

    `unclear`: the messages of these clients fit other causes too. `less`: the faults for clients whose messages have no
    address.
    """

    name: str
    fault: Fault
    attempt: Callable[[Site], Attempt]
    unclear: tuple[str, ...] = ()
    less: Mapping[str, Fault] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def tls(site: Site, listener: str, ca: str) -> Attempt:
    """Return an attempt with TLS."""
    return Attempt(site.listener(listener), "SSL", ca=ca, topic=site.topic)


def login(site: Site, **changes: str) -> Attempt:
    """Return an attempt that logs in."""
    return Attempt(site.listener("LOGIN"), "SASL_PLAINTEXT", **{"mechanism": "PLAIN", "topic": site.topic, **changes})


_JAVA = ("java-admin", "java-producer")
_RDKAFKA = ("kcat", "confluent-kafka")

TROUBLES = (
    Trouble("unresolvable", Fault.NAME_NOT_RESOLVED, lambda site: Attempt(site.cluster.bootstrap, topic=site.topic)),
    Trouble("refused", Fault.PORT_CLOSED, lambda site: Attempt(site.closed), _JAVA),
    Trouble(
        "loopback",
        Fault.LOOPBACK_ADVERTISED,
        lambda site: Attempt(site.listener("LOOP"), topic=site.topic),
        less=dict.fromkeys(("kafka-python", "kafkajs", "kafka-go"), Fault.PORT_CLOSED),
    ),
    Trouble("black-hole", Fault.FILTERED, lambda site: Attempt(site.hole, patience_ms=12000), (*_JAVA, "aiokafka")),
    Trouble(
        "tls-to-plaintext",
        Fault.TLS_TO_PLAINTEXT,
        lambda site: tls(site, "CLIENT", site.ca),
        (*_JAVA, "aiokafka", "kafka-go"),
    ),
    Trouble(
        "plaintext-to-tls",
        Fault.PLAINTEXT_TO_TLS,
        lambda site: Attempt(site.listener("TLS")),
        (*_JAVA, *_RDKAFKA, "aiokafka", "kafka-python", "kafkajs", "kafka-go"),
    ),
    Trouble(
        "wrong-password", Fault.CREDENTIALS_REFUSED, lambda site: login(site, password="not-hers"), ("kafka-python",)
    ),
    Trouble("mechanism", Fault.SASL_MECHANISM, lambda site: login(site, mechanism="SCRAM-SHA-256"), ("kafka-python",)),
    Trouble("no-right", Fault.NOT_AUTHORIZED, login, ("java-admin",)),
    Trouble("untrusted", Fault.CERTIFICATE_UNTRUSTED, lambda site: tls(site, "TLS", site.other_ca), _RDKAFKA),
    Trouble("wrong-name", Fault.CERTIFICATE_NAME, lambda site: tls(site, "OTHER", site.ca), _RDKAFKA),
    Trouble(
        "http",
        Fault.NOT_KAFKA,
        lambda site: Attempt(site.web),
        (*_JAVA, "aiokafka", "kafka-python", "kafkajs", "kafka-go"),
    ),
)


@contextmanager
def made(directory: Path) -> Iterator[Site]:
    """Start the site for the time of the block."""
    authority, stranger = Authority(directory), Authority(directory, "stranger")
    with ExitStack() as held:
        closed = held.enter_context(peers.refused())
        cluster = held.enter_context(_cluster(authority, closed.rpartition(":")[2]))
        yield Site(
            cluster=cluster,
            ca=str(authority.pem),
            other_ca=str(stranger.pem),
            closed=closed,
            hole=held.enter_context(peers.black_hole()),
            web=held.enter_context(peers.Peer(_web)).address,
            topic=create_topic(cluster.direct_bootstrap, 1, replicas=1),
        )


def _web(connection: peers.socket.socket) -> None:
    if connection.recv(65536):
        connection.sendall(_HTTP)


def _cluster(authority: Authority, closed_port: str) -> DevCluster:
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return DevCluster(
        brokers=1,
        extra_listeners=[
            ListenerSpec("TLS", protocol="SSL"),
            ListenerSpec("OTHER", protocol="SSL"),
            ListenerSpec("LOGIN", protocol="SASL_PLAINTEXT"),
            ListenerSpec("LOOP", advertised=f"localhost:{closed_port}"),
        ],
        properties={
            **rights,
            **_identity(authority, "tls", "127.0.0.1"),
            **_identity(authority, "other", "elsewhere.example"),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{module} required user_alice="alice-secret";',
        },
        controller_properties=rights,
    )


def _identity(authority: Authority, listener: str, name: str) -> dict[str, str]:
    path = authority.pkcs12(_PASSWORD, name, file=listener)
    prefix = f"listener.name.{listener}.ssl.keystore"
    return {f"{prefix}.location": str(path), f"{prefix}.type": "PKCS12", f"{prefix}.password": _PASSWORD}


def judge(trouble: Trouble, client: str, text: str) -> None:
    """Check that a client's whole output leads to the fault: alone, or as the first of those that its messages fit."""
    explanation = explain(io.BytesIO(text.encode()))

    assert explanation.causes, text
    first, *others = explanation.causes
    wanted = trouble.less.get(client, trouble.fault)
    found = [[fault.value for fault in cause.faults] for cause in explanation.causes]
    assert wanted in first.faults, f"{found}\n{text}"
    assert len(first.faults) == 1 or client in trouble.unclear, f"{found}\n{text}"
    assert not others, f"{found}\n{text}"
    assert "alice-secret" not in json.dumps(explanation.as_json()) + render(explanation)
