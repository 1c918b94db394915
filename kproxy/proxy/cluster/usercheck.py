"""The check that one user can use an upstream: kproxy logs in there as a session of the user does, and asks for rights.

It is the same path: a bootstrap server, verified as always, the login of the user, then requests that change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kproxy.base.errors import UpstreamError, WireError
from kproxy.base.printable import one_line
from kproxy.client.ask.channel import ConnectionChannel
from kproxy.client.ask.questions import ask_versions
from kproxy.client.ask.rights import try_rights
from kproxy.net.dial.stream import Stream
from kproxy.protocol.wire.acls import Right
from kproxy.proxy.cluster.upstream import Upstream
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.switching.userchecks import LoginOutcome, UserCheck

_LONGEST_TEXT = 300


async def check_user(upstream: Upstream, user: str, rights: Sequence[Right], seconds: float) -> UserCheck:
    """Log in to an upstream for a user, and find out which of these rights the user has there.

    What fails within these seconds is in the result; nothing is raised.
    """
    from kproxy.client.sasl.mechanism import LoginRefused  # few need it
    from kproxy.client.sasl.userlogins import NoUserLogin

    if upstream.config.login_as == "client":
        return UserCheck(LoginOutcome.PASSED_THROUGH)
    try:
        async with asyncio.timeout(seconds):
            connection = await upstream.dialer.dial(None)
            with connection.sock:
                return await _check(connection, user, rights)
    except TimeoutError:
        return UserCheck(LoginOutcome.FAILED, problem=f"no result within {seconds:.0f} s")
    except NoUserLogin as error:
        outcome, problem = LoginOutcome.MISSING, str(error)
    except LoginRefused as error:
        outcome, problem = LoginOutcome.REFUSED, str(error)
    except (UpstreamError, WireError, OSError) as error:
        outcome, problem = LoginOutcome.FAILED, str(error)
    return UserCheck(outcome, problem=one_line(problem, _LONGEST_TEXT))


async def _check(connection: VerifiedConnection, user: str, rights: Sequence[Right]) -> UserCheck:
    channel, login = ConnectionChannel(Stream(connection.sock)), connection.login
    if connection.log_in is not None:
        login = await connection.log_in(channel, user)
    elif connection.verify is not None:  # the brokers demand a login, which only the client has
        return UserCheck(LoginOutcome.PASSED_THROUGH)
    if connection.verify is not None:
        await connection.verify(channel)
    results = await try_rights(channel, await ask_versions(channel), rights) if rights else {}
    outcome, name = LoginOutcome.NO_LOGIN_NEEDED, ""
    if login is not None:
        outcome, name = LoginOutcome.OWN if login.login.is_of_user else LoginOutcome.SHARED, login.login.username
    verdicts = (results[right] for right in rights)
    return UserCheck(
        outcome, name, rights=tuple(verdict.why if verdict.allowed is None else verdict.allowed for verdict in verdicts)
    )
