"""The status as JSON and back. Unknown fields, those of a later kproxy, are ignored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from pydantic import TypeAdapter, ValidationError

from kproxy.proxy.status.model import SessionStatus, Status


@cache
def _adapter() -> TypeAdapter[Status]:
    return TypeAdapter(Status)  # made on the first request, so that the start does not wait for it


def write(status: Status) -> bytes:
    """Return the JSON of `/status`, for people and programs: UTF-8, indented, a line feed at its end."""
    return _adapter().dump_json(status, indent=2) + b"\n"


@cache
def _sessions() -> TypeAdapter[Sequence[SessionStatus]]:
    return TypeAdapter(Sequence[SessionStatus])


def sessions(shown: Sequence[SessionStatus]) -> bytes:
    """Return the JSON of `/sessions`: an array."""
    return _sessions().dump_json(shown, indent=2) + b"\n"


def read(data: bytes) -> Status:
    """Read the JSON of `/status`.

    Raises ValueError, with one line, if this is not the status of a kproxy.
    """
    try:
        return _adapter().validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the beginning"
        raise ValueError(f"this is not the status of a kproxy: {where}: {first['msg']}") from None
