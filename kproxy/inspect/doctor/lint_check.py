"""kproxy's own lint on the settings of brokers, before any of them is printed. Pure.

kproxy sees a broker's settings, and not their file. So lint's findings about the present settings do not count: only
those about the changed settings that are new.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kproxy.advice.lint.filekinds import FileKind
from kproxy.advice.lint.linter import LintOptions, lint
from kproxy.advice.lint.source import SourceFile
from kproxy.base.diagnostic import Severity

# The settings that its rules for listeners look at.
_RELEVANT = re.compile(
    r"listeners|advertised\.listeners|listener\.security\.protocol\.map|inter\.broker\.listener\.name|"
    r"security\.inter\.broker\.protocol|controller\.listener\.names|control\.plane\.listener\.name|process\.roles|"
    r"node\.id|broker\.id|controller\.quorum\.voters|controller\.quorum\.bootstrap\.servers|zookeeper\.connect|"
    r"sasl\.enabled\.mechanisms|sasl\.mechanism\.inter\.broker\.protocol|sasl\.kerberos\.service\.name|"
    r"ssl\.keystore\.location|ssl\.keystore\.certificate\.chain|ssl\.engine\.factory\.class|listener\.name\..*"
)


def mistakes(before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Return, by broker, the mistakes in its settings `after` a change that were not in those of `before`."""
    known_mistakes = {(rule, broker) for rule, broker, _ in _found(before)}
    new_mistakes: dict[str, list[str]] = {}
    for rule, broker, text in _found(after):
        if (rule, broker) not in known_mistakes:
            new_mistakes.setdefault(broker, []).append(text)
    return new_mistakes


def strimzi(listeners: Sequence[Sequence[str]]) -> list[str]:
    """Return mistakes in the listeners of a Kafka resource of Strimzi, each given as its lines of YAML."""
    lines = [f"    {line}" for entry in listeners for line in entry]
    head = ["apiVersion: kafka.strimzi.io/v1", "kind: Kafka", "metadata: {name: kafka}", "spec:", "  kafka:"]
    text = "\n".join([*head, "    listeners:", *lines, ""])
    report = lint([SourceFile("kafka.yaml", text)], LintOptions(kind=FileKind.KUBERNETES))
    return [finding.text for finding in report.findings if finding.severity is not Severity.NOTE] + list(
        report.unreadable
    )


def _found(brokers: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield rule, broker and text of all mistakes of these brokers as one cluster."""
    sources = [SourceFile(name, _properties(values)) for name, values in brokers.items()]
    for finding in lint(sources, LintOptions(kind=FileKind.SERVER)).findings:
        if finding.severity is not Severity.NOTE:
            yield finding.rule, finding.subject, finding.text


def _properties(values: Mapping[str, str]) -> str:
    relevant = {key: value for key, value in values.items() if _RELEVANT.fullmatch(key)}
    return "".join(f"{key}={value}\n" for key, value in relevant.items()).replace("\\", "\\\\")
