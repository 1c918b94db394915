"""Logging in to one cluster: its credentials, over an open connection, with pauses after refused credentials."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from time import monotonic

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, WireError
from kproxy.base.messages.logins import LOGIN_TIMEOUT, SESSION_LIFETIME_TOO_SHORT, TOKEN_TIMEOUT
from kproxy.client.ask.channel import Channel
from kproxy.client.sasl import secrets
from kproxy.client.sasl.blockingcalls import BlockingCalls
from kproxy.client.sasl.credentials import STEP_TIMEOUT, ConfiguredCredentials, Credentials
from kproxy.client.sasl.exchange import SaslExchange, SaslSession, Versions
from kproxy.client.sasl.mechanism import LoginRefused, Mechanism
from kproxy.config import ClusterConfig
from kproxy.net.tls import faults

log = logging.getLogger(__name__)

# The shortest time between two warnings about lifetimes, in seconds: each session may cause one.
_LIFETIME_WARNING_INTERVAL = 30.0


@dataclass(frozen=True, slots=True, repr=False)
class LoginAttempt:
    """A login that kproxy is about to make at `address`.

    A broker would refuse two attempts with the same `credentials` alike.
    """

    address: Address
    mechanism: Mechanism
    credentials: str


async def authenticate(
    channel: Channel, exchange: SaslExchange, seconds: float, blocking_calls: BlockingCalls | None = None
) -> SaslSession:
    """Log in; the broker may take `seconds` for each response. Raises UpstreamError."""
    # Some steps ask a KDC, and hashing a password thousands of times is slow.
    blocking_calls = blocking_calls or BlockingCalls()
    try:
        request = await _run_step(exchange, blocking_calls, exchange.first_request)
        while request is not None:
            response = await channel.request(request, seconds)
            request = await _run_step(exchange, blocking_calls, exchange.next_request, response)
    except TimeoutError:
        raise UpstreamError(*LOGIN_TIMEOUT.with_reason(step=exchange.step, seconds=seconds)) from None
    except (EOFError, ConnectionError):
        raise exchange.connection_closed() from None
    except WireError as error:
        raise UpstreamError("sasl", str(error)) from None
    except ssl.SSLError as error:  # a broker checks the client's certificate after the handshake (RFC 8446 §4.4.2.4)
        raise UpstreamError(*faults.explain_broker_error(error)) from None
    except OSError as error:
        raise UpstreamError("sasl", error.strerror or str(error)) from None
    assert exchange.result is not None
    return exchange.result


async def _run_step(
    exchange: SaslExchange, blocking_calls: BlockingCalls, step: Callable[..., bytes | None], *args: bytes
) -> bytes | None:
    try:
        return await blocking_calls.run(STEP_TIMEOUT, step, *args)
    except TimeoutError:
        raise UpstreamError(*TOKEN_TIMEOUT.with_reason(mechanism=exchange.mechanism, seconds=STEP_TIMEOUT)) from None


@contextlib.contextmanager
def _named_errors(address: Address) -> Iterator[None]:
    """Add the address and the step to errors."""
    try:
        yield
    except LoginRefused as error:
        raise type(error)(f"{address}: SASL: {error}") from None
    except UpstreamError as error:
        raise UpstreamError(error.reason, f"{address}: SASL: {error}") from None


class SaslLogin:
    """The logins of one cluster with one source of credentials: those of its options, unless others are given.

    First call `prepare`, which needs no connection and raises at once if the broker has just refused the credentials;
    then `log_in`.
    """

    def __init__(self, config: ClusterConfig, credentials: Credentials | None = None) -> None:
        self._config = config
        self._credentials = credentials or ConfiguredCredentials(config, BlockingCalls())
        self._accepted: str | None = None  # credentials that the broker has accepted
        self._refused: str | None = None  # the credentials that it refused last
        self._problem = ""  # the text of that refusal
        self._backoff = secrets.Backoff()  # when the refused credentials may be tried again
        self._one_by_one = asyncio.Lock()
        self._no_warning_until = 0.0

    is_of_user = False
    """True if it is the login of one user who has logged in at kproxy."""

    @property
    def username(self) -> str:
        """The user name of the last login; "" if it had none, or a token."""
        return self._credentials.username

    async def prepare(self, address: Address, name: str) -> LoginAttempt:
        """Return the attempt to log in at `address`, to the broker that advertises the host `name`.

        Raises UpstreamError.
        """
        with _named_errors(address):
            mechanism, credentials = await self._credentials.mechanism(name)
            attempt = LoginAttempt(address, mechanism, credentials)
            self._check(attempt)
            return attempt

    async def log_in(self, channel: Channel, attempt: LoginAttempt, versions: Versions | None = None) -> SaslSession:
        """Log in on a new connection, or within a session, with the versions that are known by then.

        Raises UpstreamError.
        """
        with _named_errors(attempt.address):
            async with self._one_attempt(attempt):
                exchange = SaslExchange(attempt.mechanism, versions)
                try:
                    result = await authenticate(
                        channel, exchange, self._config.connect_timeout, self._credentials.blocking_calls
                    )
                except LoginRefused as error:
                    self._note_refusal(attempt, error)
                    raise
                self._accepted, self._refused = attempt.credentials, None
                self._backoff.record_success()
                return result

    def warn_of_lifetime(self, address: Address, milliseconds: int, least: float) -> None:
        """Warn, at most once in 30 s, of a broker whose login lifetime kproxy cannot follow."""
        if monotonic() >= self._no_warning_until:
            self._no_warning_until = monotonic() + _LIFETIME_WARNING_INTERVAL
            does = f"logs in again after {least:g} s" if milliseconds > 0 else "does not log in again"
            log.warning(SESSION_LIFETIME_TOO_SHORT(address=address, milliseconds=milliseconds, does=does))

    @contextlib.asynccontextmanager
    async def _one_attempt(self, attempt: LoginAttempt) -> AsyncIterator[None]:
        """Wait until no other connection tries the same unproven credentials.

        At start many connections open at once: one tries the credentials, and the others wait for the result.
        """
        if attempt.credentials == self._accepted:
            yield
            return
        async with self._one_by_one:
            self._check(attempt)
            yield

    def _check(self, attempt: LoginAttempt) -> None:
        if attempt.credentials == self._refused and self._backoff.is_waiting:
            raise LoginRefused(self._problem)

    def _note_refusal(self, attempt: LoginAttempt, error: LoginRefused) -> None:
        if attempt.credentials != self._refused:
            self._backoff.record_success()  # the recorded failure was about other credentials
        self._backoff.record_failure()
        self._refused, self._problem, self._accepted = attempt.credentials, str(error), None
        # The secret may have been changed since: fetch it again for the next attempt.
        self._credentials.forget()


@dataclass(frozen=True, slots=True)
class LoginContext:
    """A finished login at `address`, to the broker that advertises the host `name`, with what the next login needs."""

    login: SaslLogin
    address: Address
    name: str
    result: SaslSession
