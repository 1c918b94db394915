"""Clusters for which other tools on this machine are configured: kcat, rpk, kaf, kafkactl, the Confluent CLI.

The tools of the clouds themselves (aws, gcloud, az) keep no address of a broker: one would have to ask the cloud.
Passwords in these files are not shown, and not put into a command.

Sources: kcat(1); rpk's src/go/rpk/pkg/config/rpk_yaml.go; kaf's pkg/config/config.go; kafkactl's README.adoc; the
Confluent CLI's pkg/config (kafka_cluster_config.go, kafka_cluster_context.go).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from kproxy.advice.lint.source import SourceFile, UnreadableError, read_source
from kproxy.advice.lint.tree import MalformedError, YamlTree, parse_documents
from kproxy.base.address import Address
from kproxy.base.printable import one_line
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


class _YamlValue:
    """A value of a YAML or JSON file. Missing values, and those of another kind, are empty.

    Keys are in lower case: kafkactl takes them in any.
    """

    def __init__(self, tree: YamlTree, node: yaml.Node | None) -> None:
        self._tree, self._node = tree, node

    def __getitem__(self, name: str) -> _YamlValue:
        return self.values().get(name, _YamlValue(self._tree, None))

    def values(self) -> dict[str, _YamlValue]:
        mapping = self._tree.mapping(self._node)
        return {key.lower(): _YamlValue(self._tree, value) for key, (_, value) in mapping.items()}

    def names(self) -> Iterator[tuple[str, _YamlValue]]:
        """Yield keys, as they are written, and values."""
        for key, (_, value) in self._tree.mapping(self._node).items():
            yield key, _YamlValue(self._tree, value)

    def items(self) -> Iterator[_YamlValue]:
        if isinstance(self._node, yaml.SequenceNode):
            for node in self._node.value:
                yield _YamlValue(self._tree, node)

    @property
    def text(self) -> str:
        node = self._node
        return node.value if isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:null" else ""

    @property
    def is_true(self) -> bool:
        return self.text.lower() in ("true", "yes", "on")

    @property
    def is_mapping(self) -> bool:
        return isinstance(self._node, yaml.MappingNode)

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(item.text for item in self.items() if item.text)


def search_tools(home: Path, directory: Path, environment: Mapping[str, str]) -> PlaceResult | None:
    """Search the configurations of this user's tools; None if there is none.

    Mistakes in them raise nothing.
    """
    candidates: list[ClusterCandidate] = []
    problems: list[str] = []
    paths = [(tool, path) for tool, path in _paths(home, directory, environment) if path.is_file()]
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

    def first(*candidates: str | Path) -> Path:
        existing = [Path(candidate) for candidate in candidates if str(candidate) and Path(candidate).is_file()]
        return existing[0] if existing else Path(candidates[-1])

    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    get_variable = environment.get
    yield (
        "kcat",
        first(
            get_variable("KCAT_CONFIG", ""),
            get_variable("KAFKACAT_CONFIG", ""),
            home / ".config" / "kcat.conf",
            home / ".config" / "kafkacat.conf",
        ),
    )
    yield "rpk", first(config / "rpk" / "rpk.yaml", home / "Library" / "Application Support" / "rpk" / "rpk.yaml")
    yield "kaf", home / ".kaf" / "config"
    yield (
        "kafkactl",
        first(
            get_variable("KAFKA_CTL_CONFIG", ""),
            directory / "kafkactl.yml",
            directory / ".kafkactl.yml",
            home / ".config" / "kafkactl" / "config.yml",
            home / ".kafkactl" / "config.yml",
        ),
    )
    yield "Confluent CLI", home / ".confluent" / "config.json"


def _shown(path: Path, home: Path) -> str:
    return one_line(f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path), 100)


def _of(tool: str, at: str, source: SourceFile) -> Iterator[ClusterCandidate]:
    roots = parse_documents(source)
    if not roots:
        return
    for tool_cluster in _READERS[tool](_YamlValue(YamlTree(source), roots[0])):
        title = f"{tool}, {one_line(tool_cluster.name, 70)}" if tool_cluster.name else tool
        yield _found(f"{title}: {one_line(','.join(tool_cluster.brokers), 100)}", at, tool_cluster)


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


def _of_rpk(root: _YamlValue) -> Iterator[_ToolCluster]:
    for profile in root["profiles"].items():
        api = profile["kafka_api"]
        tls, sasl = api["tls"], api["sasl"]
        if not api["brokers"].texts:
            continue
        files_of = {
            "--tls-ca": (tls["ca_file"].text or tls["truststore_file"].text),
            "--tls-cert": tls["cert_file"].text,
            "--tls-key": tls["key_file"].text,
        }
        yield _ToolCluster(
            profile["name"].text,
            api["brokers"].texts,
            # An empty mapping is TLS too.
            files_of if tls.is_mapping and tls["enabled"].text.lower() != "false" else None,
            (sasl["mechanism"].text or sasl["type"].text or "SASL") if sasl.is_mapping else "",
            any_certificate=tls["insecure_skip_verify"].is_true,
        )


def _of_kaf(root: _YamlValue) -> Iterator[_ToolCluster]:
    for cluster in root["clusters"].items():
        tls, sasl = cluster["tls"], cluster["sasl"]
        if not cluster["brokers"].texts:
            continue
        files_of = {
            "--tls-ca": tls["cafile"].text,
            "--tls-cert": tls["clientfile"].text,
            "--tls-key": tls["clientkeyfile"].text,
        }
        is_tls = tls.is_mapping or "SSL" in cluster["security-protocol"].text.upper()
        yield _ToolCluster(
            cluster["name"].text,
            cluster["brokers"].texts,
            files_of if is_tls else None,
            (sasl["mechanism"].text or "SASL") if sasl.is_mapping else "",
            any_certificate=tls["insecure"].is_true,
        )


def _of_kafkactl(root: _YamlValue) -> Iterator[_ToolCluster]:
    for name, context in root["contexts"].names():
        tls, sasl, kubernetes = context["tls"], context["sasl"], context["kubernetes"]
        if not context["brokers"].texts:
            continue
        via = ""
        if kubernetes["enabled"].is_true:
            place = [kubernetes["kubecontext"].text, kubernetes["namespace"].text or "default"]
            via = f"k8s://{'/'.join(one for one in place if one)}"
        files_of = {"--tls-ca": tls["ca"].text, "--tls-cert": tls["cert"].text, "--tls-key": tls["certkey"].text}
        yield _ToolCluster(
            name,
            context["brokers"].texts,
            files_of if tls["enabled"].is_true else None,
            (sasl["mechanism"].text or "PLAIN") if sasl["enabled"].is_true else "",
            one_line(via, 200),
            tls["insecure"].is_true,
        )


def _of_confluent(root: _YamlValue) -> Iterator[_ToolCluster]:
    for context in root["contexts"].values().values():
        settings = context["kafka_cluster_context"]
        groups = [settings["kafka_cluster_configs"]]
        groups += [
            setting["kafka_cluster_infos"] for setting in settings["kafka_environment_contexts"].values().values()
        ]
        for cluster in (entry for group in groups for entry in group.values().values()):
            scheme, _, servers = cluster["bootstrap_servers"].text.rpartition("://")
            brokers = tuple(item.strip() for item in servers.split(",") if item.strip())
            if not brokers:
                continue
            is_cloud = any(broker.partition(":")[0].endswith(_CONFLUENT_CLOUD) for broker in brokers)
            is_tls = is_cloud or "SSL" in scheme.upper()
            yield _ToolCluster(
                cluster["name"].text or cluster["id"].text,
                brokers,
                {} if is_tls else None,
                "PLAIN, an API key" if is_cloud else "",
            )


_READERS: Mapping[str, Callable[[_YamlValue], Iterator[_ToolCluster]]] = {
    "rpk": _of_rpk,
    "kaf": _of_kaf,
    "kafkactl": _of_kafkactl,
    "Confluent CLI": _of_confluent,
}
