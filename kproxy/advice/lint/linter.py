"""From files to findings: recognise each file, read it into one set-up, and apply all rules to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kproxy.advice.lint import clientfiles, compose, operators, properties, reachability
from kproxy.advice.lint.filekinds import Kind, recognise
from kproxy.advice.lint.findings import Finding, Severity
from kproxy.advice.lint.model import Broker, Family, Setup
from kproxy.advice.lint.rules import clients, cluster, containers, images, kraft, listeners, security
from kproxy.advice.lint.rules import operators as operator_rules
from kproxy.advice.lint.rules.table import found
from kproxy.advice.lint.source import BOM, Edit, Source
from kproxy.advice.lint.tree import MalformedError, Tree, documents

_MOST_FINDINGS = 500


@dataclass(frozen=True, slots=True)
class Options:
    """What the user says beside the files. `variables`: of each Compose file, by its name."""

    kind: Kind | None = None
    advertise: str = ""
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, who can connect where, what was not checked, and which files are nothing that kproxy knows."""

    sources: Sequence[Source]
    findings: Sequence[Finding]
    rows: Sequence[reachability.Row]
    unknown: Sequence[str]
    unreadable: Mapping[str, str]

    @property
    def wrong(self) -> bool:
        return any(finding.severity is not Severity.NOTE for finding in self.findings)


def lint(sources: Sequence[Source], options: Options | None = None) -> Report:
    """Look at all files together."""
    options = options or Options()
    reading = _Reading(options, Setup(list(sources), advertise=options.advertise))
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
        assert isinstance(one, operators.Cluster)
        findings += operator_rules.check(one, setup)
    order = {source.name: number for number, source in enumerate(sources)}
    # Services may share a part of the file: a mistake there is said once.
    once = {(one.rule, one.file, one.place.index, one.text): one for one in reversed(findings)}
    ordered = sorted(once.values(), key=lambda one: (order[one.file], one.place.index, one.rule))
    if len(ordered) > _MOST_FINDINGS:
        setup.not_checked(f"{len(ordered) - _MOST_FINDINGS} more mistakes: mend the first {_MOST_FINDINGS}")
        del ordered[_MOST_FINDINGS:]
    return Report(sources, ordered, list(reachability.rows(setup)), setup.unknown, reading.unreadable)


class _Reading:
    """Fills the set-up, file by file."""

    def __init__(self, options: Options, setup: Setup) -> None:
        self.options = options
        self.setup = setup
        self.findings: list[Finding] = []
        self.unreadable: dict[str, str] = {}

    def read(self, source: Source) -> None:
        kind = self.options.kind or recognise(source)
        if not source.text.strip(f"{BOM} \t\r\n"):
            self.unreadable[source.name] = "is empty"
        elif kind is None:
            kinds = ", ".join(one.value for one in Kind)
            self.unreadable[source.name] = f"is no file that kproxy knows; with --as you can say what it is ({kinds})"
        elif kind in (Kind.COMPOSE, Kind.KUBERNETES):
            self.yaml(source, kind)
        elif kind is Kind.SPARK:
            clientfiles.read_spark(source, self.setup)
        else:
            self.properties(source, kind)

    def yaml(self, source: Source, kind: Kind) -> None:
        try:
            roots = documents(source)
        except MalformedError as error:
            self.findings.append(found("syntax", error.place, source.name, str(error)))
            return
        tree = Tree(source)
        if kind is Kind.KUBERNETES:
            operators.read(tree, roots, self.setup)
        elif roots:
            before = len(self.setup.services)
            compose.read(tree, roots[0], self.options.variables.get(source.name, {}), self.setup)
            if len(self.setup.services) == before:
                self.setup.not_checked(f"{source.name}: it has no services")
        for root in roots:
            for node in tree.every(root):
                tree.mapping(node)
        for twice in tree.twice:
            text = f"{twice.key} is given twice, first on line {twice.first}"
            severity = Severity.ERROR if kind is Kind.COMPOSE else None
            why = "Docker Compose does not read a file with a key that is given twice." if kind is Kind.COMPOSE else ""
            self.findings.append(found("duplicate-key", twice.place, source.name, text, severity=severity, why=why))

    def properties(self, source: Source, kind: Kind) -> None:
        read = properties.parse(source)
        for mistake in read.mistakes:
            edits, rule = None, "syntax"
            if mistake.twice is not None:
                edits, rule = mistake.twice.removed(), "duplicate-key"
            elif source.text.startswith(BOM) and mistake.place.index == 0:
                edits, rule = [Edit(source.name, 0, 1, "")], "byte-order-mark"
            self.findings.append(found(rule, mistake.place, source.name, mistake.text, edits))
        if kind is Kind.SERVER:
            place = min((one.place for one in read.values.values()), key=lambda one: one.index, default=None)
            if place is not None:
                # Only where two files have the same name, the name is not enough.
                self.setup.brokers.append(Broker(source.name, Family.PROPERTIES, place, read.values))
        else:
            clientfiles.read(source, read.values, self.setup)
            if kind in (Kind.CLIENT, Kind.CONNECT) and not any(
                one.place.source is source for one in self.setup.clients
            ):
                self.setup.not_checked(f"{source.name}: it has no settings of a client")
