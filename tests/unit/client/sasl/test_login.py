"""One cluster's logins: over real sockets, and not again and again with what was refused."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.client.ask.channel import ConnectionChannel
from kproxy.client.sasl import secrets
from kproxy.client.sasl.login import SaslLogin
from kproxy.client.sasl.mechanism import LoginRefused
from kproxy.config import ClusterConfig
from kproxy.net.dial.stream import Stream
from tests.harness.servers.peers import Peer
from tests.unit.client.sasl import broker

NOBODY = Address("kafka", 9092)


class Broker:
    """Takes PLAIN with one password; `logins` are those that it was told."""

    def __init__(self) -> None:
        self.password = "right"
        self.logins: list[str] = []

    def __call__(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while head := stream.read(4):
            frame = stream.read(struct.unpack(">i", head)[0])
            body = self._answer(frame)
            connection.sendall(struct.pack(">i", 4 + len(body)) + frame[4:8] + body)
        stream.close()

    def _answer(self, frame: bytes) -> bytes:
        key = struct.unpack_from(">h", frame)[0]
        if key == 18:
            return broker.versions(handshake=1, authenticate=2)
        if key == 17:
            return broker.handshake()
        password = frame.rpartition(b"\0user\0")[2][:-1].decode()
        self.logins.append(password)
        return broker.authenticate(2, life=7) if password == self.password else broker.authenticate(2, error=58)


async def log_in(login: SaslLogin, peer: Peer) -> int:
    """The lifetime in ms."""
    attempt = await login.prepare(NOBODY, "kafka")
    host, port = peer.address.split(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.setblocking(False)
        return (await login.log_in(ConnectionChannel(Stream(sock)), attempt)).lifetime_ms


def config(**more: object) -> ClusterConfig:
    values = {"sasl": "PLAIN", "sasl_username": "user", "connect_timeout": 1.0, **more}
    return ClusterConfig(bootstrap_servers=(NOBODY,), **values)  # type: ignore[arg-type]


async def test_a_login() -> None:
    one = Broker()
    with Peer(one) as peer:
        login = SaslLogin(config(sasl_password="right"))
        assert await asyncio.gather(*(log_in(login, peer) for _ in range(5))) == [7] * 5
        assert one.logins == ["right"] * 5


async def test_a_refused_password_fails_all_and_is_retried_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Broker()
    with Peer(one) as peer:
        login = SaslLogin(config(sasl_password="wrong"))
        results = await asyncio.gather(*(log_in(login, peer) for _ in range(20)), return_exceptions=True)
        assert {type(result) for result in results} == {LoginRefused}
        assert {str(result) for result in results} == {
            "kafka:9092: SASL: the broker refused the login; check sasl-username and the password"
        }
        assert one.logins == ["wrong"]
        began = time.monotonic()
        after = []
        for second in range(400):
            monkeypatch.setattr(secrets, "time", SimpleNamespace(monotonic=lambda now=began + second: now))
            with pytest.raises(LoginRefused):
                await log_in(login, peer)
            after.append(len(one.logins))
        # After 5, 15, 35, 75, 155, 275 and 395 s.
        assert after[76] == 5
        assert after[-1] == 8
        one.password = "wrong"
        monkeypatch.setattr(secrets, "time", SimpleNamespace(monotonic=lambda: began + 400 + secrets.LONGEST_PAUSE))
        assert await log_in(login, peer) == 7


async def test_another_password_is_tried_at_once(tmp_path: Path) -> None:
    one, file = Broker(), tmp_path / "password"
    file.write_text("old\n")
    with Peer(one) as peer:
        by_file = SaslLogin(config(sasl_password_file=file))
        by_command = SaslLogin(config(sasl_password_command=f"cat {file}"))
        for login in (by_file, by_command):
            with pytest.raises(LoginRefused):
                await log_in(login, peer)
        file.write_text("right\n")
        for login in (by_file, by_command):
            assert await log_in(login, peer) == 7
    assert one.logins == ["old", "old", "right", "right"]


async def test_a_password_that_is_changed_while_sessions_run(tmp_path: Path) -> None:
    """A command is run once, until its password is refused."""
    one = Broker()
    (tmp_path / "password").write_text("right")
    with Peer(one) as peer:
        login = SaslLogin(config(sasl_password_command=f"sh -c 'echo >> {tmp_path}/runs; cat {tmp_path}/password'"))
        for _ in range(3):
            await log_in(login, peer)
        one.password = "newer"
        (tmp_path / "password").write_text("newer")
        with pytest.raises(LoginRefused):
            await log_in(login, peer)
        assert await log_in(login, peer) == 7
    assert (tmp_path / "runs").read_text() == "\n" * 2


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"", "the broker closed the connection after ApiVersions: its listener may expect TLS"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "the broker's side spoke a TLS alert"),
        (b"HTTP/1.1 400 Bad Request\r\n", "the broker's side spoke HTTP"),
        (b"\x7f\xff\xff\xff\0\0\0\0\0\0\0\0", "the server at this address is not a Kafka broker"),
        (None, "no answer to ApiVersions within 1 s"),
    ],
)
async def test_no_broker(said: bytes | None, text: str) -> None:
    def behave(connection: socket.socket) -> None:
        connection.recv(1000)
        if said is None:
            connection.recv(1)
        else:
            connection.sendall(said)

    with Peer(behave) as peer, pytest.raises(UpstreamError, match=text) as caught:
        await log_in(SaslLogin(config(sasl_password="right")), peer)
    assert str(caught.value).startswith("kafka:9092: SASL: ")
    assert caught.value.reason == "sasl"
    assert not isinstance(caught.value, LoginRefused)


async def test_a_login_shows_no_secret() -> None:
    login = SaslLogin(config(sasl_password="hunter2"))
    attempt = await login.prepare(NOBODY, "kafka")
    assert "hunter2" not in f"{login!r} {attempt!r} {config(sasl_password='hunter2')!r}"
