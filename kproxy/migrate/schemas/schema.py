"""A schema as registries describe it, and whether two of them mean the same (pure).

https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

DEFAULT_CONTEXT = "."
MAX_ID = 2**31 - 1
"""The highest id and version: in front of a record, an id has four bytes with a sign."""
# The fields of a compatibility configuration, by their names in replies, with their names in requests.
_CONFIG_FIELDS = {
    "compatibilityLevel": "compatibility",
    "compatibilityGroup": "compatibilityGroup",
    "normalize": "normalize",
    "alias": "alias",
    "defaultMetadata": "defaultMetadata",
    "overrideMetadata": "overrideMetadata",
    "defaultRuleSet": "defaultRuleSet",
    "overrideRuleSet": "overrideRuleSet",
}
_QUALIFIED = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)


class NotASchema(ValueError):
    """A value of a registry that describes no schema."""


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A reference of a schema to a version of another subject; `name` is what the schema calls it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema. Metadata and rules are JSON texts with sorted keys, "" for none."""

    kind: str
    """AVRO, JSON, PROTOBUF or another word."""
    text: str
    references: tuple[SchemaReference, ...] = ()
    metadata: str = ""
    rules: str = ""

    def means_same(self, other: Schema) -> bool:
        """Return True if records mean the same with both: kind, references and text are equal.

        Registries print texts anew: spaces, and the order of keys in JSON, mean nothing.
        """
        return (
            self.kind == other.kind
            and set(self.references) == set(other.references)
            and (self.text == other.text or _canonical(self.kind, self.text) == _canonical(self.kind, other.text))
        )


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a subject. `deleted`: it was deleted softly, and its id is still known."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False

    @property
    def key(self) -> tuple[str, int]:
        return self.subject, self.version

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}"


def split_subject(subject: str) -> tuple[str, str]:
    """Return the context of a subject and its name in it."""
    match = _QUALIFIED.fullmatch(subject)
    return (match[1], match[2]) if match else (DEFAULT_CONTEXT, subject)


def qualified(context: str, name: str) -> str:
    """Return the subject with this name in a context."""
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def move_to_context(version: SchemaVersion, context: str) -> SchemaVersion:
    """Return the version as it is in a context, with its references; `context` "" changes nothing.

    Only subjects of the default context are moved.
    """
    if not context:
        return version
    references = tuple(
        replace(reference, subject=subject_in(reference.subject, context)) for reference in version.schema.references
    )
    schema = replace(version.schema, references=references)
    return replace(version, subject=subject_in(version.subject, context), schema=schema)


def subject_in(subject: str, context: str) -> str:
    """Return the subject in this context of the target, if it has none itself."""
    own, name = split_subject(subject)
    return qualified(f".{context.removeprefix('.')}", name) if context and own == DEFAULT_CONTEXT else subject


def parse_schema(value: object, subject: str) -> Schema:
    """Read the schema in a reply; `subject` is where it was found, as references may be relative to its context.

    Raises NotASchema.
    """
    if not isinstance(value, dict) or not isinstance(text := value.get("schema"), str):
        raise NotASchema("has no schema")
    kind = value.get("schemaType") or "AVRO"  # registries leave this word out
    references = value.get("references") or []
    if not isinstance(kind, str) or not isinstance(references, list):
        raise NotASchema("has a schemaType or references of another type")
    context = split_subject(subject)[0]
    return Schema(
        kind,
        text,
        tuple(_reference(reference, context) for reference in references),
        _json_or_nothing(value.get("metadata")),
        _json_or_nothing(value.get("ruleSet")),
    )


def _reference(value: object, context: str) -> SchemaReference:
    match value:
        case {"name": str(name), "subject": str(subject), "version": int(version)}:
            own, bare = split_subject(subject)
            return SchemaReference(name, qualified(context, bare) if own == DEFAULT_CONTEXT else subject, version)
    raise NotASchema("has a reference without name, subject or version")


def parse_number(value: object) -> int:
    """Read an id or a version. Raises NotASchema."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MAX_ID:
        raise NotASchema("has no id or version from 1 to 2147483647")
    return value


def request_of(version: SchemaVersion) -> dict[str, Any]:
    """Return the body of the request that registers a version under its id."""
    schema = version.schema
    body: dict[str, Any] = {"schema": schema.text, "id": version.id, "version": version.version}
    if schema.kind != "AVRO":
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
        ]
    for key, text in (("metadata", schema.metadata), ("ruleSet", schema.rules)):
        if text:
            body[key] = json.loads(text)
    return body


def parse_config(value: object) -> dict[str, Any]:
    """Return a compatibility configuration by the names of requests; {} for none. Raises NotASchema."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotASchema("has a configuration that is no object")
    return {name: value[key] for key, name in _CONFIG_FIELDS.items() if value.get(key) not in (None, False)}


def parse_mode(value: object) -> str:
    """Return the mode in a reply, "" for none. Raises NotASchema."""
    if value is None:
        return ""
    match value:
        case {"mode": str(mode)}:
            return mode
    raise NotASchema("has no mode")


def _json_or_nothing(value: object) -> str:
    return "" if value in (None, {}) else _json_text(value)


def _json_text(value: object) -> str:
    """Return JSON text in which 1, 1.0 and true differ, as they do not in Python."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _canonical(kind: str, text: str) -> str:
    if kind in ("AVRO", "JSON"):
        try:
            return _json_text(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return " ".join(text.split())


def first_of_each_id(versions: Iterable[SchemaVersion]) -> Mapping[tuple[str, int], SchemaVersion]:
    """Return by context and id the first version that has the id."""
    first: dict[tuple[str, int], SchemaVersion] = {}
    for version in versions:
        first.setdefault((split_subject(version.subject)[0], version.id), version)
    return first
