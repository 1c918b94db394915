"""Logins of clients at kproxy, and of kproxy at the brokers: each with each, with TLS on both sides.

One cluster has a listener for each login of kproxy, and one kproxy a cluster for each pair. A program of each client
goes through a file with a line for each pair: NAME BOOTSTRAP TOPIC MECHANISM USER PASSWORD TOKEN_FILE CA PEM.
"""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster, ListenerSpec
from kproxy.dev.devcluster.jars import cache_directory
from kproxy.dev.devcluster.tools import Programs
from kproxy.users.verifier import HASHES, ScramVerifier
from tests.harness.process import PATIENCE_S, Kproxy, free_window
from tests.harness.programs.javac import compiled
from tests.harness.servers.oidc import AUDIENCE, OidcServer
from tests.harness.tls import Authority
from tests.harness.topics import create_topic
from tests.matrix.client import HERE
from tests.matrix.clients import Python
from tests.matrix.languages import Go, Node

CERTIFICATE = "certificate"
AT_KPROXY = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", CERTIFICATE)
AT_BROKERS = ("nothing", "PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", CERTIFICATE)
USER, PASSWORD, KPROXYS = "alice", "alices-password-of-the-tests", "kproxys-password-of-the-tests"
_SCOPE = "kafka"  # brokers and Java's clients demand one
_SECURITY = "org.apache.kafka.common.security"
_NAMES = ("127.0.0.1", "localhost", "*.cluster.internal")


@dataclass(frozen=True)
class Java(Python):
    """kafka-clients of one version."""

    def command(self) -> Sequence[str]:
        classes = cache_directory() / "matrix" / f"java-login-{self.version}"
        return compiled(Programs.of(self.version), [HERE / "java/login/Login.java"], classes, "matrix.Login")


CLIENTS = (
    Java("kafka-clients", "3.9.2"),
    Java("kafka-clients", DEFAULT_VERSION),
    Python("confluent-kafka", "", program="login/confluent.py"),
    Python("kafka-python", "", program="login/kafka_python.py"),
    Python("aiokafka", "", program="login/aio_kafka.py"),
    Go("franz-go", "", program="login"),
    Node("kafkajs", "2.2.4", program="login/kafka_js.js"),
)


@dataclass(frozen=True)
class Site:
    """The brokers, and the kproxy in front of them, which has a port for each pair of logins."""

    cluster: DevCluster
    kproxy: Kproxy
    ports: dict[tuple[str, str], int]
    oidc: OidcServer
    authority: Authority
    topic: str

    def token(self) -> str:
        """Return a token that kproxy accepts."""
        secret = base64.b64encode(f"{self.oidc.client}:{self.oidc.secret}".encode()).decode()
        request = urllib.request.Request(
            self.oidc.token_url,
            f"grant_type=client_credentials&scope={_SCOPE}".encode(),
            {"Authorization": f"Basic {secret}"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return str(json.loads(response.read())["access_token"])

    def run(self, command: Sequence[str], name: str, pairs: Sequence[tuple[str, str]], seconds: float) -> list[str]:
        """Go through these pairs with a program; return what it has printed for each that does not work."""
        directory = self.authority.directory
        token, cells = directory / f"{name}.token", directory / f"{name}.cells"
        token.write_text(self.token())
        files = (str(token), str(self.authority.pem), str(self.authority.client(USER)))
        lines = [
            (
                f"{name}/{pair[0]}/{pair[1]}",
                f"127.0.0.1:{self.ports[pair]}",
                self.topic,
                pair[0],
                USER,
                PASSWORD,
                *files,
            )
            for pair in pairs
        ]
        cells.write_text("".join("\t".join(line) + "\n" for line in lines))
        done = subprocess.run([*command, str(cells)], capture_output=True, text=True, timeout=seconds, check=False)
        printed = done.stdout.splitlines()
        if len(printed) != len(pairs):
            return [*printed, done.stderr[-2000:]]
        return [line for line in printed if not line.endswith(" ok")]


@contextmanager
def site(directory: Path) -> Iterator[Site]:
    """Run the brokers and kproxy for the time of the block."""
    authority = Authority(directory)
    with ExitStack() as stack:
        oidc = stack.enter_context(OidcServer("kproxy", KPROXYS))
        cluster = stack.enter_context(_cluster(oidc, authority))
        admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion("kproxy", info, KPROXYS.encode())
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(PATIENCE_S)
        first = free_window(4 * len(AT_KPROXY) * len(AT_BROKERS))
        ports = {pair: first + 4 * number for number, pair in enumerate(product(AT_KPROXY, AT_BROKERS))}
        config = directory / "kproxy.yaml"
        config.touch(0o600)
        clusters = [_options(authority, oidc, cluster, directory, pair, port) for pair, port in ports.items()]
        config.write_text(yaml.safe_dump({"clusters": clusters}))
        topic = create_topic(cluster.direct_bootstrap, 1, 1)
        kproxy = stack.enter_context(Kproxy(directory / "kproxy", "", "-c", str(config)))
        yield Site(cluster, kproxy, ports, oidc, authority, topic)


@contextmanager
def _cluster(oidc: OidcServer, authority: Authority) -> Iterator[DevCluster]:
    """A broker with a listener for SASL, one for certificates, and one without a login."""
    store = authority.pkcs12("changeit", *_NAMES, file="broker")
    sasl = "listener.name.client"
    properties = {
        "ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(store), "ssl.keystore.password": "changeit",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        f"{sasl}.plain.sasl.jaas.config": f'{_SECURITY}.plain.PlainLoginModule required user_kproxy="{KPROXYS}";',
        f"{sasl}.scram-sha-512.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
        f"{sasl}.oauthbearer.sasl.jaas.config": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
        f"{sasl}.oauthbearer.sasl.server.callback.handler.class": (
            f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": oidc.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": oidc.issuer,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.location": str(authority.pem),
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "group.initial.rebalance.delay.ms": "0",
    }  # fmt: skip
    listeners = [ListenerSpec(name, "kafka-{id}.cluster.internal:{port}", "SSL") for name in ("MUTUAL", "OPEN")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={oidc.jwks_url}")
        made = DevCluster(1, client_protocol="SASL_SSL", extra_listeners=listeners, properties=properties)
        made.__enter__()
    try:
        yield made
    finally:
        made.__exit__(None, None, None)


def _options(
    authority: Authority, oidc: OidcServer, cluster: DevCluster, directory: Path, pair: tuple[str, str], port: int
) -> dict[str, object]:
    """Return the options of one pair."""
    at_kproxy, at_brokers = pair
    cert, key = authority.files(*_NAMES[:2])
    users = directory / "users.yaml"
    if not users.exists():
        users.touch(0o600)
        verifiers = {name: ScramVerifier.from_password(name, PASSWORD).text() for name in HASHES}
        users.write_text(yaml.safe_dump({"users": {USER: verifiers}}))
    options: dict[str, object] = {
        "name": f"{at_kproxy}-{at_brokers}".lower(),
        "listen": f"127.0.0.1:{port}", "node-ports": f"{port + 1}-{port + 3}",
        "tls": True, "tls-ca": str(authority.pem), "client-tls-cert": str(cert), "client-tls-key": str(key),
    }  # fmt: skip
    listener = {"nothing": "OPEN", CERTIFICATE: "MUTUAL"}.get(at_brokers)
    if listener is not None:
        options["bootstrap-servers"] = str(cluster.listener(listener)[1])
        if at_brokers == CERTIFICATE:
            options["tls-cert"] = str(authority.client("kproxy"))
    else:
        options |= {
            "bootstrap-servers": cluster.bootstrap,
            "sasl": at_brokers, "sasl-username": "kproxy", "sasl-password": KPROXYS,
        }  # fmt: skip
        if at_brokers == "OAUTHBEARER":
            options |= {"oauth-token-url": oidc.token_url, "oauth-scope": _SCOPE}
    if at_kproxy == CERTIFICATE:
        return options | {
            "client-tls-ca": str(authority.pem), "client-tls-principal-rules": "RULE:^CN=([^,]+),.*$/$1/",
        }  # fmt: skip
    options["client-sasl"] = [at_kproxy]
    if at_kproxy == "OAUTHBEARER":
        return options | {
            "client-oauth-jwks-url": oidc.jwks_url, "client-oauth-issuer": oidc.issuer,
            "client-oauth-audience": AUDIENCE,
        }  # fmt: skip
    return options | {"users-file": str(users)}
