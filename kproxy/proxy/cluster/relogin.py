"""The renewal of a login within a session, before the broker ends the session (KIP-368)."""

from __future__ import annotations

import asyncio
import logging
import random

from kproxy.base.errors import UpstreamError
from kproxy.client.sasl.login import LoginAttempt, LoginContext
from kproxy.proxy.cluster.insessionchannel import InSessionChannel
from kproxy.proxy.relay.session import Session

log = logging.getLogger(__name__)

# When kproxy logs in again, in parts of the lifetime, as Java's clients do: at random, to spread the logins.
_EARLIEST, _LATEST = 0.85, 0.95
# If kproxy cannot fetch the password or token, it tries again after _PAUSE seconds, until _LAST_TRY of the lifetime.
_PAUSE, _LAST_TRY = 0.5, 0.98
# A shorter lifetime counts as this one, in seconds. Brokers have hours; one with milliseconds would have every session
# log in all the time.
_SHORTEST = 1.0


async def keep_logged_in(session: Session, logged_in: LoginContext) -> None:
    """Log in again whenever the lifetime nears its end, for as long as the broker sets one.

    The client's requests wait meanwhile, but only for the round trips. A negative lifetime is none, as in Java's
    clients. Raises UpstreamError; then the session cannot be used any more.
    """
    now = asyncio.get_running_loop().time
    result = logged_in.result
    while result.lifetime_ms and not session.closed:
        began, lifetime = now(), max(result.lifetime_ms / 1000, _SHORTEST)
        if result.lifetime_ms < _SHORTEST * 1000:
            logged_in.login.warn_of_lifetime(logged_in.address, result.lifetime_ms, _SHORTEST)
        if result.lifetime_ms < 0:
            return
        await asyncio.sleep(lifetime * random.uniform(_EARLIEST, _LATEST))
        attempt = await _prepare(logged_in, began + lifetime * _LAST_TRY)
        result = await logged_in.login.log_in(InSessionChannel(session, hold=True), attempt, result.versions)
        session.release()
        log.debug("%s: SASL: logged in again, for %g s", logged_in.address, result.lifetime_ms / 1000)


async def _prepare(logged_in: LoginContext, until: float) -> LoginAttempt:
    while True:
        try:
            return await logged_in.login.prepare(logged_in.address, logged_in.name)
        except UpstreamError:
            if asyncio.get_running_loop().time() + _PAUSE > until:
                raise
        await asyncio.sleep(_PAUSE)
