"""The state of one cluster of one kproxy, and commands, as JSON: the state file, and the bodies of /switch. Pure.

A state file:

    {"format": 1, "cluster": "default", "ended": false, "state": STATE}

`ended`: the process ended in good order, and none of its clients waits for the answer to a write. STATE is each field
of `kproxy.switching.state.State` by its name; `last` is null, or each field of `Ended`:

    {"active": "blue", "phase": "held", "switch": "x1", "driver": "000001-9f", "former": "blue", "to": "green",
     "since": 1795401600.0, "deadline": 1795401620.0, "count": 3, "last": null}

A command, the body of POST /switch. What is not needed may be missing; what there is not, is refused:

    {"cluster": "default", "switch": "x1", "driver": "000001-9f", "do": "hold", "to": "green", "seconds": 20,
     "after": 2}
    {"cluster": "default", "switch": "x1", "driver": "000001-9f", "do": "undo", "force": true}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any, NoReturn

from kproxy.printable import one_line
from kproxy.switching.state import Command, Do, Ended, Outcome, Phase, State

FORMAT = 1
# Of names and ids, in characters.
_MOST = 200


def command(body: object) -> tuple[str, Command]:
    """The cluster and the command of a body. Raises ValueError: what is wrong with it, in one line."""
    fields = _Fields(body, "the body")
    cluster = fields.text("cluster")
    found = Command(
        Do(fields.one_of("do", [one.value for one in Do])),
        fields.text("switch"),
        fields.text("driver", ""),
        fields.text("to", ""),
        fields.number("seconds", 0.0),
        fields.count("after", None),
        fields.flag("force", False),
    )
    fields.no_more()
    if found.do is Do.HOLD and not (found.to and found.seconds):
        raise ValueError("hold needs 'to' and 'seconds'")
    return cluster, found


def written(cluster: str, state: State, *, ended: bool = False) -> bytes:
    """A state file."""
    value = {"format": FORMAT, "cluster": cluster, "ended": ended, "state": shown(state)}
    return json.dumps(value, indent=2).encode() + b"\n"


def read(data: bytes, cluster: str) -> tuple[State, bool]:
    """The state in a file of this cluster, and `ended`. Raises ValueError: what is wrong with it, in one line."""
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    fields = _Fields(value, "it")
    if fields.count("format", 0) != FORMAT:
        raise ValueError(f"its format is not {FORMAT}: another version of kproxy wrote it, or something else")
    if fields.text("cluster") != cluster:
        raise ValueError("it is the state of another cluster")
    return state_of(fields.take("state")), fields.flag("ended", False)


def shown(state: State) -> dict[str, Any]:
    """STATE, as plain JSON values."""
    return asdict(state)


def state_of(value: object) -> State:
    """The other way. Raises ValueError. Unknown fields, those of a later kproxy, are passed over."""
    fields = _Fields(value, "the state")
    found = State(
        fields.text("active"),
        Phase(fields.one_of("phase", [one.value for one in Phase])),
        fields.text("switch", ""),
        fields.text("driver", ""),
        fields.text("former", ""),
        fields.text("to", ""),
        fields.number("since", 0.0),
        fields.optional_number("deadline"),
        fields.count("count", 0) or 0,
        _ended(fields.take("last", None)),
    )
    _check(found)
    return found


def _check(state: State) -> None:
    """Raises ValueError if no kproxy can have been there: a step from there could do anything."""
    if not state.holds:
        return
    if not (state.switch and state.former and state.to) or state.former == state.to:
        raise ValueError("the state is in a switch, but does not say which, or from where to where")
    flipped = state.phase in (Phase.FLIPPED, Phase.COMMITTED)
    if state.active != (state.to if flipped else state.former):
        raise ValueError("the state's active upstream does not fit its phase")
    if (state.deadline is None) is not (state.phase is Phase.COMMITTED):
        raise ValueError("the state's deadline does not fit its phase")


def _ended(value: object) -> Ended | None:
    if value is None:
        return None
    fields = _Fields(value, "the last switch")
    return Ended(
        fields.text("switch"),
        fields.text("to"),
        Outcome(fields.one_of("outcome", [one.value for one in Outcome])),
        fields.text("why", ""),
        fields.number("at", 0.0),
        fields.number("held", 0.0),
        fields.flag("flipped", True),
    )


class _Missing:
    pass


_MISSING = _Missing()


class _Fields:
    """Of a JSON object, each of them taken once."""

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
