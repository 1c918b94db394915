"""kproxy's own lint on the settings of brokers, before any of them is printed, in the form of the print. Pure.

kproxy sees a broker's settings, and not their file. So lint's findings about the present settings do not count: only
those about the changed settings that are new.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kproxy.advice.lint.filekinds import FileKind
from kproxy.advice.lint.linter import LintOptions, lint
from kproxy.advice.lint.source import SourceFile
from kproxy.base.diagnostic import Severity
from kproxy.inspect.doctor import listeners

# The settings that its rules for listeners look at.
_RELEVANT = re.compile(
    r"listeners|advertised\.listeners|listener\.security\.protocol\.map|inter\.broker\.listener\.name|"
    r"security\.inter\.broker\.protocol|controller\.listener\.names|control\.plane\.listener\.name|process\.roles|"
    r"node\.id|broker\.id|controller\.quorum\.voters|controller\.quorum\.bootstrap\.servers|zookeeper\.connect|"
    r"sasl\.enabled\.mechanisms|sasl\.mechanism\.inter\.broker\.protocol|sasl\.kerberos\.service\.name|"
    r"ssl\.keystore\.location|ssl\.keystore\.certificate\.chain|ssl\.engine\.factory\.class|listener\.name\..*"
)

LintMistake = tuple[str, str, str]
"""A rule, the name of the broker that breaks it, and the mistake in words."""


def mistakes(before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Return, by broker, the mistakes in its settings `after` a change that were not in those of `before`."""
    return _new(_of_properties(before), _of_properties(after))


def mistakes_of_variables(
    before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]], image: str, prefix: str
) -> dict[str, list[str]]:
    """Return the same for settings that are variables of containers of this image."""
    return _new(_of_variables(before, image, prefix), _of_variables(after, image, prefix))


def _new(before: Iterable[LintMistake], after: Iterable[LintMistake]) -> dict[str, list[str]]:
    known_mistakes = {(rule, broker) for rule, broker, _ in before}
    new_mistakes: dict[str, list[str]] = {}
    for rule, broker, text in after:
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


def _of_properties(brokers: Mapping[str, Mapping[str, str]]) -> Iterator[LintMistake]:
    sources = [SourceFile(name, _properties(values)) for name, values in brokers.items()]
    for finding in lint(sources, LintOptions(kind=FileKind.SERVER)).findings:
        if finding.severity is not Severity.NOTE:
            yield finding.rule, finding.subject, finding.text


def _of_variables(brokers: Mapping[str, Mapping[str, str]], image: str, prefix: str) -> Iterator[LintMistake]:
    """Yield the mistakes of a Compose file with a service for each broker, which publishes each of its ports."""
    services = {name.replace(" ", "-"): name for name in brokers}
    compose = {
        service: {
            "image": image,
            "ports": [f"{port}:{port}" for port in sorted(listeners.ports(brokers[name]))],
            "environment": dict(
                listeners.variable(line, prefix).split("=", 1) for line in _properties(brokers[name]).splitlines()
            ),
        }
        for service, name in services.items()
    }
    # JSON is YAML too.
    source = SourceFile("compose.yaml", json.dumps({"services": compose}))
    for finding in lint([source], LintOptions(kind=FileKind.COMPOSE)).findings:
        if finding.severity is not Severity.NOTE:
            yield finding.rule, services.get(finding.subject, finding.subject), finding.text


def _properties(values: Mapping[str, str]) -> str:
    relevant = {key: value for key, value in values.items() if _RELEVANT.fullmatch(key)}
    return "".join(f"{key}={value}\n" for key, value in relevant.items()).replace("\\", "\\\\")
