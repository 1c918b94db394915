"""What a program gives to `attach` or `kproxy.connect`: bootstrap servers, a file, a dict. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

ConfigSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""Bootstrap servers, the path of a YAML file, or what stands in one."""
CONFIGURED = "configured"
"""The level of `ready-requires` that the configuration asks for, in a state that a kproxy reports."""


def type_name(source: object) -> str:
    """Return the type of an argument for an error message, without its value, which may be a secret."""
    return "None" if source is None else f"of type {type(source).__name__}"


def is_path(source: str | os.PathLike[str]) -> bool:
    """Return True if the source names a file, False if it is bootstrap servers."""
    return isinstance(source, os.PathLike) or "/" in source or source.endswith((".yaml", ".yml"))
