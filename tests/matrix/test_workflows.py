"""The workflows of the forge, as their linter sees them: actionlint, built once from its Go module."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kproxy.dev.devcluster.jars import cache_directory
from tests.harness.programs.javac import NotInstalled, locked, newer
from tests.matrix.client import HERE
from tests.matrix.languages import make, tool
from tests.unit.deploy.workflows import FOLDER, PIN, WORKFLOWS

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1800)]

_SOURCES = HERE / "programs" / "actionlint"
_PACKAGE = "github.com/rhysd/actionlint/cmd/actionlint"
# Only the inputs of versions that it knows by these names can be compared.
_KNOWN_AS = {"pypa/gh-action-pypi-publish": "release/v1"}


@pytest.fixture(scope="module")
def actionlint() -> Path:
    made = cache_directory() / "matrix" / "actionlint"
    try:
        with locked(made):
            if not newer(made, list(_SOURCES.glob("go.*"))):
                command = [tool("go", "Go"), "build", "-mod=readonly", "-o", f"{made}/", _PACKAGE]
                make(made, command, _SOURCES, {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"})
    except NotInstalled as error:
        pytest.skip(str(error))
    return made / "actionlint"


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """The workflows in a repository, with actions by their versions: it knows the inputs of these, not of commits."""
    folder = tmp_path / ".github" / "workflows"
    shutil.copytree(FOLDER, folder)
    (tmp_path / ".git").mkdir()
    for path in folder.iterdir():
        path.write_text(PIN.sub(lambda pin: f"uses: {pin['action']}@{known(pin)}", path.read_text()))
    return folder


def known(pin: re.Match[str]) -> str:
    return _KNOWN_AS.get(pin["action"], f"v{pin['version'].partition('.')[0]}")


def lint(actionlint: Path, folder: Path) -> str:
    # Other linters, where they are installed, would make a difference.
    command = [str(actionlint), "-oneline", "-shellcheck=", "-pyflakes=", *map(str, sorted(folder.iterdir()))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == bool(done.stdout), done.stderr
    return done.stdout


def test_it_has_nothing_to_say(actionlint: Path, copies: Path) -> None:
    assert lint(actionlint, FOLDER) == ""
    assert lint(actionlint, copies) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("needs: attest", "needs: attestation", "needs job"),
        ("id-token: write", "id-tokens: write", "unknown permission scope"),
        ("merge-multiple: true", "merge: true", 'input "merge" is not defined'),
        ("matrix.machine", "matrix.machin", 'property "machin" is not defined'),
        ("environment: pypi", "environment: pypi\n    runs: x", 'unexpected key "runs"'),
        ("./.github/workflows/ci.yml", "./.github/workflows/ic.yml", "could not read reusable workflow file"),
    ],
)
def test_it_would_say_it(actionlint: Path, copies: Path, right: str, wrong: str, says: str) -> None:
    path = copies / WORKFLOWS["release"].name
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    assert says in lint(actionlint, copies)
