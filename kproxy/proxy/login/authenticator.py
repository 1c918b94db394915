"""The order of the messages of one client's login, as a broker has it (`SaslServerAuthenticator` in Kafka). Sans-IO.

    start            nothing has come: ApiVersions, or SaslHandshake, may
    versions         ApiVersions has passed: SaslHandshake must follow
    tokens           SaslHandshake has named the mechanism: tokens follow
    open             the login has succeeded: requests pass
    wrong mechanism  SaslHandshake in a new login named another mechanism: the next message closes the connection
    refused          the login has failed: its answer waits, then the connection closes

A new login (KIP-368) goes from open to tokens and back; no other request passes meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Protocol

from kproxy.base.errors import WireError
from kproxy.base.messages.clientlogins import (
    LOGIN_EXPIRED,
    LOGIN_MESSAGE_TOO_LONG,
    LOGIN_OUT_OF_ORDER,
    NO_GSSAPI_HERE,
    NOT_LOGGED_IN,
    OTHER_MECHANISM,
)
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import encode_response, read_request
from kproxy.protocol.wire.primitives import INT32, Buffer, Underflow, malformed
from kproxy.proxy.login.outcomes import Challenge, ClientLoginFailed, Success
from kproxy.proxy.relay.calls import Call, Calls, GuardVerdict, SelectedCalls
from kproxy.proxy.relay.judged import Authenticator, JudgedCall

# A broker takes 512 KiB by default (sasl.server.max.receive.size), from each client that connects. A token of an
# OIDC server has some KiB.
LONGEST = 64 * 1024
"""The most bytes of a message of a login."""
# A broker takes no new login sooner than so many seconds after the one before (KIP-368).
_LEAST_BETWEEN = 1.0
_TWICE = "SaslAuthenticate request received after successful authentication"
# What a broker demands of a client's software, else it answers INVALID_REQUEST (KIP-511).
_SOFTWARE = re.compile(rb"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_HANDSHAKE, _AUTHENTICATE, _VERSIONS = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS


class LoginState(Enum):
    """The state of a login; the docstring of the module describes each."""

    START = auto()
    VERSIONS = auto()
    TOKENS = auto()
    OPEN = auto()
    WRONG_MECHANISM = auto()
    REFUSED = auto()


Outcome = Challenge | Success | ClientLoginFailed


class ClientAuthenticator:
    """The login of one client, and the new logins that follow it.

    `begin` receives the mechanism, and raises WireError if no login may begin now. `evaluate` receives each token, and
    must see that `resume` gets its outcome. `refuse` receives a failure before any token. After both, the session is
    held until the same code releases it. `changed` is called when other requests begin to pass or end to, and
    `end_session` when the session must end as soon as the client has its answer.

    `user` is the user who has logged in, "" before. `expired`: the lifetime of the login has ended.
    """

    longest = LONGEST

    def __init__(
        self,
        mechanisms: Sequence[str],
        begin: Callable[[str], None],
        evaluate: Callable[[bytes], None],
        refuse: Callable[[ClientLoginFailed], None],
        changed: Callable[[], None],
        end_session: Callable[[], None],
    ) -> None:
        self._mechanisms = mechanisms
        self._begin, self._evaluate, self._refuse = begin, evaluate, refuse
        self._changed, self._end_session = changed, end_session
        self.state = LoginState.START
        self.mechanism = ""
        self.user = ""
        self.awaits_token = False
        self.expired = False
        self._has_logged_in = False
        self._lifetime_ms = 0
        self._begun_again: float | None = None
        self._outcome: Outcome | None = None
        self._refusal = b""  # the answer that waits

    # For the code that evaluates tokens

    def resume(self, outcome: Outcome, lifetime_ms: int = 0) -> None:
        """Take the outcome of the token. Then the session must be released.

        `lifetime_ms` is how long a login lasts that has succeeded; 0 means for ever.
        """
        self._outcome = outcome
        if isinstance(outcome, Success):
            self._lifetime_ms = lifetime_ms

    @property
    def has_logged_in(self) -> bool:
        """True if a login has succeeded before."""
        return self._has_logged_in

    def expire(self) -> None:
        """End the lifetime of the login: only a new one may follow."""
        self.expired = True
        self._changed()

    @property
    def is_open(self) -> bool:
        """True if requests pass."""
        return self.state is LoginState.OPEN and not self.expired

    # For the conversation

    def wrap(self, calls: Calls) -> Calls:
        """Return these calls, with those that the login needs."""
        return AuthenticatedCalls(calls, self)

    def judge(self, call: Call, request: Buffer, size: int, now: float) -> GuardVerdict | bytes:
        """Judge a request that begins with these bytes, of `size` bytes without its size field. Raises WireError."""
        if self.state is LoginState.REFUSED:
            return self._answer_refusal()
        if self.state is LoginState.WRONG_MECHANISM:
            raise WireError(*OTHER_MECHANISM.with_reason(mechanism=self.mechanism))
        if self.expired and self.state is LoginState.OPEN and call.key != _HANDSHAKE:
            raise WireError(*LOGIN_EXPIRED.with_reason(api=call.api))
        if call.key not in (_HANDSHAKE, _AUTHENTICATE, _VERSIONS) or (
            call.key == _AUTHENTICATE and self.state in (LoginState.START, LoginState.VERSIONS)
        ):
            raise WireError(*NOT_LOGGED_IN.with_reason(api=call.api))
        if size > LONGEST:
            raise WireError(*LOGIN_MESSAGE_TOO_LONG.with_reason(size=size, most=LONGEST))
        if len(request) < 4 + size:
            return GuardVerdict.MORE
        try:
            _, version, correlation_id, fields = read_request(request[: 4 + size])
        except Underflow:
            raise malformed(f"a {call.api} request ends before its last field") from None
        if call.key == _VERSIONS:
            return self._judge_versions(version, correlation_id, fields)
        if call.key == _HANDSHAKE:
            return self._judge_handshake(version, correlation_id, bytes(fields["Mechanism"]), now)
        return self._judge_authenticate(version, correlation_id, bytes(fields["AuthBytes"]))

    def judge_token(self, size: int, token: Buffer) -> GuardVerdict | bytes:
        """Take a token of `size` bytes without a header; return the answer, a frame, or HOLD. Raises WireError."""
        if not 0 <= size <= LONGEST:
            raise WireError(*LOGIN_MESSAGE_TOO_LONG.with_reason(size=size, most=LONGEST))
        if self.state is not LoginState.TOKENS:
            raise WireError(*NO_GSSAPI_HERE.with_reason())
        outcome, self._outcome = self._outcome, None
        if outcome is None:
            self._evaluate(bytes(token))
            return GuardVerdict.HOLD
        if isinstance(outcome, ClientLoginFailed):  # it has no answer: the connection closes
            raise WireError("client-login", str(outcome))
        if isinstance(outcome, Success):
            self._succeed(outcome)
        return INT32.pack(len(outcome.token)) + outcome.token

    def _judge_versions(self, version: int, correlation_id: int, fields: dict[str, object]) -> GuardVerdict | bytes:
        if self.state is LoginState.TOKENS:
            return self._out_of_order(_VERSIONS, version, correlation_id)
        if self.state is not LoginState.START:
            raise WireError(*LOGIN_OUT_OF_ORDER.with_reason(api="ApiVersions"))
        names = [fields[name] for name in ("ClientSoftwareName", "ClientSoftwareVersion") if name in fields]
        if all(isinstance(name, bytes) and _SOFTWARE.fullmatch(name) for name in names):
            self.state = LoginState.VERSIONS
        return GuardVerdict.PASS

    def _judge_handshake(self, version: int, correlation_id: int, name: bytes, now: float) -> GuardVerdict | bytes:
        if self.state is LoginState.TOKENS:
            return self._out_of_order(_HANDSHAKE, version, correlation_id)
        is_new = self.state is LoginState.OPEN
        if is_new and not (self._lifetime_ms and self._may_begin(now)):
            return self._handshake(version, correlation_id, ErrorCode.ILLEGAL_SASL_STATE, ())
        mechanism = name.decode("ascii", "replace")
        if mechanism not in self._mechanisms:
            if is_new:  # a broker has no answer to this one
                raise WireError(*OTHER_MECHANISM.with_reason(mechanism=self.mechanism))
            answer = self._handshake(version, correlation_id, ErrorCode.UNSUPPORTED_SASL_MECHANISM, self._mechanisms)
            enabled = ", ".join(self._mechanisms)
            problem = f"it asks for a mechanism that is not enabled here; enabled: {enabled}"
            return self._fail(answer, ClientLoginFailed("", "mechanism", problem))
        if is_new and mechanism != self.mechanism:
            self.state = LoginState.WRONG_MECHANISM
        else:
            self._begin(mechanism)
            self.mechanism, self.state = mechanism, LoginState.TOKENS
            self.awaits_token = version == 0
        if is_new:
            self._begun_again = now
            self._changed()
        return self._handshake(version, correlation_id, ErrorCode.NONE, self._mechanisms)

    def _may_begin(self, now: float) -> bool:
        return self._begun_again is None or now - self._begun_again >= _LEAST_BETWEEN

    def _judge_authenticate(self, version: int, correlation_id: int, token: bytes) -> GuardVerdict | bytes:
        if self.state is LoginState.OPEN:
            return self._authenticated(version, correlation_id, ErrorCode.ILLEGAL_SASL_STATE, _TWICE)
        outcome, self._outcome = self._outcome, None
        if outcome is None:
            self._evaluate(token)
            return GuardVerdict.HOLD
        if isinstance(outcome, ClientLoginFailed):
            self.state = LoginState.REFUSED
            self._end_session()
            text = outcome.text
            if self._has_logged_in:
                text = text.replace("during authentication", "during re-authentication")
            return self._authenticated(version, correlation_id, ErrorCode.SASL_AUTHENTICATION_FAILED, text)
        if isinstance(outcome, Success):
            self._succeed(outcome)
        lifetime = self._lifetime_ms if isinstance(outcome, Success) else 0
        return self._authenticated(version, correlation_id, ErrorCode.NONE, "", outcome.token, lifetime)

    def _succeed(self, success: Success) -> None:
        self.user, self.state, self.awaits_token, self.expired = success.user, LoginState.OPEN, False, False
        self._has_logged_in = True
        self._changed()

    def _out_of_order(self, key: ApiKey, version: int, correlation_id: int) -> GuardVerdict | bytes:
        answer = encode_response(key, version, correlation_id, {"ErrorCode": ErrorCode.ILLEGAL_SASL_STATE})
        return self._fail(answer, ClientLoginFailed("", "malformed", f"it sends {key.name} in the middle of a login"))

    def _fail(self, answer: bytes, failure: ClientLoginFailed) -> GuardVerdict:
        self.state, self._refusal = LoginState.REFUSED, answer
        self._refuse(failure)
        return GuardVerdict.HOLD

    def _answer_refusal(self) -> GuardVerdict | bytes:
        answer, self._refusal = self._refusal, b""
        if not answer:
            return GuardVerdict.HOLD
        self._end_session()
        return answer

    def _handshake(self, version: int, correlation_id: int, error: int, names: Sequence[str]) -> bytes:
        return encode_response(_HANDSHAKE, version, correlation_id, {"ErrorCode": error, "Mechanisms": names})

    def _authenticated(
        self, version: int, correlation_id: int, error: int, text: str, token: bytes = b"", lifetime_ms: int = 0
    ) -> bytes:
        fields = {"ErrorCode": error, "ErrorMessage": text, "AuthBytes": token, "SessionLifetimeMs": lifetime_ms}
        return encode_response(_AUTHENTICATE, version, correlation_id, fields)


class Login(Authenticator, Protocol):
    """An authenticator that says whether requests pass."""

    @property
    def is_open(self) -> bool:
        """True if requests pass."""
        ...


class AuthenticatedCalls(SelectedCalls):
    """The calls of a session whose client logs in at kproxy. Those of the login are judged at any time."""

    def __init__(self, calls: Calls, authenticator: Login) -> None:
        super().__init__(calls)
        self._authenticator = authenticator

    def __missing__(self, code: int) -> Call | None:
        call = self._all[code]
        if call is None:
            return None
        if call.key in (_HANDSHAKE, _AUTHENTICATE) or not self._authenticator.is_open:
            return JudgedCall(call, self._authenticator)
        self[code] = call
        return call
