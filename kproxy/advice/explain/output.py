"""The text of an explanation for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kproxy.advice.explain.causes import Cause, merge_by_message
from kproxy.advice.explain.explanation import Explanation, decoded_numbers, own_messages
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.explain.reasons import has_whole_advice, notes_of
from kproxy.advice.explain.sentences import fill_in, sentence
from kproxy.advice.explain.signs import signs_of
from kproxy.advice.remedies import remedy_of
from kproxy.base.diagnostic import headline
from kproxy.base.format import wrap
from kproxy.base.printable import escaped

_LABEL_WIDTH = 9
_MAX_MESSAGES = 6
_MAX_CAUSES = 8


def render(explanation: Explanation, width: int = 80) -> str:
    """Return the text, in lines of at most `width` where the words allow it."""
    if not explanation.causes:
        return "\n".join(_unknown_lines(explanation, width)) + "\n"
    log = explanation.lines > 1
    parts: list[str] = ["If this came from a Kafka client:", ""] if explanation.conditional else []
    causes = explanation.causes[:_MAX_CAUSES]
    for number, cause in enumerate(causes, 1):
        parts += _cause_lines(explanation, cause, f"{number}. " if len(causes) > 1 else "", log, width)
        parts.append("")
    if len(explanation.causes) > len(causes):
        parts += [f"{len(explanation.causes) - len(causes)} more causes: fix these first.", ""]
    if not explanation.is_elsewhere:
        parts += _command_lines(explanation, width)
    parts += _limit_lines(explanation)
    return "\n".join(escaped(line) for line in parts) + "\n"


def _cause_lines(explanation: Explanation, cause: Cause, number: str, log: bool, width: int) -> Iterator[str]:
    # The sentence below has the subject.
    yield from wrap(number + headline(replace(explanation.diagnostic(cause), subject="")), width)
    if cause.is_elsewhere:
        return
    if text := sentence(cause):
        yield from wrap(text, width, "  ")
    for value, meaning in decoded_numbers(cause).items():
        yield from wrap(f"{value} is not a size but {meaning}.", width, "  ")
    yield ""
    for label, texts in (("Here", notes_of(cause)), ("Sign", signs_of(cause))):
        for text in texts:
            yield from _labelled_lines(label, text, width)
            label = ""
    yield from _remedy_lines(explanation, cause, width)
    for code in dict.fromkeys(match.code for match in cause.matches):
        if code:
            again = "Clients try again." if code.retriable else "To try again does not help."
            yield from _labelled_lines("Code", f"{code.number} {code.name}. {code.text} {again}", width)
    yield from _message_lines("Message", cause.matches, log, width)
    yield from _message_lines("Follows", cause.consequences, log, width)
    if run := explanation.run_command(cause):
        yield from _labelled_lines("Now", run, width)


def _remedy_lines(explanation: Explanation, cause: Cause, width: int) -> Iterator[str]:
    messages = own_messages(cause)
    if len(cause.faults) > 1:
        for position, fault in enumerate(cause.faults, 1):
            yield from wrap(f"{position}) {remedy_of(fault).title}", width, "     ", "  ")
            yield from wrap(f"Check: {fill_in(remedy_of(fault).check, cause, explanation.server)}", width, "     ")
    elif messages:
        for message in messages:
            yield from _labelled_lines("Meaning", plain_text(message.meaning), width)
    elif cause.is_between_nodes or has_whole_advice(cause):
        return  # the remedies are for clients, and for all mistakes of that name
    elif cause.faults:
        remedy = remedy_of(cause.faults[0])
        yield from _labelled_lines("Why", remedy.cause, width)
        yield from _labelled_lines("Check", fill_in(remedy.check, cause, explanation.server), width)
        yield from _labelled_lines("Do", fill_in(remedy.fix, cause, explanation.server), width)


def _message_lines(label: str, matches: Iterable[MessageMatch], log: bool, width: int) -> Iterator[str]:
    shown = [match for match in merge_by_message(matches) if match.text]
    for match in shown[:_MAX_MESSAGES]:
        places = f"line {match.first}" if match.count == 1 else f"lines {match.first} to {match.last}"
        times = "" if match.count == 1 else f"{match.count} times, "
        program = f"{match.program.value}: " if match.program else ""
        yield from _labelled_lines(label, f"{program}{match.text}" + (f" ({times}{places})" if log else ""), width)
        label = ""
    if len(shown) > _MAX_MESSAGES:
        yield from _labelled_lines("", f"and {len(shown) - _MAX_MESSAGES} other messages", width)


def _command_lines(explanation: Explanation, width: int) -> Iterator[str]:
    yield from wrap("To look at the cluster itself:", width)
    yield f"  {explanation.doctor_command}"
    if explanation.server:
        text = f"{explanation.server} is assumed to be your bootstrap server (line {explanation.server_line})."
        yield from wrap(text, width, "  ")
    else:
        yield "  HOST:PORT stands for your bootstrap server: the text does not name it."


def _limit_lines(explanation: Explanation) -> Iterator[str]:
    if not explanation.complete:
        yield f"  Only the first {explanation.bytes_read} bytes were read."


def _unknown_lines(explanation: Explanation, width: int) -> Iterator[str]:
    text = "Not known: the text has no message of a Kafka client, of a broker or of kproxy that kproxy can explain."
    yield from wrap(text, width)
    yield from wrap("If it comes from a Kafka client, look at the cluster itself:", width)
    yield f"  {explanation.doctor_command}"
    yield from _limit_lines(explanation)


def plain_text(markdown: str) -> str:
    """Strip links and emphasis from Markdown; code keeps its backticks."""
    text = re.sub(r"\[([^\]]{1,200})\]\(([^)]{1,200})\)", r"\1", markdown)
    return re.sub(r"(?<!\*)\*([^*]{1,60})\*(?!\*)", r"\1", text)


def _labelled_lines(label: str, text: str, width: int) -> Iterator[str]:
    yield from wrap(text, width, " " * (_LABEL_WIDTH + 2), f"  {label:<{_LABEL_WIDTH}}")
