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

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, NoReturn

from kproxy.base.printable import one_line
from kproxy.proxy.switching.doubts import ClientIdentity
from kproxy.proxy.switching.participant import Command, CommandType, LastSwitch, ParticipantState, Phase, SwitchOutcome
from kproxy.proxy.switching.parts import MAX_CLIENT_IDS, MAX_PARTS, Part, check_part, split_unit
from kproxy.proxy.switching.positions import MAX_SAVED_CLIENTS

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
    fields = _Fields(body, "the body")
    unit = fields.text("cluster")
    command_type = fields.one_of("do", [*(type_.value for type_ in CommandType), PART, JOIN])
    if command_type in (PART, JOIN):
        return _part_command(unit, fields, makes=command_type == PART)
    command = Command(
        CommandType(command_type),
        fields.text("switch"),
        fields.text("driver", ""),
        fields.text("to", ""),
        fields.number("seconds", 0.0),
        fields.count("after", None),
        fields.flag("force", False),
    )
    fields.no_more()
    if command.type is CommandType.HOLD and not (command.to and command.seconds):
        raise ValueError("hold needs 'to' and 'seconds'")
    return unit, command


def _part_command(unit: str, fields: _Fields, *, makes: bool) -> tuple[str, PartCommand]:
    cluster, name = split_unit(unit)
    if not name:
        raise ValueError("'cluster' must be CLUSTER/PART: it names the part too")
    clients = fields.texts("clients", MAX_CLIENT_IDS) if makes else ()
    fields.no_more()
    if makes:
        check_part(Part(name, clients))
    return cluster, PartCommand(name, clients)


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
    """Read a state file of this unit.

    Raises ValueError with the mistake, in one line.
    """
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    fields = _Fields(value, "it")
    number = fields.count("format", 0)
    if number not in (FORMAT, FORMAT_WITH_PARTS):
        raise ValueError(
            f"its format is not {FORMAT} or {FORMAT_WITH_PARTS}: another version of kproxy wrote it, or something else"
        )
    if fields.text("cluster") != unit:
        raise ValueError("it is the state of another cluster")
    saved = SavedState(
        state_from_json(fields.take("state")),
        fields.flag("ended", False),
        fields.texts("parts", MAX_PARTS, []),
        fields.texts("clients", MAX_CLIENT_IDS, []),
        _identities(fields.take("fetched", None)),
        fields.number("unsure", 0.0),
        fields.number("unknown", 0.0),
    )
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
    """Return the state of STATE, ignoring unknown fields, those of a later kproxy.

    Raises ValueError.
    """
    fields = _Fields(value, "the state")
    state = ParticipantState(
        fields.text("active"),
        Phase(fields.one_of("phase", [phase.value for phase in Phase])),
        fields.text("switch", ""),
        fields.text("driver", ""),
        fields.text("former", ""),
        fields.text("to", ""),
        fields.number("since", 0.0),
        fields.optional_number("deadline"),
        fields.count("count", 0) or 0,
        _last_switch(fields.take("last", None)),
    )
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


def _last_switch(value: object) -> LastSwitch | None:
    if value is None:
        return None
    fields = _Fields(value, "the last switch")
    return LastSwitch(
        fields.text("switch"),
        fields.text("to"),
        SwitchOutcome(fields.one_of("outcome", [outcome.value for outcome in SwitchOutcome])),
        fields.text("why", ""),
        fields.number("at", 0.0),
        fields.number("held", 0.0),
        fields.flag("flipped", True),
    )


class _Missing:
    pass


_MISSING = _Missing()


class _Fields:
    """The fields of a JSON object, each of them taken once."""

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, Mapping):
            raise ValueError(f"{what} is not a JSON object")
        self._left = dict(value)
        self._what = what

    def take(self, name: str, default: object = _MISSING) -> object:
        value = self._left.pop(name, default)
        if value is _MISSING:
            raise ValueError(f"{self._what} has no '{name}'")
        return value

    def text(self, name: str, default: object = _MISSING) -> str:
        value = self.take(name, default)
        if not isinstance(value, str) or len(value) > _MOST or (not value and default is _MISSING):
            self._wrong(name, f"a text of 1 to {_MOST} characters")
        if not value.isprintable():
            self._wrong(name, "a text without control characters")
        return value

    def texts(self, name: str, most: int, default: object = _MISSING) -> tuple[str, ...]:
        value = self.take(name, default)
        if not isinstance(value, list) or len(value) > most or not all(isinstance(text, str) for text in value):
            self._wrong(name, f"a list of at most {most} texts")
        return tuple(value)

    def one_of(self, name: str, allowed: list[str]) -> str:
        value = self.take(name)
        if not isinstance(value, str) or value not in allowed:
            self._wrong(name, f"one of {', '.join(allowed)}")
        return value

    def number(self, name: str, default: object = _MISSING) -> float:
        value = self.take(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 <= value < 1e12
            or not isfinite(value)
        ):
            self._wrong(name, "a number of seconds")
        return float(value)

    def optional_number(self, name: str) -> float | None:
        value = self.take(name, None)
        if value is None:
            return None
        self._left[name] = value
        return self.number(name)

    def count(self, name: str, default: int | None) -> int | None:
        value = self.take(name, default)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53):
            self._wrong(name, "a whole number")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.take(name, default)
        if not isinstance(value, bool):
            self._wrong(name, "true or false")
        return value

    def no_more(self) -> None:
        if self._left:
            raise ValueError(
                f"{self._what} has '{one_line(str(next(iter(self._left))), 40)}', which means nothing here"
            )

    def _wrong(self, name: str, must: str) -> NoReturn:
        raise ValueError(f"{self._what}: '{name}' must be {must}")
