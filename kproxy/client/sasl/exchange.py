"""The requests and responses of one authentication (KIP-43, KIP-152, KIP-368). Sans-IO.

The same class logs in on a new connection and, with the versions that are known by then, again within a session.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Generator
from dataclasses import dataclass

from kproxy.base.errors import UpstreamError, WireError
from kproxy.client.sasl.mechanism import LoginRefused, Mechanism
from kproxy.protocol.wire.api import API_VERSIONS, APIS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kproxy.protocol.wire.primitives import (
    INT16,
    INT32,
    Underflow,
    read_string,
    read_uvarint,
    skip_tags,
    string,
    uvarint,
)
from kproxy.protocol.wire.request import encode_request

_INT64 = struct.Struct(">q")
# Kafka's error codes.
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE, _AUTHENTICATION_FAILED = 33, 34, 58

_FIRST, _TOKEN = "ApiVersions", "a token"

# The newest version of each API that both the broker and kproxy support; APIs of the broker only.
Versions = dict[int, int]
_Conversation = Generator[bytes, bytes, "SaslSession"]
_ResponseBody = Generator[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class SaslSession:
    """A session that the broker has granted.

    `lifetime_ms` is how long the broker keeps the session without another login (KIP-368); 0 means for ever.
    """

    lifetime_ms: int
    versions: Versions


class SaslExchange:
    """One authentication: `first_request` begins it, `next_request` takes each response; it returns None at the end.

    Requests are whole frames, responses frames without their size. `step` names the request that is under way; `result`
    is set once `next_request` has returned None. Both methods raise UpstreamError, `next_request` also LoginRefused.
    Both may block, as a mechanism's steps do.
    """

    def __init__(self, mechanism: Mechanism, versions: Versions | None = None, first_id: int = 1) -> None:
        self.mechanism = mechanism.name
        self._mechanism = mechanism
        self._versions = versions
        self._next_id = first_id
        self.step = _FIRST
        self._conversation = self._run()
        self.result: SaslSession | None = None

    def first_request(self) -> bytes:
        """Return the first request."""
        return next(self._conversation)

    def next_request(self, response: bytes) -> bytes | None:
        """Take a response, and return the next request; None at the end."""
        try:
            return self._conversation.send(response)
        except StopIteration as end:
            self.result = end.value
            return None
        except (Underflow, WireError, struct.error):
            raise UpstreamError("sasl", f"the broker's answer to {self.step} is invalid") from None

    def connection_closed(self) -> UpstreamError:
        """Return the error for a broker that closes the connection instead of answering."""
        if self.step == _TOKEN:  # SaslHandshake v0 has no words for a refusal
            return LoginRefused(f"the broker closed the connection after the credentials; {self._mechanism.advice}")
        hint = (
            ": its listener may expect TLS (SSL, SASL_SSL): use --tls; or the server is not a Kafka broker"
            if self.step == _FIRST
            else ""
        )
        return UpstreamError("sasl", f"the broker closed the connection after {self.step}{hint}")

    def _run(self) -> _Conversation:
        versions, mechanism = self._versions, self._mechanism
        # Within a session a client's requests wait from the handshake on; the first token may take long.
        token = mechanism.step(b"") if versions is not None else None
        if versions is None:
            versions = _read_versions((yield from self._ask(API_VERSIONS, 0, b"")))
        self._versions = versions
        if SASL_HANDSHAKE not in versions:
            raise UpstreamError("sasl", "the broker does not support SaslHandshake: it is older than Kafka 0.10")
        framed = SASL_AUTHENTICATE in versions and versions[SASL_HANDSHAKE] >= 1
        self.step = "SaslHandshake"
        name = string(mechanism.name.encode(), compact=False)
        self._check_handshake((yield from self._ask(SASL_HANDSHAKE, int(framed), name)))
        self.step = "SaslAuthenticate" if framed else _TOKEN
        token = token or mechanism.step(b"")
        return SaslSession((yield from (self._framed(token) if framed else self._raw(token))), versions)

    def _framed(self, token: bytes | None) -> Generator[bytes, bytes, int]:
        """Send the tokens within SaslAuthenticate, and return the session's lifetime in ms."""
        assert self._versions is not None
        version, mechanism, lifetime = self._versions[SASL_AUTHENTICATE], self._mechanism, 0
        flexible = version >= APIS[SASL_AUTHENTICATE].flexible
        while token is not None:
            size = uvarint(len(token) + 1) if flexible else INT32.pack(len(token))
            body = size + token + (b"\0" if flexible else b"")
            challenge, lifetime = self._authenticated((yield from self._ask(SASL_AUTHENTICATE, version, body)), version)
            token = None if mechanism.finished else mechanism.step(challenge)
        return lifetime

    def _raw(self, token: bytes | None) -> Generator[bytes, bytes, int]:
        """Send the tokens without headers, for brokers before Kafka 1.0."""
        mechanism = self._mechanism
        if mechanism.name == "GSSAPI":
            raise UpstreamError("sasl", "kproxy logs in with GSSAPI to Kafka 1.0 and later; this broker is older")
        while token is not None:
            token = mechanism.step((yield INT32.pack(len(token)) + token))
        return 0

    def _ask(self, key: int, version: int, body: bytes) -> _ResponseBody:
        """Send one request, and return the body of its response."""
        correlation_id, self._next_id = self._next_id, self._next_id + 1
        response = yield encode_request(key, version, correlation_id, body)
        if len(response) < 4 or INT32.unpack_from(response)[0] != correlation_id:
            raise UpstreamError("sasl", f"the server that answers {self.step} is not a Kafka broker")
        flexible = key != API_VERSIONS and version >= APIS[key].flexible
        return response[skip_tags(response, 4, len(response)) if flexible else 4 :]

    def _check_handshake(self, body: bytes) -> None:
        (error,), (count,) = INT16.unpack_from(body), INT32.unpack_from(body, 2)
        if error == _UNSUPPORTED_MECHANISM:
            names, at = [], 6
            for _ in range(min(count, 20)):
                name, at = read_string(body, at, len(body), compact=False, nullable=False)
                names.append(re.sub(r"[^A-Z0-9_-]", "?", (name or b"").decode("latin-1"))[:20])
            raise UpstreamError(
                "sasl", f"the broker has not enabled {self._mechanism.name}: set sasl to one of {', '.join(names)}"
            )
        if error == _ILLEGAL_STATE:
            raise UpstreamError(
                "sasl", "the broker's listener does not support SASL: remove sasl, or use a SASL listener"
            )
        if error:
            raise UpstreamError("sasl", f"the broker answers SaslHandshake with error {error}")

    def _authenticated(self, body: bytes, version: int) -> tuple[bytes, int]:
        """Return the broker's token and the session's lifetime in ms."""
        flexible, end = version >= APIS[SASL_AUTHENTICATE].flexible, len(body)
        (error,) = INT16.unpack_from(body)
        message, at = read_string(body, 2, end, compact=flexible, nullable=True)
        if error == _AUTHENTICATION_FAILED:
            raise LoginRefused(f"the broker refused the login{self._quote(message)}; {self._mechanism.advice}")
        if error:
            raise UpstreamError("sasl", f"the broker answers SaslAuthenticate with error {error}{self._quote(message)}")
        if flexible:
            size, at = read_uvarint(body, at, end)
            size -= 1
        else:
            size, at = INT32.unpack_from(body, at)[0], at + 4
        if not 0 <= size <= end - at:
            raise Underflow
        return body[at : at + size], _INT64.unpack_from(body, at + size)[0] if version >= 1 else 0

    def _quote(self, message: bytes | None) -> str:
        """Return the broker's message for an error text, without secrets: it may repeat what kproxy has sent."""
        text = (message or b"").decode("utf-8", "replace")
        for secret in self._mechanism.secrets:
            text = text.replace(secret, "***")
        text = "".join(c if c.isprintable() else " " for c in text)
        return f' ("{" ".join(text.split())[:200]}")' if text.strip() else ""


def _read_versions(body: bytes) -> Versions:
    """Decode an ApiVersions response, v0: error code, ranges[API key, lowest, highest]."""
    versions = {}
    for at in range(6, len(body) - 5, 6):
        key, lowest, highest = struct.unpack_from(">hhh", body, at)
        if key in (SASL_HANDSHAKE, SASL_AUTHENTICATE) and lowest <= APIS[key].newest:
            versions[key] = min(highest, APIS[key].newest)
    return versions
