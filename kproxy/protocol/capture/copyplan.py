"""Compiling a message definition and a version to the steps of a copy.

A plan is a flat tuple of steps `(op, a, b)`, for the header behind the size field and for the body; `framecopy` takes
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from kproxy.protocol.capture.redaction import is_redacted
from kproxy.protocol.wire.api import API_VERSIONS, APIS
from kproxy.protocol.wire.definitions import Field, MessageDefinition, load_message

# Operations. `a` and `b` mean:
FIXED = 0  # a bytes of fixed size
TEXT = 1  # a size and that many bytes. a: width of the size (2, or 0 = unsigned varint), b: nullable
EMPTIED = 2  # the same, left empty in the copy. a: width (2, 4 or 0), b: nullable
RECORDS = 11  # the same with a batch of no records in the copy. a: width (4 or 0), b: nullable
ARRAY = 3  # a count and that many elements. a: width (4 or 0), b: (nullable, step after the loop)
NEXT = 4  # end of an element. a: first step of the element
MAYBE = 5  # a struct that may be null. a: step after it
TAGS = 6  # a tag section. a: the first step of each known field, by its tag; b: step after the section
TAG = 7  # between two tagged fields
TAG_END = 8  # end of a known tagged field. a: step of TAG
ACKS = 9  # the acks of Produce, an int16
STOP = 10

# The types of `a` and `b` depend on the operation.
CopyStep = tuple[int, Any, Any]
CopyPlan = tuple[CopyStep, ...]

_FIXED = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16}
# Versions that Kafka 4 serves no more, so that the definitions do not list them as valid. They still describe them.
_OLDER = frozenset({"ProduceRequest", "ProduceResponse", "FetchRequest", "FetchResponse"})


class _CopyCompiler:
    def __init__(self, definition: MessageDefinition, version: int) -> None:
        self._name = definition.name
        self._version = version
        self._flexible = version in definition.flexible
        self._steps: list[CopyStep] = []

    def compile(self, fields: tuple[Field, ...], key: int, *, of_request: bool) -> CopyPlan:
        if of_request:
            self._steps += [(FIXED, 8, None), (TEXT, 2, True)]  # API key and version, correlation id; client id
            has_tags = self._flexible
        else:
            self._steps.append((FIXED, 4, None))
            has_tags = self._flexible and key != API_VERSIONS  # KIP-511
        if has_tags:
            self._tags(())
        self._struct(fields)
        self._steps.append((STOP, None, None))
        return tuple(self._steps)

    def _struct(self, fields: Iterable[Field]) -> None:
        present_fields = [field for field in fields if self._version in field.versions]
        tagged = [field for field in present_fields if field.tag is not None and self._version in field.tagged]
        for field in present_fields:
            if field not in tagged:
                self._field(field)
        if self._flexible:
            self._tags(tagged)

    def _tags(self, tagged_fields: Iterable[Field]) -> None:
        at = len(self._steps)
        self._steps += [(TAGS, None, None), (TAG, None, None)]
        begins: dict[int, int] = {}
        for field in tagged_fields:
            assert field.tag is not None
            begins[field.tag] = len(self._steps)
            self._field(field)
            self._steps.append((TAG_END, at + 1, None))
        self._steps[at] = (TAGS, begins, len(self._steps))

    def _field(self, field: Field) -> None:
        nullable = self._version in field.nullable
        element = field.type.removeprefix("[]")
        if element != field.type:
            self._array(field, element, nullable)
        elif field.fields and nullable:
            at = len(self._steps)
            self._steps.append((MAYBE, None, None))
            self._struct(field.fields)
            self._steps[at] = (MAYBE, len(self._steps), None)
        else:
            self._one(field, element, nullable)

    def _array(self, field: Field, element: str, nullable: bool) -> None:
        at = len(self._steps)
        self._steps.append((ARRAY, None, None))
        self._one(field, element, False)
        if len(self._steps) == at + 1:  # a count of nothing would be walked without end
            raise ValueError(f"{self._name} v{self._version}: elements of {field.name} have no size")
        self._steps.append((NEXT, at + 1, None))
        self._steps[at] = (ARRAY, 0 if self._flexible else 4, (nullable, len(self._steps)))

    def _one(self, field: Field, element: str, nullable: bool) -> None:
        if field.fields:
            self._struct(field.fields)
        elif self._name == "ProduceRequest" and field.name == "Acks":
            self._steps.append((ACKS, None, None))
        elif element in _FIXED:
            self._fixed(_FIXED[element])
        elif element in ("string", "bytes", "records"):
            width = 0 if self._flexible else 2 if element == "string" else 4
            code = RECORDS if element == "records" else EMPTIED if is_redacted(self._name, field) else TEXT
            self._steps.append((code, width, nullable))
        else:
            raise ValueError(f"{self._name}: unknown type {field.type}")

    def _fixed(self, size: int) -> None:
        self._steps.append((FIXED, size, None))


@cache
def _definition(name: str) -> MessageDefinition | None:
    try:
        return load_message(name)
    except FileNotFoundError:
        return None


@cache
def plan_for(key: int, version: int, *, of_request: bool) -> CopyPlan | None:
    """Return the plan of a request or response; None if it has no definition.

    Call it only for an API and a version that kproxy passes on: each result is cached.
    """
    api = APIS[key]
    definition = _definition(f"{api.name}{'Request' if of_request else 'Response'}")
    if definition is None:
        return None
    older = definition.name in _OLDER and 0 <= version < definition.versions.start
    if version not in definition.versions and not older:
        return None
    return _CopyCompiler(definition, version).compile(definition.fields, key, of_request=of_request)
