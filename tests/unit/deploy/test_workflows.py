"""The workflows of the forge: what they run exists, and who may write what. Their linter: tests/matrix."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.unit.deploy.deployed import ROOT
from tests.unit.deploy.workflows import PIN, WORKFLOWS, read, scripts

ALL = pytest.mark.parametrize("path", WORKFLOWS.values(), ids=list(WORKFLOWS))
# Each right to write that there is. None of these jobs runs code of the project's.
WRITERS = {
    "attest": {"attestations": "write", "id-token": "write"},
    "publish": {"id-token": "write"},
    "release": {"contents": "write"},
}


def targets() -> set[str]:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    return set(phony.split())


def made(script: str) -> set[str]:
    """The targets that a script makes."""
    words = [word for line in re.findall(r"(?:^|&& *)make +(.*)", script, re.M) for word in line.split()]
    return {word for word in words if "=" not in word and not word.startswith("-")}


@ALL
def test_what_it_runs_exists(path: Path) -> None:
    workflow = read(path)
    text = "\n".join(scripts(workflow))
    assert made(text) <= targets()
    for program in re.findall(r"(?:^|\s)(\.ci/\w+)", text):
        assert os.access(ROOT / program, os.X_OK), program
    for job in workflow["jobs"].values():
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()


def test_a_release_is_checked_and_made() -> None:
    release = read(WORKFLOWS["release"])
    assert made("\n".join(scripts(release))) == {"dist", "pyz", "image"}
    assert release["jobs"]["check"]["uses"] == "./.github/workflows/ci.yml"
    assert any(".ci/run" in script for script in scripts(read(WORKFLOWS["ci"])))
    # Nothing is made of what was not checked, and nothing goes out that was not attested.
    before: dict[str, set[str]] = {}
    for name, job in release["jobs"].items():
        direct = {job["needs"]} if isinstance(job.get("needs"), str) else set(job.get("needs", []))
        before[name] = direct.union(*(before[one] for one in direct))
    assert before["dist"] == before["wheels"] == before["machine"] == {"check"}
    assert {"check", "dist", "wheels", "machine"} == before["attest"] < before["publish"] < before["release"]


@ALL
def test_nobody_has_more_rights_than_needed(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert job["permissions"] == WRITERS.get(name, {"contents": "read"}), name
        if name in WRITERS:
            assert not any(step.get("uses", "").startswith("actions/checkout@") for step in job["steps"])
    assert "secrets." not in path.read_text()


@ALL
def test_actions_of_others_are_fixed_by_their_commit(path: Path) -> None:
    used = [line for line in path.read_text().splitlines() if re.match(r"[ -]*uses:", line)]
    assert used
    assert [line for line in used if not PIN.search(line) and "uses: ./" not in line] == []


@ALL
def test_no_name_of_a_branch_or_tag_becomes_a_part_of_a_script(path: Path) -> None:
    """It would be run: a variable is not."""
    assert [script for script in scripts(read(path)) if "${{" in script] == []
