"""The value of `--client-tls-principal-rules`: Kafka's `ssl.principal.mapping.rules`, as `SslPrincipalMapper` reads it.

Rules are separated by commas: DEFAULT, or RULE:PATTERN/REPLACEMENT/ with L or U at its end for lower or upper case. A
pattern is one of Java's. Here it may have only what Java and RE2, with which kproxy matches it, understand in the same
way: characters, `.`, `^`, `$`, classes, `\\d \\s \\w` and their opposites, groups, `|`, and quantifiers. RE2 takes time
that grows with the length of the name alone, whatever a certificate's subject is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kproxy.config.values import quote

ALLOWED = "DEFAULT, RULE:PATTERN/REPLACEMENT/, RULE:PATTERN/REPLACEMENT/L (or U), or several with commas between"
# As Kafka writes them.
_RULE = r"(DEFAULT)|RULE:((\\.|[^\\/])*)\/((\\.|[^\\/])*)\/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)", re.ASCII)
_PARSER = re.compile(_RULE)
_BACK_REFERENCE = re.compile(r"\$([0-9]+)")

_LONGEST = 4096
_ESCAPED = r"\\(?:[!-/:-@\[-^`{-~ ]|[dDsSwW])"
_TOKEN = re.compile(
    rf"(?P<group>\((?:\?:)?)|{_ESCAPED}|[).^$|]|\[\^?(?:{_ESCAPED}|[^\[\]\\&])+\]|[^\\\[\](){{}}*+?|^$.]"
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})\??(?![*+?{])")
_MATCHED = r"characters, . ^ $ | ( ) (?: ), classes, \d \s \w \D \S \W, * + ? {N,M} and these with ? behind"


@dataclass(frozen=True, slots=True)
class PrincipalRule:
    """One rule: a name that matches `pattern` as a whole becomes `replacement`.

    In `replacement`, a number is that of a group. `case` is "L", "U" or "". A `pattern` of None is DEFAULT, the name
    itself.
    """

    pattern: str | None
    replacement: tuple[str | int, ...] = ()
    case: str = ""


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """Rules in their order: the first that matches decides."""

    text: str
    rules: tuple[PrincipalRule, ...]

    @classmethod
    def parse(cls, text: str) -> PrincipalRules:
        """Read rules. Raises ValueError with the mistake and what is allowed."""
        text = text.strip()
        if len(text) > _LONGEST:
            raise ValueError(f"the rules have {len(text)} characters; allowed: at most {_LONGEST}")
        rules = tuple(_rule(match[1]) for match in _SPLITTER.finditer(text) if match[1])
        if not rules:
            raise ValueError(f"{quote(text)} has no rule; allowed: {ALLOWED}")
        return cls(text, rules)

    @property
    def has_patterns(self) -> bool:
        """True if there is another rule than DEFAULT."""
        return any(rule.pattern is not None for rule in self.rules)

    def __str__(self) -> str:
        return self.text


def _rule(text: str) -> PrincipalRule:
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        raise ValueError(f"{quote(text)} is no rule; allowed: {ALLOWED}")
    if match[1] is not None:
        return PrincipalRule(None)
    pattern, replacement = match[2], match[4]
    groups = _count_groups(pattern)
    return PrincipalRule(pattern, _replacement(_with_literals(replacement, groups), groups), match[6])


@dataclass(slots=True)
class _Group:
    """A group that is being read, or an element of a pattern. `may_be_empty`: it can match nothing, so far.

    `captures`: it is, or has, a group with a number.
    """

    captures: bool
    may_be_empty: bool
    has_empty_alternative: bool = False


def _count_groups(pattern: str) -> int:
    """Return how many groups with a number a pattern has. Raises ValueError for a construct that is not allowed."""
    at = groups = 0
    outer = [_Group(captures=False, may_be_empty=True)]
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise _not_matched(pattern, at, f"allowed: {_MATCHED}")
        element = _Group(captures=False, may_be_empty=token[0] in ("^", "$"))
        if token["group"]:
            groups += token["group"] == "("
            outer.append(_Group(captures=token["group"] == "(", may_be_empty=True))
        elif token[0] == "|":
            outer[-1].has_empty_alternative |= outer[-1].may_be_empty
            outer[-1].may_be_empty = True
        elif token[0] == ")":
            if len(outer) == 1:
                raise _not_matched(pattern, at, "allowed: a group that has begun")
            element = outer.pop()
            element.may_be_empty |= element.has_empty_alternative
        if token["group"] or token[0] == "|":
            at = token.end()
            continue
        if (quantifier := _QUANTIFIER.match(pattern, token.end())) is not None:
            # What such a group has matched last is another thing in RE2.
            if element.captures and element.may_be_empty and quantifier[0][0] != "?":
                raise _not_matched(
                    pattern, at, "a group that can be empty cannot be repeated; allowed: (?: in its place"
                )
            element.may_be_empty |= quantifier[0][0] in "*?" or quantifier[0].startswith(("{0}", "{0,"))
        at = token.end() if quantifier is None else quantifier.end()
        outer[-1].may_be_empty &= element.may_be_empty
        outer[-1].captures |= element.captures
    if len(outer) > 1:
        raise _not_matched(pattern, at, "allowed: ) at the end of each group")
    return groups


def _not_matched(pattern: str, at: int, why: str) -> ValueError:
    return ValueError(f"kproxy cannot match the pattern {quote(pattern)} at {quote(pattern[at : at + 20])}; {why}")


def _with_literals(replacement: str, groups: int) -> str:
    """Escape the numbers of groups that the pattern does not have, as `escapeLiteralBackReferences` in Kafka does."""
    value = replacement
    if not groups:
        return value
    for match in _BACK_REFERENCE.finditer(replacement):
        number = match[1]
        if number.startswith("0"):
            continue
        while int(number) > groups and len(number) > 1:
            number = number[:-1]
        if int(number) > groups:
            # Kafka does not count what it has inserted before.
            value = f"{value[: match.start()]}\\{value[match.start() :]}"
    return value


def _replacement(text: str, groups: int) -> tuple[str | int, ...]:
    """Read a replacement as Java's `Matcher.appendReplacement`. Raises ValueError."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            parts.append(text[at + 1])
            at += 2
        elif text[at] in "\\$":
            match = _BACK_REFERENCE.match(text, at)
            if match is None or int(match[1][0]) > groups:
                problem = f"in the replacement {quote(text)}, {quote(text[at : at + 3])} stands for no group"
                raise ValueError(f"{problem}; allowed: $N up to ${groups}, or \\$ for the character")
            number = match[1][0]
            for digit in match[1][1:]:
                if int(number + digit) > groups:
                    break
                number += digit
            parts.append(int(number))
            at += 1 + len(number)
        else:
            parts.append(text[at])
            at += 1
    return tuple(parts)
