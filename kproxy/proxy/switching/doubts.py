"""Clients that do not know whether their write was done, because their session ended before the response. Pure.

Such a client sends the same write again. In the cluster that received the write first, the broker recognises the batch
of an idempotent producer, and a plain producer takes its usual risk. In another cluster the records would exist twice,
as the copy already has them. So no kproxy may flip while a client may repeat a write.

A doubt is cleared when the client has connected to the same node again, has been connected for a while, and has
written: it repeats unanswered writes before all others, after its backoff. Otherwise the doubt ends when the client has
given up (`delivery.timeout.ms`), because a client that never comes back sends nothing more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

SETTLED_AFTER = 5.0
"""Seconds that a client has been connected again: more than the longest backoff between two attempts of any known
client (franz-go 2.5 s; Java, librdkafka 1.2 s)."""
GIVEN_UP_AFTER = 130.0
"""Seconds after which a client does not repeat a write: `delivery.timeout.ms` is 120 s in Java and franz-go."""
GIVEN_UP_LATE = 310.0
"""The seconds for librdkafka, whose `message.timeout.ms` is 300 s, and for clients that do not name their software."""
MAX_DOUBTS = 1_000
"""Doubts that are tracked one by one."""


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The address of a client, without its port, and its client id, by which kproxy recognises it."""

    address: str
    client_id: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """A client that may repeat a write, for at most `left` seconds."""

    client: str
    address: str
    node: str
    seconds_ago: float
    left: float


def give_up_seconds(software: str) -> float:
    """Return for how many seconds a client may repeat a write that has no response.

    `software` is what the client says of itself: a wrong name harms only that client.
    """
    return GIVEN_UP_AFTER if software.startswith(("apache-kafka-java", "kgo")) else GIVEN_UP_LATE


class DoubtTracker:
    """The doubts of one cluster, each about one client at one node.

    Times are seconds of any one clock.
    """

    def __init__(self) -> None:
        self._since: OrderedDict[tuple[ClientIdentity, str], tuple[float, float]] = OrderedDict()  # since, until
        self._uncounted_until = float("-inf")  # while there are more than are kept
        self._identities: dict[ClientIdentity, int] = {}

    def note(self, identity: ClientIdentity, node: str, now: float, seconds: float) -> None:
        """Note that this client has lost the response to a write at this node."""
        self._forget(identity, node)
        self._since[identity, node] = now, now + seconds
        self._identities[identity] = self._identities.get(identity, 0) + 1
        if len(self._since) > MAX_DOUBTS:
            (oldest, its_node), (_, until) = next(iter(self._since.items()))
            self._uncounted_until = max(self._uncounted_until, until)
            self._forget(oldest, its_node)

    def __bool__(self) -> bool:
        return bool(self._since)

    def is_in_doubt(self, identity: ClientIdentity) -> bool:
        """Return True if this client is in doubt, at any node."""
        return identity in self._identities

    def split_off(self, is_in_part: Callable[[ClientIdentity], bool]) -> DoubtTracker:
        """Move the doubts of the clients of a part into a tracker of its own, and return it.

        Doubts of clients without a client id, and those that are not kept one by one, are then in both trackers.
        """
        other = DoubtTracker()
        other._uncounted_until = self._uncounted_until
        for (identity, node), (since, until) in list(self._since.items()):
            if is_in_part(identity):
                self._forget(identity, node)
            if is_in_part(identity) or not identity.client_id:
                other.note(identity, node, since, until - since)
        return other

    def merge(self, other: DoubtTracker) -> None:
        """Take over the doubts of a part that has ended."""
        self._uncounted_until = max(self._uncounted_until, other._uncounted_until)
        for (identity, node), (since, until) in other._since.items():
            self.note(identity, node, since, until - since)

    def clear_if_repeated(self, identity: ClientIdentity, node: str, opened: float, now: float) -> bool:
        """Clear the doubt if a session of this client, opened at `opened`, has repeated the write; return True if so.

        The session has had a write since it was opened.
        """
        since, _ = self._since.get((identity, node), (float("inf"), 0.0))
        if not since <= opened <= now - SETTLED_AFTER:
            return False
        self._forget(identity, node)
        return True

    def remaining(self, now: float) -> tuple[Doubt, ...]:
        """Return the doubts that remain, the oldest first.

        If more exist than are kept, one without an address stands for the others.
        """
        for (identity, node), (_, until) in list(self._since.items()):
            if until <= now:
                self._forget(identity, node)
        doubts = [
            Doubt(identity.client_id, identity.address, node, now - since, until - now)
            for (identity, node), (since, until) in self._since.items()
        ]
        if self._uncounted_until > now:
            doubts.insert(0, Doubt("and others", "", "", 0.0, self._uncounted_until - now))
        return tuple(doubts)

    def _forget(self, identity: ClientIdentity, node: str) -> None:
        if self._since.pop((identity, node), None) is None:
            return
        self._identities[identity] -= 1
        if not self._identities[identity]:
            del self._identities[identity]
