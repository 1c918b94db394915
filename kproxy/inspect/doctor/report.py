"""The report of an examination for people, and the same as JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from kproxy.advice.remedies import remedy_of
from kproxy.advice.remedies.remedy import Program, Remedy
from kproxy.base.diagnostic import headline, to_json
from kproxy.base.faults import Fault
from kproxy.base.format import abbreviate, format_count, wrap
from kproxy.base.printable import escaped, one_line
from kproxy.config.commandline import shell
from kproxy.inspect.doctor import direct_access, picture
from kproxy.inspect.doctor.command_trials import TrialOutcome, TrialResult
from kproxy.inspect.doctor.evidence import Contact, Examination, ExaminationStep, StepVerdict
from kproxy.inspect.doctor.findings import DoctorDiagnostic
from kproxy.net.tls.handshakes import ANY_NAME

_WIDTH = 78
_COLOURS = {
    StepVerdict.OK: "green",
    StepVerdict.FAILED: "red",
    StepVerdict.NOTE: "yellow",
}
_LONGEST = 2000
# The column of a step's target.
_TARGET = 45
_ANY_NAME = (
    "* accepts any name: a server with any certificate of the same CA can then pass for a broker. Use it only with a CA"
    " for your brokers alone (--tls-ca), or let the certificates have a name in common."
)
# At most this many similar steps are printed.
_ALIKE = 4
_PROGRAMS = (Program.JAVA, Program.LIBRDKAFKA, Program.KAFKA_PYTHON, Program.SPARK)
# What is shown of each program.
_MOST = 2
# Where a message has the address that failed; what varies elsewhere is not known beforehand.
_BEFORE_ADDRESS = re.compile(r"(resolve '|[Nn]ode |lookup failed for |Connect to )…")


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The report of one cluster."""

    name: str
    examination: Examination
    findings: tuple[DoctorDiagnostic, ...]
    trial: TrialOutcome | None
    """None if kproxy did not search a command line."""
    steps: tuple[ExaminationStep, ...]
    second_examination: Examination | None = None
    """The results with the right TLS, if the first examination had the wrong one."""

    @property
    def problems(self) -> tuple[DoctorDiagnostic, ...]:
        return tuple(finding for finding in self.findings if finding.is_error)

    @property
    def healthy(self) -> bool:
        """True if a client on this machine can use the cluster, as far as was checked."""
        return not self.problems and self.examination.answering is not None


class StepProgress:
    """Prints the steps while the examination runs: of many similar steps, the first few."""

    def __init__(self) -> None:
        self._alike: Counter[tuple[str, StepVerdict, str]] = Counter()

    def show(self, step: ExaminationStep) -> None:
        """Print the step, unless enough similar ones have been printed."""
        alike = (step.kind, step.verdict, step.text.replace(step.target.rpartition(":")[0] or step.target, ""))
        self._alike[alike] += 1
        if self._alike[alike] <= _ALIKE:
            click.echo(step_line(step))

    def finish(self) -> None:
        """Print how many steps were left out."""
        more = sum(max(0, count - _ALIKE) for count in self._alike.values())
        if more:
            click.echo(f"  …       {more} more steps like these (--json has all)")


def step_line(step: ExaminationStep) -> str:
    """Return one step as it is printed."""
    word = step.verdict.upper() if step.verdict is StepVerdict.FAILED else step.verdict
    mark = click.style(f"{word:<7}", fg=_COLOURS[step.verdict])
    head = f"  {mark} {step.kind:<11} {picture.cut(step.target, _TARGET):<32} {step.seconds * 1000:6.0f} ms"
    return head if not step.text else f"{head}\n{_wrapped(step.text, ' ' * 10)}"


def text(report: DoctorReport, *, fancy: bool) -> Iterator[str]:
    """Return the report, without the steps."""
    examination = report.examination
    yield ""
    yield from picture.text(examination, fancy=fancy)
    if report.second_examination is not None:
        yield ""
        yield _wrapped(_second_examination_text(report), "", "")
        yield from picture.text(report.second_examination, fancy=fancy)
    notes = [finding for finding in report.findings if not finding.is_error]
    if report.problems:
        yield from _section("Why")
        for number, finding in enumerate(report.problems, 1):
            yield _wrapped(_headline(finding), "   ", f"{number}. ")
            if finding.line:
                yield _wrapped(f"The line that is wrong ({finding.responsible.value}):", "   ")
                yield f"     {escaped(finding.line)}"
            else:
                yield _wrapped(f"Where to fix it: {finding.responsible.value}.", "   ")
        yield from _section("What your client will say")
        yield from _messages(report.problems)
        yield from _working_line(report)
        yield from _permanent_fixes(report.problems)
    elif examination.answering is not None:
        yield from _section("Nothing is wrong")
        yield _wrapped(_healthy_text(examination), "   ")
        if report.trial is not None:
            yield from _working_line(report)
    if notes:
        yield from _section("Worth knowing")
        for finding in notes:
            yield _wrapped(_headline(finding), "   ", " - ")
    not_checked = _not_checked(report)
    if not_checked:
        yield from _section("Not checked")
        for line in not_checked:
            yield _wrapped(line, "   ", " - ")
    yield ""


def _headline(finding: DoctorDiagnostic) -> str:
    return headline(replace(finding, subject=""))  # the text begins with it


def _not_checked(report: DoctorReport) -> list[str]:
    last = report.second_examination or report.examination
    right = [contact for contact in last.nodes if contact.is_right]
    assumed = [contact for contact in right if contact.identity is None or contact.identity.key is None]
    if not assumed:
        return list(last.not_checked)
    addresses = abbreviate([contact.advertised or contact.address for contact in assumed], _ALIKE)
    text = f"whether the right broker of the cluster answers at {addresses}: this user may not see that"
    return [*last.not_checked, f"{text} (DescribeConfigs on the cluster, or Describe on a topic)"]


def _healthy_text(examination: Examination) -> str:
    brokers = format_count(len(examination.nodes), "broker")
    if examination.neighbour is not None:
        neighbour = examination.neighbour
        words = ["kproxy", "doctor", *neighbour.bootstrap_servers, *(f"--via={hop}" for hop in neighbour.via)]
        return (
            f"A client on this machine reaches {brokers} through the kproxy that runs here already: all these addresses"
            f" are its own, as its admin endpoint at {neighbour.admin} says. Behind it, nothing was checked:"
            f" {shell(words)}"
        )
    means = direct_access.option_names(examination)
    if examination.kproxy_options and direct_access.is_reached(examination) is None:
        return (
            f"With {means}, kproxy reaches {brokers}. A client on this machine connects without that. Its addresses"
            " accept connections; whether the same brokers answer there, only a login would tell, and kproxy does not"
            " log in there. If they do not, the client needs kproxy:"
        )
    without = f", also without {means}" if means else ""
    return (
        f"A client on this machine reaches {brokers} at the addresses that the cluster advertises{without}. It needs no"
        " kproxy. If your client fails all the same, run this command where the client runs, with the client's own"
        " configuration (--client-config FILE), and with --topic and --group."
    )


def _section(title: str) -> Iterator[str]:
    yield ""
    yield click.style(title, bold=True)


def _messages(problems: Sequence[DoctorDiagnostic]) -> Iterator[str]:
    """Yield the messages of the usual clients for the first problem."""
    if problems[0].fault is Fault.HOP_FAILED:
        yield _wrapped("A client of kproxy is disconnected. kproxy's own message is above.", "   ")
        return
    remedy = _symptom_of(problems[0])
    if remedy.behaviour:
        yield _wrapped(remedy.behaviour, "   ")
        return
    for program, message in sorted(client_messages(problems[0]), key=lambda pair: pair[0]):
        yield _wrapped(message, " " * 16, f"   {program:<12} ")


def _symptom_of(finding: DoctorDiagnostic) -> Remedy:
    """Return the remedy whose messages clients print."""
    return remedy_of(Fault(finding.symptom or finding.fault))


def client_messages(finding: DoctorDiagnostic) -> Iterator[tuple[str, str]]:
    """Yield messages of the usual clients with their programs, the most telling first. `…` becomes the address."""
    advertised = [candidate.partition(" at ")[2] for candidate in finding.subjects if " at " in candidate]
    address = next(iter(advertised or finding.subjects), "")
    counts = dict.fromkeys(_PROGRAMS, 0)
    candidates = _symptom_of(finding).messages
    # A client that has reached a bootstrap server does not complain of those.
    for message in sorted(candidates, key=lambda candidate: bool(advertised) and "bootstrap" in candidate.text.lower()):
        if counts.get(message.program, _MOST) < _MOST:
            counts[message.program] += 1
            yield message.program.value, _BEFORE_ADDRESS.sub(lambda match: match[1] + address, message.text, count=1)


def _working_line(report: DoctorReport) -> Iterator[str]:
    yield from _section("Works now")
    outcome = report.trial
    direct = next((problem.fix for problem in report.problems if problem.fault is Fault.WRONG_LISTENER), None)
    if direct is not None:
        yield _wrapped("without kproxy (tried: each broker answers at the address of this listener):", "   ")
        yield from (f"   {line}" for line in direct)
        if outcome is None or outcome.best is None or not outcome.best.works:
            return
        yield "   or with kproxy:"
    if outcome is None or outcome.best is None:
        yield _wrapped(_no_line(outcome), "   ")
        return
    tried = outcome.best
    result = f"tried: through it, a client reached {tried.reached} of {tried.nodes} brokers"
    yield _wrapped(f"{result}." if tried.works else f"{result}. {tried.problem}", "   ")
    yield f"   {tried.line}"
    if tried.line.has_masked:
        yield "   (replace *** by the password)"
    if tried.line.options.get("tls_server_name") == ANY_NAME:
        yield _wrapped(_ANY_NAME, "   ")
    if tried.listen is not None:
        use = f"In the client: bootstrap.servers={tried.listen}, security.protocol=PLAINTEXT, no credentials."
        yield _wrapped(use, "   ")
    if tried.unreachable:
        missing = " ".join(f"--map 'node:{key.label}=HOST:PORT'" for key in tried.unreachable)
        yield _wrapped(f"Not tried: other addresses for the others, which only you know: {missing}", "   ")


def _no_line(outcome: TrialOutcome | None) -> str:
    if outcome is None or outcome.why_none:
        return f"kproxy tried no line: {outcome.why_none if outcome else 'nothing is wrong'}."
    tried = f"kproxy tried {format_count(outcome.count, 'line')}, and reached no broker that way."
    return f"{tried} Fix the problems above, then run this command again."


def _second_examination_text(report: DoctorReport) -> str:
    """Return what the second examination has changed."""
    first, again = report.examination, report.second_examination
    assert again is not None
    change = "with another name for the certificate"
    if first.tls != again.tls:
        change = "with TLS" if again.tls else "without TLS"
    return f"So kproxy examined the cluster again {change}, as a client would that has fixed this:"


def _permanent_fixes(problems: Sequence[DoctorDiagnostic]) -> Iterator[str]:
    yield from _section("Fix for good")
    shown: dict[tuple[str, ...], int] = {}
    for number, finding in enumerate(problems, 1):
        yield _wrapped(finding.advice, "   ", f"{number}. ")
        before = shown.setdefault(finding.fix, number)
        if finding.fix and before != number:
            yield f"     # the lines are those of {before}"
            continue
        for line in finding.fix:  # a comment is read, all else is copied
            yield _wrapped(line, "     # ", "     ") if line.startswith("# ") else f"     {escaped(line)}"


def _wrapped(words: str, hang: str, first: str | None = None) -> str:
    return "\n".join(wrap(one_line(words, _LONGEST), _WIDTH, hang, first))


# JSON


def as_json(reports: Sequence[DoctorReport]) -> str:
    """Return all reports; for one cluster the object itself, for several a list of them."""
    values = [_value(report) for report in reports]
    return json.dumps(values[0] if len(values) == 1 else values, indent=2)


def _value(report: DoctorReport) -> dict[str, Any]:
    examination = report.second_examination or report.examination
    asked = examination.answering
    verdict = "healthy" if report.healthy else "problems" if report.problems else "unchecked"
    return {
        "name": report.name,
        "verdict": verdict,
        "asked": [str(contact.address) for contact in examination.bootstrap],
        "steps": [_step(step) for step in report.steps],
        "cluster": asked
        and asked.identity
        and {
            "id": asked.cluster_id,
            "controller": examination.contents and examination.contents.controller_id,
            "features": dict(asked.features),
        },
        "bootstrap": [_contact(contact) for contact in report.examination.bootstrap],
        "nodes": [_contact(contact) for contact in examination.nodes],
        "without_kproxy": [_contact(contact) for contact in examination.direct_contacts],
        "kproxy": examination.neighbour and asdict(examination.neighbour),
        "findings": [_finding(finding) for finding in report.findings],
        "works_now": _tried(report.trial.best) if report.trial and report.trial.best else None,
        "not_checked": _not_checked(report),
    }


def _step(step: ExaminationStep) -> dict[str, Any]:
    return asdict(step) | {"seconds": round(step.seconds, 4)}


def _contact(contact: Contact) -> dict[str, Any]:
    key = contact.expected or (contact.identity.key if contact.identity else None)
    certificate = contact.certificate
    return {
        "id": None if key is None else key.node_id,
        "kind": None if key is None else key.kind.value,
        "advertised": contact.advertised and str(contact.advertised),
        "dialled": str(contact.address),
        "resolved": contact.resolved,
        "verdict": "ok" if contact.is_right else "failed",
        "reason": contact.reason,
        "problem": contact.problem,
        "spoken": contact.protocol,
        "mechanisms": contact.mechanisms,
        "certificate": certificate
        and {
            "names": certificate.names,
            "issuer": certificate.issuer,
            "not_before": certificate.not_before.isoformat(),
            "not_after": certificate.not_after.isoformat(),
        },
        "proof": contact.identity.proof.value if contact.identity and contact.identity.proof else None,
        "steps": [_step(step) for step in contact.steps],
    }


def _finding(finding: DoctorDiagnostic) -> dict[str, Any]:
    symptom = _symptom_of(finding)
    messages = () if symptom.behaviour or finding.fault is Fault.HOP_FAILED else symptom.messages
    return to_json(
        finding,
        subjects=list(finding.subjects),
        symptom=finding.symptom,
        whose=finding.responsible.value,
        line=finding.line,
        advice=finding.advice,
        unsaid=symptom.behaviour,
        messages=[{"program": message.program.value, "text": message.text} for message in messages],
    )


def _tried(result: TrialResult) -> dict[str, Any]:
    return {
        "command": result.line.words(),
        "tried": True,
        "works": result.works,
        "reached": result.reached,
        "nodes": result.nodes,
        "bootstrap": None if result.listen is None else str(result.listen),
        "problem": result.problem,
    }
