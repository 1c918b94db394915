"""Compose files and client configurations in a directory. Read as `kproxy lint` reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kproxy.advice.lint import compose, properties
from kproxy.advice.lint.filekinds import FileKind, recognise_kind
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.source import SourceFile, UnreadableError, read_source
from kproxy.advice.lint.tree import MalformedError, YamlNode, parse_documents
from kproxy.advice.lint.variables import parse_env
from kproxy.base.printable import one_line
from kproxy.inspect.discover import brokers
from kproxy.inspect.discover.brokers import ContainerPort
from kproxy.inspect.discover.results import ClusterCandidate, PlaceResult

_MOST_FILES = 200
_LARGEST = 1024 * 1024
_COMPOSE, _CLIENT = ("*.yml", "*.yaml"), ("*.properties", "*.conf", "*.config")


def search_files(directory: Path) -> PlaceResult:
    """Search the files of this directory, but not those of its subdirectories."""
    candidates: list[ClusterCandidate] = []
    for source in _sources(directory, (*_COMPOSE, *_CLIENT)):
        match recognise_kind(source):
            case FileKind.COMPOSE:
                candidates += _of_compose(source, directory)
            case FileKind.CLIENT | FileKind.LIBRDKAFKA:
                name = Path(source.name).name
                candidates += client_candidates(source, name, name)
    return PlaceResult("files here", candidates)


def _sources(directory: Path, patterns: tuple[str, ...]) -> Iterator[SourceFile]:
    try:
        files = sorted(file for pattern in patterns for file in directory.glob(pattern))
    except OSError:
        return
    for file in files[:_MOST_FILES]:
        try:
            if file.is_file() and file.stat().st_size <= _LARGEST:
                yield read_source(str(file))
        except (OSError, UnreadableError):
            continue


def _of_compose(source: SourceFile, directory: Path) -> Iterator[ClusterCandidate]:
    setup = Setup([source])
    variables = {}
    try:
        if (env := directory / ".env").is_file():
            variables = parse_env(read_source(str(env)).text)
        roots = parse_documents(source)
        if not roots:
            return
        compose.add_services(YamlNode(source, roots[0]), variables, setup)
    except (OSError, UnreadableError, MalformedError):
        return  # `kproxy lint` says what is wrong with it
    containers = [container for broker in setup.brokers if (container := _broker(broker)) is not None]
    description = f"{one_line(Path(source.name).name, 70)}: {', '.join(broker.name for broker in containers)}"
    if (candidate := brokers.cluster_candidate(description, containers)) is not None:
        notes = (*candidate.notes, "from the file; kproxy has not checked that it runs")
        yield replace(candidate, notes=notes)


def _broker(broker: BrokerConfig) -> brokers.ContainerBroker | None:
    if broker.container is None or broker.family is ImageFamily.PROPERTIES or not broker.client_endpoints:
        return None
    published = [
        ContainerPort(port.container_port, port.host_port, port.host_ip)
        for port in broker.container.published_ports
        if port.container_port is not None and port.host_port is not None
    ]
    container = brokers.broker_from_config(broker, published)
    return container and replace(container, name=one_line(broker.name, 70))


def client_candidates(source: SourceFile, path: str, at: str) -> Iterator[ClusterCandidate]:
    """Yield the cluster in a client's configuration.

    `at`: the file's name for people, `path`: its path.
    """
    values = properties.parse(source).values
    servers = values.get("bootstrap.servers") or values.get("metadata.broker.list")
    if servers is None or not servers.text.strip():
        return
    shown = one_line(servers.text, 100)
    yield ClusterCandidate(
        f"{one_line(at, 70)}: bootstrap.servers={shown}",
        ("run", "--client-config", path),
        ("kproxy takes the servers, TLS and the login from the file",),
    )
