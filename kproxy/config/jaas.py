"""One JAAS entry, as in `sasl.jaas.config` (`MODULE required key="value" …;`), read as Kafka does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# What Kafka's java.io.StreamTokenizer tells apart: comments, quoted text (which ends with its line), words, signs.
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | "(?P<double>(?:\\.|[^"\\\n\r])*)" | '(?P<single>(?:\\.|[^'\\\n\r])*)'
      | (?P<word>[\w.$+-]+) | (?P<sign>[=;])""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


@dataclass(frozen=True, slots=True, repr=False)
class LoginModule:
    """The class of a login module and its options, which may be secrets."""

    module: str
    options: Mapping[str, str]


def parse_entry(text: str) -> LoginModule:
    """Parse an entry.

    Raises ValueError with the reason, which repeats no part of the text.
    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1][1].lower() not in _FLAGS or tokens[-1] != ("sign", ";"):
        raise ValueError('is not a JAAS entry; allowed: MODULE required KEY="VALUE" …;')
    options, rest = {}, tokens[2:-1]
    while rest:
        if len(rest) < 3 or rest[0][0] == "sign" or rest[1] != ("sign", "=") or rest[2][0] == "sign":
            raise ValueError('has an option that is not KEY="VALUE" (several entries are not allowed either)')
        options[rest[0][1]] = rest[2][1]
        del rest[:3]
    return LoginModule(tokens[0][1], options)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(
                "has an unclosed quote, or a character that JAAS does not allow outside quotes; quote the values"
            )
        kind = match.lastgroup
        if kind in ("double", "single"):
            tokens.append(("text", _ESCAPE.sub(_unescape, match[kind])))
        elif kind is not None:
            tokens.append((kind, match[kind]))
        at = match.end()
    return tokens


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code.isdigit() and code[0] < "8" else _ESCAPED.get(code, code)
