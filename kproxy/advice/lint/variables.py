"""Variables in a Compose file, replaced as Docker Compose does it (`${VAR:-default}`), and the `.env` beside it.

A variable without a known value stays in the text as `${VAR}`, so that readers of the text see that it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
    variables: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None or line.lstrip().startswith("#"):
            continue
        value = match[2].strip()
        if len(value) >= 2 and value[0] in "'\"" and value.find(value[0], 1) > 0:
            quote = value[0]
            value = value[1 : value.find(quote, 1)]
            variables[match[1]] = value if quote == "'" else interpolate(value, variables)
        else:
            variables[match[1]] = interpolate(re.split(r"\s#", value)[0].strip(), variables)
    return variables
