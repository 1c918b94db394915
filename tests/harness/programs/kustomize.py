"""The output of kustomize for a folder: the real kustomize, alone or in kubectl."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_PROGRAMS = (["kustomize", "build"], ["kubectl", "kustomize"])
PROGRAM = next((words for words in _PROGRAMS if shutil.which(words[0])), None)
MISSING = "neither kustomize nor kubectl is installed: go install sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"


@cache
def render(folder: Path) -> tuple[dict[str, Any], ...]:
    """Return the documents of a folder in their order; do not change them. Fails if kustomize does."""
    assert PROGRAM is not None, MISSING
    done = subprocess.run([*PROGRAM, folder], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr  # a warning is one of things that will not work any more
    return tuple(yaml.safe_load_all(done.stdout))


def only(documents: tuple[dict[str, Any], ...], kind: str, name: str = "") -> dict[str, Any]:
    """Return the document of this kind and, if given, this name."""
    (found,) = [one for one in documents if one["kind"] == kind and name in ("", one["metadata"]["name"])]
    return found
