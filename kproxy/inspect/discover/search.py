"""The search of all places. A place that cannot be searched does not affect the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kproxy.inspect.discover import docker, files, kubernetes, sockets, tools
from kproxy.inspect.discover.results import PlaceResult
from kproxy.net.dial import engine

KUBERNETES, DOCKER, FILES, TOOLS, HERE = "kubernetes", "docker", "files", "tools", "here"
PLACES = (KUBERNETES, DOCKER, FILES, TOOLS, HERE)


def search_places(
    directory: Path, context: str | None, namespace: str | None, only: tuple[str, ...]
) -> Iterator[PlaceResult]:
    """Yield the result of each place, as soon as it has been searched."""
    if KUBERNETES in only and (has_kubeconfig() or context or namespace):
        yield kubernetes.search_kubernetes_now(context, namespace)
    if DOCKER in only:
        for name, path in engine.find_sockets():
            yield docker.search_docker(name, path)
    if FILES in only:
        yield files.search_files(directory)
    if TOOLS in only:
        place = tools.search_tools(Path(os.path.expanduser("~")), directory, os.environ)
        if place is not None or only == (TOOLS,):
            yield place or PlaceResult(tools.NAME)
    if HERE in only:
        yield sockets.search_sockets()


def has_kubeconfig() -> bool:
    """Return True if the user has a kubeconfig; without one, kproxy does not complain about Kubernetes."""
    given = [item for item in os.environ.get("KUBECONFIG", "").split(os.pathsep) if item]
    return bool(given or Path("~/.kube/config").expanduser().exists() or os.environ.get("KUBERNETES_SERVICE_HOST"))
