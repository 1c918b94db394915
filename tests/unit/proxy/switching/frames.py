"""Frames for tests of what reads them, made from the message definitions: fields that are not given are empty."""

from __future__ import annotations

from typing import Any

from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.definitions import load_message
from kproxy.protocol.wire.messages import encode_fields
from tests.unit.kafka_frames import request, response


def ask(key: int, version: int, fields: dict[str, Any], correlation_id: int = 7, client_id: str | None = "me") -> bytes:
    """A request, whole."""
    return request(key, version, correlation_id, _body(f"{APIS[key].name}Request", version, fields), client_id)


def answer(key: int, version: int, fields: dict[str, Any], correlation_id: int = 7) -> bytes:
    """A response, whole."""
    return response(key, version, _body(f"{APIS[key].name}Response", version, fields), correlation_id)


def _body(name: str, version: int, fields: dict[str, Any]) -> bytes:
    unknown = fields.keys() - {field.name for field in load_message(name).fields}
    assert not unknown, f"no such field: {unknown}"
    return encode_fields(name, version, fields)
