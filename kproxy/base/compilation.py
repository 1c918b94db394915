"""The compiled data plane (hatch_build.py): whether it runs, and how to run without it (KPROXY_PURE=1).

A compiled module stands beside its source, and Python prefers it. The source does the same, more slowly.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from types import ModuleType

COMPILED, PURE = "compiled", "pure Python"


class _SourceFinder:
    """A module finder that returns the source of a kproxy module even if a compiled module stands beside it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("kproxy."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or not _is_compiled(spec):
            return spec
        assert spec.origin is not None
        suffix = next(suffix for suffix in EXTENSION_SUFFIXES if spec.origin.endswith(suffix))
        return importlib.util.spec_from_file_location(name, spec.origin.removesuffix(suffix) + ".py")


def use_sources() -> None:
    """Import the sources from now on. Call this before any compiled module is imported."""
    sys.meta_path.insert(0, _SourceFinder)


def data_plane_kind() -> str:
    """Return the kind of data plane that this kproxy runs: `COMPILED` or `PURE`."""
    spec = importlib.util.find_spec("kproxy.proxy.relay.conversation")
    return COMPILED if spec is not None and _is_compiled(spec) else PURE


def _is_compiled(spec: ModuleSpec) -> bool:
    return spec.origin is not None and spec.origin.endswith(tuple(EXTENSION_SUFFIXES))
