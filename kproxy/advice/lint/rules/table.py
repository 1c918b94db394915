"""The registry of rules: id, severity, reason, example, and the fault in the table of remedies (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.rules import brokertable, clienttable
from kproxy.advice.lint.source import Edit, SourceLocation
from kproxy.advice.lint.value import ConfigValue
from kproxy.base.diagnostic import Severity
from kproxy.base.faults import Fault


@dataclass(frozen=True, slots=True)
class LintRule:
    """One kind of mistake."""

    id: str
    severity: Severity
    fault: Fault
    why: str
    """One or two sentences for the user."""
    wrong: tuple[str, ...]
    """The lines of an example with the mistake."""
    right: tuple[str, ...]
    """The same example without it."""
    source: str = ""
    """The address of the document that says so, where it is not Kafka's own."""


def _read_rules(text: str) -> Iterator[LintRule]:
    """Yield the rules of a table.

    Each begins with a line `ID SEVERITY FAULT`. The reason follows, then the lines of an example that is wrong (`-`)
    and right (`+`), and the source (`=`).
    """
    for rule in re.split(r"\n(?=[a-z])", re.sub(r"(?m)^#.*\n|\n(?=\n)", "", text).strip()):
        head, *lines = rule.split("\n")
        id_, severity, fault = head.split()
        of = {sign: tuple(line[6:] for line in lines if line[4:6] == f"{sign} ") for sign in "-+="}
        why = " ".join(line.strip() for line in lines if line[4:6] not in ("- ", "+ ", "= "))
        yield LintRule(id_, Severity(severity), Fault[fault], why, of["-"], of["+"], "".join(of["="]))


RULES: Mapping[str, LintRule] = {
    rule.id: rule for text in (brokertable.TABLE, clienttable.TABLE) for rule in _read_rules(text)
}


class Named(Protocol):
    """The owner of a mistake: a broker, a client, a cluster or a file."""

    @property
    def name(self) -> str: ...


def finding(
    rule: str,
    location: ConfigValue | SourceLocation,
    owner: Named,
    text: str,
    edits: Sequence[Edit] | None = None,
    fix: str | Iterable[str] = (),
    *,
    severity: Severity | None = None,
    fault: Fault | None = None,
    why: str = "",
) -> LintDiagnostic:
    """Create a finding of a rule. `fix` has lines that a person must complete; edits replace them."""
    lint_rule = RULES[rule]
    lines = [fix] if isinstance(fix, str) else list(fix)
    return LintDiagnostic(
        rule=rule,
        severity=severity or lint_rule.severity,
        location=location.location if isinstance(location, ConfigValue) else location,
        subject=owner.name,
        text=text,
        why=why or lint_rule.why,
        edits=tuple(edits or ()),
        fix=() if edits else tuple(part for line in lines for part in line.split("\n") if part),
        fault=fault or lint_rule.fault,
    )


def combine(*groups: Sequence[Edit] | None) -> list[Edit] | None:
    """Return all edits of the groups, or None if one group cannot be written."""
    edits: list[Edit] = []
    for group in groups:
        if group is None:
            return None
        edits += group
    return edits
