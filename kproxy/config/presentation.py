"""The configuration and its declaration, for people and editors: `config show`, `config schema`, the documents."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from typing import Any

from kproxy.config.checks import OptionPath
from kproxy.config.declarations import Options, Setting, settings_of
from kproxy.config.hop import MASK, mask
from kproxy.config.options import Config, all_settings, cluster_settings, process_settings, upstream_settings


def show(config: Config, origins: Mapping[OptionPath, str] | None = None) -> str:
    """Return the configuration as YAML that `load` reads back, with secrets masked.

    With `origins`, a comment has the origin of each value.
    """
    shown = list(lines(config, (), origins))
    shown.append("clusters:")
    for index, cluster in enumerate(config.clusters):
        if index and cluster.upstream and cluster.name == config.clusters[index - 1].name:
            continue
        block = list(_cluster(config, index, origins))
        shown += [("  - " if number == 0 else "    ") + line for number, line in enumerate(block)]
    return "\n".join(shown) + "\n"


def _cluster(config: Config, index: int, origins: Mapping[OptionPath, str] | None) -> Iterator[str]:
    """Yield the lines of a cluster, with the upstreams that begin at this index."""
    cluster = config.clusters[index]
    if not cluster.upstream:
        yield from lines(cluster, ("clusters", index), origins)
        return
    yield from lines(cluster, ("clusters", index), origins, cluster_settings().keys() - upstream_settings().keys())
    upstreams = [(at, upstream) for at, upstream in enumerate(config.clusters) if upstream.name == cluster.name]
    yield from (f"active: {upstream.upstream}" for _, upstream in upstreams if upstream.active)
    yield "upstreams:"
    for at, upstream in upstreams:
        yield f"  {upstream.upstream}:"
        yield from (f"    {line}" for line in lines(upstream, ("clusters", at), origins, upstream_settings().keys()))


def lines(
    values: Options, at: OptionPath, origins: Mapping[OptionPath, str] | None, only: Collection[str] | None = None
) -> Iterator[str]:
    """Yield the options of one model, or `only` those with these keys; `at` is its path in the configuration."""
    for setting in settings_of(type(values)).values():
        if only is not None and setting.key not in only:
            continue
        value = getattr(values, setting.name)
        origin = "" if origins is None else "  # " + origins.get((*at, setting.key), "default")
        if setting.repeatable and value:
            yield f"{setting.key}:{origin}"
            yield from (f"  - {_scalar(setting, item)}" for item in value)
        elif not setting.repeatable and (value is not None or setting.kind.show(None) == "off"):
            yield f"{setting.key}: {_scalar(setting, value)}{origin}"
        else:
            yield f"# {setting.key}: {setting.unset}"


def _scalar(setting: Setting, value: object) -> str:
    if setting.secret:
        return f'"{MASK}"'
    shown = setting.kind.show(value)
    if not isinstance(shown, str):
        return str(shown).lower()
    shown = mask(shown)
    # Plain where YAML of any version reads the same text back.
    plain = re.fullmatch(r"[A-Za-z]([\w./=:-]*[\w./=-])?|\d+(\.\d+){3}:\d+|\d+-\d+|\d+[A-Za-z]+", shown, re.ASCII)
    words = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    quoted = not plain or (shown.lower() in words and shown != "off")
    return json.dumps(shown, ensure_ascii=not shown.isprintable()) if quoted else shown


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the YAML file, for editors and for CI."""
    cluster = {key: _property(setting) for key, setting in cluster_settings().items()}
    required = [key for key, setting in cluster_settings().items() if setting.required]
    upstream = {
        "type": "object",
        "properties": {key: cluster[key] for key in upstream_settings()},
        "required": required,
        "additionalProperties": False,
    }
    several: dict[str, object] = {
        "upstreams": {
            "description": "One or two Kafka clusters that this cluster can lead to, by name.",
            "type": "object",
            "propertyNames": {"pattern": "^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$"},
            "additionalProperties": upstream,
            "minProperties": 1,
            "maxProperties": 2,
        },
        "active": {"description": "The upstream that clients are routed to.", "type": "string"},
    }
    clusters = {
        "description": "Several clusters in one process. The keys of a cluster are then not allowed at the top level.",
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "properties": {**cluster, **several},
            "anyOf": [{"required": required}, {"required": ["upstreams"]}],
            "additionalProperties": False,
        },
    }
    process = {key: _property(setting) for key, setting in process_settings().items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kproxy",
        "description": "Configuration of kproxy. Flags override KPROXY_* variables, and variables override this file.",
        "type": "object",
        "properties": {**process, **cluster, **several, "clusters": clusters},
        "additionalProperties": False,
        "if": {"required": ["clusters"]},
        "then": {"properties": dict.fromkeys([*cluster, *several], False)},
    }


def _property(setting: Setting) -> dict[str, object]:
    return {**describe(setting), "x-reload": setting.reload.value}


def describe(setting: Setting) -> dict[str, Any]:
    """Return the JSON Schema of an option."""
    schema: dict[str, object] = dict(setting.kind.schema)
    if setting.repeatable:
        # A comma string is the other way to write a list.
        least = {"minItems": 1} if setting.required else {}
        schema = {"anyOf": [{"type": "array", "items": schema, **least}, {"type": "string", "minLength": 1}]}
        schema = schema if setting.required else {**schema, "default": [*map(setting.kind.show, setting.default)]}
    elif not setting.required and setting.default is not None:
        schema["default"] = setting.kind.show(setting.default)
    return {"description": setting.help, **schema}


def reference_table() -> str:
    """Return the table of all options in docs/configuration.md, by group."""
    lines: list[str] = []
    for group, settings in groupby(all_settings(), key=lambda setting: setting.group):
        lines += [
            "",
            f"### {group}",
            "",
            "| Key | Flag | Environment | Default | Reload | Meaning |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(setting) for setting in settings]
    return "\n".join(lines[1:]) + "\n"


def _row(setting: Setting) -> str:
    flags = [setting.short] if setting.short else []
    if setting.flag:
        flags += [setting.flag if setting.is_switch else f"{setting.flag} {setting.kind.metavar}"]
    flags += [setting.off] if setting.off else []
    default = setting.default_text
    shown = "(required)" if setting.required else default if default == setting.unset else f"`{default}`"
    more = " Repeatable, or a comma-separated list." if setting.repeatable else ""
    if setting.kind.has_commas:
        more = " Repeatable."
    allowed = "" if setting.is_switch else f" Allowed: {setting.kind.allowed}."
    cells = [
        f"`{setting.key}`",
        ", ".join(f"`{flag}`" for flag in flags) or "none",
        f"`{setting.env}`",
        shown,
        setting.reload.value,
    ]
    text = f"{setting.help}{allowed}{more}"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in [*cells, text]) + " |"
