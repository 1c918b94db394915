"""The workflows of the forge: what they run exists, and who may write what. Their linter: tests/matrix."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

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
    assert before["install"] == {"check", "dist", "wheels"}
    assert {*before["install"], "install", "machine"} == before["attest"] < before["publish"] < before["release"]


def test_each_python_that_kproxy_claims_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    claimed = re.findall(r":: (3\.\d+)$", "\n".join(project["project"]["classifiers"]), re.M)
    assert project["project"]["requires-python"] == f">={claimed[0]}"
    assert project["tool"]["cibuildwheel"]["build"].split() == [f"cp{one.replace('.', '')}-*" for one in claimed]

    jobs = read(WORKFLOWS["ci"])["jobs"]
    (one,) = (
        step["with"]["python-version"] for step in jobs["check"]["steps"] if "python-version" in step.get("with", {})
    )
    assert sorted([one, *jobs["pythons"]["strategy"]["matrix"]["python"]]) == claimed


def test_a_release_without_an_address_is_refused() -> None:
    (script,) = (script for script in scripts(read(WORKFLOWS["release"])) if "pyproject.toml" in script)
    done = subprocess.run(["bash", "-e", "-c", script], cwd=ROOT, capture_output=True, timeout=30, check=False)
    assert (done.returncode != 0) == ("kproxy.example" in (ROOT / "pyproject.toml").read_text())


def test_dependabot_looks_where_versions_are_fixed() -> None:
    kinds = {
        "pyproject.toml": "pip",
        "Dockerfile": "docker",
        "go.mod": "gomod",
        "Cargo.toml": "cargo",
        "package.json": "npm",
    }
    folders = (ROOT / name for name in ("bench", "deploy", "docs", "examples", "kproxy", "tests"))
    files = [*ROOT.iterdir(), *(file for folder in folders for file in folder.rglob("*"))]
    there = {(kinds[file.name], file.parent.relative_to(ROOT)) for file in files if file.name in kinds}

    listed = {
        (update["package-ecosystem"], Path(place).relative_to("/"))
        for update in yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
        for place in update.get("directories", [update.get("directory")])
    }
    assert listed == there | {("github-actions", Path())}


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
