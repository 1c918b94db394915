"""The answers to refused requests, with Kafka's own errors."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import encode_response
from kproxy.protocol.wire.primitives import Buffer, malformed
from kproxy.proxy.access.apis import CHANGES, ERRORS, OF_CLUSTER_USERS, Answer, Change, Copy, Each, Slot
from kproxy.proxy.access.names import Name, cost_of, decode, decode_request

MOST_ELEMENTS, MOST_NAMED = 2_000, 1_000
"""The most elements of a request that are answered one by one, and the most of an array that are judged by their names
too."""


class Refusal:
    """Why a request is refused: what it names and may not, with families, and the text of the reason."""

    def __init__(self, key: int, forbidden: Sequence[tuple[str, Name]], text: str) -> None:
        self.key, self.text = key, text.encode()
        # What forbids the request whatever its elements are.
        is_whole = any(family == "transaction" for family, _ in forbidden)
        self.error = self._error("transaction" if is_whole else forbidden[0][0])
        """The error of the request as a whole."""
        self._others = self.error if is_whole else ErrorCode.OPERATION_NOT_ATTEMPTED
        errors = {family: self._error(family) for family in {family for family, _ in forbidden}}
        self._errors: dict[Name, ErrorCode] = {}
        if not is_whole:
            for family, name in forbidden:
                self._errors.setdefault(name, errors[family])

    def error_of(self, name: Name) -> ErrorCode:
        """Return the error of one element of the request, by its name."""
        return self._errors.get(name, self._others)

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
    return encode_response(key, version, correlation_id, _answer_fields(key, version, {}, refusal))


def answer_in_steps(request: Buffer, refusal: Refusal) -> Generator[int, None, bytes]:
    """Return the answer to this request, a frame, in steps of which each has a turn of the loop.

    Yields what a step has cost, in the unit of the authorizer. Raises Underflow if the request is not whole, and
    WireError.
    """
    key, version, correlation_id, fields = decode_request(request)
    yield cost_of(request)
    values = _answer_fields(key, version, fields, refusal)
    yield cost_of(request)
    return encode_response(key, version, correlation_id, values)


def _answer_fields(key: int, version: int, request: Mapping[str, Any], refusal: Refusal) -> dict[str, Any]:
    return _Layout(change_of(key).answer(version), refusal).struct(request, refusal.error)


class _Layout:
    """The fields of a struct in an answer, sorted once for all elements of an array by where their values come from."""

    def __init__(self, shape: Answer, refusal: Refusal, left: list[int] | None = None) -> None:
        self._refusal = refusal
        self._left = [MOST_ELEMENTS] if left is None else left  # how many elements may still be answered
        self._fixed = {name: value for name, value in shape.items() if not isinstance(value, Slot | Copy | Each)}
        self._fixed |= {name: refusal.text for name, value in shape.items() if value is Slot.MESSAGE}
        self._errors = [name for name, value in shape.items() if value is Slot.ERROR]
        self._elements = [name for name, value in shape.items() if value is Slot.ELEMENT]
        self._copies = [(name, value.field) for name, value in shape.items() if isinstance(value, Copy)]
        self._arrays = [
            (name, value, _Layout(value.fields, refusal, self._left))
            for name, value in shape.items()
            if isinstance(value, Each)
        ]

    def struct(self, request: Any, error: ErrorCode) -> dict[str, Any]:
        """Return the struct for this struct, or this element, of the request."""
        fields = dict(self._fixed)
        for name in self._errors:
            fields[name] = error
        for name in self._elements:
            fields[name] = request
        for name, copied in self._copies:
            if copied in request:  # of this version
                fields[name] = request[copied]
        for name, each, inner in self._arrays:
            fields[name] = self._structs(each, inner, list(_elements(each.field, request)), error)
        return fields

    def _structs(self, each: Each, inner: _Layout, elements: list[Any], error: ErrorCode) -> list[dict[str, Any]]:
        most = MOST_ELEMENTS if each.name is None else MOST_NAMED
        self._left[0] -= len(elements)
        if len(elements) > most or self._left[0] < 0:
            named = max(len(elements), MOST_ELEMENTS - self._left[0])
            raise malformed(f"a request that is refused names {named} things or more; kproxy answers {most}")
        if each.name is None:
            structs = [inner.struct(element, error) for element in elements]
        else:
            error_of, name = self._refusal.error_of, each.name
            structs = [
                inner.struct(element, error_of(decode(element[name] if name else element))) for element in elements
            ]
        if each.distinct:
            structs = list({tuple(struct.values()): struct for struct in structs}.values())
        return structs


def _elements(path: str, struct: Mapping[str, Any]) -> Iterator[Any]:
    for alternative in path.split(","):
        array, _, inner = alternative.partition(".")
        for element in struct[array] or ():
            if inner:
                yield from _elements(inner, element)
            else:
                yield element
