"""The answers to refused requests, with Kafka's own errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import encode_response
from kproxy.protocol.wire.primitives import Buffer, malformed
from kproxy.proxy.access.apis import CHANGES, ERRORS, OF_CLUSTER_USERS, Answer, Change, Copy, Each, Slot
from kproxy.proxy.access.names import Name, decode, decode_request

MOST_ELEMENTS, MOST_NAMED = 2_000, 1_000
"""The most elements of one array of a request that are answered one by one, and the most that are judged by their names
too: some milliseconds of work."""


class Refusal:
    """Why a request is refused: what it names and may not, with families, and the text of the reason."""

    def __init__(self, key: int, forbidden: Sequence[tuple[str, Name]], text: str) -> None:
        self.key, self.text = key, text
        # What forbids the request whatever its elements are.
        self._is_whole = any(family == "transaction" for family, _ in forbidden)
        self._families: dict[Name, str] = {}  # of each name, by which the error of an element is looked up
        for family, name in forbidden:
            self._families.setdefault(name, family)
        self.error = self._error("transaction" if self._is_whole else forbidden[0][0])
        """The error of the request as a whole."""

    def error_of(self, name: Name) -> ErrorCode:
        """Return the error of one element of the request, by its name."""
        if self._is_whole:
            return self.error
        family = self._families.get(name)
        return ErrorCode.OPERATION_NOT_ATTEMPTED if family is None else self._error(family)

    def _error(self, family: str) -> ErrorCode:
        if self.key == ApiKey.INIT_PRODUCER_ID and family == "produce":
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # as KIP-679 has it
        change = change_of(self.key)
        return change.error if family == change.family else ERRORS[family]


def change_of(key: int) -> Change:
    """Return how requests of an API are refused."""
    return CHANGES.get(key) or OF_CLUSTER_USERS[key]


def flat_answer(key: int, version: int, correlation_id: int, refusal: Refusal) -> bytes:
    """Return the answer to a request of an API whose answer has nothing of the request."""
    return _encode(key, version, correlation_id, {}, refusal)


def answer(request: Buffer, refusal: Refusal) -> bytes:
    """Return the answer to this request, a frame. Raises Underflow if it is not whole, and WireError."""
    key, version, correlation_id, fields = decode_request(request)
    return _encode(key, version, correlation_id, fields, refusal)


def _encode(key: int, version: int, correlation_id: int, request: Mapping[str, Any], refusal: Refusal) -> bytes:
    fields = _struct(change_of(key).answer(version), request, refusal, refusal.error)
    return encode_response(key, version, correlation_id, fields)


def _struct(shape: Answer, request: Any, refusal: Refusal, error: ErrorCode) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in shape.items():
        if value is Slot.ERROR:
            fields[name] = error
        elif value is Slot.MESSAGE:
            fields[name] = refusal.text
        elif value is Slot.ELEMENT:
            fields[name] = request
        elif isinstance(value, Copy):
            if value.field in request:  # of this version
                fields[name] = request[value.field]
        elif isinstance(value, Each):
            elements = list(_elements(value.field, request))
            most = MOST_ELEMENTS if value.name is None else MOST_NAMED
            if len(elements) > most:
                raise malformed(f"a request that is refused names {len(elements)} things; kproxy answers {most}")
            structs = [
                _struct(value.fields, element, refusal, _element_error(value, element, refusal, error))
                for element in elements
            ]
            if value.distinct:
                structs = list({tuple(struct.values()): struct for struct in structs}.values())
            fields[name] = structs
        else:
            fields[name] = value
    return fields


def _element_error(each: Each, element: Any, refusal: Refusal, error: ErrorCode) -> ErrorCode:
    if each.name is None:
        return error
    return refusal.error_of(decode(element[each.name] if each.name else element))


def _elements(path: str, struct: Mapping[str, Any]) -> Iterator[Any]:
    for alternative in path.split(","):
        array, _, inner = alternative.partition(".")
        for element in struct[array] or ():
            if inner:
                yield from _elements(inner, element)
            else:
                yield element
