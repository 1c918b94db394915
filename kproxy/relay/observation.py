"""An observer before a conversation: what a session does with the bytes of both sides while somebody looks. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable

from kproxy.relay.conversation import Conversation
from kproxy.relay.observer import Exchange, Observer
from kproxy.wire.primitives import Buffer


class Observation:
    """Takes the place of the conversation's two steps until `end`."""

    def __init__(self, conversation: Conversation, emit: Callable[[Exchange], None]) -> None:
        self._conversation = conversation
        self._observer = Observer(emit, conversation.beginning)
        self.end = conversation.see_through(self._observer.rewriting)

    def from_client(self, chunk: Buffer, now: float) -> Buffer:
        self._observer.from_client(chunk, now)
        return self._conversation.from_client(chunk, now)

    def from_upstream(self, chunk: Buffer, now: float) -> Buffer:
        self._observer.from_upstream(chunk, now)
        try:
            return self._conversation.from_upstream(chunk, now)
        finally:
            self._observer.flush()
