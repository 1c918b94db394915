"""Clusters for which other tools on this machine are configured: kcat, rpk, kaf, kafkactl, the Confluent CLI.

The tools of the clouds themselves (aws, gcloud, az) keep no address of a broker: one would have to ask the cloud.
Passwords in these files are not shown, and not put into a command.

Sources: kcat(1); rpk's src/go/rpk/pkg/config/rpk_yaml.go; kaf's pkg/config/config.go; kafkactl's README.adoc; the
Confluent CLI's pkg/config (kafka_cluster_config.go, kafka_cluster_context.go).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kproxy.advice.lint.source import SourceFile, UnreadableError, read_source
from kproxy.advice.lint.tree import MalformedError, parse_documents
from kproxy.base.address import Address
from kproxy.base.printable import one_line
from kproxy.base.yamltree import as_values
from kproxy.inspect.discover import files
from kproxy.inspect.discover.results import ClusterCandidate, PlaceResult

NAME = "configurations of tools"
_LARGEST = 1024 * 1024
_MOST = 100
_PORT = 9092
_CONFLUENT_CLOUD = ".confluent.cloud"


@dataclass(frozen=True, slots=True)
class _ToolCluster:
    """One cluster in the configuration of a tool.

    `tls` None: no TLS; else options of kproxy and their files.
    """

    name: str
    brokers: tuple[str, ...]
    tls: Mapping[str, str] | None = None
    login: str = ""
    via: str = ""
    any_certificate: bool = False


def search_tools(home: Path, directory: Path, environment: Mapping[str, str]) -> PlaceResult | None:
    """Search the configurations of this user's tools; None if there is none.

    Mistakes in them raise nothing.
    """
    candidates: list[ClusterCandidate] = []
    problems: list[str] = []
    paths = list(_paths(home, directory, environment))
    for tool, path in paths:
        at = _shown(path, home)
        try:
            if path.stat().st_size > _LARGEST:
                problems.append(f"{at}: larger than {_LARGEST >> 20} MiB")
                continue
            source = read_source(str(path.absolute()))  # a file may be called `-`, which would be the standard input
            if tool == "kcat":
                candidates += files.client_candidates(source, str(path), at)
            else:
                candidates += _of(tool, at, source)
        except (OSError, UnreadableError, MalformedError) as error:
            problems.append(f"{at}: {one_line(str(error), 100)}")
    more = f"{len(candidates) - _MOST} clusters after these" if len(candidates) > _MOST else ""
    return PlaceResult(NAME, candidates[:_MOST], "; ".join(problems), more) if paths else None


def _paths(home: Path, directory: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the configuration file of each tool; for tools that read one only, the first that exists."""
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    kcat = [environment.get(name, "") for name in ("KCAT_CONFIG", "KAFKACAT_CONFIG")]
    candidates: Mapping[str, Sequence[str | Path]] = {
        "kcat": [*kcat, home / ".config/kcat.conf", home / ".config/kafkacat.conf"],
        "rpk": [config / "rpk/rpk.yaml", home / "Library/Application Support/rpk/rpk.yaml"],
        "kaf": [home / ".kaf/config"],
        "kafkactl": [
            environment.get("KAFKA_CTL_CONFIG", ""),
            *(directory / name for name in ("kafkactl.yml", ".kafkactl.yml")),
            *(home / name for name in (".config/kafkactl/config.yml", ".kafkactl/config.yml")),
        ],
        "Confluent CLI": [home / ".confluent/config.json"],
    }
    for tool, paths in candidates.items():
        yield from [(tool, Path(path)) for path in paths if str(path) and Path(path).is_file()][:1]


def _shown(path: Path, home: Path) -> str:
    return one_line(f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path), 100)


def _of(tool: str, at: str, source: SourceFile) -> Iterator[ClusterCandidate]:
    roots = parse_documents(source)
    for cluster in _READERS[tool](as_values(roots[0])) if roots else ():
        if cluster.brokers:
            title = f"{tool}, {one_line(cluster.name, 70)}" if cluster.name else tool
            yield _found(f"{title}: {one_line(','.join(cluster.brokers), 100)}", at, cluster)


def _found(description: str, at: str, tool_cluster: _ToolCluster) -> ClusterCandidate:
    try:
        servers = ",".join(str(Address.parse(broker, _PORT)) for broker in tool_cluster.brokers)
    except ValueError:
        servers = ""
    if not servers or one_line(servers, len(servers)) != servers:
        return ClusterCandidate(description, (), (f"{at} has an invalid address",))
    notes = [f"as {at} says; kproxy has not connected to it"]
    words = ["run", *(["--via", tool_cluster.via] if tool_cluster.via else []), "-b", servers]
    if tool_cluster.tls is not None:
        words.append("--tls")
        for option, file in tool_cluster.tls.items():
            if not file:
                continue
            if one_line(file, len(file)) == file and not file.startswith("-"):
                words += [option, os.path.expanduser(file)]
            else:
                notes.append(f"{option}: the name of its file cannot be shown")
    if tool_cluster.any_certificate:
        notes.append("the tool accepts any certificate; kproxy does so only with --tls-insecure")
    if tool_cluster.login:
        notes.append(f"clients log in themselves ({one_line(tool_cluster.login, 40)}), as without kproxy")
    return ClusterCandidate(description, tuple(words), tuple(notes))


# Values of a YAML or JSON file, as `as_values` returns them. Missing ones, and those of another kind, count as empty.


def _within(value: Any, *keys: str) -> Any:
    """Return the value under these keys, which stand there in any case: so kafkactl takes them."""
    for key in keys:
        mapping = value if isinstance(value, dict) else {}
        value = next((item for name, item in mapping.items() if name.lower() == key), None)
    return value


def _text(value: Any, *keys: str) -> str:
    text = _within(value, *keys)
    return text if isinstance(text, str) else ""


def _is_true(value: Any, *keys: str) -> bool:
    return _text(value, *keys).lower() in ("true", "yes", "on")


def _texts(value: Any, *keys: str) -> tuple[str, ...]:
    items = _within(value, *keys)
    return tuple(item for item in items if isinstance(item, str) and item) if isinstance(items, list) else ()


def _mappings(value: Any, *keys: str) -> list[tuple[str, Any]]:
    """Return the names and values of a mapping, or the items of a list without names."""
    items = _within(value, *keys)
    return list(items.items()) if isinstance(items, dict) else [("", item) for item in items or ()]


def _files(tls: Any, ca: str, cert: str, key: str) -> dict[str, str]:
    return {"--tls-ca": _text(tls, ca), "--tls-cert": _text(tls, cert), "--tls-key": _text(tls, key)}


def _of_rpk(root: Any) -> Iterator[_ToolCluster]:
    for _, profile in _mappings(root, "profiles"):
        api = _within(profile, "kafka_api")
        tls, sasl = _within(api, "tls"), _within(api, "sasl")
        ca = "ca_file" if _text(tls, "ca_file") else "truststore_file"
        # An empty mapping is TLS too.
        is_tls = isinstance(tls, dict) and _text(tls, "enabled").lower() != "false"
        login = _text(sasl, "mechanism") or _text(sasl, "type") or "SASL"
        yield _ToolCluster(
            _text(profile, "name"),
            _texts(api, "brokers"),
            _files(tls, ca, "cert_file", "key_file") if is_tls else None,
            login if isinstance(sasl, dict) else "",
            any_certificate=_is_true(tls, "insecure_skip_verify"),
        )


def _of_kaf(root: Any) -> Iterator[_ToolCluster]:
    for _, cluster in _mappings(root, "clusters"):
        tls, sasl = _within(cluster, "tls"), _within(cluster, "sasl")
        is_tls = isinstance(tls, dict) or "SSL" in _text(cluster, "security-protocol").upper()
        yield _ToolCluster(
            _text(cluster, "name"),
            _texts(cluster, "brokers"),
            _files(tls, "cafile", "clientfile", "clientkeyfile") if is_tls else None,
            (_text(sasl, "mechanism") or "SASL") if isinstance(sasl, dict) else "",
            any_certificate=_is_true(tls, "insecure"),
        )


def _of_kafkactl(root: Any) -> Iterator[_ToolCluster]:
    for name, context in _mappings(root, "contexts"):
        tls, sasl, kubernetes = (_within(context, key) for key in ("tls", "sasl", "kubernetes"))
        place = [_text(kubernetes, "kubecontext"), _text(kubernetes, "namespace") or "default"]
        via = f"k8s://{'/'.join(part for part in place if part)}" if _is_true(kubernetes, "enabled") else ""
        yield _ToolCluster(
            name,
            _texts(context, "brokers"),
            _files(tls, "ca", "cert", "certkey") if _is_true(tls, "enabled") else None,
            (_text(sasl, "mechanism") or "PLAIN") if _is_true(sasl, "enabled") else "",
            one_line(via, 200),
            _is_true(tls, "insecure"),
        )


def _of_confluent(root: Any) -> Iterator[_ToolCluster]:
    for _, context in _mappings(root, "contexts"):
        settings = _within(context, "kafka_cluster_context")
        clusters = _mappings(settings, "kafka_cluster_configs")
        for _, environment in _mappings(settings, "kafka_environment_contexts"):
            clusters += _mappings(environment, "kafka_cluster_infos")
        for _, cluster in clusters:
            scheme, _, servers = _text(cluster, "bootstrap_servers").rpartition("://")
            brokers = tuple(item.strip() for item in servers.split(",") if item.strip())
            is_cloud = any(broker.partition(":")[0].endswith(_CONFLUENT_CLOUD) for broker in brokers)
            yield _ToolCluster(
                _text(cluster, "name") or _text(cluster, "id"),
                brokers,
                {} if is_cloud or "SSL" in scheme.upper() else None,
                "PLAIN, an API key" if is_cloud else "",
            )


_READERS: Mapping[str, Callable[[Any], Iterator[_ToolCluster]]] = {
    "rpk": _of_rpk,
    "kaf": _of_kaf,
    "kafkactl": _of_kafkactl,
    "Confluent CLI": _of_confluent,
}
