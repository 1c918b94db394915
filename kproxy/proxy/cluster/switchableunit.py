"""The parts of a switchable unit beside its sessions: the hold on its writes, and the guards of its sessions.

Clusters that cannot be switched have none of it, and do not import it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kproxy.proxy.cluster.sessionguards import SessionGuards
from kproxy.proxy.cluster.writehold import WriteHold
from kproxy.proxy.relay.session import Session


class SwitchableUnit:
    """The hold on writes, and the guards, of a cluster without its parts, or of one part."""

    def __init__(self, write_hold: WriteHold, guards: SessionGuards) -> None:
        self.write_hold, self.guards = write_hold, guards

    def session_opened(self, session: Session, node: str, address: str) -> None:
        """Note a new session of a client at this address. No byte has passed in it yet."""
        self.guards.session_opened(session, address)
        self.write_hold.session_opened(session, node, address)

    def adopt_session(self, session: Session, node: str, address: str) -> None:
        """Note a session that is older than the ability to switch: what its client has done so far is unknown."""
        session.note_used_apis()
        self.write_hold.session_opened(session, node, address)
        self.guards.adopt_session(session, address)

    def session_ended(self, session: Session, address: str) -> None:
        """Note that a session has ended."""
        self.write_hold.session_ended(session)
        self.guards.session_ended(session, address)

    def split(self, has: Callable[[str], bool], sessions: Collection[Session]) -> SwitchableUnit:
        """Return what some clients need, which are switched by themselves from now on; `sessions` are theirs.

        `has` selects them by their client ids.
        """
        write_hold = self.write_hold.split(lambda identity: has(identity.client_id), sessions)
        return SwitchableUnit(write_hold, self.guards.split(sessions))

    def is_unchanged_since_split(self, other: SwitchableUnit) -> bool:
        """Check whether neither of the two units was switched since one was split from the other."""
        return self.guards.shares_rules_with(other.guards)

    def merge(self, other: SwitchableUnit) -> None:
        """Take over the clients of a part that is dissolved; see `is_unchanged_since_split`."""
        self.write_hold.merge(other.write_hold)
        self.guards.merge(other.guards)

    def can_take_from(self, cluster: SwitchableUnit) -> bool:
        """Check whether the cluster was not switched since this part was split from it."""
        return self.guards.can_take_from(cluster.guards)

    def take(self, other: SwitchableUnit, has: Callable[[str], bool]) -> None:
        """Take over more clients of the cluster, which were split from it; see `split` and `can_take_from`."""
        self.write_hold.merge(other.write_hold)
        self.guards.take(other.guards, has)

    def release_writes(self) -> None:
        """Let writes pass again."""
        self.guards.note_writes_pass()
        self.write_hold.release()

    def guard_everyone(self) -> None:
        """Guard the sessions that come as if each client had fetched.

        The unit was switched recently, and kproxy was restarted since.
        """
        self.guards.begin(everyone=True)
        if not self.write_hold.holds:
            self.guards.note_writes_pass()
