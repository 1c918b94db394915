"""The JSON Schema of a migration's file, from its declaration (pure)."""

from __future__ import annotations

from typing import Any

from kproxy.config.declarations import Setting, settings_of
from kproxy.config.options import cluster_settings
from kproxy.config.presentation import describe
from kproxy.migrate.spec.declarations import NamedSectionsKind, PairsKind, SectionKind
from kproxy.migrate.spec.migration import SIDES, Migration
from kproxy.migrate.spec.switch_section import KproxySelection


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the YAML file, for editors and for CI."""
    cluster = {
        "description": "Every option of a cluster in `kproxy run`.",
        "type": "object",
        "properties": {key: describe(setting) for key, setting in cluster_settings().items()},
        "required": ["bootstrap-servers"],
        "additionalProperties": False,
    }
    schema = _section(Migration)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kproxy migrate",
        "description": "A migration to another Kafka cluster.",
        **schema,
        "properties": {**dict.fromkeys(SIDES, cluster), **schema["properties"]},
        "required": list(SIDES),
    }


def _section(owner: type[Any]) -> dict[str, Any]:
    settings = settings_of(owner)
    return {
        "type": "object",
        "properties": {key: _property(setting) for key, setting in settings.items()},
        "required": [key for key, setting in settings.items() if setting.required],
        "additionalProperties": False,
    }


def _property(setting: Setting) -> dict[str, Any]:
    kind: Any = setting.kind
    if isinstance(kind, PairsKind):
        text = {"type": ["string", "number", "boolean"]}
        return {"description": setting.help, "type": "object", "additionalProperties": text}
    if isinstance(kind, NamedSectionsKind):
        section = {**_section(kind.owner), "type": "object"}
        return {
            "description": setting.help,
            "type": "object",
            "propertyNames": kind.name.schema,
            "additionalProperties": section,
        }
    if not isinstance(kind, SectionKind):
        variants = {"anyOf": [{"type": "array", "items": kind.schema}, kind.schema]} if setting.repeatable else {}
        return {**describe(setting), **variants}
    if kind.main_key:
        section = _section(kind.owner)
        return {"description": setting.help, "anyOf": [section["properties"][kind.main_key], section]}
    if kind.owner is not KproxySelection:
        return {"description": setting.help, **_section(kind.owner), "type": ["object", "null"]}
    mapping = _section(KproxySelection)
    addresses = mapping["properties"].pop("addresses")
    way = {"oneOf": [{"required": ["dns"]}, {"required": ["kubernetes"]}]}
    return {"description": setting.help, "anyOf": [*addresses["anyOf"], {**mapping, **way}]}
