"""The requests and responses of one authentication (KIP-43, KIP-152, KIP-368). Sans-IO.

The same class logs in on a new connection and, with the versions that are known by then, again within a session.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from kproxy.base.errors import UpstreamError, WireError
from kproxy.base.messages.logins import (
    CLOSED_AT_FIRST_REQUEST,
    CLOSED_AT_LOGIN,
    LOGIN_REFUSED,
    MECHANISM_NOT_ENABLED,
    NO_SASL_LISTENER,
)
from kproxy.client.sasl.mechanism import LoginRefused, Mechanism
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import SHORT, encode_request, read_response
from kproxy.protocol.wire.primitives import INT32, Underflow

_FIRST, _TOKEN = "ApiVersions", "a token"
# The longest response with a token, in bytes: brokers take tokens of half as many by default.
_LONGEST_TOKEN = 1024 * 1024

# The newest version of each API that both the broker and kproxy support; APIs of the broker only.
Versions = dict[int, int]
_Conversation = Generator[bytes, bytes, "SaslSession"]
_ResponseFields = Generator[bytes, bytes, dict[str, Any]]


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
        except (Underflow, WireError):
            raise UpstreamError("sasl", f"the broker's answer to {self.step} is invalid") from None

    def connection_closed(self) -> UpstreamError:
        """Return the error for a broker that closes the connection instead of answering."""
        if self.step == _TOKEN:  # SaslHandshake v0 has no words for a refusal
            return LoginRefused(f"{CLOSED_AT_LOGIN(step='the credentials')}; {self._mechanism.advice}")
        message = CLOSED_AT_FIRST_REQUEST if self.step == _FIRST else CLOSED_AT_LOGIN
        return UpstreamError(*message.with_reason(step=self.step))

    def _run(self) -> _Conversation:
        versions, mechanism = self._versions, self._mechanism
        # Within a session a client's requests wait from the handshake on; the first token may take long.
        token = mechanism.step(b"") if versions is not None else None
        if versions is None:
            fields = yield from self._ask(ApiKey.API_VERSIONS, 0, {})
            versions = {
                api["ApiKey"]: min(api["MaxVersion"], APIS[api["ApiKey"]].newest)
                for api in fields["ApiKeys"]
                if api["ApiKey"] in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
                and api["MinVersion"] <= APIS[api["ApiKey"]].newest
            }
        self._versions = versions
        if ApiKey.SASL_HANDSHAKE not in versions:
            raise UpstreamError("sasl", "the broker does not support SaslHandshake: it is older than Kafka 0.10")
        framed = ApiKey.SASL_AUTHENTICATE in versions and versions[ApiKey.SASL_HANDSHAKE] >= 1
        self.step = "SaslHandshake"
        name = {"Mechanism": mechanism.name}
        self._check_handshake((yield from self._ask(ApiKey.SASL_HANDSHAKE, int(framed), name)))
        self.step = "SaslAuthenticate" if framed else _TOKEN
        token = token or mechanism.step(b"")
        return SaslSession((yield from (self._framed(token) if framed else self._raw(token))), versions)

    def _framed(self, token: bytes | None) -> Generator[bytes, bytes, int]:
        """Send the tokens within SaslAuthenticate, and return the session's lifetime in ms."""
        assert self._versions is not None
        version, mechanism, lifetime = self._versions[ApiKey.SASL_AUTHENTICATE], self._mechanism, 0
        while token is not None:
            response = yield from self._ask(ApiKey.SASL_AUTHENTICATE, version, {"AuthBytes": token})
            challenge, lifetime = self._authenticated(response)
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

    def _ask(self, key: int, version: int, fields: dict[str, Any]) -> _ResponseFields:
        """Send one request, and return the fields of its response."""
        correlation_id, self._next_id = self._next_id, self._next_id + 1
        response = yield encode_request(key, version, correlation_id, fields)
        if len(response) < 4 or INT32.unpack_from(response)[0] != correlation_id:
            raise UpstreamError("sasl", f"the server that answers {self.step} is not a Kafka broker")
        return read_response(key, version, response, 4, _LONGEST_TOKEN if key == ApiKey.SASL_AUTHENTICATE else SHORT)

    def _check_handshake(self, fields: dict[str, Any]) -> None:
        error = fields["ErrorCode"]
        if error == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            names = [re.sub(r"[^A-Z0-9_-]", "?", name.decode("latin-1"))[:20] for name in fields["Mechanisms"][:20]]
            raise UpstreamError(*MECHANISM_NOT_ENABLED.with_reason(name=self._mechanism.name, names=", ".join(names)))
        if error == ErrorCode.ILLEGAL_SASL_STATE:
            raise UpstreamError(*NO_SASL_LISTENER.with_reason())
        if error:
            raise UpstreamError("sasl", f"the broker answers SaslHandshake with error {error}")

    def _authenticated(self, fields: dict[str, Any]) -> tuple[bytes, int]:
        """Return the broker's token and the session's lifetime in ms."""
        error, message = fields["ErrorCode"], fields["ErrorMessage"]
        if error == ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise LoginRefused(LOGIN_REFUSED(quote=self._quote(message), advice=self._mechanism.advice))
        if error:
            raise UpstreamError("sasl", f"the broker answers SaslAuthenticate with error {error}{self._quote(message)}")
        return bytes(fields["AuthBytes"]), fields.get("SessionLifetimeMs", 0)

    def _quote(self, message: bytes | None) -> str:
        """Return the broker's message for an error text, without secrets: it may repeat what kproxy has sent."""
        text = (message or b"").decode("utf-8", "replace")
        for secret in self._mechanism.secrets:
            text = text.replace(secret, "***")
        text = "".join(c if c.isprintable() else " " for c in text)
        return f' ("{" ".join(text.split())[:200]}")' if text.strip() else ""
