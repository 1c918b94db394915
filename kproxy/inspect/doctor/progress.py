"""The steps of an examination, as they are printed while it runs: one line for what went well with one address."""

from __future__ import annotations

from collections import Counter, defaultdict

import click

from kproxy.base.format import wrap
from kproxy.base.printable import one_line
from kproxy.inspect.doctor import picture
from kproxy.inspect.doctor.evidence import ExaminationStep, StepVerdict

_WIDTH = 78
_LONGEST = 2000
# The column of a step's target.
_TARGET = 45
_COLOURS = {
    StepVerdict.OK: "green",
    StepVerdict.FAILED: "red",
    StepVerdict.NOTE: "yellow",
}
# At most this many similar steps are printed.
_ALIKE = 4
# The last step of a contact that went well.
_LAST = "metadata"


class StepProgress:
    """Prints the steps: what went well in one line for each address, and of many similar steps the first few.

    The same step with the same result, as of several listeners at one address, is printed once.

    `verbose`: each step has a line.
    """

    def __init__(self, verbose: bool = False) -> None:
        self._verbose = verbose
        self._alike: Counter[tuple[str, StepVerdict, str]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)  # of the steps of an address that have no line yet
        self._questions: list[ExaminationStep] = []  # that were answered, and have no line yet
        self._is_folded = False
        self._shown: set[tuple[str, str, StepVerdict, str]] = set()

    def show(self, step: ExaminationStep) -> None:
        """Print the step, unless it went well and others follow, or enough similar ones have been printed."""
        if self._verbose:
            click.echo(step_line(step))
            return
        if step.verdict is not StepVerdict.OK:
            self._show_questions()
            self._seconds.pop(step.address, None)
            self._show_few(step)
        elif not step.address:
            self._questions.append(step)
        elif step.kind == _LAST:
            self._show_questions()
            seconds = self._seconds.pop(step.address, 0.0) + step.seconds
            self._show_few(ExaminationStep("reached", step.target, step.verdict, seconds, step.text, step.address))
        else:
            self._is_folded = True
            self._seconds[step.address] += step.seconds

    def finish(self) -> None:
        """Print what has no line yet, and how many steps were left out."""
        self._show_questions()
        more = sum(max(0, count - _ALIKE) for count in self._alike.values())
        if more:
            click.echo(f"  …       {more} more like these")
        if more or self._is_folded:
            click.echo("          (-v shows each step)")

    def _show_questions(self) -> None:
        """Print the questions to a broker that it has answered, in one line."""
        questions, self._questions = self._questions, []
        if questions:
            kinds = ", ".join(dict.fromkeys(step.kind for step in questions))
            seconds = sum(step.seconds for step in questions)
            click.echo(step_line(ExaminationStep("asked", kinds, StepVerdict.OK, seconds, "")))

    def _show_few(self, step: ExaminationStep) -> None:
        # Several listeners may lead to one address, and several brokers may have one name.
        same = (step.kind, step.target, step.verdict, step.text)
        if same in self._shown:
            self._is_folded = True
            return
        self._shown.add(same)
        # What only differs by the host is similar.
        alike = (step.kind, step.verdict, step.text.replace(step.target.rpartition(":")[0] or step.target, ""))
        self._alike[alike] += 1
        if self._alike[alike] <= _ALIKE:
            click.echo(step_line(step))


def step_line(step: ExaminationStep) -> str:
    """Return one step as it is printed."""
    word = step.verdict.upper() if step.verdict is StepVerdict.FAILED else step.verdict
    mark = click.style(f"{word:<7}", fg=_COLOURS[step.verdict])
    head = f"  {mark} {step.kind:<11} {picture.cut(step.target, _TARGET):<{_TARGET}} {step.seconds * 1000:6.0f} ms"
    if not step.text:
        return head
    return "\n".join([head, *wrap(one_line(step.text, _LONGEST), _WIDTH, " " * 10)])
