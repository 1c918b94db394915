"""One connection along `--via`: real sshd, microsocks and tinyproxy, and what they refuse."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from tests.harness.servers.peers import Behaviour, Peer, black_hole, closing, refused
from tests.harness.servers.ways import PASSWORD_IN_URL, USER, Server, Ways, dialer, failure, http_proxy, running, works

pytestmark = pytest.mark.integration

CHAINS = [
    ["sshd"], ["socks"], ["http"], ["socks-login"], ["http-login"],
    ["sshd", "socks-login"], ["socks-login", "sshd"], ["http-login", "sshd"], ["sshd", "http"], ["sshd", "sshd"],
    ["http", "socks"], ["socks", "http"], ["socks", "sshd", "http-login"],
]  # fmt: skip


@pytest.mark.parametrize("names", CHAINS, ids=", ".join)
async def test_bytes_go_there_and_back(names: list[str], ways: Ways) -> None:
    async with dialer(*map(ways.url, names)) as made:
        await works(made, ways.target.address)


@pytest.mark.parametrize("name", ["sshd", "socks", "http"])
async def test_names_are_resolved_at_the_far_end(name: str, ways: Ways, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here(host: str, *args: object, flags: int = 0, **named: object) -> object:
        assert flags & socket.AI_NUMERICHOST, host
        return plain(host, *args, flags=flags, **named)  # type: ignore[arg-type]

    plain = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", none_here)
    async with dialer(ways.url(name)) as made:
        await works(made, f"localhost:{ways.target.address.rpartition(':')[2]}")


# What is wrong with the address


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("sshd", "refused", "cannot connect to it: Connection refused"),
        ("socks", "refused", "connection refused: nothing listens on that port (through --via"),
        ("http", "proxy", "the proxy could not connect (--via"),
    ],
)
async def test_nobody_listens_there(name: str, reason: str, words: str, ways: Ways) -> None:
    with refused() as nobody:
        error = await failure(nobody, ways.url(name))
    assert (error.reason, type(error)) == (reason, UpstreamError)
    assert str(error).startswith(f"{nobody}: ")
    assert words in str(error)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("sshd", "resolve"), ("socks", "proxy"), ("http", "proxy")],
)
async def test_a_name_that_the_far_end_does_not_know(name: str, reason: str, ways: Ways) -> None:
    error = await failure("no-such-host.invalid:9092", ways.url(name))
    assert (error.reason, type(error)) == (reason, UpstreamError)


@pytest.mark.parametrize("name", ["sshd", "socks", "http"])
async def test_nobody_answers_there(name: str, ways: Ways) -> None:
    with black_hole() as hole:
        error = await failure(hole, ways.url(name), seconds=1)
    assert error.reason == "timeout"
    assert str(error) == f"{hole}: no answer within 1 s through --via {ways.url(name)}"


@pytest.mark.parametrize("name", ["sshd", "socks", "http"])
async def test_a_hostile_name_is_an_error_of_its_own(name: str, ways: Ways) -> None:
    async with dialer(ways.url(name)) as made:
        for host in ("a\r\nX: y", "x" * 300, "a..b", "ü\0"):
            with pytest.raises(UpstreamError):
                await made.connect(Address(host, 9092))
        await works(made, ways.target.address)


# What is wrong with the proxy


@pytest.mark.parametrize("name", ["socks-login", "http-login"])
@pytest.mark.parametrize(
    ("login", "words"),
    [("me:wrong@", "the proxy refuses this user and password"), (None, "the proxy requires a user and password")],
)
async def test_a_wrong_password_and_none(name: str, login: str | None, words: str, ways: Ways) -> None:
    url = ways.url(name, login or "")
    url = url if login else url.replace(f"{USER}:{PASSWORD_IN_URL}@", "")
    error = await failure(ways.target.address, url)
    assert (error.reason, type(error)) == ("proxy-auth", ViaError)
    assert words in str(error)


async def test_what_the_proxy_does_not_allow(ways: Ways, tmp_path: Path) -> None:
    with running(http_proxy(tmp_path, "", "", "ConnectPort 443")) as strict:
        error = await failure(ways.target.address, f"http://127.0.0.1:{strict.port}")
    assert error.reason == "proxy"
    assert "does not allow connections there (403 " in str(error)


@pytest.mark.parametrize("scheme", ["socks5", "http", "https", "ssh"])
async def test_a_hop_that_cannot_be_reached(scheme: str, ways: Ways) -> None:
    reason = "ssh" if scheme == "ssh" else "proxy"
    with refused() as nobody, black_hole() as hole:
        error = await failure(ways.target.address, f"{scheme}://{nobody}")
        assert (error.reason, type(error)) == (reason, ViaError)
        assert str(error) == f"--via {scheme}://{nobody}: {nobody}: connection refused: nothing listens on that port"
        error = await failure(ways.target.address, f"{scheme}://{hole}", seconds=1)
        assert (error.reason, type(error)) == (reason, ViaError)
        assert "within 1 s" in str(error)
        error = await failure(ways.target.address, f"{scheme}://no-such-host.invalid:1")
        assert (error.reason, type(error)) == (reason, ViaError)
        assert "the name 'no-such-host.invalid' cannot be resolved here" in str(error)
        behind = await failure(ways.target.address, ways.url("socks"), f"{scheme}://{nobody}")
        assert (behind.reason, type(behind)) == (reason, ViaError)


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ("socks5", "is not a SOCKS5 proxy"),
        ("http", "is not an HTTP proxy"),
        ("https", "it may be an http:// proxy"),
        ("ssh", "is not an SSH server"),
    ],
)
async def test_something_else_answers(scheme: str, words: str, ways: Ways) -> None:
    def nonsense(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"220 mail.example ESMTP\r\n\r\n")

    with Peer(nonsense) as peer:
        error = await failure(ways.target.address, f"{scheme}://{peer.address}", seconds=5)
    assert isinstance(error, ViaError)
    assert words in str(error)


async def test_a_socks5_url_of_an_http_proxy(ways: Ways) -> None:
    """A real one waits silently for the end of the line."""
    port = ways.servers["http"].port
    error = await failure(ways.target.address, f"socks5://127.0.0.1:{port}", seconds=1)
    assert (error.reason, type(error)) == ("proxy", ViaError)
    assert str(error) == (
        f"--via socks5://127.0.0.1:{port}: no answer to the SOCKS5 greeting within 1 s; if the server is an HTTP"
        " proxy, use --via http://HOST:PORT"
    )


@pytest.mark.parametrize("login", ["", "me:pass@"])
async def test_a_socks5_url_of_an_http_proxy_that_answers_at_once(login: str, ways: Ways) -> None:
    def answers(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    with Peer(answers) as peer:
        error = await failure(ways.target.address, f"socks5://{login}{peer.address}")
    assert (error.reason, type(error)) == ("proxy", ViaError)
    assert "the server at this address is an HTTP proxy or a web server: use --via http://HOST:PORT" in str(error)


@pytest.mark.parametrize("name", ["socks", "socks-login"])
async def test_an_http_url_of_a_socks5_proxy(name: str, ways: Ways) -> None:
    error = await failure(ways.target.address, f"http://127.0.0.1:{ways.servers[name].port}")
    assert (error.reason, type(error)) == ("proxy", ViaError)
    assert "the server at this address is a SOCKS5 proxy: use --via socks5://HOST:PORT" in str(error)


async def test_an_http_url_of_something_that_hangs_up(ways: Ways) -> None:
    """As many SOCKS servers do."""
    with Peer(closing) as peer:
        error = await failure(ways.target.address, f"http://{peer.address}")
    assert isinstance(error, ViaError)
    assert "is not an HTTP proxy" in str(error)


async def test_an_answer_in_pieces_followed_by_the_peers_first_bytes(ways: Ways) -> None:
    """What follows the proxy's answer is not the proxy's, wherever the packets divide."""
    answer = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nSSH-2.0-"

    def in_pieces(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.recv(65536)
        for at in range(0, len(answer), 7):
            connection.sendall(answer[at : at + 7])
        connection.recv(1)

    with Peer(in_pieces) as peer:
        async with dialer(f"http://{peer.address}") as made:
            with await made.connect(Address("kafka", 9092)) as sock:
                got = b""
                while len(got) < 8:
                    got += await asyncio.get_running_loop().sock_recv(sock, 100)
                assert got == b"SSH-2.0-"


# TLS to the proxy


def make_authority(directory: Path) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, which is its own authority; and a file with its key."""
    certificate, both = directory / "ca.pem", directory / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=proxy", "-days", "2",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", both, "-out", certificate],
        check=True,
        capture_output=True,
    )  # fmt: skip
    both.write_text(both.read_text() + certificate.read_text())
    return certificate, both


def tls_before(server: Server, certificate: Path) -> Behaviour:
    """Ends TLS and passes on, as a proxy with an https:// port does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def behave(connection: socket.socket) -> None:
        with (
            context.wrap_socket(connection, server_side=True) as secured,
            socket.create_connection(("127.0.0.1", server.port)) as inner,
        ):
            thread = threading.Thread(target=copy, args=(inner, secured), daemon=True)
            thread.start()
            copy(secured, inner)
            thread.join(30)

    return behave


def copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


async def test_an_https_proxy(ways: Ways, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, both = make_authority(tmp_path)
    with Peer(tls_before(ways.servers["http-login"], both)) as peer:
        port = peer.address.rpartition(":")[2]
        url = f"https://{USER}:{PASSWORD_IN_URL}@localhost:{port}"
        error = await failure(ways.target.address, url)
        assert (error.reason, type(error)) == ("proxy", ViaError)
        assert "the proxy's certificate is not trusted: " in str(error)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        for urls in ([url], [url, ways.url("sshd")], [ways.url("sshd"), url]):
            async with dialer(*urls) as made:
                await works(made, ways.target.address)
        error = await failure(ways.target.address, url.replace("localhost", "127.0.0.1"))
        assert "the proxy's certificate is not trusted: " in str(error)
