"""Compiling a message definition and a version to the steps of a walk.

A plan is a flat tuple of steps `(op, a, b)`; `walk` takes them. Consecutive fields of fixed size are one step, arrays
of fixed-size elements are one step, and the fields after the last address are no step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from kproxy.protocol.rewrite.endpoints import EndpointRule, rule_for
from kproxy.protocol.rewrite.plain import PlainElement, PlainResponse
from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.definitions import SIZES, Field, MessageDefinition, load_message, split_fields

# Operations. `a` and `b` mean:
SKIP = 0  # a bytes of fixed size
SIZED = 1  # a size and that many bytes. a: its width (2, 4 or 0 = unsigned varint), b: nullable
ARRAY = 2  # a count and that many elements. a: compact, b: (nullable, step after the loop)
NEXT = 3  # end of an element. a: first step of the element
TAGS = 4  # a tag section. a: (tag of the endpoints or -1), b: step after the section
TAG = 5  # between two tagged fields
TAG_END = 6  # end of the endpoints' tagged field
ENDPOINT = 7  # int32 id, string host, int32 port. a: compact
KIND = 8  # int8 EndpointType of DescribeCluster (KIP-919)
MARK = 9  # the endpoints' section begins; everything before it may leave
STOP = 10  # nothing that follows matters
PLAIN = 11  # before an element: hop over plain ones. a: a PlainElement, b: step of the element's tag section

# The types of `a` and `b` depend on the operation.
WalkStep = tuple[int, Any, Any]

_ENDPOINT_FIELDS = ({"NodeId", "BrokerId"}, {"Host"}, {"Port"})


@dataclass(frozen=True, slots=True)
class WalkPlan:
    """The steps for one API's responses of one version."""

    api: str
    steps: tuple[WalkStep, ...]
    rule: EndpointRule
    compact: bool
    plain: PlainResponse | None  # the shape of the usual responses, which have no endpoints; None if they differ
    same_from: int
    """The index behind the throttle time, if the header has no tagged fields: from there to the last address, each
    response is the same while the nodes are the same. 0 for responses that differ each time."""


class _WalkCompiler:
    def __init__(self, definition: MessageDefinition, version: int, rule: EndpointRule) -> None:
        self.definition = definition
        self.version = version
        self.rule = rule
        self.compact = version in definition.flexible
        self.steps: list[WalkStep] = []

    def compile(self) -> tuple[WalkStep, ...]:
        plain, tagged = split_fields(self.definition.fields, self.version)
        if self.compact:
            self._tags()  # of response header v1
        for at, field in enumerate(plain):
            if self.rule.field is None and self._is_endpoint(plain, at):
                self.steps.append((ENDPOINT, self.compact, None))
                return self._end()
            if field.name == self.rule.field:
                if self.rule.last:
                    self.steps.append((MARK, None, None))
                self._array(field)
                if self.rule.last:
                    self._tags()
                return self._end()
            self._field(field)
        for field in tagged.values():
            if field.name == self.rule.field:
                self.steps.append((MARK, None, None))
                self._tags(field)
                return self._end()
        raise ValueError(f"{self.definition.name} v{self.version} has no field {self.rule.field}")

    def _end(self) -> tuple[WalkStep, ...]:
        self.steps.append((STOP, None, None))
        return tuple(self.steps)

    def _is_endpoint(self, fields: list[Field], at: int) -> bool:
        names = [field.name for field in fields[at : at + 3]]
        return len(names) == 3 and all(name in allowed for name, allowed in zip(names, _ENDPOINT_FIELDS, strict=True))

    def _skip(self, size: int) -> None:
        """Add fixed bytes, joined with those before. A loop's element begins behind its ARRAY, so it joins nothing."""
        if self.steps and self.steps[-1][0] == SKIP:
            size += self.steps.pop()[1]
        self.steps.append((SKIP, size, None))

    def _struct(self, fields: tuple[Field, ...]) -> None:
        present_fields, _ = split_fields(fields, self.version)
        at = 0
        while at < len(present_fields):
            if self._is_endpoint(present_fields, at):
                self.steps.append((ENDPOINT, self.compact, None))
                at += 3
            else:
                self._field(present_fields[at])
                at += 1
        if self.compact:
            self._tags()

    def _field(self, field: Field) -> None:
        nullable = self.version in field.nullable
        if field.type in SIZES:
            if field.name == "EndpointType":
                self.steps.append((KIND, None, None))
            else:
                self._skip(SIZES[field.type])
        elif field.type == "string":
            self.steps.append((SIZED, 0 if self.compact else 2, nullable))
        elif field.type in ("bytes", "records"):
            # Records are nullable on the wire whatever the definition says.
            self.steps.append((SIZED, 0 if self.compact else 4, nullable or field.type == "records"))
        elif field.type.startswith("[]"):
            self._array(field)
        elif field.fields and not nullable:
            self._struct(field.fields)
        else:
            raise ValueError(f"{self.definition.name}: no way to walk {field.name} of type {field.type}")

    def _array(self, field: Field) -> None:
        nullable = self.version in field.nullable
        element = field.type.removeprefix("[]")
        start = len(self.steps)
        plain = self._plain_element(field)
        self.steps.append((ARRAY, self.compact, None))
        if plain is not None:
            self.steps.append((PLAIN, None, None))
        if field.fields:
            self._struct(field.fields)
        else:
            self._field(Field("", element, field.versions, range(0), None, range(0), ()))
        self.steps.append((NEXT, start + 1, None))
        self.steps[start] = (ARRAY, self.compact, (nullable, len(self.steps)))
        if plain is not None:
            self.steps[start + 1] = (PLAIN, plain, len(self.steps) - 3)  # the tag section is two steps, before NEXT

    def _plain_element(self, field: Field) -> PlainElement | None:
        """Return the shape of a plain element of the array, if its fields have that form."""
        present_fields, _ = split_fields(field.fields, self.version)
        fixed = [SIZES.get(f.type, 0) for f in present_fields]
        if not self.compact or fixed.count(0) != 2 or fixed[-1]:
            return None
        at = fixed.index(0)
        array, sized = present_fields[at], present_fields[-1]
        if not array.type.startswith("[]") or sized.type not in ("string", "bytes", "records"):
            return None
        if sized.type != "records" and self.version not in sized.nullable:
            return None
        return PlainElement(sum(fixed[:at]), sum(fixed[at:]), nullable=self.version in array.nullable)

    def plain_response(self) -> PlainResponse | None:
        """Return the shape of a response without endpoints and other tagged fields, if it has the usual form."""
        present_fields, _ = split_fields(self.definition.fields, self.version)
        fixed = [SIZES.get(f.type, 0) for f in present_fields]
        if (
            not self.compact
            or not self.rule.last
            or fixed.count(0) != 1
            or self.rule.field in [f.name for f in present_fields]
        ):
            return None
        at = fixed.index(0)
        topic = [f for f in present_fields[at].fields if self.version in f.versions]
        if not present_fields[at].type.startswith("[]") or [f.type for f in topic[:1]] not in (["string"], ["uuid"]):
            return None
        partition = self._plain_element(topic[1]) if len(topic) == 2 else None
        if partition is None or not topic[1].type.startswith("[]"):
            return None
        return PlainResponse(sum(fixed[:at]), partition, sum(fixed[at:]), named=topic[0].type == "string")

    def same_from(self) -> int:
        """Return `WalkPlan.same_from`, 0 if a response does not list all nodes."""
        if not self.rule.complete:
            return 0
        first = next(f for f in self.definition.fields if self.version in f.versions)
        throttle = SIZES[first.type] if first.name == "ThrottleTimeMs" else 0
        return 8 + self.compact + throttle  # size, correlation id, count of tagged fields

    def _tags(self, endpoints: Field | None = None) -> None:
        if endpoints is None:
            self.steps.append((TAGS, -1, len(self.steps) + 2))
            self.steps.append((TAG, None, None))
            return
        start = len(self.steps)
        self.steps.append((TAGS, endpoints.tag, None))
        self.steps.append((TAG, None, None))
        self._array(endpoints)
        self.steps.append((TAG_END, start + 1, None))
        self.steps[start] = (TAGS, endpoints.tag, len(self.steps))


@cache
def plan_for(api_key: int, version: int) -> WalkPlan | None:
    """Return the plan for responses of this API and version, None if they carry no endpoints."""
    rule = rule_for(api_key, version)
    if rule is None:
        return None
    name = APIS[api_key].name
    compiler = _WalkCompiler(load_message(f"{name}Response"), version, rule)
    steps = compiler.compile()
    return WalkPlan(name, steps, rule, compiler.compact, compiler.plain_response(), compiler.same_from())
