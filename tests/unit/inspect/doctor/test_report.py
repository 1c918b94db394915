"""The report that a person reads."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest

from kproxy.base.faults import Fault
from kproxy.config.commandline import CommandLine
from kproxy.inspect.doctor.findings import DoctorDiagnostic, Responsible, finding
from kproxy.inspect.doctor.report import DoctorReport, text
from tests.unit.inspect.doctor.examined import bad, examination


def lines(*findings: DoctorDiagnostic, line: CommandLine | None = None) -> list[str]:
    """The report of a cluster with these findings, for which no line was looked for."""
    found = examination(bad("kafka-1.example:9092", "resolve", 1))
    shown = "\n".join(text(DoctorReport("a", found, findings, None, (), line=line or CommandLine()), fancy=True))
    return click.unstyle(shown).splitlines()


@pytest.mark.parametrize("whose", Responsible)
@pytest.mark.parametrize("line", ["", "a=b"])
def test_it_fits_a_terminal(whose: Responsible, line: str) -> None:
    """Each party that can mend it is named within 80 columns."""
    shown = lines(finding(Fault.PORT_CLOSED, ("kafka-1.example:9092",), "It is so. " * 30, whose, line))
    assert [one for one in shown if len(one) > 80] == []
    assert whose.value in " ".join(" ".join(shown).split())


def test_lines_to_copy_are_whole_and_comments_fit() -> None:
    """The same lines for two causes are printed once, and those of the first cause last."""
    fix = ("# " + "a word " * 30, "listeners=" + "PLAINTEXT://kafka-1.example:9092," * 9)
    shown = lines(*[finding(fault, (), "It is so.", Responsible.BROKER, fix=fix)
                    for fault in (Fault.WRONG_NODE, Fault.SAME_ADDRESS_TWICE)])  # fmt: skip
    assert shown.count(f"     {fix[1]}") == 1
    assert shown.count("     # the lines are those of 1") == 1
    assert shown.index("     # the lines are those of 1") < shown.index("Fix for good") < shown.index(f"     {fix[1]}")
    comments = [one for one in shown if one.startswith("     # ") and "word" in one]
    assert len(comments) > 1
    assert max(map(len, comments)) <= 80


def test_a_fix_of_brokers_ends_with_a_look_from_the_client() -> None:
    fix = ("advertised.listeners=A://b:1", "bootstrap.servers=b:1,c:1")
    problem = finding(Fault.NAME_NOT_RESOLVED, ("k:1",), "It is so.", Responsible.BROKER, fix=fix)
    shown = lines(problem, line=CommandLine({"bootstrap_servers": ("k:1",), "tls": True}))
    at = shown.index("   Then look again, from where the client is:")
    assert shown[at + 1] == "     kproxy doctor -b b:1,c:1 --tls"
    shown = lines(replace(problem, fix=("KAFKA_CFG_ADVERTISED_LISTENERS=A://b:1",)), line=CommandLine())
    assert "     kproxy doctor" in shown


def test_a_login_that_is_needed_ends_with_a_look_with_it() -> None:
    """Only if kproxy knows what the login needs."""
    for mechanism, is_known in (("SCRAM-SHA-256", True), ("X", False)):
        fix = (f"sasl.mechanism={mechanism}",)
        problem = finding(Fault.LOGIN_NEEDED, ("k:1",), "It is so.", Responsible.CLIENT, fix=fix)
        shown = lines(problem, line=CommandLine({"bootstrap_servers": ("k:1",)}))
        assert (f"     kproxy doctor -b k:1 --sasl {mechanism} --sasl-username USER" in shown) is is_known


def test_what_matters_most_comes_last() -> None:
    shown = lines(finding(Fault.PORT_CLOSED, ("k:1",), "It is so.", Responsible.BROKER, fix=("a=b",)))
    sections = [one for one in shown if one and one[0].isupper()]
    assert sections == ["Why", "What your client will say", "Fix for good", "No command works yet", "Verdict"]
    assert shown[-1] == "   1 problem: nothing listens on the port [port-closed]."
