"""From files to findings: recognise each file, read all into one set-up, and apply all rules to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kproxy.advice.lint import (
    compose,
    dotnet,
    helmvalues,
    images,
    operators,
    properties,
    reachability,
    redpanda,
    workloads,
)
from kproxy.advice.lint.clientsettings import ClientSource, add_clients, add_clients_of_variables
from kproxy.advice.lint.filekinds import FileKind, recognise_kind
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules import (
    clientnames,
    clients,
    clouds,
    cluster,
    connectors,
    containers,
    frameworks,
    interpolation,
    jaas,
    kraft,
    listeners,
    programs,
    security,
)
from kproxy.advice.lint.rules import images as image_rules
from kproxy.advice.lint.rules import operators as operator_rules
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.lint.source import BOM, Edit, SourceFile
from kproxy.advice.lint.tree import MalformedError, YamlNode, duplicate_keys, flatten, parse_documents
from kproxy.advice.lint.value import ConfigValue
from kproxy.advice.lint.variables import env_values
from kproxy.base.diagnostic import Severity

_MAX_FINDINGS = 500
_JSON = (FileKind.CONNECTOR, FileKind.APPSETTINGS)
_YAML = (FileKind.COMPOSE, FileKind.KUBERNETES, FileKind.HELM, FileKind.REDPANDA, *_JSON)
# One of these shows that variables are a broker's.
_BROKERS = frozenset(
    images.words(
        "listeners advertised.listeners process.roles node.id broker.id zookeeper.connect advertised.host.name"
    )
)
# The key of a mapping without a value on its line: a file of an application may be YAML or properties.
_MAPPING_KEY = re.compile(r"^[\"']?[\w%.-]+[\"']?:[ ]*([{#].*)?\r?$", re.MULTILINE)
_YAML_NAME = re.compile(r".*\.ya?ml", re.IGNORECASE | re.DOTALL)
# A line of a template's own language: no program reads the file before it is filled in.
_TEMPLATE_LINE = re.compile(r"^[ \t]*\{(%[-+ ]|\{[-# ])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LintOptions:
    """Options of the user."""

    kind: FileKind | None = None
    """The kind of all files; None: recognise it."""
    advertise: str = ""
    """The host by which clients reach the brokers."""
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The variables of each Compose file, by the file's name."""


@dataclass(frozen=True, slots=True)
class LintReport:
    """The result of linting some files together."""

    sources: Sequence[SourceFile]
    findings: Sequence[LintDiagnostic]
    reachability: Sequence[reachability.ListenerReachability]
    unchecked: Sequence[str]
    """The settings that were not checked, and why."""
    unreadable: Mapping[str, str]
    """The reason for each file that kproxy cannot read or does not know, by its name."""
    without_settings: frozenset[str] = frozenset()
    """The names of the files in which kproxy has found no broker and no client."""

    @property
    def has_mistakes(self) -> bool:
        """True if there is an error or a warning."""
        return any(finding.severity is not Severity.NOTE for finding in self.findings)


def lint(sources: Sequence[SourceFile], options: LintOptions | None = None) -> LintReport:
    """Lint all files together."""
    options = options or LintOptions()
    reading = _SetupReader(options, Setup(list(sources), advertise=options.advertise))
    for source in sources:
        reading.read(source)
    reading.place_connectors()
    setup = reading.setup
    findings = reading.findings
    for broker in setup.brokers:
        for check in (listeners.check, kraft.check, image_rules.check, security.check):
            findings += check(broker, setup)
    findings += cluster.check(setup)
    findings += containers.check(setup)
    findings += programs.check(setup)
    findings += jaas.check(setup)
    findings += interpolation.check(setup)
    for client in setup.clients:
        of_client = [*clients.check(client, setup), *clientnames.check(client), *clouds.check(client)]
        if client.location.source.name in reading.appsettings:
            of_client = [replace(item, fix=tuple(map(dotnet.appsettings_line, item.fix))) for item in of_client]
        findings += of_client
    for operator_cluster in setup.clusters:
        assert isinstance(operator_cluster, operators.OperatorCluster)
        findings += operator_rules.check(operator_cluster)
    for access in setup.external_access:
        assert isinstance(access, helmvalues.ExternalAccess)
        findings += operator_rules.check_external_access(access)
    order = {source.name: number for number, source in enumerate(sources)}
    # Services may share a part of the file: a mistake there is reported once.
    unique = {(item.rule, item.file, item.location.index, item.text): item for item in reversed(findings)}
    ordered = sorted(unique.values(), key=lambda item: (order[item.file], item.location.index, item.rule))
    if len(ordered) > _MAX_FINDINGS:
        setup.add_unchecked(f"{len(ordered) - _MAX_FINDINGS} more mistakes: fix the first {_MAX_FINDINGS}")
        del ordered[_MAX_FINDINGS:]
    return LintReport(
        sources,
        ordered,
        list(reachability.listener_reachability(setup)),
        setup.unchecked,
        reading.unreadable,
        frozenset(reading.without_settings),
    )


class _SetupReader:
    """Reads files one by one into the set-up."""

    def __init__(self, options: LintOptions, setup: Setup) -> None:
        self.options = options
        self.setup = setup
        self.findings: list[LintDiagnostic] = []
        self.unreadable: dict[str, str] = {}
        self.without_settings: set[str] = set()
        self.appsettings: set[str] = set()
        """The names of the files of .NET."""
        self.connectors: set[str] = set()
        """The names of the files with connectors."""

    def read(self, source: SourceFile) -> None:
        kind = self.options.kind or recognise_kind(source)
        if not source.text.strip(f"{BOM} \t\r\n"):
            self.unreadable[source.name] = "is empty"
        elif kind is None:
            kinds = ", ".join(file_kind.value for file_kind in FileKind)
            self.unreadable[source.name] = f"is no file that kproxy knows; with --as you can say what it is ({kinds})"
        elif kind is not FileKind.HELM and _TEMPLATE_LINE.search(source.text):  # values may have parts of templates
            self.unreadable[source.name] = "is a template; give kproxy the file that is made of it"
        elif kind in _YAML or (kind is FileKind.APPLICATION and _is_yaml(source)):
            self.read_yaml(source, kind)
        elif kind is FileKind.JAAS:
            self.setup.jaas_files.append(source)
        elif kind is FileKind.ENV:
            self.read_variables(source)
        else:
            self.read_properties(source, kind)

    def read_yaml(self, source: SourceFile, kind: FileKind) -> None:
        try:
            roots = [YamlNode(source, root) for root in parse_documents(source, is_json=kind in _JSON)]
        except MalformedError as error:
            if "{{" in source.text:
                self.unreadable[source.name] = "is a template; give kproxy what `helm template` makes of it"
            else:
                self.findings.append(finding("syntax", error.location, source, str(error)))
            return
        for root in roots[: None if kind in (FileKind.KUBERNETES, FileKind.APPLICATION, *_JSON) else 1]:
            self.read_root(source, kind, root)
        if kind is FileKind.KUBERNETES:
            has_workloads = workloads.add_workloads(roots, self.setup)
            operators.add_clusters(source.name, roots, self.setup, is_required=not has_workloads)
        severity, why = None, ""
        if kind is FileKind.COMPOSE:
            severity, why = Severity.ERROR, "Docker Compose does not read a file with a key that is given twice."
        for first, second in (pair for root in roots for pair in duplicate_keys(root)):
            text = f"{second.key_text} is given twice, first on line {first.location.line}"
            self.findings.append(finding("duplicate-key", second.location, source, text, severity=severity, why=why))

    def read_root(self, source: SourceFile, kind: FileKind, root: YamlNode) -> None:
        """Read one document of YAML or JSON."""
        match kind:
            case FileKind.COMPOSE:
                before = len(self.setup.containers)
                for node in compose.misplaced_keys(root):
                    text = f"{node.key_text} stands among the services: it belongs to one of them, and further right"
                    self.findings.append(finding("syntax", node.location, source, text))
                compose.add_services(root, self.options.variables.get(source.name, {}), self.setup)
                if len(self.setup.containers) == before:
                    self.add_without_settings(source, "it has no services")
            case FileKind.HELM:
                helmvalues.add_brokers(root, self.setup)
            case FileKind.REDPANDA:
                redpanda.add_broker(root, self.setup)
            case FileKind.APPLICATION | FileKind.APPSETTINGS:
                self.add_flat_clients(source, kind, root)
            case FileKind.CONNECTOR:
                for item in root.items or [root]:
                    self.add_flat_clients(source, kind, item["config"] or item)

    def add_flat_clients(self, source: SourceFile, kind: FileKind, root: YamlNode) -> None:
        values, is_whole = flatten(root)
        if not is_whole:
            self.setup.add_unchecked(f"{source.name}: all but its first {len(values)} settings")
        if kind is FileKind.APPSETTINGS:
            self.appsettings.add(source.name)
            values = dotnet.librdkafka_settings(values)
        self.add_clients(source, kind, values)

    def add_clients(self, source: SourceFile, kind: FileKind, values: Mapping[str, ConfigValue]) -> None:
        if kind in (FileKind.CONNECTOR, FileKind.CONNECT):
            self.findings += connectors.check(source, values)
        if kind is FileKind.APPLICATION:
            self.findings += frameworks.check(source, values)
        if "connector.class" in values:
            self.connectors.add(source.name)
        before = len(self.setup.clients)
        add_clients(ClientSource(source, f"client {source.name}", kind), values, self.setup)
        if len(self.setup.clients) == before:
            self.add_without_settings(source, "it has no settings of a client")

    def place_connectors(self) -> None:
        """Give each connector the container of the Connect worker, where its clients run, if the files have one."""
        workers = [container for container in self.setup.containers if connectors.is_worker(container)]
        if len({worker.networks for worker in workers}) == 1:
            self.setup.clients = [
                replace(client, container=workers[0]) if client.location.source.name in self.connectors else client
                for client in self.setup.clients
            ]

    def add_without_settings(self, source: SourceFile, why: str) -> None:
        self.without_settings.add(source.name)
        self.setup.add_unchecked(f"{source.name}: {why}")

    def read_variables(self, source: SourceFile) -> None:
        values = env_values(source)
        self.setup.interpolated.append(values)
        family = images.likely_family(values)
        settings = images.settings_of(family, values)
        if not settings.keys() & _BROKERS:
            origin = ClientSource(source, f"client {source.name}", FileKind.ENV)
            add_clients_of_variables(origin, values, self.setup)
            return
        self.setup.add_unchecked(f"{source.name}: what the image and other files set")
        location = min((value.location for value in settings.values()), key=lambda place: place.index)
        self.setup.brokers.append(
            BrokerConfig(source.name, family, location, settings, complete=False, environment=values)
        )

    def read_properties(self, source: SourceFile, kind: FileKind) -> None:
        read = properties.parse(source)
        for mistake in read.mistakes:
            edits, rule = None, "syntax"
            if mistake.overridden is not None:
                edits, rule = mistake.overridden.remove(), "duplicate-key"
            elif source.text.startswith(BOM) and mistake.location.index == 0:
                edits, rule = [Edit(source.name, 0, 1, "")], "byte-order-mark"
            self.findings.append(finding(rule, mistake.location, source, mistake.text, edits))
        if kind is not FileKind.SERVER:
            self.add_clients(source, kind, read.values)
            return
        location = min((value.location for value in read.values.values()), key=lambda place: place.index, default=None)
        if location is not None:
            # The name of the file is the broker's name, even if two files have the same one.
            self.setup.brokers.append(BrokerConfig(source.name, ImageFamily.PROPERTIES, location, read.values))


def _is_yaml(source: SourceFile) -> bool:
    """Check whether the file of an application is YAML, and not properties."""
    return bool(_YAML_NAME.fullmatch(source.name) or _MAPPING_KEY.search(source.text))
