"""Messages about the users file."""

from __future__ import annotations

from kproxy.base.messages.message import Message

USERS_KEPT = Message(
    "users file: {problem}; the users of its former version still count",
    "kproxy read the users file again because it had changed, and it is wrong. Correct it: kproxy reads it again by "
    "itself. `kproxy users check FILE` reports all mistakes.",
)
