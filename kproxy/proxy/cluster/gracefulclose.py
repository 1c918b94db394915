"""The graceful close of a session, whose client must not lose the answer to a write.

No further request passes. kproxy closes the session when the client has the answers to the requests that have passed.
The client's system confirms their arrival a moment later. If kproxy closed the session before, the client could lose
the answer (unread bytes make the system reset the connection), and would be in doubt about a write.
"""

from __future__ import annotations

import asyncio

from kproxy.proxy.relay.session import Session

_CHECK_EVERY, _CHECK_AT_LEAST_EVERY = 0.01, 1.0
"""The shortest and longest interval of checks whether a client has taken the last answer, in seconds. It grows while
kproxy waits for an answer, which may take minutes."""
_ACK_TIMEOUT = 5.0
"""The longest that kproxy waits for the confirmation once it has sent the last answer, in seconds."""


def close_gracefully(session: Session) -> None:
    """Let no further request pass, and close as soon as the client has all answers. Call it from the event loop."""
    session.hold()
    close_when_acked(session)


def close_when_acked(session: Session, settled_at: float | None = None, pause: float = _CHECK_EVERY) -> None:
    """Close a session that is held, or will be, as soon as the client has all answers.

    `settled_at`: when they had all been sent, in the loop's seconds. `pause`: seconds until the next check.
    """
    if session.closed:
        return
    loop = asyncio.get_running_loop()
    if session.settled and settled_at is None:
        settled_at = loop.time()
    if session.acked or (settled_at is not None and loop.time() >= settled_at + _ACK_TIMEOUT):
        session.close()
    elif settled_at is not None:
        loop.call_later(_CHECK_EVERY, close_when_acked, session, settled_at)
    else:
        loop.call_later(pause, close_when_acked, session, None, min(2 * pause, _CHECK_AT_LEAST_EVERY))
