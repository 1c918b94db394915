"""The replies of a kproxy at /switch, validated strictly (pure): the peer may be any program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.base.errors import AdminError
from kproxy.base.printable import one_line
from kproxy.proxy.switching.asjson import state_from_json
from kproxy.proxy.switching.logins import LoginMode, UpstreamLogin
from kproxy.proxy.switching.participant import ParticipantState

_MAX_TEXT = 300
# What is shown of lists that a kproxy sends.
_MAX_ITEMS = 100_000


class CommandRefused(AdminError):
    """A reply that refuses a command, with the reason; `cluster` is the state of the cluster."""

    def __init__(self, text: str, cluster: ClusterReply | None) -> None:
        super().__init__(text, 409)
        self.cluster = cluster


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """A client that is connected to a kproxy."""

    name: str
    address: str
    software: str = ""
    """The name and version that the client sends of its library."""
    warnings: tuple[str, ...] = ()
    """The effect of a switch on the client, if that is more than a pause."""
    reads: bool = False
    """True if it has fetched records."""
    writes: bool = False
    """True if it has written records."""
    user: str = ""
    """The user who has logged in at kproxy, "" if clients do not log in there."""
    broker_user: str = ""
    """The user name in a login that passes to the broker, "" if it is unknown."""
    login: str = ""
    """The SASL mechanism with which it logs in itself, "" if it does not."""
    produces: str = ""
    """The way it writes records (plain, idempotent, transactional), "" if no request has shown it."""

    @property
    def named_user(self) -> str:
        """The user, wherever the client logs in; "" if it does not, or if its login shows no name."""
        return self.user or self.broker_user


@dataclass(frozen=True, slots=True)
class ClusterReply:
    """The state of a cluster, or of a part of one, at one kproxy."""

    name: str
    state: ParticipantState
    upstreams: Mapping[str, str] = field(default_factory=dict)
    """Cluster ids by upstream, "" where it is not known."""
    unanswered: int = 0
    held: int = 0
    uncertain_writers: tuple[str, ...] = ()
    """Clients for which kproxy does not know whether a write has succeeded."""
    clients: tuple[ConnectedClient, ...] = ()
    members: tuple[str, ...] = ()
    """The patterns of client ids of a part."""
    upstream_problems: Mapping[str, str] = field(default_factory=dict)
    """By upstream, why clients cannot be routed to it."""
    problem: str = ""
    """A defect, or a disk that cannot be written; "" if there is none."""
    uncertain_seconds: float = 0.0
    """Seconds for which any client may be an uncertain writer, as kproxy does not know the time before its start."""
    waiting_consumers: tuple[str, ...] = ()
    """Consumers that have not fetched their positions yet, and get no records until then."""
    logins: Mapping[str, UpstreamLogin] = field(default_factory=dict)
    """The login mode of clients at each upstream."""
    instance: str = ""
    """The id of this kproxy, "" if it shares its ports with no other."""
    port_sharers: tuple[str, ...] = ()
    """The ids of the kproxies that share its ports."""

    @classmethod
    def read(cls, value: object, sender: str) -> ClusterReply:
        """Return the cluster in a reply. Raises AdminError."""
        try:
            fields = _mapping(value)
            upstreams = {_text(name): _mapping(upstream) for name, upstream in _mapping(fields["upstreams"]).items()}
            problems = {name: _text(upstream.get("problem") or "") for name, upstream in upstreams.items()}
            writers = _list(fields.get("doubts", []))
            sharers = _mapping(fields.get("beside") or {})
            return cls(
                name=_text(fields["name"]),
                state=state_from_json(fields),
                upstreams={name: _text(upstream.get("cluster_id") or "") for name, upstream in upstreams.items()},
                unanswered=int(_number(fields.get("unanswered", 0))),
                held=int(_number(fields.get("held", 0))),
                uncertain_writers=tuple(_client_name(writer) for writer in writers if not _is_unknown_client(writer)),
                clients=tuple(_client(client) for client in _list(fields.get("clients", []))),
                members=tuple(_text(pattern) for pattern in _list(fields.get("members", []))),
                upstream_problems={name: problem for name, problem in problems.items() if problem},
                problem=_text(fields.get("problem") or ""),
                uncertain_seconds=max(
                    (_number(writer["left"]) for writer in writers if _is_unknown_client(writer)), default=0.0
                ),
                waiting_consumers=tuple(_client_name(consumer) for consumer in _list(fields.get("waiting", []))),
                logins={name: _upstream_login(upstream) for name, upstream in upstreams.items()},
                instance=_text(sharers.get("instance") or ""),
                port_sharers=tuple(_text(instance) for instance in _list(sharers.get("others", []))),
            )
        except (KeyError, TypeError, ValueError):
            raise _foreign_reply(sender) from None


@dataclass(frozen=True, slots=True)
class KproxyReply:
    """The reply of one kproxy."""

    version: str
    time: float
    """Its clock, in seconds since 1970."""
    state_dir: bool
    """True if it keeps its state on disk."""
    clusters: Mapping[str, ClusterReply]

    @classmethod
    def read(cls, value: object, sender: str) -> KproxyReply:
        """Return the reply as an object. Raises AdminError."""
        try:
            fields = _mapping(value)
            kproxy = _mapping(fields["kproxy"])
            state_dir = kproxy["state_dir"]
            if not isinstance(state_dir, bool):
                raise TypeError
            clusters = [ClusterReply.read(cluster, sender) for cluster in _list(fields["clusters"])]
            return cls(
                _text(kproxy["version"]),
                _number(kproxy["time"]),
                state_dir,
                {cluster.name: cluster for cluster in clusters},
            )
        except (KeyError, TypeError, ValueError):
            raise _foreign_reply(sender) from None


def read_command_reply(value: object, sender: str) -> ClusterReply:
    """Return the cluster in the reply to a command.

    Raises CommandRefused if kproxy refuses the command, and AdminError if the reply is not kproxy's.
    """
    try:
        fields = _mapping(value)
        problem = _text(fields["problem"])
        cluster = None if fields["cluster"] is None else ClusterReply.read(fields["cluster"], sender)
    except (KeyError, TypeError, ValueError):
        raise _foreign_reply(sender) from None
    if problem:
        raise CommandRefused(f"{sender} refuses: {problem}", cluster)
    if cluster is None:
        raise _foreign_reply(sender)
    return cluster


def _foreign_reply(sender: str) -> AdminError:
    return AdminError(f"{sender} returned no valid reply at /switch; is the version of kproxy the same everywhere?")


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict) or len(value) > _MAX_ITEMS:
        raise TypeError
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MAX_ITEMS:
        raise TypeError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return one_line(value, _MAX_TEXT)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e18 < value < 1e18:
        raise TypeError
    return float(value)


def _is_unknown_client(value: object) -> bool:
    return isinstance(value, dict) and not value.get("client") and not value.get("address") and "left" in value


def _client_name(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    fields = _mapping(value)
    return f"{_text(fields.get('client') or '(no client id)')} at {_text(fields.get('address') or '?')}"


def _upstream_login(fields: Mapping[str, Any]) -> UpstreamLogin:
    login = _text(fields.get("login") or "")
    return UpstreamLogin(LoginMode(login) if login in set(LoginMode) else LoginMode.UNKNOWN, fields.get("tls") is True)


def _client(value: object) -> ConnectedClient:
    fields = _mapping(value)
    warnings = fields.get("sees") or []
    texts = tuple(_text(text) for text in _list([warnings] if isinstance(warnings, str) else warnings))
    name, address, software, user, broker_user, login, produces = (
        _text(fields.get(key) or "")
        for key in ("client", "address", "software", "user", "broker_user", "login", "produces")
    )
    reads, writes = fields.get("reads") is True, fields.get("writes") is True
    return ConnectedClient(
        name=name,
        address=address,
        software=software,
        warnings=texts,
        reads=reads,
        writes=writes,
        user=user,
        broker_user=broker_user,
        login=login,
        produces=produces,
    )
