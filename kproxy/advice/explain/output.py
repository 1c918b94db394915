"""An explanation for a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from kproxy.advice.explain.causes import Cause, merge_by_message
from kproxy.advice.explain.explanation import Explanation, decoded_numbers, own_messages
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.explain.sentences import fill_in, sentence, title
from kproxy.advice.remedies import remedy_of
from kproxy.base.printable import escaped

_LABEL = 9
_MOST_FOLLOWS = 6
_MOST_CAUSES = 8


def render(explanation: Explanation, width: int = 80) -> str:
    """The text, in lines of at most `width` where words allow it."""
    if not explanation.causes:
        return "\n".join(_unknown(explanation, width)) + "\n"
    log = explanation.lines > 1
    parts: list[str] = []
    causes = explanation.causes[:_MOST_CAUSES]
    for number, cause in enumerate(causes, 1):
        parts += _cause(explanation, cause, f"{number}. " if len(causes) > 1 else "", log, width)
        parts.append("")
    if len(explanation.causes) > len(causes):
        parts += [f"{len(explanation.causes) - len(causes)} more causes: mend these first.", ""]
    parts += _commands(explanation, width)
    parts += _limit(explanation)
    return "\n".join(escaped(line) for line in parts) + "\n"


def _cause(explanation: Explanation, cause: Cause, number: str, log: bool, width: int) -> Iterator[str]:
    where = f" (line {cause.first})" if log else ""
    yield from textwrap.wrap(f"{number}{title(cause)}{where}", width)
    rows = own_messages(cause)
    if text := sentence(cause):
        yield from _wrapped(text, "  ", width)
    for value, meaning in decoded_numbers(cause).items():
        yield from _wrapped(f"{value} is not a size but {meaning}.", "  ", width)
    yield ""
    if len(cause.faults) > 1:
        for position, fault in enumerate(cause.faults, 1):
            yield from _wrapped(f"{position}) {remedy_of(fault).title}", "  ", width, 3)
            yield from _wrapped(f"Check: {fill_in(remedy_of(fault).check, cause, explanation.server)}", "     ", width)
    elif rows:
        for row in rows:
            yield from _labelled("Meaning", plain(row.meaning), width)
    elif cause.faults:
        remedy = remedy_of(cause.faults[0])
        yield from _labelled("Why", remedy.cause, width)
        yield from _labelled("Check", fill_in(remedy.check, cause, explanation.server), width)
        yield from _labelled("Do", fill_in(remedy.fix, cause, explanation.server), width)
    for code in dict.fromkeys(finding.code for finding in cause.matches):
        if code:
            again = "Clients try again." if code.retriable else "To try again does not help."
            yield from _labelled("Code", f"{code.number} {code.name}. {code.text} {again}", width)
    yield from _messages("Said", cause.matches, log, width)
    yield from _messages("Follows", cause.consequences, log, width)
    if run := explanation.run_command(cause):
        yield from _labelled("Now", run, width)


def _messages(label: str, findings: Iterable[MessageMatch], log: bool, width: int) -> Iterator[str]:
    all_of_them = [one for one in merge_by_message(findings) if one.text]
    for finding in all_of_them[:_MOST_FOLLOWS]:
        places = f"line {finding.first}" if finding.count == 1 else f"lines {finding.first} to {finding.last}"
        times = "" if finding.count == 1 else f"{finding.count} times, "
        program = f"{finding.program.value}: " if finding.program else ""
        yield from _labelled(label, f"{program}{finding.text}" + (f" ({times}{places})" if log else ""), width)
        label = ""
    if len(all_of_them) > _MOST_FOLLOWS:
        yield from _labelled("", f"and {len(all_of_them) - _MOST_FOLLOWS} other messages", width)


def _commands(explanation: Explanation, width: int) -> Iterator[str]:
    yield from _wrapped("To look at the cluster itself:", "", width)
    yield f"  {explanation.doctor_command}"
    if explanation.server:
        yield from _wrapped(
            f"{explanation.server} is assumed to be your bootstrap server (line {explanation.server_line}).",
            "  ",
            width,
        )
    else:
        yield "  HOST:PORT stands for your bootstrap server: the text does not name it."


def _limit(explanation: Explanation) -> Iterator[str]:
    if not explanation.complete:
        yield f"  Only the first {explanation.bytes_read} bytes were read."


def _unknown(explanation: Explanation, width: int) -> Iterator[str]:
    yield from _wrapped(
        "Not known: the text has no message of a Kafka client, of a broker or of kproxy that kproxy can explain.",
        "",
        width,
    )
    yield from _wrapped("If it comes from a Kafka client, look at the cluster itself:", "", width)
    yield f"  {explanation.doctor_command}"
    yield from _limit(explanation)


def plain(markdown: str) -> str:
    """Markdown without its links and emphasis; code keeps its backticks."""
    text = re.sub(r"\[([^\]]{1,200})\]\(([^)]{1,200})\)", r"\1", markdown)
    return re.sub(r"(?<!\*)\*([^*]{1,60})\*(?!\*)", r"\1", text)


def _labelled(label: str, text: str, width: int) -> Iterator[str]:
    indent = " " * (_LABEL + 2)
    lines = _wrapped(text, indent, width)
    for position, line in enumerate(lines):
        yield f"  {label:<{_LABEL}}{line[len(indent) :]}" if position == 0 else line


def _wrapped(text: str, indent: str, width: int, hanging: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
