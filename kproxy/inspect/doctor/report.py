"""The report of an examination for people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import click

from kproxy.advice.remedies import remedy_of
from kproxy.advice.remedies.remedy import Program, Remedy
from kproxy.base.diagnostic import headline
from kproxy.base.faults import Fault
from kproxy.base.format import abbreviate, format_count, wrap
from kproxy.base.printable import one_line
from kproxy.config.commandline import CommandLine, shell
from kproxy.inspect.doctor import direct_access, intent_checks, picture
from kproxy.inspect.doctor.command_trials import TrialOutcome
from kproxy.inspect.doctor.copyable import command, copyable
from kproxy.inspect.doctor.evidence import Examination, ExaminationStep
from kproxy.inspect.doctor.findings import DoctorDiagnostic
from kproxy.net.tls.handshakes import ANY_NAME

_WIDTH = 78
_LONGEST = 2000
_ANY_NAME = (
    "* accepts any name: a server with any certificate of the same CA can then pass for a broker. Use it only with a CA"
    " for your brokers alone (--tls-ca), or let the certificates have a name in common."
)
_SERVERS = "bootstrap.servers="
_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# As a setting, or as a variable of a container.
_ADVERTISED = re.compile(r"(advertised\.listeners|KAFKA_(CFG_)?ADVERTISED_LISTENERS)=")
# At most this many addresses are named.
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
    line: CommandLine = field(default_factory=CommandLine)
    """The options with which the last examination was made."""

    @property
    def problems(self) -> tuple[DoctorDiagnostic, ...]:
        return tuple(finding for finding in self.findings if finding.is_error)

    @property
    def healthy(self) -> bool:
        """True if a client on this machine can use the cluster, as far as was checked."""
        return not self.problems and self.examination.answering is not None


def text(report: DoctorReport, *, fancy: bool) -> Iterator[str]:
    """Yield the report, without the steps. What a reader needs first comes last, where a terminal shows it."""
    examination = report.examination
    yield ""
    yield from picture.text(examination, fancy=fancy)
    if report.second_examination is not None:
        yield ""
        yield _wrapped(_second_examination_text(report), "", "")
        yield from picture.text(report.second_examination, fancy=fancy)
    if report.problems:
        yield from _section("Why")
        yield from _causes(report.problems)
        yield from _section("What your client will say")
        yield from _messages(report.problems)
    notes = [finding for finding in report.findings if not finding.is_error]
    if notes:
        yield from _section("Worth knowing")
        for finding in notes:
            yield _wrapped(_headline(finding), "   ", " - ")
    unchecked = not_checked(report)
    if unchecked:
        yield from _section("Not checked")
        for line in unchecked:
            yield _wrapped(line, "   ", " - ")
    if report.problems:
        yield from _section("Fix for good")
        yield from _fix(report.problems[0], "   ")
        yield from _look_again(report.problems[0], report.line)
    if report.problems or report.trial is not None:
        yield from _working_line(report)
    yield from _section("Verdict")
    yield from _verdict(report)


def _causes(problems: Sequence[DoctorDiagnostic]) -> Iterator[str]:
    """Yield each cause, and the fixes of all but the first, which follows further down."""
    shown = {problems[0].fix: 1}
    for number, finding in enumerate(problems, 1):
        yield _wrapped(_headline(finding), "   ", f"{number}. ")
        if finding.line:
            yield _wrapped(f"The line that is wrong ({finding.responsible.value}):", "   ")
            yield from copyable(finding.line, "     ")
        else:
            yield _wrapped(f"Where to fix it: {finding.responsible.value}.", "   ")
        if number == 1:
            continue
        before = shown.setdefault(finding.fix, number)
        yield from _fix(finding, "   ", of=before if finding.fix and before != number else None)


def _fix(finding: DoctorDiagnostic, indent: str, of: int | None = None) -> Iterator[str]:
    """Yield a fix. If it has the lines of problem `of`, these are not repeated."""
    yield _wrapped(finding.advice, indent)
    if of is not None:
        yield f"{indent}  # the lines are those of {of}"
        return
    for line in finding.fix:
        yield from copyable(line, f"{indent}  ")


def _look_again(finding: DoctorDiagnostic, line: CommandLine) -> Iterator[str]:
    """Yield the command that looks again after a fix that kproxy cannot try itself: of the brokers, or a login."""
    mechanism = next((each.partition("=")[2] for each in finding.fix if each.startswith("sasl.mechanism=")), "")
    if finding.fault is Fault.LOGIN_NEEDED and mechanism in _WITH_PASSWORD:
        yield _wrapped("Then look again, with the login (the password in KPROXY_SASL_PASSWORD):", "   ")
        yield from command(shell(line.with_options(sasl=mechanism, sasl_username="USER").words("doctor")), "     ")
        return
    if not any(_ADVERTISED.match(each) for each in finding.fix):
        return
    servers = [each.partition("=")[2] for each in finding.fix if each.startswith(_SERVERS)]
    if servers:
        line = line.with_options(bootstrap_servers=None).with_options(bootstrap_servers=(servers[-1],))
    yield _wrapped("Then look again, from where the client is:", "   ")
    yield from command(shell(line.words("doctor")), "     ")


def _verdict(report: DoctorReport) -> Iterator[str]:
    """Yield what is so, in a few words: the last lines of all."""
    problems = report.problems
    if problems:
        first = problems[0]
        head = "1 problem:" if len(problems) == 1 else f"{len(problems)} problems. First:"
        title = remedy_of(Fault(first.fault)).title
        yield _wrapped(f"{head} {title[0].lower() + title[1:]} [{first.fault}].", "   ", colour="red")
        return
    if report.examination.answering is None:
        yield _wrapped("Nothing could be checked.", "   ", colour="yellow")
        return
    yield _wrapped("Nothing is wrong, as far as this was checked.", "   ", colour="green")
    yield _wrapped(_healthy_text(report.examination), "   ")
    tried = list(intent_checks.tried(report.examination))
    if tried:
        yield _wrapped(f"Tried for your client: {'; '.join(tried)}.", "   ")


def _headline(finding: DoctorDiagnostic) -> str:
    return headline(replace(finding, subject=""))  # the text begins with it


def not_checked(report: DoctorReport) -> list[str]:
    """Return what was not checked, and why, in words."""
    last = report.second_examination or report.examination
    right = [contact for contact in last.nodes if contact.is_right]
    assumed = [contact for contact in right if contact.identity is None or contact.identity.key is None]
    unchecked = [*last.not_checked, *intent_checks.not_tried(last)]
    if last.kproxy_options and not last.direct_contacts:
        means = direct_access.option_names(last)
        unchecked.append(f"a client without {means}: nothing is known of it, as kproxy reached no broker with that")
    if not assumed:
        return unchecked
    addresses = abbreviate([contact.name for contact in assumed], _ALIKE)
    text = f"whether the right broker of the cluster answers at {addresses}: this user may not see that"
    return [*unchecked, f"{text} (DescribeConfigs on the cluster, or Describe on a topic)"]


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
            " log in there. If they do not, the client needs kproxy: the line above."
        )
    if examination.kproxy_options:
        return (
            f"With {means}, kproxy reaches {brokers}. Tried without that, too: the same brokers answer this machine at"
            " the addresses that the cluster advertises. What else a client meets there was not checked: for that,"
            f" leave out {means}."
        )
    return (
        f"A client on this machine reaches {brokers} at the addresses that the cluster advertises. It needs no kproxy."
        " If your client fails all the same, run this command where the client runs, with the client's own"
        " configuration (--client-config FILE), and with the --topic, --group or --acks that it uses."
    )


def _section(title: str) -> Iterator[str]:
    yield ""
    yield click.style(title, bold=True)


def _messages(problems: Sequence[DoctorDiagnostic]) -> Iterator[str]:
    """Yield the messages of the usual clients for the first problem."""
    if problems[0].fault is Fault.HOP_FAILED:
        yield _wrapped("A client of kproxy is disconnected. kproxy's own message is above.", "   ")
        return
    remedy = symptom_of(problems[0])
    if remedy.behaviour:
        yield _wrapped(remedy.behaviour, "   ")
        return
    for program, message in sorted(client_messages(problems[0]), key=lambda pair: pair[0]):
        yield _wrapped(message, " " * 16, f"   {program:<12} ")


def symptom_of(finding: DoctorDiagnostic) -> Remedy:
    """Return the remedy whose messages clients print."""
    return remedy_of(Fault(finding.symptom or finding.fault))


def client_messages(finding: DoctorDiagnostic) -> Iterator[tuple[str, str]]:
    """Yield messages of the usual clients with their programs, the most telling first. `…` becomes the address."""
    advertised = [candidate.partition(" at ")[2] for candidate in finding.subjects if " at " in candidate]
    address = next(iter(advertised or finding.subjects), "")
    counts = dict.fromkeys(_PROGRAMS, 0)
    candidates = symptom_of(finding).messages
    # A client that has reached a bootstrap server does not complain of those.
    for message in sorted(candidates, key=lambda candidate: bool(advertised) and "bootstrap" in candidate.text.lower()):
        if counts.get(message.program, _MOST) < _MOST:
            counts[message.program] += 1
            yield message.program.value, _BEFORE_ADDRESS.sub(lambda match: match[1] + address, message.text, count=1)


def _working_line(report: DoctorReport) -> Iterator[str]:
    outcome = report.trial
    yield from _section(_title(report))
    if any(problem.fault is Fault.WRONG_LISTENER for problem in report.problems):
        direct = next(problem for problem in report.problems if problem.fault is Fault.WRONG_LISTENER)
        yield _wrapped("without kproxy (tried: each broker answers at the address of this listener):", "   ")
        for line in direct.fix:
            yield from copyable(line, "     ")
        return
    if outcome is None or outcome.best is None:
        yield _wrapped(_no_line(outcome), "   ")
        return
    tried = outcome.best
    yield from command(str(tried.line), "   ")
    if tried.line.has_masked:
        yield "   (replace *** by the password)"
    result = f"Tried: through it, a client reached {tried.reached} of {tried.nodes} brokers"
    yield _wrapped(f"{result}." if tried.works else f"{result}. {tried.problem}", "   ")
    if tried.line.options.get("tls_server_name") == ANY_NAME:
        yield _wrapped(_ANY_NAME, "   ")
    if tried.listen is not None:
        use = f"In the client: bootstrap.servers={tried.listen}, security.protocol=PLAINTEXT, no credentials."
        yield _wrapped(use, "   ")
    if tried.unreachable:
        missing = " ".join(f"--map 'node:{key.label}=HOST:PORT'" for key in tried.unreachable)
        yield _wrapped(f"Not tried: other addresses for the others, which only you know: {missing}", "   ")


def _title(report: DoctorReport) -> str:
    """Return the heading above the command: it says that it works only of what was tried."""
    best = None if report.trial is None else report.trial.best
    if any(problem.fault is Fault.WRONG_LISTENER for problem in report.problems) or (best is not None and best.works):
        return "Works now"
    return "Works in part" if best is not None else "No command works yet"


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


def _wrapped(words: str, hang: str, first: str | None = None, colour: str | None = None) -> str:
    lines = wrap(one_line(words, _LONGEST), _WIDTH, hang, first)
    return "\n".join(lines if colour is None else [click.style(line, fg=colour) for line in lines])
