"""What a kproxy answers at /switch, read with distrust (pure): whoever answers may be anybody."""

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
    """It answers that it does not do what it was told, in words. `cluster` is its state."""

    def __init__(self, text: str, cluster: ClusterReply | None) -> None:
        super().__init__(text, 409)
        self.cluster = cluster


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """One that is connected. `software`: as it calls it itself. `sees`: what it will see of a switch, in words, if that
    is more than a pause. `reads`, `writes`: whether it has fetched, or written. `login`: the mechanism with which it
    logs in itself, "" if it does not. `produces`: how it writes records, "" if nobody has seen that."""

    name: str
    address: str
    software: str = ""
    warnings: tuple[str, ...] = ()
    reads: bool = False
    writes: bool = False
    login: str = ""
    produces: str = ""


@dataclass(frozen=True, slots=True)
class ClusterReply:
    """`upstreams`: their cluster ids, "" where it is not known; `why_not`: why one cannot be led to, of those that
    cannot. `waiting`: consumers that have not asked for their positions yet, and get no records until then. `doubts`:
    clients of whom it is not known whether a write has come through. `unsure`: seconds for which any client may be one,
    since that kproxy does not know the time before its start. `problem`: a defect, or a disk that cannot be
    written, "" if there is none. `ways`: how clients log in to each upstream. `instance`: the kproxy itself, "" if it
    shares its ports with none, and `beside`: those that do."""

    name: str
    state: ParticipantState
    upstreams: Mapping[str, str] = field(default_factory=dict)
    unanswered: int = 0
    held: int = 0
    uncertain_writers: tuple[str, ...] = ()
    clients: tuple[ConnectedClient, ...] = ()
    upstream_problems: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    uncertain_seconds: float = 0.0
    waiting_consumers: tuple[str, ...] = ()
    logins: Mapping[str, UpstreamLogin] = field(default_factory=dict)
    instance: str = ""
    port_sharers: tuple[str, ...] = ()

    @classmethod
    def read(cls, value: object, who: str) -> ClusterReply:
        """Raises AdminError."""
        try:
            said = _mapping(value)
            upstreams = {
                _text(name): _text(_mapping(one).get("cluster_id") or "")
                for name, one in _mapping(said["upstreams"]).items()
            }
            doubts = _list(said.get("doubts", []))
            beside = _mapping(said.get("beside") or {})
            why_not = {
                _text(name): _text(_mapping(one).get("problem") or "") for name, one in said["upstreams"].items()
            }
            return cls(
                _text(said["name"]),
                state_from_json(said),
                upstreams,
                int(_number(said.get("unanswered", 0))),
                int(_number(said.get("held", 0))),
                tuple(_client_name(one) for one in doubts if not _is_unknown_client(one)),
                tuple(_client(one) for one in _list(said.get("clients", []))),
                {name: why for name, why in why_not.items() if why},
                _text(said.get("problem") or ""),
                max((_number(one["left"]) for one in doubts if _is_unknown_client(one)), default=0.0),
                tuple(_client_name(one) for one in _list(said.get("waiting", []))),
                {_text(name): _upstream_login(one) for name, one in said["upstreams"].items()},
                _text(beside.get("instance") or ""),
                tuple(_text(one) for one in _list(beside.get("others", []))),
            )
        except (KeyError, TypeError, ValueError):
            raise _foreign_reply(who) from None


@dataclass(frozen=True, slots=True)
class KproxyReply:
    """`time`: its clock, in seconds since 1970. `state_dir`: whether it keeps its state."""

    version: str
    time: float
    state_dir: bool
    clusters: Mapping[str, ClusterReply]

    @classmethod
    def read(cls, value: object, who: str) -> KproxyReply:
        """Raises AdminError."""
        try:
            said = _mapping(value)
            itself = _mapping(said["kproxy"])
            state_dir = itself["state_dir"]
            if not isinstance(state_dir, bool):
                raise TypeError
            clusters = [ClusterReply.read(one, who) for one in _list(said["clusters"])]
            return cls(
                _text(itself["version"]), _number(itself["time"]), state_dir, {one.name: one for one in clusters}
            )
        except (KeyError, TypeError, ValueError):
            raise _foreign_reply(who) from None


def read_command_reply(value: object, who: str) -> ClusterReply:
    """The answer to a command. Raises Refusal if it is refused, and AdminError if the answer is none of kproxy's."""
    try:
        said = _mapping(value)
        problem = _text(said["problem"])
        cluster = None if said["cluster"] is None else ClusterReply.read(said["cluster"], who)
    except (KeyError, TypeError, ValueError):
        raise _foreign_reply(who) from None
    if problem:
        raise CommandRefused(f"{who} refuses: {problem}", cluster)
    if cluster is None:
        raise _foreign_reply(who)
    return cluster


def _foreign_reply(who: str) -> AdminError:
    return AdminError(f"{who} does not answer at /switch as kproxy does; is it the same version everywhere?")


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
    said = _mapping(value)
    return f"{_text(said.get('client') or '(no client id)')} at {_text(said.get('address') or '?')}"


def _upstream_login(value: object) -> UpstreamLogin:
    said = _mapping(value)
    login = _text(said.get("login") or "")
    return UpstreamLogin(LoginMode(login) if login in set(LoginMode) else LoginMode.UNKNOWN, said.get("tls") is True)


def _client(value: object) -> ConnectedClient:
    said = _mapping(value)
    sees = said.get("sees") or []
    texts = tuple(_text(text) for text in _list([sees] if isinstance(sees, str) else sees))
    name, address, software, login, produces = (
        _text(said.get(key) or "") for key in ("client", "address", "software", "login", "produces")
    )
    reads, writes = said.get("reads") is True, said.get("writes") is True
    return ConnectedClient(name, address, software, texts, reads, writes, login, produces)
