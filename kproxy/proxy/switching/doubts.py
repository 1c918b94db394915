"""Clients that do not know whether a write of theirs was done: their session ended before the answer came. Pure.

Such a client sends the same write again. In the cluster that has got it the first time, the broker knows the batch of
an idempotent producer, and a plain producer risks what it always risks. In another cluster it would certainly be there
twice, as the copy has it already. So nobody may switch while such a client may still repeat a write.

A doubt is cleared when the client has connected to the same node again, has been there for a while, and has written: it
repeats what was unanswered before all else, after its backoff. Else it ends when the client has given up
(`delivery.timeout.ms`), since a client that is gone for good says nothing more.
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
"""The same for librdkafka, whose `message.timeout.ms` is 300 s, and for clients that do not name their software."""
MAX_DOUBTS = 1_000
"""Doubts that are kept one by one."""


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """A client as kproxy can know it again: where it is, and how it names itself."""

    address: str
    client_id: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """A client that may repeat a write; `left` is for how many seconds at most."""

    client: str
    address: str
    node: str
    seconds_ago: float
    left: float


def give_up_seconds(software: str) -> float:
    """How long a client may repeat a write that it has had no answer to. `software` is its own word: a lie harms only
    the one that says it."""
    return GIVEN_UP_AFTER if software.startswith(("apache-kafka-java", "kgo")) else GIVEN_UP_LATE


class DoubtTracker:
    """The doubts of one cluster, each of one client at one node. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._since: OrderedDict[tuple[ClientIdentity, str], tuple[float, float]] = OrderedDict()  # since, until
        self._uncounted_until = float("-inf")  # while there are more than are kept
        self._identities: dict[ClientIdentity, int] = {}

    def note(self, identity: ClientIdentity, node: str, now: float, seconds: float) -> None:
        """This client has lost the answer to a write at this node."""
        self._forget(identity, node)
        self._since[identity, node] = now, now + seconds
        self._identities[identity] = self._identities.get(identity, 0) + 1
        if len(self._since) > MAX_DOUBTS:
            (oldest, its_node), (_, until) = next(iter(self._since.items()))
            self._uncounted_until = max(self._uncounted_until, until)
            self._forget(oldest, its_node)

    def __bool__(self) -> bool:
        return bool(self._since)

    def of(self, identity: ClientIdentity) -> bool:
        """Whether this client is in doubt, at any node."""
        return identity in self._identities

    def split(self, belongs: Callable[[ClientIdentity], bool]) -> DoubtTracker:
        """Those of the clients that belong to a part: from now on they are its own. Of a client without a name nobody
        knows whose it is, nor of those that are not kept one by one: these are in both."""
        other = DoubtTracker()
        other._uncounted_until = self._uncounted_until
        for (identity, node), (since, until) in list(self._since.items()):
            if belongs(identity):
                self._forget(identity, node)
            if belongs(identity) or not identity.client_id:
                other.note(identity, node, since, until - since)
        return other

    def unite(self, other: DoubtTracker) -> None:
        """Take over those of a part that is one no more."""
        self._uncounted_until = max(self._uncounted_until, other._uncounted_until)
        for (identity, node), (since, until) in other._since.items():
            self.note(identity, node, since, until - since)

    def reconnected(self, identity: ClientIdentity, node: str, opened: float, now: float) -> bool:
        """A session of this client at this node, opened at this time, has had a write since. Whether that clears a
        doubt."""
        since, _ = self._since.get((identity, node), (float("inf"), 0.0))
        if not since <= opened <= now - SETTLED_AFTER:
            return False
        self._forget(identity, node)
        return True

    def left(self, now: float) -> tuple[Doubt, ...]:
        """Those that are still in doubt, the oldest first. If there are more than are kept, one without a name stands
        for the others."""
        for (identity, node), (_, until) in list(self._since.items()):
            if until <= now:
                self._forget(identity, node)
        found = [
            Doubt(identity.client_id, identity.address, node, now - since, until - now)
            for (identity, node), (since, until) in self._since.items()
        ]
        if self._uncounted_until > now:
            found.insert(0, Doubt("and others", "", "", 0.0, self._uncounted_until - now))
        return tuple(found)

    def _forget(self, identity: ClientIdentity, node: str) -> None:
        if self._since.pop((identity, node), None) is None:
            return
        self._identities[identity] -= 1
        if not self._identities[identity]:
            del self._identities[identity]
