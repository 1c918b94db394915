"""JAAS entries: the login module of a `sasl.jaas.config` and its options, and files with sections of entries (pure).

`sasl.jaas.config` is read as Kafka does (`org.apache.kafka.common.security.JaasConfig`), a file as Java does
(`sun.security.provider.ConfigFile`). Options may be secrets: no error repeats a part of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

# The login modules, by the end of their classes' names, since some are shaded.
MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "Krb5LoginModule": ("GSSAPI",),
    "IAMLoginModule": ("AWS_MSK_IAM",),
}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_SHAPE = 'MODULE required KEY="VALUE" …;'


class JaasMistake(Enum):
    """The kinds of mistakes in an entry; the values say what is wrong."""

    EMPTY = "has no login module"
    BLOCK = "is a whole section with its braces, and not one login module"
    QUOTED = "stands in quotes as a whole"
    SEVERAL = "has more than one login module"
    FLAG = "has no control flag (required) after the login module"
    OPTION = 'has an option that is not KEY="VALUE"'
    OPEN_QUOTE = "has a quote that is not closed on its line"
    BARE = "has a character that JAAS does not allow outside quotes; quote the values"
    SEMICOLON = "does not end with a semicolon"
    EARLY_SEMICOLON = "has options after a semicolon, which ends the login module"
    SECTION = "is not NAME { MODULE required …; };"
    SECTION_END = "has a section without a semicolon after its closing brace"


class JaasError(ValueError):
    """A text that is not a JAAS entry, or a file that has none. `str()` repeats no part of it."""

    def __init__(self, mistake: JaasMistake, index: int) -> None:
        super().__init__(f"is not a JAAS entry: it {mistake.value}; allowed: {_SHAPE}")
        self.mistake = mistake
        self.index = index
        """The index of the character at which the mistake shows."""


@dataclass(frozen=True, slots=True, repr=False)
class JaasEntry:
    """A login module with its options, which may be secrets."""

    module: str
    options: dict[str, str]
    section: str = ""
    """The section of the file, such as `KafkaServer`; empty without a file."""
    index: int = 0

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that this module is for; none if kproxy does not know the module."""
        return MODULES.get(self.module.rpartition(".")[2], ())


@dataclass(frozen=True, slots=True, repr=False)
class _Token:
    kind: str
    """`text` in quotes, a `word`, or a `sign`."""
    text: str
    index: int
    end: int


# The tokens of java.io.StreamTokenizer: comments, quoted text (which ends with its line), words, signs.
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | "(?P<double>(?:\\.|[^"\\\n\r])*)" | '(?P<single>(?:\\.|[^'\\\n\r])*)'
      | (?P<word>[\w.$+-]+) | (?P<sign>[=;{}])""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def parse_entry(text: str) -> JaasEntry:
    """Return the only entry of a `sasl.jaas.config`. Raises JaasError."""
    tokens = _tokens(text)
    if not tokens:
        raise JaasError(JaasMistake.EMPTY, 0)
    if _is_sign(tokens, 1, "{"):
        raise JaasError(JaasMistake.BLOCK, tokens[1].index)
    if tokens[0].kind == "text" and len(tokens) <= 2:
        raise JaasError(JaasMistake.QUOTED, 0)
    entry, end = _entry(tokens, 0)
    if end < len(tokens):
        is_option = _is_sign(tokens, end + 1, "=")
        mistake = JaasMistake.EARLY_SEMICOLON if is_option else JaasMistake.SEVERAL
        raise JaasError(mistake, tokens[end - 1 if is_option else end].index)
    return entry


def parse_file(text: str) -> list[JaasEntry]:
    """Return the entries of all sections of a JAAS file. Raises JaasError."""
    tokens, entries, at = _tokens(text), [], 0
    if not tokens:
        raise JaasError(JaasMistake.EMPTY, 0)
    while at < len(tokens):
        name = tokens[at]
        if name.kind == "sign" or not _is_sign(tokens, at + 1, "{"):
            raise JaasError(JaasMistake.SECTION, name.index)
        at += 2
        while at < len(tokens) and not _is_sign(tokens, at, "}"):
            entry, at = _entry(tokens, at, name.text)
            entries.append(entry)
        if at >= len(tokens):
            raise JaasError(JaasMistake.SECTION, tokens[-1].end)
        if not _is_sign(tokens, at + 1, ";"):
            raise JaasError(JaasMistake.SECTION_END, tokens[at].end)
        at += 2
    return entries


def _entry(tokens: list[_Token], at: int, section: str = "") -> tuple[JaasEntry, int]:
    """Return the entry that begins at a token, and the number of the token after it."""
    module = tokens[at]
    if module.kind == "sign":
        raise JaasError(JaasMistake.EMPTY, module.index)
    if at and _is_sign(tokens, at - 1, ";") and _is_sign(tokens, at + 1, "="):
        raise JaasError(JaasMistake.EARLY_SEMICOLON, tokens[at - 1].index)
    if not _is_flag(tokens, at + 1):
        raise JaasError(JaasMistake.FLAG, module.end)
    options: dict[str, str] = {}
    at += 2
    while at < len(tokens) and not _is_sign(tokens, at, ";"):
        key, *more = tokens[at : at + 3]
        # The end of the section, or another login module.
        if _is_sign(tokens, at, "}") or _is_flag(tokens, at + 1):
            raise JaasError(JaasMistake.SEMICOLON, tokens[at - 1].end)
        if key.kind == "sign" or len(more) < 2 or not _is_sign(more, 0, "=") or more[1].kind == "sign":
            raise JaasError(JaasMistake.OPTION, key.index)
        options[key.text] = more[1].text
        at += 3
    if at >= len(tokens):
        raise JaasError(JaasMistake.SEMICOLON, tokens[-1].end)
    return JaasEntry(module.text, options, section, module.index), at + 1


def _is_flag(tokens: list[_Token], at: int) -> bool:
    return at < len(tokens) and tokens[at].kind == "word" and tokens[at].text.lower() in _FLAGS


def _is_sign(tokens: list[_Token], at: int, sign: str) -> bool:
    return at < len(tokens) and tokens[at].kind == "sign" and tokens[at].text == sign


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise JaasError(JaasMistake.OPEN_QUOTE if text[at] in "\"'" else JaasMistake.BARE, at)
        kind = match.lastgroup
        if kind in ("double", "single"):
            tokens.append(_Token("text", _ESCAPE.sub(_unescape, match[kind]), at, match.end()))
        elif kind is not None:
            tokens.append(_Token(kind, match[kind], at, match.end()))
        at = match.end()
    return tokens


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code.isdigit() and code[0] < "8" else _ESCAPED.get(code, code)
