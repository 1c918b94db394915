"""Rules for dollar signs in variables: what Docker Compose and Kubernetes take for the name of another variable."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice.lint.container import Container, Platform
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import ImageFamily, Setup
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.lint.source import Edit
from kproxy.advice.lint.value import ConfigValue
from kproxy.base.diagnostic import Severity

_CONNECTION_STRING = "ConnectionString"
_VARIABLE = re.compile(r"(?P<before>[^$]?)(?<!\$)(?:\$\$)*(?P<dollar>\$)(?P<name>[A-Za-z_]\w*)")
_REFERENCE = re.compile(r"(?<!\$)\$\(([^()]*)\)")
_SHELL = re.compile(r"\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
_SECRET = re.compile(r"(?i)jaas|password|passwd|secret|sasl|token")
_LONGEST = 10_000


def check(setup: Setup) -> Iterator[LintDiagnostic]:
    for variables in setup.interpolated:
        for value in variables.values():
            yield from _check_value(value)
    for pod in setup.containers:
        if pod.platform is Platform.KUBERNETES:
            yield from _check_order(pod)
    for broker in setup.brokers:
        container = broker.container
        if container and container.platform is Platform.KUBERNETES and broker.family is not ImageFamily.OTHER:
            yield from _check_shell(container)


def _check_order(container: Container) -> Iterator[LintDiagnostic]:
    """Report the variables that name a later one, which Kubernetes does not replace."""
    later = dict.fromkeys(container.environment)
    for word, value in container.environment.items():
        for name in _REFERENCE.findall(value.raw[:_LONGEST]):
            if name in later and name != word and f"${{{name}}}" in value.text:
                text = f"{word} has $({name}), and {name} is defined after it"
                line = f"{name} above {word} in env"
                yield finding("variable-order", value, container, text, None, line)
        del later[word]


def _check_shell(container: Container) -> Iterator[LintDiagnostic]:
    """Report the variables of a broker that name another one as a shell does, which Kubernetes does not replace."""
    for word, value in container.environment.items():
        if not word.startswith("KAFKA_") or len(value.raw) > _LONGEST or "{{" in value.raw:
            continue
        # A password may have such characters: in it, only the name of another variable is one.
        is_sure = not _SECRET.search(word)
        written = [
            match
            for match in _SHELL.finditer(value.raw)
            if (match[1] or match[2]) in container.environment or (is_sure and match[1])
        ]
        if written:
            text = f"{word} has {written[0][0]}, which Kubernetes leaves as it is"
            edits = [
                Edit(value.source.name, value.start + at.start(), value.start + at.end(), f"$({at[1] or at[2]})")
                for at in written
            ]
            yield finding("kubernetes-dollar", value, container, text, edits)


def _check_value(value: ConfigValue) -> Iterator[LintDiagnostic]:
    if "$" not in value.raw or len(value.raw) > _LONGEST:
        return
    for match in _VARIABLE.finditer(value.raw):
        name = match["name"]
        if f"${{{name}}}" not in value.text:
            continue  # it has a value, or the quotes keep it
        is_literal = name == _CONNECTION_STRING
        # A variable that is a whole word is meant as one: the shell may have its value.
        if not is_literal and not (_SECRET.search(value.key) and re.match(r"\w", match["before"])):
            continue
        at = value.start + match.start("dollar")
        what = f"${name}" if is_literal else "$ and what follows it"  # perhaps a part of a password
        right = f"$${name}" if is_literal else "$$"
        text = f"Docker Compose takes {what} in {value.key} for a variable; {right} is the text itself"
        severity = None if is_literal else Severity.WARNING
        edits = [Edit(value.source.name, at, at, "$")]
        yield finding("compose-dollar", value, value.source, text, edits, severity=severity)
