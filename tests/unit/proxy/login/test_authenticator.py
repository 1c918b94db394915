"""The order of a login in a conversation: what passes to the broker, and what kproxy answers."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kproxy.base.errors import WireError
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import encode_request, read_response
from kproxy.proxy.login.authenticator import ClientAuthenticator
from kproxy.proxy.login.outcomes import Challenge, ClientLoginFailed, Success
from kproxy.proxy.metrics.counters import CallCounters
from kproxy.proxy.relay.calls import Calls
from kproxy.proxy.relay.conversation import Conversation

VERSIONS, HANDSHAKE, AUTHENTICATE = ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
METADATA = encode_request(ApiKey.METADATA, 9, 9, {})
PLAIN = {"Mechanism": "PLAIN"}


class Client:
    """A client of a conversation whose logins end as the test says."""

    def __init__(self, mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256")) -> None:
        calls = Calls(lambda code, api, version: CallCounters(api, version))
        self.conversation = Conversation(calls, lambda endpoints: [], 1 << 20)
        self.tokens: list[bytes] = []
        self.failures: list[ClientLoginFailed] = []
        self.ended = 0
        self.authenticator = ClientAuthenticator(
            mechanisms,
            lambda mechanism: None,
            self.tokens.append,
            self.failures.append,
            self.conversation.judge_anew,
            self._end,
        )
        self.conversation.authenticate(self.authenticator)
        self.now = 1.0
        self._id = 0

    def _end(self) -> None:
        self.ended += 1

    def send(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what passes to the broker, and what the client is answered."""
        passed = bytes(self.conversation.from_client(memoryview(data), self.now))
        return passed, bytes(self.conversation.take_answers())

    def ask(self, key: ApiKey, version: int, fields: Any = b"") -> dict[str, Any] | bytes | None:
        """Return the fields of kproxy's answer, the bytes that pass, or None if the client waits."""
        self._id += 1
        passed, answer = self.send(encode_request(key, version, self._id, fields))
        if passed:
            return passed
        return self.read(key, version, answer) if answer else None

    def read(self, key: ApiKey, version: int, answer: bytes) -> dict[str, Any]:
        size, correlation_id = struct.unpack_from(">ii", answer)
        assert (size, correlation_id) == (len(answer) - 4, self._id)
        return read_response(key, version, answer, 8)

    def resume(self, outcome: Challenge | Success | ClientLoginFailed, lifetime_ms: int = 0) -> bytes:
        self.authenticator.resume(outcome, lifetime_ms)
        return self.release()

    def release(self) -> bytes:
        assert not self.conversation.release(self.now)
        return bytes(self.conversation.take_answers())

    def log_in(self, version: int = 2, lifetime_ms: int = 0, user: str = "alice") -> dict[str, Any]:
        handshake = self.ask(HANDSHAKE, 1, PLAIN)
        assert isinstance(handshake, dict)
        assert handshake["ErrorCode"] == 0
        assert self.ask(AUTHENTICATE, version, {"AuthBytes": b"token"}) is None
        return self.read(AUTHENTICATE, version, self.resume(Success(user, b"done"), lifetime_ms))


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("asks_first", [True, False])
def test_a_login_and_what_follows(version: int, asks_first: bool) -> None:
    client = Client()
    if asks_first:
        assert isinstance(client.ask(VERSIONS, 3, {"ClientSoftwareName": "x", "ClientSoftwareVersion": "1"}), bytes)
        client.conversation._in_flight.runs.clear()  # answered
    answer = client.log_in(version, 5000)
    assert client.tokens == [b"token"]
    assert (answer["ErrorCode"], answer["ErrorMessage"], answer["AuthBytes"]) == (0, b"", b"done")
    assert answer.get("SessionLifetimeMs", 5000) == 5000
    assert client.authenticator.user == "alice"
    assert client.send(METADATA * 3) == (METADATA * 3, b"")


def test_the_bytes_of_a_login_may_come_one_by_one_and_none_passes() -> None:
    client = Client()
    handshake = encode_request(HANDSHAKE, 1, 1, PLAIN)
    first = encode_request(AUTHENTICATE, 2, 2, {"AuthBytes": b"one"})
    passed = b"".join(client.send(bytes([byte]))[0] for byte in handshake + first)
    assert passed == b""
    assert client.resume(Challenge(b"more"))
    assert client.send(encode_request(AUTHENTICATE, 2, 3, {"AuthBytes": b"two"})) == (b"", b"")
    assert client.tokens == [b"one", b"two"]
    client._id = 3
    assert client.read(AUTHENTICATE, 2, client.resume(Success("alice")))["ErrorCode"] == 0


def test_what_stands_behind_the_last_token_passes_after_it() -> None:
    client = Client()
    client.ask(HANDSHAKE, 1, PLAIN)
    assert client.send(encode_request(AUTHENTICATE, 2, 2, {"AuthBytes": b"x"}) + METADATA) == (b"", b"")
    client.authenticator.resume(Success("alice"))
    assert bytes(client.conversation.release(client.now)) == METADATA


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SASL_AUTHENTICATE])
@pytest.mark.parametrize("after", ["", "versions", "handshake"])
def test_other_requests_before_the_login_close_the_connection(key: ApiKey, after: str) -> None:
    client = Client()
    if after == "versions":
        client.ask(VERSIONS, 0)
    elif after == "handshake":
        client.ask(HANDSHAKE, 1, PLAIN)
        if key is ApiKey.SASL_AUTHENTICATE:
            return
    with pytest.raises(WireError) as closed:
        client.send(struct.pack(">ihhih", 100, key, key.oldest, 7, -1))
    assert closed.value.reason == "client-login"


def test_api_versions_passes_once() -> None:
    client = Client()
    assert isinstance(client.ask(VERSIONS, 3, {"ClientSoftwareName": "not valid!"}), bytes)  # the broker refuses it
    assert isinstance(client.ask(VERSIONS, 0), bytes)
    with pytest.raises(WireError):
        client.ask(VERSIONS, 0)


@pytest.mark.parametrize(("key", "fields"), [(HANDSHAKE, PLAIN), (VERSIONS, {})])
def test_a_request_in_the_middle_of_a_login(key: ApiKey, fields: dict[str, Any]) -> None:
    client = Client()
    client.ask(HANDSHAKE, 1, PLAIN)
    assert client.ask(key, 1, fields) is None  # it costs time
    assert client.failures
    assert client.read(key, 1, client.release())["ErrorCode"] == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ended == 1
    assert client.send(METADATA) == (b"", b"")


def test_an_unknown_mechanism() -> None:
    client = Client()
    assert client.ask(HANDSHAKE, 0, {"Mechanism": "GSSAPI"}) is None
    answer = client.read(HANDSHAKE, 0, client.release())
    assert answer["ErrorCode"] == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer["Mechanisms"] == [b"PLAIN", b"SCRAM-SHA-256"]
    assert client.ended == 1


def test_a_failed_login() -> None:
    client = Client()
    client.ask(HANDSHAKE, 1, PLAIN)
    client.ask(AUTHENTICATE, 0, {"AuthBytes": b"x"})
    answer = client.read(AUTHENTICATE, 0, client.resume(ClientLoginFailed("no", "refused", "wrong")))
    assert (answer["ErrorCode"], answer["ErrorMessage"]) == (ErrorCode.SASL_AUTHENTICATION_FAILED, b"no")
    assert client.ended == 1
    assert client.send(METADATA) == (b"", b"")


def test_tokens_without_a_header() -> None:
    client = Client()
    assert client.ask(HANDSHAKE, 0, PLAIN)
    token = b"\0alice\0secret"
    frame = struct.pack(">i", len(token)) + token
    for byte in frame[:-1]:
        assert client.send(bytes([byte])) == (b"", b"")
    assert client.send(frame[-1:]) == (b"", b"")
    assert client.tokens == [token]
    assert client.resume(Challenge(b"more")) == b"\0\0\0\4more"
    # What reads as a request is a token here.
    assert client.send(METADATA) == (b"", b"")
    assert client.tokens == [token, METADATA[4:]]
    assert client.resume(Success("alice")) == b"\0\0\0\0"
    assert client.send(METADATA) == (METADATA, b"")


def test_a_failed_login_without_headers_has_no_answer() -> None:
    client = Client()
    client.ask(HANDSHAKE, 0, PLAIN)
    client.send(b"\0\0\0\1x")
    client.authenticator.resume(ClientLoginFailed("no", "refused", "wrong"))
    with pytest.raises(WireError):
        client.conversation.release(client.now)


def test_a_token_of_the_broker_does_not_pass_while_kproxy_takes_tokens() -> None:
    client = Client()
    client.ask(HANDSHAKE, 0, PLAIN)
    with pytest.raises(WireError):
        client.conversation.from_upstream(memoryview(b"\0\0\0\4evil----"), 1.0)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">ihhih", 65_537, AUTHENTICATE, 1, 7, -1),
        struct.pack(">ihhih", 1_000_000, HANDSHAKE, 1, 7, -1),
        b"\0\0\0\x15\x60" + bytes(20),  # a token of GSSAPI, first of all
    ],
)
def test_what_is_too_long_or_no_login_closes(data: bytes) -> None:
    client = Client()
    if data[5] == AUTHENTICATE:
        client.ask(HANDSHAKE, 1, PLAIN)
    with pytest.raises(WireError):
        client.send(data)


@pytest.mark.parametrize("size", [-1, 65_537, 2**31 - 1])
def test_tokens_without_a_header_have_a_limit(size: int) -> None:
    client = Client()
    client.ask(HANDSHAKE, 0, PLAIN)
    with pytest.raises(WireError):
        client.send(struct.pack(">i", size))


# KIP-368


def test_without_a_lifetime_a_second_login_is_refused_and_the_session_continues() -> None:
    client = Client()
    client.log_in()
    answer = client.ask(HANDSHAKE, 1, PLAIN)
    assert isinstance(answer, dict)
    assert (answer["ErrorCode"], answer["Mechanisms"]) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    answer = client.ask(AUTHENTICATE, 1, {"AuthBytes": b"x"})
    assert isinstance(answer, dict)
    assert answer["ErrorCode"] == ErrorCode.ILLEGAL_SASL_STATE
    assert client.send(METADATA) == (METADATA, b"")


def test_a_new_login_in_time() -> None:
    client = Client()
    client.log_in(lifetime_ms=1000)
    client.send(METADATA)
    client.conversation._in_flight.runs.clear()
    client.now = 10.0
    client.log_in(lifetime_ms=1000)
    assert client.send(METADATA) == (METADATA, b"")
    client.conversation._in_flight.runs.clear()
    client.now = 10.5  # sooner than a second after the one before
    answer = client.ask(HANDSHAKE, 1, PLAIN)
    assert isinstance(answer, dict)
    assert answer["ErrorCode"] == ErrorCode.ILLEGAL_SASL_STATE


def test_requests_during_a_new_login_close_the_connection() -> None:
    client = Client()
    client.log_in(lifetime_ms=1000)
    client.send(METADATA)
    client.conversation._in_flight.runs.clear()
    client.ask(HANDSHAKE, 1, PLAIN)
    with pytest.raises(WireError):
        client.send(METADATA)


def test_another_mechanism_closes_with_the_next_message() -> None:
    client = Client()
    client.log_in(lifetime_ms=1000)
    assert client.ask(HANDSHAKE, 1, {"Mechanism": "SCRAM-SHA-256"})
    with pytest.raises(WireError):
        client.ask(AUTHENTICATE, 1, {"AuthBytes": b"x"})


def test_after_the_lifetime_only_a_new_login_passes() -> None:
    for key in (ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE):
        client = Client()
        client.log_in(lifetime_ms=1000)
        client.send(METADATA)
        client.authenticator.expire()
        with pytest.raises(WireError) as closed:
            client.ask(key, 1, {"AuthBytes": b""} if key is AUTHENTICATE else b"\0\0\0\0")
        assert closed.value.reason == "login-expired"
    client = Client()
    client.log_in(lifetime_ms=1000)
    client.authenticator.expire()
    client.log_in(lifetime_ms=1000)
    assert client.send(METADATA) == (METADATA, b"")
