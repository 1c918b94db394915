"""Logging in again within a session: over real sockets, between a client's requests."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.client.sasl.exchange import SaslSession
from kproxy.client.sasl.login import LoginContext, SaslLogin
from kproxy.client.sasl.mechanism import LoginRefused
from kproxy.config import ClusterConfig
from kproxy.proxy.cluster import insessionchannel
from kproxy.proxy.cluster.insessionchannel import keep_logged_in
from kproxy.proxy.relay.session import Session
from tests.unit.client.sasl import broker
from tests.unit.proxy.relay.talking import FETCH_V4, Relay, receive, relay, request, response

__all__ = ["relay"]

NOBODY = Address("kafka", 9092)
VERSIONS = {17: 1, 36: 2}
LIFETIME_MS = 20_000


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lifetime is long, its end at once."""
    monkeypatch.setattr(insessionchannel, "_EARLIEST", 0.0)
    monkeypatch.setattr(insessionchannel, "_LATEST", 0.0)
    monkeypatch.setattr(insessionchannel, "_PAUSE", 0.01)


def login(**more: object) -> SaslLogin:
    values = {"sasl": "PLAIN", "sasl_username": "user", "sasl_password": "right", "connect_timeout": 0.2, **more}
    return SaslLogin(ClusterConfig(bootstrap_servers=(NOBODY,), **values))  # type: ignore[arg-type]


def keep(relay: Relay, session: Session, login: SaslLogin) -> Future[None]:
    logged_in = LoginContext(login, NOBODY, "kafka", SaslSession(LIFETIME_MS, VERSIONS))
    return asyncio.run_coroutine_threadsafe(keep_logged_in(session, logged_in), relay.loop)


def next_request(sock: socket.socket) -> bytes:
    """Without its size."""
    return receive(sock, struct.unpack(">i", receive(sock, 4))[0])


def answer(sock: socket.socket, frame: bytes, body: bytes) -> None:
    sock.sendall(response(struct.unpack_from(">i", frame, 4)[0], body))


def take_login(sock: socket.socket, **said: int) -> bytes:
    """Be the broker in one login; its token."""
    frame = next_request(sock)
    assert frame[:4] == struct.pack(">hh", 17, 1)
    answer(sock, frame, broker.handshake())
    frame = next_request(sock)
    assert frame[:4] == struct.pack(">hh", 36, 2)
    answer(sock, frame, broker.authenticate(2, **said))
    return frame.partition(b"\0user\0")[2][:-1]


def test_again_and_again_between_requests(relay: Relay) -> None:
    """Until the broker says that the session has no end. What a client sends meanwhile waits, and comes then."""
    client, far, session = relay.connect()
    first, second = request(FETCH_V4, 1, b"before"), request(FETCH_V4, 2, b"behind")
    client.sendall(first)
    assert receive(far, len(first)) == first
    kept = keep(relay, session, login())
    frame = next_request(far)
    client.sendall(second)
    far.sendall(response(1, b"one"))
    answer(far, frame, broker.handshake())
    answer(far, next_request(far), broker.authenticate(2, life=LIFETIME_MS))
    # The client's request may come before the next login or behind it, but not within one.
    coming = receive(far, len(second))
    if coming == second:
        far.sendall(response(2, b"two"))
        assert take_login(far, life=0) == b"right"
    else:
        rest = receive(far, 4 + struct.unpack_from(">i", coming)[0] - len(coming))
        answer(far, (coming + rest)[4:], broker.handshake())
        answer(far, next_request(far), broker.authenticate(2, life=0))
        assert receive(far, len(second)) == second
        far.sendall(response(2, b"two"))
    assert kept.result(30) is None
    assert receive(client, 22) == response(1, b"one") + response(2, b"two")


def test_a_refusal_is_remembered(relay: Relay) -> None:
    client, far, session = relay.connect()
    one = login()
    kept = keep(relay, session, one)
    take_login(far, error=58)
    with pytest.raises(LoginRefused, match=r"kafka:9092: SASL: the broker refused the login; check sasl-username"):
        kept.result(30)
    with pytest.raises(LoginRefused):
        asyncio.run_coroutine_threadsafe(one.prepare(NOBODY, "kafka"), relay.loop).result(30)
    client.sendall(request(FETCH_V4, 1))
    relay.call(session.close)
    assert far.recv(1) == b"", "nothing of the client follows a refused login"


def hang_up(far: socket.socket) -> None:
    next_request(far)
    far.close()


@pytest.mark.parametrize(
    ("behave", "text"),
    [
        (lambda far: None, "no answer to SaslHandshake within 0.2 s"),
        (hang_up, "the broker closed the connection after SaslHandshake"),
        (lambda far: answer(far, next_request(far), b""), "the broker's answer to SaslHandshake is invalid"),
    ],
    ids=["silent", "closed", "garbage"],
)
def test_no_login(relay: Relay, behave: Callable[[socket.socket], None], text: str) -> None:
    _, far, session = relay.connect()
    kept = keep(relay, session, login())
    behave(far)
    with pytest.raises(UpstreamError, match=f"^kafka:9092: SASL: {text}$") as caught:
        kept.result(30)
    assert caught.value.reason == "sasl"


def test_a_long_answer_to_the_client_is_waited_for(relay: Relay) -> None:
    client, far, session = relay.connect()
    client.sendall(request(FETCH_V4, 1))
    receive(far, len(request(FETCH_V4, 1)))
    kept = keep(relay, session, login())
    with pytest.raises(TimeoutError):
        kept.exception(0.6)
    far.sendall(response(1, b"late"))
    take_login(far, life=0)
    assert kept.result(30) is None
    assert receive(client, 12) == response(1, b"late")


def test_a_password_that_cannot_be_had_is_tried_for_again(relay: Relay, tmp_path: Path) -> None:
    """The client's requests pass meanwhile."""
    client, far, session = relay.connect()
    file = tmp_path / "password"
    kept = keep(relay, session, login(sasl_password=None, sasl_password_file=file))
    for number in range(3):
        client.sendall(request(FETCH_V4, number))
        assert receive(far, len(request(FETCH_V4, number))) == request(FETCH_V4, number)
        far.sendall(response(number, b"answer"))
        receive(client, len(response(number, b"answer")))
    file.write_text("later")
    assert take_login(far, life=0) == b"later"
    assert kept.result(30) is None


def test_a_password_that_cannot_be_had_until_the_end(relay: Relay, tmp_path: Path) -> None:
    _, _, session = relay.connect()
    logged_in = LoginContext(
        login(sasl_password=None, sasl_password_file=tmp_path / "none"), NOBODY, "kafka", SaslSession(100, VERSIONS)
    )
    with pytest.raises(UpstreamError, match=r"SASL: .*none cannot be read: No such file"):
        asyncio.run_coroutine_threadsafe(keep_logged_in(session, logged_in), relay.loop).result(30)


@pytest.mark.parametrize("lifetime_ms", [1, 0, -1, -(2**63)])
def test_a_too_short_lifetime_does_not_cause_constant_logins(
    lifetime_ms: int, relay: Relay, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    _, far, session = relay.connect()
    monkeypatch.setattr(insessionchannel, "_EARLIEST", 0.9)
    monkeypatch.setattr(insessionchannel, "_LATEST", 0.9)
    monkeypatch.setattr(insessionchannel.asyncio, "sleep", sleep)
    one = login()
    for _ in range(2):
        logged_in = LoginContext(one, NOBODY, "kafka", SaslSession(lifetime_ms, VERSIONS))
        kept = asyncio.run_coroutine_threadsafe(keep_logged_in(session, logged_in), relay.loop)
        if lifetime_ms > 0:
            take_login(far, life=lifetime_ms)
            take_login(far, life=-5)
        assert kept.result(30) is None
    assert pauses == ([0.9] * 4 if lifetime_ms > 0 else [])
    assert caplog.text.count("the broker gives logins a lifetime of") == (lifetime_ms != 0)


def test_requests_that_another_holds_stay_held(relay: Relay) -> None:
    client, far, session = relay.connect()
    first = request(FETCH_V4, 1, b"first")
    relay.call(lambda: session.hold(lambda: None))
    client.sendall(first)
    kept = keep(relay, session, login())
    assert take_login(far, life=0) == b"right"
    assert kept.result(30) is None
    assert relay.call(lambda: session.conversation.held), "one release let go what two hold"
    relay.call(session.release)
    assert receive(far, len(first)) == first
