"""From files to findings: recognise each file, read it into one set-up, and apply all rules to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kproxy.advice.lint import clientfiles, compose, operators, properties, reachability
from kproxy.advice.lint.filekinds import FileKind, recognise_kind
from kproxy.advice.lint.findings import LintFinding, Severity
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules import clients, cluster, containers, images, kraft, listeners, security
from kproxy.advice.lint.rules import operators as operator_rules
from kproxy.advice.lint.rules.table import new_finding
from kproxy.advice.lint.source import BOM, Edit, SourceFile
from kproxy.advice.lint.tree import MalformedError, YamlTree, parse_documents

_MOST_FINDINGS = 500


@dataclass(frozen=True, slots=True)
class LintOptions:
    """What the user says beside the files. `variables`: of each Compose file, by its name."""

    kind: FileKind | None = None
    advertise: str = ""
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LintReport:
    """What was found, who can connect where, what was not checked, and which files are nothing that kproxy knows."""

    sources: Sequence[SourceFile]
    findings: Sequence[LintFinding]
    reachability: Sequence[reachability.ListenerReachability]
    unchecked: Sequence[str]
    unreadable: Mapping[str, str]

    @property
    def has_mistakes(self) -> bool:
        return any(finding.severity is not Severity.NOTE for finding in self.findings)


def lint(sources: Sequence[SourceFile], options: LintOptions | None = None) -> LintReport:
    """Look at all files together."""
    options = options or LintOptions()
    reading = _SetupReader(options, Setup(list(sources), advertise=options.advertise))
    for source in sources:
        reading.read(source)
    setup = reading.setup
    findings = reading.findings
    for broker in setup.brokers:
        for check in (listeners.check, kraft.check, images.check, security.check):
            findings += check(broker, setup)
    findings += cluster.check(setup)
    findings += containers.check(setup)
    for client in setup.clients:
        findings += clients.check(client, setup)
    for one in setup.clusters:
        assert isinstance(one, operators.OperatorCluster)
        findings += operator_rules.check(one, setup)
    order = {source.name: number for number, source in enumerate(sources)}
    # Services may share a part of the file: a mistake there is said once.
    once = {(one.rule, one.file, one.location.index, one.text): one for one in reversed(findings)}
    ordered = sorted(once.values(), key=lambda one: (order[one.file], one.location.index, one.rule))
    if len(ordered) > _MOST_FINDINGS:
        setup.add_unchecked(f"{len(ordered) - _MOST_FINDINGS} more mistakes: mend the first {_MOST_FINDINGS}")
        del ordered[_MOST_FINDINGS:]
    return LintReport(
        sources, ordered, list(reachability.listener_reachability(setup)), setup.unchecked, reading.unreadable
    )


class _SetupReader:
    """Fills the set-up, file by file."""

    def __init__(self, options: LintOptions, setup: Setup) -> None:
        self.options = options
        self.setup = setup
        self.findings: list[LintFinding] = []
        self.unreadable: dict[str, str] = {}

    def read(self, source: SourceFile) -> None:
        kind = self.options.kind or recognise_kind(source)
        if not source.text.strip(f"{BOM} \t\r\n"):
            self.unreadable[source.name] = "is empty"
        elif kind is None:
            kinds = ", ".join(one.value for one in FileKind)
            self.unreadable[source.name] = f"is no file that kproxy knows; with --as you can say what it is ({kinds})"
        elif kind in (FileKind.COMPOSE, FileKind.KUBERNETES):
            self.yaml(source, kind)
        elif kind is FileKind.SPARK:
            clientfiles.add_spark_clients(source, self.setup)
        else:
            self.properties(source, kind)

    def yaml(self, source: SourceFile, kind: FileKind) -> None:
        try:
            roots = parse_documents(source)
        except MalformedError as error:
            self.findings.append(new_finding("syntax", error.location, source.name, str(error)))
            return
        tree = YamlTree(source)
        if kind is FileKind.KUBERNETES:
            operators.add_clusters(tree, roots, self.setup)
        elif roots:
            before = len(self.setup.services)
            compose.add_services(tree, roots[0], self.options.variables.get(source.name, {}), self.setup)
            if len(self.setup.services) == before:
                self.setup.add_unchecked(f"{source.name}: it has no services")
        for root in roots:
            for node in tree.mappings(root):
                tree.mapping(node)
        for duplicate in tree.duplicates:
            text = f"{duplicate.key} is given twice, first on line {duplicate.first_line}"
            severity = Severity.ERROR if kind is FileKind.COMPOSE else None
            why = (
                "Docker Compose does not read a file with a key that is given twice."
                if kind is FileKind.COMPOSE
                else ""
            )
            self.findings.append(
                new_finding("duplicate-key", duplicate.location, source.name, text, severity=severity, why=why)
            )

    def properties(self, source: SourceFile, kind: FileKind) -> None:
        read = properties.parse(source)
        for mistake in read.mistakes:
            edits, rule = None, "syntax"
            if mistake.overridden is not None:
                edits, rule = mistake.overridden.remove(), "duplicate-key"
            elif source.text.startswith(BOM) and mistake.location.index == 0:
                edits, rule = [Edit(source.name, 0, 1, "")], "byte-order-mark"
            self.findings.append(new_finding(rule, mistake.location, source.name, mistake.text, edits))
        if kind is FileKind.SERVER:
            location = min((one.location for one in read.values.values()), key=lambda one: one.index, default=None)
            if location is not None:
                # Only where two files have the same name, the name is not enough.
                self.setup.brokers.append(BrokerConfig(source.name, ImageFamily.PROPERTIES, location, read.values))
        else:
            clientfiles.add_clients(source, read.values, self.setup)
            if kind in (FileKind.CLIENT, FileKind.CONNECT) and not any(
                one.location.source is source for one in self.setup.clients
            ):
                self.setup.add_unchecked(f"{source.name}: it has no settings of a client")
