"""The login by a client's certificate: what passes before kproxy knows that the user may use the cluster. Sans-IO.

TLS has shown the certificate before the first request comes. That request waits until kproxy has logged in to the
broker for the user. Then requests pass. SaslHandshake and SaslAuthenticate never pass: a broker would take them for a
new login of kproxy's own. They get the answers of a broker that clients reach without SASL.
"""

from __future__ import annotations

from collections.abc import Callable

from kproxy.base.errors import WireError
from kproxy.base.messages.clientlogins import LOGIN_MESSAGE_TOO_LONG
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import encode_response
from kproxy.protocol.wire.primitives import INT32, Buffer
from kproxy.proxy.login.authenticator import LONGEST, AuthenticatedCalls
from kproxy.proxy.login.outcomes import ClientLoginFailed
from kproxy.proxy.relay.calls import Call, Calls, GuardVerdict

# ApiVersions has no error for this. Clients log its name, and connect again later.
_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_NO_SASL = "SaslAuthenticate request received after successful authentication"


class CertificateAuthenticator:
    """The login of one client by its certificate.

    `evaluate` is called once, with the first request, and must see that `accept` or `refuse` is called, and then the
    session released. `changed` is called when requests begin to pass, and `end_session` when the session must end as
    soon as the client has its answer.
    """

    longest = LONGEST
    awaits_token = False

    def __init__(
        self, evaluate: Callable[[], None], changed: Callable[[], None], end_session: Callable[[], None]
    ) -> None:
        self._evaluate, self._changed, self._end_session = evaluate, changed, end_session
        self._begun = False
        self._failure: ClientLoginFailed | None = None
        self.is_open = False

    def accept(self) -> None:
        """Let requests pass from now on."""
        self.is_open = True
        self._changed()

    def refuse(self, failure: ClientLoginFailed) -> None:
        """Answer the first request, and let none pass."""
        self._failure = failure

    def wrap(self, calls: Calls) -> Calls:
        """Return these calls, with those that are judged."""
        return AuthenticatedCalls(calls, self)

    def judge(self, call: Call, request: Buffer, size: int, now: float) -> GuardVerdict | bytes:
        """Judge a request that begins with these bytes, of `size` bytes without its size field. Raises WireError."""
        if not (self.is_open or self._failure):
            if not self._begun:
                self._begun = True
                self._evaluate()
            return GuardVerdict.HOLD
        if size > self.longest:
            raise WireError(*LOGIN_MESSAGE_TOO_LONG.with_reason(size=size, most=self.longest))
        if len(request) < 4 + size:
            return GuardVerdict.MORE
        if self._failure is not None:
            if call.key != ApiKey.API_VERSIONS:
                raise WireError("client-login", f"kproxy refuses the client: {self._failure}")
            self._end_session()
            return self._answer(call, request, {"ErrorCode": _REFUSED})
        text = {"ErrorMessage": _NO_SASL} if call.key == ApiKey.SASL_AUTHENTICATE else {}
        return self._answer(call, request, {"ErrorCode": ErrorCode.ILLEGAL_SASL_STATE, **text})

    def judge_token(self, size: int, token: Buffer) -> GuardVerdict | bytes:
        """Refuse a token without a header. Raises WireError."""
        raise WireError("client-login", "the client sent a token of SASL, and logs in with its certificate")

    def _answer(self, call: Call, request: Buffer, fields: dict[str, object]) -> bytes:
        (correlation_id,) = INT32.unpack_from(request, 8)
        return encode_response(call.key, call.version, correlation_id, fields)
