"""The parts of one cluster: clients that are routed by themselves, chosen by their client ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kproxy.config import ClusterConfig
from kproxy.proxy.cluster.clientconnection import ClientConnection
from kproxy.proxy.cluster.clientroute import ClientRoute, DialNode, LocaliseForHost, Routes
from kproxy.proxy.relay.session import Session
from kproxy.proxy.switching.parts import Part


class SessionParts:
    """The parts of one cluster, with their sessions.

    `routes` are those of the cluster, by the name of the part, "" for all other clients. `opened` returns the
    connections that have a session. `close_pending` closes those that have none yet.
    """

    def __init__(
        self,
        routes: Routes,
        opened: Callable[[], Sequence[tuple[ClientConnection, Session]]],
        close_pending: Callable[[], None],
    ) -> None:
        self._routes = routes
        self._opened = opened
        self._close_pending = close_pending

    def make(self, part: Part, config: ClusterConfig, dial: DialNode, localise: LocaliseForHost) -> None:
        """Route these clients by themselves from now on.

        Their open sessions stay open, and what is known about them moves with them. A client whose connection has no
        session yet, or has not sent its client id, must connect again.
        """
        cluster_unit = self._routes[""].unit
        assert cluster_unit is not None, "the cluster can be switched"
        self._close_pending()
        client_ids = {connection: session.conversation.introduction.client_id for connection, session in self._opened()}
        members = {connection: session for connection, session in self._opened() if part.has(client_ids[connection])}
        unit = cluster_unit.split(part.has, members.values())
        route = self._routes[part.name] = ClientRoute(config, dial, localise, unit, part)
        for connection in members:
            connection.route, connection.unit = route, unit
        for connection, client_id in client_ids.items():
            if not client_id:
                connection.drain(gracefully=True)

    def extend(self, part: Part) -> str:
        """Route more clients of the cluster with a part, which has these clients then.

        Return why that is not possible, or "". Open sessions stay open. A client whose connection has no session yet
        must connect again.
        """
        cluster_unit, route = self._routes[""].unit, self._routes[part.name]
        assert cluster_unit is not None, "the cluster can be switched"
        assert route.unit is not None
        assert route.part is not None
        if not route.unit.can_take_from(cluster_unit):
            return f"the cluster was switched since part {part.name} was made: kproxy keeps their clients apart"
        self._close_pending()
        former = route.part

        def is_added(client_id: str) -> bool:
            return part.has(client_id) and not former.has(client_id)

        members = {
            connection: session
            for connection, session in self._opened()
            if connection.unit is cluster_unit and is_added(session.conversation.introduction.client_id)
        }
        route.unit.take(cluster_unit.split(is_added, members.values()), is_added)
        route.part = part
        for connection in members:
            connection.route, connection.unit = route, route.unit
        return ""

    def end(self, name: str) -> str:
        """Route the clients of this part with all others again. Return why that is not possible, or ""."""
        cluster_route, route = self._routes[""], self._routes[name]
        assert cluster_route.unit is not None
        assert route.unit is not None
        if not cluster_route.unit.is_unchanged_since_split(route.unit):
            return (
                f"part {name}, or the cluster, was switched since the part was made: kproxy keeps their clients apart"
            )
        self._close_pending()
        cluster_route.unit.merge(route.unit)
        for connection, _ in self._opened():
            if connection.route is route:
                connection.route, connection.unit = cluster_route, cluster_route.unit
        del self._routes[name]
        return ""
