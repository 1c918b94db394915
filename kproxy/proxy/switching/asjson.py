"""The state of one cluster of one kproxy, and commands, as JSON: the state file, and the bodies of /switch. Pure.

A state file:

    {"format": 1, "cluster": "default", "ended": false, "state": STATE}
    {"format": 2, "cluster": "default", "ended": false, "state": STATE, "parts": ["reports"]}
    {"format": 2, "cluster": "default/reports", "ended": false, "state": STATE, "clients": ["consumer-reports-#"]}

`ended`: the process ended in good order, and no write was in flight. Then `unsure` and `unknown` are the seconds, of
the time in which a kproxy runs, during which clients that kproxy does not know may repeat a write, or may have fetched;
both are missing if they are 0. `fetched` has the address and the client id of each client that has fetched, unless
there are too many. Format 2 is that of a cluster with parts, and of a part (`kproxy.proxy.switching.parts`): a kproxy
that does not support parts would route their clients to the upstream of the others. STATE is
each field of `kproxy.proxy.switching.participant.ParticipantState` by its name; `last` is null, or each field of
`LastSwitch`:

    {"active": "blue", "phase": "held", "switch": "x1", "driver": "000001-9f", "former": "blue", "to": "green",
     "since": 1795401600.0, "deadline": 1795401620.0, "count": 3, "last": null}

A command, the body of POST /switch. Fields that are not needed may be missing; unknown fields are refused:

    {"cluster": "default", "switch": "x1", "driver": "000001-9f", "do": "hold", "to": "green", "seconds": 20,
     "after": 2}
    {"cluster": "default", "switch": "x1", "driver": "000001-9f", "do": "undo", "force": true}
    {"cluster": "default/reports", "do": "part", "clients": ["consumer-reports-#"]}
    {"cluster": "default/reports", "do": "join"}

The last two make a part of a cluster, and end one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType, NoneType
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from kproxy.base.printable import one_line
from kproxy.proxy.switching.doubts import ClientIdentity
from kproxy.proxy.switching.participant import Command, CommandType, LastSwitch, ParticipantState, Phase
from kproxy.proxy.switching.parts import MAX_CLIENT_IDS, MAX_PARTS, Part, check_part, split_unit
from kproxy.proxy.switching.positions import MAX_SAVED_CLIENTS

T = TypeVar("T")

FORMAT, FORMAT_WITH_PARTS = 1, 2
PART, JOIN = "part", "join"
# Of names and ids, in characters.
_MOST = 200


@dataclass(frozen=True, slots=True)
class SavedState:
    """The contents of a state file."""

    state: ParticipantState
    ended: bool = False
    """The process that wrote it ended in good order, with no write in flight."""
    parts: tuple[str, ...] = ()
    """The names of a cluster's parts."""
    clients: tuple[str, ...] = ()
    """The client ids of a part."""
    fetched: tuple[ClientIdentity, ...] | None = None
    """The clients that have fetched; None if the process did not know."""
    unsure: float = 0.0
    """For how many seconds more a client may repeat a write that the process did not know of."""
    unknown: float = 0.0
    """For how many seconds more a client may connect that has fetched without the process's knowledge."""


@dataclass(frozen=True, slots=True)
class PartCommand:
    """A command to make this part of a cluster; without clients, to end it.

    The clients of a part that has ended belong to the cluster again.
    """

    part: str
    clients: tuple[str, ...] = ()


def parse_command(body: object) -> tuple[str, Command | PartCommand]:
    """Return the unit and the command of a body; for `PartCommand`, the cluster.

    Raises ValueError with the mistake, in one line.
    """
    fields = _fields(body, "the body")
    unit = _value(str, fields.pop("cluster", _MISSING), "the body", "cluster")
    if fields.get("do") in (PART, JOIN):
        return _part_command(unit, fields, makes=fields.pop("do") == PART)
    if "do" in fields and fields["do"] not in list(CommandType):
        _refuse("the body", "do", f"one of {', '.join([*CommandType, PART, JOIN])}")
    command = _read(Command, "the body", fields, {"type": "do"})
    _refuse_others(fields)
    if command.type is CommandType.HOLD and not (command.to and command.seconds):
        raise ValueError("hold needs 'to' and 'seconds'")
    return unit, command


def _part_command(unit: str, fields: dict[str, object], *, makes: bool) -> tuple[str, PartCommand]:
    cluster, name = split_unit(unit)
    if not name:
        raise ValueError("'cluster' must be CLUSTER/PART: it names the part too")
    clients = _value(tuple[str, ...], fields.pop("clients", _MISSING), "the body", "clients") if makes else ()
    _refuse_others(fields)
    if makes:
        check_part(Part(name, clients))
    return cluster, PartCommand(name, clients)


def _refuse_others(fields: Mapping[str, object]) -> None:
    for name in fields:
        raise ValueError(f"the body has '{one_line(str(name), 40)}', which means nothing here")


def encode_state_file(unit: str, saved: SavedState) -> bytes:
    """Return the bytes of a state file."""
    state = state_as_json(saved.state)
    value: dict[str, Any] = {"format": FORMAT, "cluster": unit, "ended": saved.ended, "state": state}
    for name, texts in (("parts", saved.parts), ("clients", saved.clients)):
        if texts:
            value |= {"format": FORMAT_WITH_PARTS, name: list(texts)}
    if saved.ended and saved.fetched is not None:
        value["fetched"] = [[identity.address, identity.client_id] for identity in saved.fetched]
    for name, seconds in (("unsure", saved.unsure), ("unknown", saved.unknown)):
        if saved.ended and seconds > 0:
            value[name] = seconds
    return json.dumps(value, indent=2).encode() + b"\n"


def decode_state_file(data: bytes, unit: str) -> SavedState:
    """Read a state file of this unit. Raises ValueError with the mistake, in one line."""
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    fields = _fields(value, "it")
    if fields.get("format") not in (FORMAT, FORMAT_WITH_PARTS):
        raise ValueError(
            f"its format is not {FORMAT} or {FORMAT_WITH_PARTS}: another version of kproxy wrote it, or something else"
        )
    if _value(str, fields.pop("cluster", _MISSING), "it", "cluster") != unit:
        raise ValueError("it is the state of another cluster")
    fetched = _identities(fields.pop("fetched", None))
    saved = replace(_read(SavedState, "it", fields), fetched=fetched)
    _check_consistent(saved.state)
    if name := split_unit(unit)[1]:
        check_part(Part(name, saved.clients))
    return saved


def _identities(value: object) -> tuple[ClientIdentity, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > MAX_SAVED_CLIENTS:
        raise ValueError(f"'fetched' is not a list of at most {MAX_SAVED_CLIENTS} clients")
    for identity in value:
        if not isinstance(identity, list) or len(identity) != 2 or not all(isinstance(text, str) for text in identity):
            raise ValueError("'fetched' has something that is not an address and a client id")
    return tuple(ClientIdentity(address, client_id) for address, client_id in value)


def state_as_json(state: ParticipantState) -> dict[str, Any]:
    """Return STATE as plain JSON values."""
    return asdict(state)


def state_from_json(value: object) -> ParticipantState:
    """Return the state of STATE, ignoring unknown fields, those of a later kproxy. Raises ValueError."""
    state = _read(ParticipantState, "the state", _fields(value, "the state"))
    _check_consistent(state)
    return state


def _check_consistent(state: ParticipantState) -> None:
    """Raise ValueError if no kproxy can have written this state: a transition from it could do anything."""
    if not state.holds:
        return
    if not (state.switch and state.former and state.to) or state.former == state.to:
        raise ValueError("the state is in a switch, but does not say which, or from where to where")
    flipped = state.phase in (Phase.FLIPPED, Phase.COMMITTED)
    if state.active != (state.to if flipped else state.former):
        raise ValueError("the state's active upstream does not fit its phase")
    if (state.deadline is None) is not (state.phase is Phase.COMMITTED):
        raise ValueError("the state's deadline does not fit its phase")


# Reading a dataclass by the types of its fields

_MISSING = object()
_NAMES: Mapping[object, str] = {ParticipantState: "the state", LastSwitch: "the last switch"}
_MOST_TEXTS = {"parts": MAX_PARTS, "clients": MAX_CLIENT_IDS}


def _fields(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is not a JSON object")
    return dict(value)


def _read(kind: type[T], what: str, fields: dict[str, object], names: Mapping[str, str] = MappingProxyType({})) -> T:
    """Take the fields of this dataclass; `names` has those with another name in JSON. Raises ValueError."""
    types, values = get_type_hints(kind), {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # it is a dataclass
        name, is_required = names.get(field.name, field.name), field.default is dataclasses.MISSING
        if is_required or name in fields:
            value = fields.pop(name, _MISSING)
            values[field.name] = _value(types[field.name], value, what, name, can_be_empty=not is_required)
    return kind(**values)


def _value(kind: Any, value: Any, what: str, name: str, *, can_be_empty: bool = False) -> Any:
    """Return the value of a field of this type. Raises ValueError."""
    if value is _MISSING:
        raise ValueError(f"{what} has no '{name}'")
    if NoneType in get_args(kind):
        if value is None:
            return None
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if dataclasses.is_dataclass(kind):
        return _read(kind, _NAMES[kind], _fields(value, _NAMES[kind]))  # type: ignore[arg-type]  # it is no instance
    if kind is str:
        if not isinstance(value, str) or len(value) > _MOST or not (value or can_be_empty):
            _refuse(what, name, f"a text of 1 to {_MOST} characters")
        if not value.isprintable():
            _refuse(what, name, "a text without control characters")
        return value
    if get_origin(kind) is tuple:
        most = _MOST_TEXTS[name]
        if not isinstance(value, list) or len(value) > most or not all(isinstance(text, str) for text in value):
            _refuse(what, name, f"a list of at most {most} texts")
        return tuple(value)
    is_valid, must = _SCALARS.get(kind) or (list(kind).__contains__, f"one of {', '.join(kind)}")
    if not is_valid(value):
        _refuse(what, name, must)
    return kind(value)


_SCALARS: Mapping[type, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: type(value) is int and 0 <= value < 2**53, "a whole number"),
    float: (lambda value: type(value) in (int, float) and 0 <= value < 1e12, "a number of seconds"),
}


def _refuse(what: str, name: str, must: str) -> NoReturn:
    raise ValueError(f"{what}: '{name}' must be {must}")
