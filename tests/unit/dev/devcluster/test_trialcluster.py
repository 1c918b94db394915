"""`kproxy devcluster` before it starts anything, and its certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kproxy.cli import invoke
from kproxy.dev.devcluster import certificates
from kproxy.dev.devcluster.fleet import ProcessExit
from tests.harness.tls import connected, in_thread


@pytest.mark.parametrize(
    "name",
    ["", "a b", "kafka-{nr}", "{", "{}", "{id.x}", "a:9093", "0.0.0.0", "a/b", "münchen", "a,b", "[::1", "{id!z}"],
)
def test_what_cannot_be_a_host(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["devcluster", "--advertise", name]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        "kproxy: --advertise: not a host; allowed: NAME, in which {id} stands for the node id, without a port\n",
    )


@pytest.mark.parametrize("number", ["0", "10", "x", "-1"])
def test_how_many_brokers(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["devcluster", "--brokers", number]) == 2
    assert capsys.readouterr().err.startswith("kproxy: invalid value for '--brokers': ")


def test_what_is_missing_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("JAVA_HOME", "MAVEN_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KPROXY_CACHE", str(tmp_path / "cache"))
    assert invoke(["devcluster"]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 2)
    assert err.splitlines()[0].startswith("kproxy: java was not found: ")
    assert err.splitlines()[1].startswith("kproxy: mvn was not found: ")


@pytest.mark.parametrize("name", ["kafka-1.cluster.internal", "127.0.0.1", "::1"])
def test_certificates_are_for_all_names(tmp_path: Path, name: str) -> None:
    ca, both = certificates.write_certificates(tmp_path, ["kafka-1.cluster.internal", "127.0.0.1", "::1", "127.0.0.1"])
    assert both.stat().st_mode & 0o777 == 0o600
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(both)
    client = ssl.create_default_context(cafile=ca)
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT  # as Python 3.13 and later have it by default
    ours, theirs = connected()

    def serve() -> None:
        with server.wrap_socket(theirs, server_side=True) as tls:
            tls.sendall(b"hello")

    thread = in_thread(serve)
    with client.wrap_socket(ours, server_hostname=name) as tls:
        assert tls.recv(5) == b"hello"
    thread.join(30)
    assert not thread.is_alive()


def test_how_an_end_is_told() -> None:
    assert str(ProcessExit("broker 2", -9, "")) == "broker 2 ended with signal 9: it printed nothing"
    assert str(ProcessExit("the controller", 1, "ERROR x")) == "the controller ended with code 1: ERROR x"
