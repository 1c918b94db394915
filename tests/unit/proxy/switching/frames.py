"""Frames for tests of what reads them, made from the message definitions: fields that are not given are empty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.definitions import Field
from tests.unit.kafka_frames import encode, request, response

Topics = dict[str, dict[int, dict[str, Any]]]


def ask(key: int, version: int, fields: dict[str, Any], correlation_id: int = 7, client_id: str | None = "me") -> bytes:
    """A request, whole."""
    definition = definitions.load_message(f"{APIS[key].name}Request")
    body = encode(definition, version, _filled(definition.fields, version, fields))
    return request(key, version, correlation_id, body, client_id)


def answer(key: int, version: int, fields: dict[str, Any], correlation_id: int = 7) -> bytes:
    """A response, whole."""
    definition = definitions.load_message(f"{APIS[key].name}Response")
    return response(
        key, version, encode(definition, version, _filled(definition.fields, version, fields)), correlation_id
    )


def _filled(fields: Iterable[Field], version: int, values: dict[str, Any]) -> dict[str, Any]:
    unknown = values.keys() - {field.name for field in fields}
    assert not unknown, f"no such field: {unknown}"
    return {
        field.name: _value(field, version, values[field.name]) if field.name in values else _empty(field)
        for field in fields
        if version in field.versions and (version not in field.tagged or field.name in values)
    }


def _value(field: Field, version: int, value: Any) -> Any:
    if isinstance(value, list) and field.fields:
        return [_filled(field.fields, version, one) for one in value]
    return _filled(field.fields, version, value) if isinstance(value, dict) else value


def _empty(field: Field) -> Any:
    if field.type.startswith("[]"):
        return []
    return {"string": "", "bytes": b"", "records": b"", "uuid": bytes(16), "bool": False}.get(field.type, 0)
