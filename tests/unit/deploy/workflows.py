"""The workflows of the forge, read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.unit.deploy.deployed import ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {path.stem: path for path in sorted(FOLDER.iterdir())}
# An action of others, by the commit that it has, and the version that this commit is.
PIN = re.compile(r"uses: (?P<action>[\w-]+/[\w-]+)@(?P<commit>[0-9a-f]{40}) # v(?P<version>\d+\.\d+\.\d+)$", re.M)


def read(path: Path) -> dict[str, Any]:
    document = yaml.safe_load(path.read_text())
    assert isinstance(document, dict)
    return document


def scripts(workflow: dict[str, Any]) -> Iterator[str]:
    """What its steps run."""
    for job in workflow["jobs"].values():
        for step in job.get("steps", []):
            if "run" in step:
                yield step["run"]
