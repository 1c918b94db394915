"""Message definitions, in the format of Kafka's own `common/message/*.json`.

kafka-python ships the definitions that it supports; the project's own, in `definitions/`, are those that kafka-python
lacks. They are read as files: importing kafka-python would import a whole client (0.1 s and 8 MB at every start).
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import calcsize
from typing import Any

# The types of fixed size, as `struct` formats, and their sizes in bytes.
FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d",
    "uuid": "16s",
}  # fmt: skip
SIZES = {kind: calcsize(">" + form) for kind, form in FORMATS.items()}

_OWN = Path(__file__).with_name("definitions")
_COMMENT = re.compile(r"(?m)^\s*//.*$")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: its name, its Kafka type, and the versions that have it, can be null, or tag it."""

    name: str
    type: str
    versions: range
    nullable: range
    tag: int | None
    tagged: range
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class MessageDefinition:
    """One request or response: its valid versions, its flexible ones, its top-level fields."""

    name: str
    api_key: int
    versions: range
    flexible: range
    fields: tuple[Field, ...]


def split_fields(fields: Iterable[Field], version: int) -> tuple[list[Field], dict[int, Field]]:
    """Return the fields that this version has: those that follow each other, and those that are tagged, by tag."""
    present = [field for field in fields if version in field.versions]
    tagged = {field.tag: field for field in present if field.tag is not None and version in field.tagged}
    return [field for field in present if version not in field.tagged], tagged


def _versions(text: str | None) -> range:
    """Parse Kafka's version notation: `3`, `1-5`, `2+`, `none`."""
    if not text or text == "none":
        return range(0)
    low, plus, _ = text.partition("+")
    if plus:
        return range(int(low), 0x8000)
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def _fields(raw: list[dict[str, Any]], structs: dict[str, list[dict[str, Any]]]) -> Iterator[Field]:
    for field in raw:
        inner = field.get("fields") or structs.get(field["type"].removeprefix("[]"), [])
        yield Field(
            name=field["name"],
            type=field["type"],
            versions=_versions(field["versions"]),
            nullable=_versions(field.get("nullableVersions")),
            tag=field.get("tag"),
            tagged=_versions(field.get("taggedVersions")),
            fields=tuple(_fields(inner, structs)),
        )


def _folders() -> list[Path]:
    spec = importlib.util.find_spec("kafka")
    folders = [_OWN]
    for location in (spec.submodule_search_locations or []) if spec else []:
        folders.append(Path(location, "protocol", "schemas", "resources"))
    return folders


def read_definition(path: Path) -> MessageDefinition:
    """Read one definition file."""
    raw = json.loads(_COMMENT.sub("", path.read_text("utf-8")))
    structs = {struct["name"]: struct["fields"] for struct in raw.get("commonStructs", [])}
    return MessageDefinition(
        name=raw["name"],
        api_key=raw["apiKey"],
        versions=_versions(raw["validVersions"]),
        flexible=_versions(raw["flexibleVersions"]),
        fields=tuple(_fields(raw["fields"], structs)),
    )


def load_message(name: str) -> MessageDefinition:
    """Return the definition of e.g. `MetadataResponse`. Raises FileNotFoundError if it does not exist."""
    for folder in _folders():
        path = folder / f"{name}.json"
        if path.is_file():
            return read_definition(path)
    raise FileNotFoundError(f"no message definition for {name}: is kafka-python 3 installed?")


def load_responses() -> Iterator[MessageDefinition]:
    """Yield every response that kafka-python or the project defines, for the test that none was missed."""
    for folder in _folders():
        for path in sorted(folder.glob("*Response.json")):
            yield read_definition(path)
