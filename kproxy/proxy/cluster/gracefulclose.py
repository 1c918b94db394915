"""The end of a session whose client must not lose the answer to a write.

No further request passes. The session is closed when the client has the answers to those that have passed. Whether they
have arrived, its system says a moment later: if the session were closed before, the client could lose the answer (what
it has sent and nobody has read makes the system reset the connection), and would be in doubt about a write.
"""

from __future__ import annotations

import asyncio

from kproxy.proxy.relay.session import Session

_LOOK, _LOOK_AT_LEAST = 0.01, 1.0
"""How often kproxy looks whether a client has taken the last answer, in seconds; ever more seldom while an answer is
still to come, which may take minutes."""
_TAKEN = 5.0
"""For how long at most, once kproxy has sent it."""


def close_gracefully(session: Session) -> None:
    """Let no further request through, and close as soon as the client has all answers. To be called from the loop."""
    session.hold()
    close_when_acked(session)


def close_when_acked(session: Session, settled_at: float | None = None, pause: float = _LOOK) -> None:
    """Close a session that is held, or will be, as soon as the client has all answers. `settled_at`: since when they
    have all been sent, in the loop's seconds. `pause`: until the next look, in seconds."""
    if session.closed:
        return
    loop = asyncio.get_running_loop()
    if session.settled and settled_at is None:
        settled_at = loop.time()
    if session.taken or (settled_at is not None and loop.time() >= settled_at + _TAKEN):
        session.close()
    elif settled_at is not None:
        loop.call_later(_LOOK, close_when_acked, session, settled_at)
    else:
        loop.call_later(pause, close_when_acked, session, None, min(2 * pause, _LOOK_AT_LEAST))
