"""Variables in a Compose file, replaced as Docker Compose does it (`${VAR:-default}`), and files of variables.

A variable without a known value stays in the text as `${VAR}`, so that readers of the text see that it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kproxy.advice.lint.source import SourceFile
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle

_DEEPEST = 8
_NAME = re.compile(r"[A-Za-z_]\w*")
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][\w.]*)\s*[=:](.*)")


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """Replace each variable in the text."""
    return _interpolate(text, variables, 0)


def _interpolate(text: str, variables: Mapping[str, str], depth: int) -> str:
    if "$" not in text or depth > _DEEPEST:
        return text
    parts, at = [], 0
    while (sign := text.find("$", at)) >= 0:
        parts.append(text[at:sign])
        if text.startswith("$$", sign):
            parts.append("$")
            at = sign + 2
        elif text.startswith("${", sign):
            end = _closing_brace(text, sign + 2)
            parts.append(_replace_braced(text[sign + 2 : end], variables, depth))
            at = end + 1
        elif match := _NAME.match(text, sign + 1):
            parts.append(variables.get(match[0], f"${{{match[0]}}}"))
            at = match.end()
        else:
            parts.append("$")
            at = sign + 1
    return "".join([*parts, text[at:]])


def _closing_brace(text: str, at: int) -> int:
    """Return the index of the closing brace; the end of the text if there is none."""
    open_ = 1
    for index in range(at, len(text)):
        if text.startswith("${", index):
            open_ += 1
        elif text[index] == "}":
            open_ -= 1
            if not open_:
                return index
    return len(text)


def _replace_braced(inside: str, variables: Mapping[str, str], depth: int) -> str:
    match = _NAME.match(inside)
    if match is None:
        return "${?}"
    name, rest_of_text = match[0], inside[match.end() :]
    unknown = f"${{{name}}}"
    value = variables.get(name)
    if not rest_of_text:
        return unknown if value is None else value
    operator = rest_of_text[:2] if rest_of_text[:2] in (":-", ":?", ":+") else rest_of_text[:1]
    other = rest_of_text[len(operator) :]
    present = bool(value) if operator.startswith(":") else value is not None
    if operator in (":-", "-"):
        return value if present and value is not None else _interpolate(other, variables, depth + 1)
    if operator in (":+", "+"):
        # Without a value here, the shell may still have one.
        return _interpolate(other, variables, depth + 1) if present else unknown
    return value if present and value is not None else unknown


def parse_env(text: str) -> dict[str, str]:
    """Return the variables of a `.env` file."""
    return {key: value.text for key, value in env_values(SourceFile("", text)).items()}


def env_values(source: SourceFile) -> dict[str, ConfigValue]:
    """Return the variables of a file, with their locations."""
    variables: dict[str, str] = {}
    values: dict[str, ConfigValue] = {}
    at = 0
    for line in source.text.splitlines(keepends=True):
        match = _LINE.fullmatch(line.rstrip("\r\n"))
        if match is not None and not line.lstrip().startswith("#"):
            written = match[2].strip()
            start = at + match.start(2) + len(match[2]) - len(match[2].lstrip())
            quote = written[:1] if len(written) >= 2 and written[0] in "'\"" else ""
            if quote and (close := written.find(quote, 1)) > 0:
                start, raw = start + 1, written[1:close]
            else:
                quote, raw = "", re.split(r"\s#", written)[0].strip()
            text = raw if quote == "'" else interpolate(raw, variables)
            variables[match[1]] = text
            where = (source, start, start + len(raw), ValueStyle.VARIABLE, LineLayout.PROPERTY)
            values[match[1]] = ConfigValue(text, *where, match[1], at + match.start(1), at + match.end(1))
        at += len(line)
    return values
