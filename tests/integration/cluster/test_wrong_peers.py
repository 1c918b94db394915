"""Peers that do not speak Kafka, on both sides: the log says which side, what it spoke, and which setting to change."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy, wait_logged, wait_until
from tests.harness.servers import peers
from tests.harness.servers.peers import Behaviour, Peer

pytestmark = pytest.mark.integration

Start = Callable[..., Kproxy]

# The client's side


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def refusals(proxy: Kproxy, side: str, reason: str) -> float:
    return proxy.metric("kproxy_refused_total", side=side, reason=reason)


@pytest.fixture
def bystander(kproxy: Kproxy) -> Iterator[RawClient]:
    """A session that goes on, whoever else comes."""
    with RawClient(kproxy.bootstrap) as client:
        assert client.works()
        yield client
        assert client.works()


@pytest.mark.parametrize(
    ("hello", "reason", "words"),
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", "client-speaks-ssh", "SSH; this is a Kafka port", id="ssh"),
        pytest.param(b"\x05\x01\x00", "client-speaks-socks", "remove the proxy setting (socksProxyHost)", id="socks5"),
        pytest.param(
            b"\x04\x01\x23\x84\x0a\x00\x00\x01me\x00", "client-speaks-socks", "not a SOCKS proxy", id="socks4"
        ),
        pytest.param(b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", "client-speaks-proxy-protocol", "send-proxy", id="proxy"),
        pytest.param(b"\x15\x03\x03\x00\x02\x02\x28", "client-speaks-tls-alert", "a TLS alert", id="tls-alert"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "client-speaks-http", "HTTP; this is a Kafka port", id="http"),
    ],
)
def test_a_client_that_speaks_something_else(
    kproxy: Kproxy, bystander: RawClient, hello: bytes, reason: str, words: str
) -> None:
    for address in (kproxy.bootstrap, kproxy.node(1)["local"]):
        before = refusals(kproxy, "client", reason)
        with connect(address) as client:
            client.sendall(hello)
            with contextlib.suppress(ConnectionResetError):  # an end is an end
                while client.recv(4096):
                    pass
        assert refusals(kproxy, "client", reason) == before + 1
    assert is_said(kproxy, words)


def is_said(proxy: Kproxy, words: str) -> bool:
    """Wait until the log says this of a client of this host. It says it once in a while for all its connections."""
    return bool(
        wait_until(
            lambda: any(
                "refused a connection from 127.0.0.1:" in line and words in line for line in proxy.log.splitlines()
            ),
            words,
        )
    )


def test_a_tls_client(kproxy: Kproxy, bystander: RawClient) -> None:
    before = refusals(kproxy, "client", "client-speaks-tls")
    context = ssl.create_default_context()
    with (
        connect(kproxy.bootstrap) as client,
        pytest.raises(OSError),  # noqa: PT011
        context.wrap_socket(client, server_hostname="localhost"),
    ):
        pass
    assert refusals(kproxy, "client", "client-speaks-tls") == before + 1
    assert is_said(kproxy, "set security.protocol to PLAINTEXT")


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_is_told_where_it_is(kproxy: Kproxy, bystander: RawClient) -> None:
    said = subprocess.run(["curl", "-si", f"http://{kproxy.bootstrap}/x"], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0
    assert said.stdout.startswith("HTTP/1.1 400 ")
    assert "give it to a Kafka client as bootstrap.servers" in said.stdout


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_openssl_s_client(kproxy: Kproxy, bystander: RawClient) -> None:
    before = refusals(kproxy, "client", "client-speaks-tls")
    command = ["openssl", "s_client", "-connect", kproxy.bootstrap]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60).returncode != 0
    assert refusals(kproxy, "client", "client-speaks-tls") == before + 1


def test_a_client_that_says_nothing_costs_no_broker_anything(kproxy: Kproxy, bystander: RawClient) -> None:
    dials = kproxy.metric("kproxy_upstream_dial_seconds_count")
    connect(kproxy.node(2)["local"]).close()
    assert bystander.works()
    assert kproxy.metric("kproxy_upstream_dial_seconds_count") == dials


# The upstream side


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    return peers.make_certificate(tmp_path_factory.mktemp("certificate"))


HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
SSH = b"SSH-2.0-OpenSSH_9.6\r\n"


@pytest.mark.parametrize(
    ("behave", "reason", "words"),
    [
        pytest.param(
            peers.saying(HTTP, first=False),
            "upstream-speaks-http",
            "HTTP: the server is a web server",
            id="http",
        ),
        pytest.param(
            peers.saying(SSH, first=True), "upstream-speaks-ssh", "SSH: the server is an SSH server", id="ssh"
        ),
        pytest.param(
            peers.saying(b"\x15\x03\x03\x00\x02\x02\x32", first=False),
            "upstream-speaks-tls-alert",
            "its listener is SSL or SASL_SSL",
            id="tls-alert",
        ),
        pytest.param(peers.closing, "closed", "its listener may expect TLS (SSL, SASL_SSL)", id="closing"),
    ],
)
def test_an_upstream_that_speaks_something_else(own_kproxy: Start, behave: Behaviour, reason: str, words: str) -> None:
    with Peer(behave) as peer:
        meets(own_kproxy(peer.address, ready=False), peer.address, reason, words)


def test_an_upstream_that_speaks_tls(own_kproxy: Start, certificate: Path) -> None:
    with Peer(peers.tls(certificate)) as peer:
        # OpenSSL hangs up on what is not TLS, without an alert.
        meets(own_kproxy(peer.address, ready=False), peer.address, "closed", "its listener may expect TLS")


def meets(proxy: Kproxy, address: str, reason: str, words: str) -> None:
    """kproxy finds out by itself at start, and again with the first client."""
    wait_until(lambda: words in proxy.get("/readyz")[1], f"/readyz says {words!r}; it says {proxy.get('/readyz')}")
    code, why = proxy.get("/readyz")
    assert code == 503
    assert address in why
    wait_logged(proxy, words)
    failures = partial(proxy.metric, "kproxy_upstream_dial_failures_total", node="bootstrap", reason=reason)
    before = failures()
    assert before > 0
    with RawClient(proxy.bootstrap) as client:
        assert not client.works()
    assert failures() > before
    text = "the bootstrap server cannot be reached"
    wait_until(lambda: any(text in line and words in line for line in proxy.log.splitlines()), "its line in the log")


def test_an_upstream_that_never_answers(own_kproxy: Start) -> None:
    """At start kproxy gives up and says so. A client's own patience is not for kproxy to judge."""
    with Peer(peers.silent) as peer:
        proxy = own_kproxy(peer.address, "--connect-timeout", "1s", ready=False)
        words = f"{peer.address}: connected, but no Kafka broker answers there"
        wait_until(lambda: words in proxy.log, "the log says so")
        assert words in proxy.get("/readyz")[1]


def test_a_real_brokers_tls_listener(cluster: DevCluster, own_kproxy: Start) -> None:
    secure = str(cluster.listener("SECURE")[1])
    proxy = own_kproxy(secure, ready=False)
    wait_until(lambda: "SSL or SASL_SSL" in proxy.get("/readyz")[1], "/readyz says that TLS is expected")
    assert proxy.get("/readyz")[0] == 503
    with RawClient(proxy.bootstrap) as client:
        assert not client.works()
    assert proxy.metric("kproxy_upstream_dial_failures_total", node="bootstrap", reason="upstream-speaks-tls-alert") > 0


def test_the_wrong_bootstrap_server_does_not_hide_the_right_one(cluster: DevCluster, own_kproxy: Start) -> None:
    """A list may have both, as when somebody has copied every port."""
    proxy = own_kproxy(f"{cluster.listener('SECURE')[1]},{cluster.dial[1]}")
    with contextlib.closing(RawClient(proxy.bootstrap)) as client:
        assert client.works()
