"""Kubernetes is built once, from modules of one version; without Go its tests are skipped with the reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.programs.javac import NotInstalled
from tests.matrix import kubernetes
from tests.matrix.client import HERE


def test_without_go(tools: Path) -> None:
    with pytest.raises(NotInstalled, match="Go is not on this machine"):
        kubernetes.programs()


def test_it_is_not_built_again(tools: Path) -> None:
    (tools / "go").write_text(f"#!/bin/sh\necho run >>{tools}/runs\n")
    (tools / "go").chmod(0o755)
    assert kubernetes.programs() == kubernetes.programs()
    assert (tools / "runs").read_text() == "run\n"


def test_the_parts_of_kubernetes_are_of_one_version() -> None:
    text = (HERE / "programs" / "kubernetes" / "go.mod").read_text()
    (version,) = re.findall(r"k8s\.io/kubernetes v1\.(\S+)", text)
    replaced = re.findall(r"(k8s\.io/\S+) => (\S+) (\S+)", text)
    assert len(replaced) > 20
    assert {(name, f"v0.{version}") for name, _, _ in replaced} == {(name, tag) for _, name, tag in replaced}
