"""The status as JSON and back. Unknown fields, those of a later kproxy, are ignored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from kproxy.proxy.status.model import SessionStatus, Status


def write(status: Status) -> bytes:
    """Return the JSON of `/status`, for people and programs: UTF-8, indented, a line feed at its end."""
    return json.dumps(status, default=_as_dict, indent=2, ensure_ascii=False).encode() + b"\n"


def sessions(shown: Sequence[SessionStatus]) -> bytes:
    """Return the JSON of `/sessions`: an array, with one session a line, since ten thousand must not take long."""
    lines = (json.dumps(session, default=_as_dict, ensure_ascii=False) for session in shown)
    return ("[\n" + ",\n".join(lines) + "\n]\n").encode()


def _as_dict(value: Any) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__slots__}


def read(data: bytes) -> Status:
    """Read the JSON of `/status`. Raises ValueError, with one line, if this is not the status of a kproxy."""
    try:
        status: Status = _value(Status, json.loads(data), ())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not the status of a kproxy: {str(error)[:200]}") from None
    return status


@cache
def _types(owner: type[Any]) -> dict[str, Any]:
    """Return the types of the fields of a dataclass."""
    hints = get_type_hints(owner)
    return {field.name: hints[field.name] for field in fields(owner)}


def _value(type_: Any, value: Any, at: tuple[str, ...]) -> Any:
    """Return the value of this type that JSON has at this place. Raises ValueError."""
    if is_dataclass(type_) and isinstance(value, dict):
        required = {field.name for field in fields(type_) if field.default is MISSING}
        if missing := sorted(required - value.keys()):
            raise ValueError(f"{'.'.join((*at, missing[0]))}: Field required")
        types = _types(type_)  # type: ignore[arg-type]  # a type, since JSON has no other dataclasses
        return type_(**{name: _value(types[name], value[name], (*at, name)) for name in types if name in value})  # type: ignore[operator]
    if get_origin(type_) is tuple and isinstance(value, list):
        return tuple(_value(get_args(type_)[0], item, (*at, str(index))) for index, item in enumerate(value))
    if NoneType in get_args(type_):
        (other,) = (option for option in get_args(type_) if option is not NoneType)
        return None if value is None else _value(other, value, at)
    if type(value) is type_ or (type_ is float and type(value) is int):
        return value
    raise ValueError(f"{'.'.join(at) or 'the beginning'}: not {getattr(type_, '__name__', 'a list')}")
