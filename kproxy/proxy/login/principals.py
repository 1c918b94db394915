"""The user of a client's certificate, by the rules of `--client-tls-principal-rules` (Kafka's `SslPrincipalMapper`)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from kproxy.base.errors import UpstreamError
from kproxy.base.messages.clientlogins import PATTERN_UNUSABLE, RE2_MISSING
from kproxy.base.packages import install_command
from kproxy.config.principalrules import PrincipalRule, PrincipalRules

_LONGEST_SUBJECT, _LONGEST_USER = 1024, 255
# For one pattern, in bytes. It bounds how long a match may take: some milliseconds.
_MEMORY = 256 * 1024


class NoPrincipal(ValueError):
    """A certificate is of no user. The text is for kproxy's log, and has nothing of the certificate."""


class PrincipalMapper:
    """Maps subjects to users. Raises UpstreamError if a pattern cannot be used."""

    def __init__(self, rules: PrincipalRules) -> None:
        self._rules = [(rule, None if rule.pattern is None else _compiled(rule.pattern)) for rule in rules.rules]

    def user_of(self, subject: str) -> str:
        """Return the user of the subject of a certificate. Raises NoPrincipal."""
        if not subject:
            raise NoPrincipal("its certificate has no subject")
        if len(subject) > _LONGEST_SUBJECT:
            raise NoPrincipal(f"the subject of its certificate has more than {_LONGEST_SUBJECT} characters")
        if not subject.isprintable():  # neither Java's nor RE2's lines and blanks, nor a name for a log
            raise NoPrincipal("the subject of its certificate has control characters")
        for rule, pattern in self._rules:
            user = subject if pattern is None else _applied(rule, pattern, subject)
            if user is None:
                continue
            if not 0 < len(user) <= _LONGEST_USER:
                raise NoPrincipal(f"the rule for its certificate makes no name of 1 to {_LONGEST_USER} characters")
            return user
        raise NoPrincipal("no rule is for the subject of its certificate")


def require_patterns(rules: PrincipalRules) -> None:
    """Raise UpstreamError if the package for patterns is not installed, or one of the patterns cannot be used."""
    PrincipalMapper(rules)


def _compiled(pattern: str) -> Any:
    if find_spec("re2") is None:
        raise UpstreamError(*RE2_MISSING.with_reason(command=install_command("google-re2")))
    import re2

    options = re2.Options()
    options.max_mem, options.log_errors = _MEMORY, False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        problem = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise UpstreamError(*PATTERN_UNUSABLE.with_reason(pattern=pattern, problem=problem)) from None


def _applied(rule: PrincipalRule, pattern: Any, subject: str) -> str | None:
    """Return what a rule makes of a subject; None if it is not for it.

    Kafka replaces each match in a subject that matches as a whole, and so does this: `.*` also matches at the end.
    """
    if pattern.fullmatch(subject) is None:
        return None
    pieces, end = [], 0
    for match in pattern.finditer(subject):
        pieces.append(subject[end : match.start()])
        pieces += [part if isinstance(part, str) else match[part] or "" for part in rule.replacement]
        end = match.end()
    user = "".join((*pieces, subject[end:]))
    return user.lower() if rule.case == "L" else user.upper() if rule.case == "U" else user
