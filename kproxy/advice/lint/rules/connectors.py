"""Rules for connectors of Kafka Connect: settings that a newer version of the connector has under another name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kproxy.advice.lint.container import Container
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.lint.source import SourceFile
from kproxy.advice.lint.value import ConfigValue
from kproxy.base.diagnostic import Severity


@dataclass(frozen=True, slots=True)
class _Connector:
    name: str
    """The subject of a finding."""


# Debezium 2.0 renamed these: the beginnings of the names before and since.
_RENAMED = (("database.history.", "schema.history.internal."), ("database.server.name", "topic.prefix"))


# The last part of an image's name.
_WORKER = re.compile(r"(?:.*/)?[\w.-]*connect[\w.-]*(?::.*)?")


def is_worker(container: Container) -> bool:
    """Return True if a container runs a worker of Kafka Connect."""
    image = container.image.text if container.image is not None else ""
    return bool(_WORKER.fullmatch(image)) or "CONNECT_BOOTSTRAP_SERVERS" in container.environment


def check(source: SourceFile, values: Mapping[str, ConfigValue]) -> Iterator[LintDiagnostic]:
    """Check the names of the settings of a Debezium connector."""
    kind = values.get("connector.class")
    if kind is None or not kind.text.startswith("io.debezium."):
        return
    owner = _Connector(f"connector {source.name}")
    has_new = any(key.startswith(new) for _, new in _RENAMED for key in values)
    for before, since in _RENAMED:
        for key, value in values.items():
            if key != before and not (before.endswith(".") and key.startswith(before)):
                continue
            name = since + key[len(before) :]
            if name in values:
                continue  # the file is for both
            text = f"{key} is {name} since Debezium 2.0" + (", whose names this file has elsewhere" if has_new else "")
            # A file with old names only is right for Debezium 1.
            severity = None if has_new else Severity.NOTE
            edits = value.rename_key(name)
            yield finding("connector-setting-renamed", value, owner, text, edits, _line(name), severity=severity)


def _line(name: str) -> str:
    return f'"{name}": ...' if not re.search(r"password|jaas", name) else f'"{name}": [hidden]'
