"""The frames of a login: versions, refusals, re-authentication, and what no broker would say."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import UpstreamError
from kproxy.client.sasl.exchange import SaslExchange, SaslSession
from kproxy.client.sasl.mechanism import LoginRefused, OAuthBearer, Plain, Scram
from tests.unit.client.sasl import broker

TOKEN = b"\0user\0hunter2"


def plain() -> Plain:
    return Plain("user", "hunter2")


def header(frame: bytes) -> tuple[int, int, int]:
    """API key, version and correlation id of a request; its size and its client id are right."""
    size, key, version, correlation_id = struct.unpack_from(">ihhi", frame)
    assert size == len(frame) - 4
    assert frame[12:20] == b"\0\x06kproxy"
    return key, version, correlation_id


def answer(request: bytes, body: bytes) -> bytes:
    """A response's frame without its size."""
    return request[8:12] + body


def begin(exchange: SaslExchange, authenticate: int | None = 2) -> bytes:
    """To the request after SaslHandshake."""
    newest = {"handshake": 0} if authenticate is None else {"handshake": 1, "authenticate": authenticate}
    request = exchange.first_request()
    assert header(request) == (18, 0, 1)
    request = exchange.next_request(answer(request, broker.versions(metadata=9, **newest))) or b""
    assert header(request) == (17, newest["handshake"], 2)
    name = exchange._mechanism.name.encode()
    assert request[20:] == struct.pack(">h", len(name)) + name
    return exchange.next_request(answer(request, broker.handshake(0, b"PLAIN"))) or b""


@pytest.mark.parametrize(("newest", "version"), [(0, 0), (1, 1), (2, 2), (7, 2)])
def test_every_version_of_sasl_authenticate(newest: int, version: int) -> None:
    exchange = SaslExchange(plain())
    request = begin(exchange, newest)
    assert header(request) == (36, version, 3)
    compact = b"\0" + bytes([len(TOKEN) + 1]) + TOKEN + b"\0"
    assert request[20:] == (compact if version == 2 else struct.pack(">i", len(TOKEN)) + TOKEN)
    assert exchange.next_request(answer(request, broker.authenticate(version, life=9000))) is None
    assert exchange.result == SaslSession(9000 if version else 0, {17: 1, 36: version})


def test_raw_tokens_for_a_broker_before_1_0() -> None:
    exchange = SaslExchange(plain())
    assert begin(exchange, None) == struct.pack(">i", len(TOKEN)) + TOKEN
    assert isinstance(exchange.connection_closed(), LoginRefused)
    assert exchange.next_request(b"") is None
    assert exchange.result == SaslSession(0, {17: 0})


def test_again_within_a_session() -> None:
    """No ApiVersions, and correlation ids that somebody else chose."""
    exchange = SaslExchange(plain(), {17: 1, 36: 2}, first_id=-7)
    request = exchange.first_request()
    assert header(request) == (17, 1, -7)
    request = exchange.next_request(answer(request, broker.handshake())) or b""
    assert header(request) == (36, 2, -6)
    assert exchange.next_request(answer(request, broker.authenticate(2, life=5))) is None
    assert exchange.result == SaslSession(5, {17: 1, 36: 2})


def test_a_mechanism_that_is_not_enabled() -> None:
    exchange = SaslExchange(plain())
    request = (
        exchange.next_request(answer(exchange.first_request(), broker.versions(handshake=1, authenticate=2))) or b""
    )
    with pytest.raises(UpstreamError, match=r"has not enabled PLAIN: set sasl to one of SCRAM-SHA-512, \?\?"):
        exchange.next_request(answer(request, broker.handshake(33, b"SCRAM-SHA-512", b"\x1b\xff")))


def test_a_list_of_mechanisms_without_end_is_not_read() -> None:
    exchange = SaslExchange(plain())
    request = exchange.next_request(answer(exchange.first_request(), broker.versions(handshake=1))) or b""
    with pytest.raises(UpstreamError, match="answer to SaslHandshake is invalid"):
        exchange.next_request(answer(request, broker.handshake(33, *[b"PLAIN"] * 100_000)))


@pytest.mark.parametrize(
    ("error", "text"), [(34, "does not support SASL: remove sasl"), (7, "answers SaslHandshake with error 7")]
)
def test_a_handshake_that_fails(error: int, text: str) -> None:
    exchange = SaslExchange(plain())
    request = (
        exchange.next_request(answer(exchange.first_request(), broker.versions(handshake=1, authenticate=2))) or b""
    )
    with pytest.raises(UpstreamError, match=text) as caught:
        exchange.next_request(answer(request, broker.handshake(error)))
    assert not isinstance(caught.value, LoginRefused)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_wrong_password(version: int) -> None:
    """The broker's words, without what they must not repeat, on one line."""
    exchange = SaslExchange(plain())
    request = begin(exchange, version)
    said = b"no\n\x1b[31m user has hunter2" + b"!" * 30
    with pytest.raises(LoginRefused) as caught:
        exchange.next_request(answer(request, broker.authenticate(version, b"", 58, said)))
    assert str(caught.value) == (
        f'the broker refused the login ("no [31m user has ***{"!" * 30}"); check sasl-username and the password'
    )


def test_another_error() -> None:
    exchange = SaslExchange(plain())
    with pytest.raises(UpstreamError, match=r"answers SaslAuthenticate with error 42$") as caught:
        exchange.next_request(answer(begin(exchange), broker.authenticate(2, b"", 42)))
    assert not isinstance(caught.value, LoginRefused)


def test_an_expired_token() -> None:
    """RFC 7628 §3.2.3: the error comes as a token, and the refusal after the next one."""
    exchange = SaslExchange(OAuthBearer("the-token", {}))
    request = (
        exchange.next_request(answer(begin(exchange), broker.authenticate(2, b'{"status":"invalid_token"}'))) or b""
    )
    assert request[20:] == b"\0\x02\x01\0"
    with pytest.raises(LoginRefused, match=r"\(.*invalid_token.*\); check the token"):
        exchange.next_request(answer(request, broker.authenticate(2, b"", 58, b'{"status":"invalid_token"}')))


def test_a_broker_that_agrees_without_proving_itself() -> None:
    exchange = SaslExchange(Scram("SCRAM-SHA-256", "user", "hunter2"))
    with pytest.raises(UpstreamError, match="the server is not the broker of this user"):
        exchange.next_request(answer(begin(exchange), broker.authenticate(2)))
    assert exchange.result is None


def test_what_a_closed_connection_means() -> None:
    exchange = SaslExchange(plain())
    request = exchange.first_request()
    assert "its listener may expect TLS" in str(exchange.connection_closed())
    exchange.next_request(answer(request, broker.versions(handshake=1, authenticate=2)))
    assert str(exchange.connection_closed()) == "the broker closed the connection after SaslHandshake"


def test_a_wrong_correlation_id() -> None:
    exchange = SaslExchange(plain())
    exchange.first_request()
    with pytest.raises(UpstreamError, match="not a Kafka broker"):
        exchange.next_request(b"\0\0\0\x09" + broker.versions(handshake=1))


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.booleans())
def test_garbage_ends_in_one_error(bodies: list[bytes], keep_id: bool) -> None:
    exchange = SaslExchange(plain())
    request: bytes | None = exchange.first_request()
    try:
        for body in bodies:
            if request is None:
                return
            request = exchange.next_request(answer(request, body) if keep_id else body)
    except UpstreamError:
        assert exchange.result is None


@given(st.integers(0, 2), st.binary(max_size=60))
def test_garbage_as_the_last_answer(version: int, body: bytes) -> None:
    exchange = SaslExchange(plain())
    request = begin(exchange, version)
    try:
        exchange.next_request(answer(request, body))
    except UpstreamError:
        assert exchange.result is None
