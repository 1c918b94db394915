"""Changes of a users file: by one process at a time, and as a whole or not at all.

The file's text is changed, not written anew: comments, and the lines of users whom the change does not concern, stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from kproxy.base.errors import ConfigError
from kproxy.users.document import UpstreamLogin, User, UsersDocument, read_document
from kproxy.users.usersfile import read_text

# Words of YAML 1.1 that are no text for other programs.
_NOT_TEXT = re.compile(r"(?i)~|null|true|false|yes|no|on|off|y|n")
_PLAIN = re.compile(r"[A-Za-z_][\w.@-]*", re.ASCII)


@contextlib.contextmanager
def edit_users(path: Path) -> Iterator[dict[str, User]]:
    """Let the caller change the users of a file, and write the changes at the end, unless it raises.

    The file is made if it is missing, with mode 0600. Raises ConfigError if it cannot be read or written.
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    with _locked(path):
        text = read_text(path)
        document = read_document(text, str(path))
        if document.problems:
            raise ConfigError(*document.problems)
        users = dict(document.users)
        yield users
        if users != document.users:
            _write(path, _changed_text(text, document, users, path))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other kproxy changes the file."""
    try:
        while True:
            made = not path.exists()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                # The process that had the lock has put another file in its place.
                if not _is_at(descriptor, path):
                    continue
                try:
                    yield
                except BaseException:
                    if made and not os.fstat(descriptor).st_size:
                        path.unlink(missing_ok=True)
                    raise
                return
            finally:
                os.close(descriptor)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {(error.strerror or type(error).__name__).lower()}") from None


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _write(path: Path, text: str) -> None:
    """Replace the file, with its owner and mode. Raises OSError; then the file is what it was before."""
    status = path.stat()
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            now = os.fstat(file.fileno())
            if (now.st_uid, now.st_gid) != (status.st_uid, status.st_gid):
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _changed_text(text: str, document: UsersDocument, users: Mapping[str, User], path: Path) -> str:
    """Return the text with these users. Raises ConfigError if kproxy cannot change this text."""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += "\n"
    before, after = document.users, [name for name in users if name not in document.users]
    if not document.blocks:
        # `users: {}`, or nothing yet.
        at = len(lines) if document.users_line is None else document.users_line
        lines[at : at + 1] = ["users:\n"]
        end = at + 1
    else:
        end = max(last for _, last in document.blocks.values())
    lines[end:end] = [line for name in after for line in _block(users[name], document.indent)]
    for name, (start, last) in sorted(document.blocks.items(), key=lambda item: -item[1][0]):
        if name not in users:
            lines[start:last] = []
        elif users[name] != before[name]:
            lines[start:last] = _block(users[name], document.indent)
    changed = "".join(lines)
    if not users and document.users_line is not None:
        lines[document.users_line] = "users: {}\n"
        changed = "".join(lines)
    reread = read_document(changed, str(path))
    if reread.problems or reread.users != users:
        shape = "begin each user on a line of its own, not in braces after 'users:'"
        raise ConfigError(f"{path}: kproxy cannot change a file of this form: {shape}")
    return changed


def _block(user: User, indent: int) -> list[str]:
    """Return the lines of a user, whose name begins in the column `indent`."""
    margin, step = " " * indent, "  "
    lines = [f"{margin}{_key(user.name)}:"]
    lines += [f"{margin}{step}{mechanism}: {verifier.text()}" for mechanism, verifier in user.verifiers.items()]
    if user.logins:
        lines.append(f"{margin}{step}logins:")
        lines += [f"{margin}{step * 2}{_key(name)}: {_login(login)}" for name, login in user.logins.items()]
    if len(lines) == 1:
        lines[0] += " {}"
    return [f"{line}\n" for line in lines]


def _login(login: UpstreamLogin) -> str:
    fields = {
        "mechanism": login.mechanism,
        "username": _quoted(login.username) if login.username else None,
        "password": None if login.password is None else _quoted(login.password),
        "token": None if login.token is None else _quoted(login.token),
    }
    return "{" + ", ".join(f"{key}: {value}" for key, value in fields.items() if value is not None) + "}"


def _key(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and not _NOT_TEXT.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """Return a text in double quotes (YAML 1.2 §5.7)."""
    plain = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return '"' + "".join(plain) + '"'
