"""Helm, built once from its Go module, and what it makes of the chart.

python -m tests.matrix.helm      writes deploy/kubernetes/standalone.yaml from the chart
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kproxy.dev.devcluster.jars import cache_directory
from tests.harness.programs.javac import locked, newer
from tests.matrix.client import HERE
from tests.matrix.languages import make, tool

CHART = HERE.parents[1] / "deploy" / "helm" / "kproxy"
STANDALONE = HERE.parents[1] / "deploy" / "kubernetes" / "standalone.yaml"
BUILD_S = 1800
_SOURCES = HERE / "programs" / "helm"
_PACKAGE = "helm.sh/helm/v4/cmd/helm"
_HEAD = """\
# kproxy for every client of a Kubernetes cluster, under the name of a Service: kproxy.kafka.svc:19092.
#
# To change: bootstrap-servers, the image. With another namespace or name than kafka and kproxy, `advertise` too.
# Written from the Helm chart by `python -m tests.matrix.helm`.
"""


class Failed(Exception):
    """What helm said in place of an answer."""


def program() -> Path:
    """Helm, built if need be. Raises NotInstalled."""
    made = cache_directory() / "matrix" / "helm"
    with locked(made):
        if not newer(made, list(_SOURCES.glob("go.*"))):
            command = [tool("go", "Go"), "build", "-mod=readonly", "-ldflags=-s -w", "-o", f"{made}/", _PACKAGE]
            make(made, command, _SOURCES, {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}, BUILD_S)
    return made / "helm"


def helm(*words: str | Path, env: Mapping[str, str] | None = None) -> str:
    """What it prints. Nothing of the user's Helm counts. Raises Failed."""
    with tempfile.TemporaryDirectory() as home:
        own = {f"HELM_{name}_HOME": home for name in ("CACHE", "CONFIG", "DATA")} | {
            "PATH": "/usr/bin:/bin",
            "HOME": home,
        }
        command = [program(), *words]
        done = subprocess.run(
            command, env={**own, **(env or {})}, capture_output=True, text=True, timeout=300, check=False
        )
    if done.returncode:
        raise Failed(done.stderr + done.stdout)
    return done.stdout


def text(values: Mapping[str, Any], release: str = "kproxy", namespace: str = "kafka") -> str:
    """What the chart makes of these values. Raises Failed."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "values.yaml")
        path.write_text(yaml.safe_dump(dict(values)))
        return helm("template", release, CHART, "--namespace", namespace, "--values", path)


def render(values: Mapping[str, Any], release: str = "kproxy", namespace: str = "kafka") -> tuple[dict[str, Any], ...]:
    """The documents of `text`."""
    return tuple(one for one in yaml.safe_load_all(text(values, release, namespace)) if one)


def standalone() -> str:
    """The manifest for those who do not use Helm."""
    made = text({"config": {"bootstrap-servers": "kafka.example:9092"}})
    lines = [
        line for line in made.removeprefix("---\n").splitlines() if line.strip() and not line.startswith("# Source:")
    ]
    return _HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    STANDALONE.write_text(standalone())
