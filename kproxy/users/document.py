"""The text of a users file: reads it into users, with the line of each mistake. Pure, but with pauses.

    users:
      alice:
        SCRAM-SHA-512: salt=…,stored_key=…,server_key=…,iterations=4096
        logins:
          green: {username: sa-4711, password: …}

It reads YAML's events, not its nodes: of 10,000 users, these would be a million objects, and each collection of
garbage would then stop the event loop for 200 ms. No message has a value of the file in it: each may be a secret.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import yaml

from kproxy.base import yamltree
from kproxy.base.diagnostic import ERROR, Diagnostic, DiagnosticPlace
from kproxy.base.printable import one_line
from kproxy.users.verifier import HASHES, ScramVerifier

# The longest name of a user or of an upstream, and the longest secret, in characters; a token has some KiB.
_LONGEST_NAME, _LONGEST_SECRET = 255, 64 * 1024
_MOST_EVENTS = 5_000_000
_MOST_PROBLEMS = 100
# After so many events, about a millisecond, the thread that reads lets the event loop run.
_PACE, _PAUSE = 200, 0.0005
_USERS, _LOGINS = "users", "logins"
_MECHANISMS = ("PLAIN", *HASHES, "OAUTHBEARER")
_LOGIN_KEYS = ("username", "password", "token", "mechanism")
_LOGIN = "username and password, or token; and mechanism"
# What PyYAML quotes may be a part of a password that is not in quotes itself.
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


_Event: TypeAlias = Any
"""An event of PyYAML. Its stubs have events without marks; those of a parser always have them."""


@dataclass(frozen=True, slots=True, repr=False)
class UpstreamLogin:
    """The credentials with which kproxy logs in to one upstream for one user: a password, or a token."""

    username: str
    password: str | None = None
    token: str | None = None
    mechanism: str | None = None
    """None: the mechanism of the upstream."""


@dataclass(frozen=True, slots=True, repr=False)
class User:
    """A user: verifiers of the password by mechanism, and logins by the name of the upstream."""

    name: str
    verifiers: Mapping[str, ScramVerifier]
    logins: Mapping[str, UpstreamLogin]


@dataclass(slots=True)
class UsersDocument:
    """A users file as it was read. `users` counts only if there are no `problems`."""

    users: dict[str, User] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    blocks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The first line of each user, and the line after the last, from 0."""
    indent: int = 2
    """The column of the users' names."""
    is_block: bool = True
    """False if the mapping of the users is in braces."""
    users_line: int | None = None
    """The line of the key `users`, from 0."""


def read_document(text: str, shown: str) -> UsersDocument:
    """Read the text of the file that messages call `shown`. Mistakes are in `problems`; nothing is raised."""
    return _Reader(text, shown).read()


def name_problem(name: str) -> str:
    """Return why this can be no name of a user; "" if it can."""
    if 0 < len(name) <= _LONGEST_NAME and name.isprintable():
        return ""
    return f"is no name of a user; allowed: 1 to {_LONGEST_NAME} printable characters"


def login_problem(login: UpstreamLogin) -> str:
    """Return why a login cannot be used; "" if it can."""
    if login.mechanism is not None and login.mechanism not in _MECHANISMS:
        return f"has an unknown mechanism; allowed: {', '.join(_MECHANISMS)}"
    if (login.password is None) == (login.token is None):
        return f"needs either a password or a token; allowed: {_LOGIN}"
    if login.password is not None and not login.username:
        return f"has no username; allowed: {_LOGIN}"
    if login.mechanism is not None and (login.mechanism == "OAUTHBEARER") != (login.token is not None):
        return f"has {'a password' if login.token is None else 'a token'}, which is not for {login.mechanism}"
    if any("\0" in value for value in (login.username, login.password or "", login.token or "")):
        return "has a character that no login may have"
    return ""


class _Problem(ValueError):
    """The rest of the text cannot be read."""


class _Reader:
    def __init__(self, text: str, shown: str) -> None:
        self._shown = shown
        self._events = _paced(yamltree.events(text, _MOST_EVENTS))
        self._document = UsersDocument()
        self._last_line = 0  # the line after the last value, from 0

    def read(self) -> UsersDocument:
        try:
            self._read_root()
        except yamltree.YamlError as error:
            self._report(error.line, "", _QUOTED.sub("…", str(error)))
        except _Problem:
            pass
        return self._document

    def _read_root(self) -> None:
        for event in self._events:
            if isinstance(event, yaml.MappingStartEvent):
                for key, word in self._pairs(event, "", (_USERS,)):
                    self._document.users_line = key.start_mark.line
                    self._read_users(word)
            elif isinstance(event, yaml.NodeEvent) and not _is_null(event):
                self._report_at(event, "", "is not a mapping; allowed: users: {NAME: …}")
                raise _Problem

    def _read_users(self, where: str) -> None:
        event = next(self._events)
        if isinstance(event, yaml.ScalarEvent) and _is_null(event):
            return
        self._document.is_block = not getattr(event, "flow_style", True)
        first = True
        for key, name in self._pairs(event, where):
            if first and self._document.is_block:
                self._document.indent, first = key.start_mark.column, False
            self._read_user(key, name)
            self._document.blocks[name] = key.start_mark.line, self._last_line

    def _read_user(self, key: _Event, name: str) -> None:
        where = f"{_USERS}.{_shown(name)}"
        verifiers: dict[str, ScramVerifier] = {}
        logins: dict[str, UpstreamLogin] = {}
        if problem := name_problem(name):
            self._report_at(key, where, problem)
        for own, word in self._pairs(next(self._events), where, (*HASHES, _LOGINS)):
            if word == _LOGINS:
                for upstream, at in self._pairs(next(self._events), f"{where}.{word}"):
                    self._read_login(upstream, f"{where}.{word}.{_shown(at)}", at, logins)
            elif (text := self._text(own, f"{where}.{word}")) is not None:
                try:
                    verifiers[word] = ScramVerifier.parse(word, text)
                except ValueError as error:
                    self._report_at(own, f"{where}.{word}", str(error))
        self._document.users[name] = User(name, verifiers, logins)

    def _read_login(self, key: _Event, where: str, upstream: str, logins: dict[str, UpstreamLogin]) -> None:
        problems = len(self._document.problems)
        values = {
            word: self._text(own, f"{where}.{word}")
            for own, word in self._pairs(next(self._events), where, _LOGIN_KEYS)
        }
        if len(self._document.problems) > problems:
            return
        login = replace(UpstreamLogin(""), **{word: text for word, text in values.items() if text is not None})
        if problem := login_problem(login):
            self._report_at(key, where, problem)
        logins[upstream] = login

    def _pairs(self, event: _Event, where: str, known: Collection[str] | None = None) -> Iterator[tuple[_Event, str]]:
        """Yield the known keys of a mapping that begins with `event`; the caller then reads the value."""
        if not isinstance(event, yaml.MappingStartEvent):
            allowed = ", ".join(known or ("NAME: …",))
            self._report_at(event, where, f"is {_kind(event)}, not a mapping; allowed: {allowed}")
            self._skip(event)
            return
        seen = set()
        key: _Event
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            if not isinstance(key, yaml.ScalarEvent):
                self._report_at(key, where, f"has {_kind(key)} in place of a key; allowed: text")
                self._skip(key)
            elif key.value in seen:
                self._report_at(key, f"{where}.{_shown(key.value)}".strip("."), "is given twice; allowed: once")
            elif known is not None and key.value not in known:
                self._report_at(key, where, f"has an unknown key; allowed: {', '.join(known)}")
            else:
                seen.add(key.value)
                yield key, key.value
                continue
            self._skip(next(self._events))
        self._note_brace(key)

    def _text(self, key: _Event, where: str) -> str | None:
        """Return the text that comes next, the value of `key`; None, with a problem, if it is none."""
        event: _Event = next(self._events)
        if isinstance(event, yaml.ScalarEvent) and not _is_null(event) and event.value:
            self._note_end(event)
            if len(event.value) <= _LONGEST_SECRET:
                return str(event.value)
            self._report_at(key, where, f"is longer than {_LONGEST_SECRET} characters")
            return None
        hint = " (text that begins with one of * & ! # % @ ` must be in quotes)"
        self._report_at(key, where, f"is {_kind(event)}; allowed: text{hint}")
        self._skip(event)
        return None

    def _skip(self, event: _Event) -> None:
        """Read to the end of the value that begins with `event`."""
        depth = 0
        while True:
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if not depth:
                break
            event = next(self._events)
        self._note_end(event)

    def _note_brace(self, end: _Event) -> None:
        if end.end_mark.index > end.start_mark.index:  # a block has no text of its own at its end
            self._note_end(end)

    def _note_end(self, event: _Event) -> None:
        self._last_line = event.end_mark.line + (event.end_mark.column > 0)

    def _report_at(self, event: _Event, where: str, text: str) -> None:
        self._report(event.start_mark.line + 1, where, text)

    def _report(self, line: int, where: str, text: str) -> None:
        self._document.problems.append(Diagnostic(ERROR, where, text, place=DiagnosticPlace(self._shown, line)))
        if len(self._document.problems) >= _MOST_PROBLEMS:
            raise _Problem


def _paced(events: Iterator[_Event], sleep: Callable[[float], None] = time.sleep) -> Iterator[_Event]:
    """Yield the events, with pauses in which other threads run."""
    for number, event in enumerate(events, 1):
        if not number % _PACE:
            sleep(_PAUSE)
        yield event


def _is_null(event: _Event) -> bool:
    return isinstance(event, yaml.ScalarEvent) and not event.style and event.value in ("", "~", "null")


def _kind(event: _Event) -> str:
    kinds = {yaml.AliasEvent: "an alias", yaml.MappingStartEvent: "a mapping", yaml.SequenceStartEvent: "a list"}
    return kinds.get(type(event)) or ("no value" if not getattr(event, "value", "") else "text")


def _shown(name: str) -> str:
    return one_line(name, _LONGEST_NAME)
