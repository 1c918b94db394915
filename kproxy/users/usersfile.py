"""The users file: who may read it, and reading it again when it has changed."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

from kproxy.base import regularfile
from kproxy.base.diagnostic import ERROR, Diagnostic, DiagnosticPlace
from kproxy.base.errors import ConfigError
from kproxy.base.format import format_count
from kproxy.base.messages.start import FILE_OPEN
from kproxy.base.messages.users import USERS_KEPT
from kproxy.users.decoys import VerifierForm, common_forms
from kproxy.users.document import UpstreamLogin, User, UsersDocument, read_document

__all__ = ["UpstreamLogin", "User", "UsersFile", "read_users_file"]

log = logging.getLogger(__name__)

# 10,000 users with two verifiers and two logins each have 7 MB.
MOST_BYTES = 32 * 1024 * 1024
# Of the mistakes in a changed file, so many are logged.
_MOST_LOGGED = 5


def read_users_file(path: Path) -> UsersDocument:
    """Read a users file, which must be private to its owner. Raises ConfigError with all mistakes.

    10,000 users take a second or two, in which other threads can run.
    """
    document = read_document(read_text(path), str(path))
    if document.problems:
        raise ConfigError(*document.problems)
    return document


def read_text(path: Path) -> str:
    """Return the text of a users file, which must be private to its owner. Raises ConfigError."""
    place = DiagnosticPlace(str(path))
    try:
        with regularfile.open_regular(path) as file:
            mode = regularfile.exposed_mode(os.fstat(file.fileno()))
            if mode is not None:
                raise ConfigError(FILE_OPEN(path=path, mode=mode))
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"is larger than {MOST_BYTES // 1024 // 1024} MiB")
        return data.decode("utf-8-sig")
    except OSError as error:
        problem = f"{regularfile.reason_of(error)}; allowed: a users file ('kproxy users add' makes one)"
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text (byte {error.start + 1})"
    except ValueError as error:
        problem = str(error)
    raise ConfigError(Diagnostic(ERROR, "", problem, place=place))


class UsersFile:
    """The users of a file, which a thread reads again when the file has changed.

    If the changed file is wrong or missing, the former users still count. The thread ends with this object.
    """

    def __init__(self, path: Path, every: float = 1.0) -> None:
        """Read the file, and look every so many seconds whether it has changed.

        Raises ConfigError. A large file takes seconds: call it in a thread beside an event loop.
        """
        self.path = path
        self._state = self._seen = regularfile.state_of(path)
        self._use(read_users_file(path).users)
        Thread(target=_follow, args=(weakref.ref(self), every), name="users-file", daemon=True).start()

    def user(self, name: str) -> User | None:
        """Return the user of this name. It never blocks."""
        return self._users.get(name)

    @property
    def forms(self) -> Mapping[str, VerifierForm]:
        """The form that most verifiers have, by mechanism, for the mechanisms that users have."""
        return self._forms

    def __len__(self) -> int:
        return len(self._users)

    def _use(self, users: Mapping[str, User]) -> None:
        self._users, self._forms = users, common_forms(users.values())

    def _look(self) -> None:
        """Read the file again if it has changed, and not since the last look: it may be half written."""
        seen, self._seen = self._seen, regularfile.state_of(self.path)
        if self._seen == self._state or self._seen != seen:
            return
        self._state = self._seen
        try:
            self._use(read_users_file(self.path).users)
        except ConfigError as error:
            for problem in error.problems[:_MOST_LOGGED]:
                log.error(USERS_KEPT(problem=problem))
        else:
            log.info("users file: %s has changed: %s", self.path, format_count(len(self._users), "user"))


def _follow(reference: weakref.ref[UsersFile], every: float) -> None:
    while True:
        time.sleep(every)
        file = reference()
        if file is None:
            return
        file._look()
        del file
