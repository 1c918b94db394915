"""The token of the admin endpoint: from its file, and whether a request shows it. It is never logged or shown."""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from kproxy.base import regularfile
from kproxy.base.errors import ConfigError
from kproxy.config.values import admin_token

log = logging.getLogger(__name__)

# A token has some dozen characters; this stops a wrong path from filling the memory.
_MOST = 64 * 1024
# What others may not do with a file of this user, and with one of somebody else. Group read is the only way to a Secret
# of Kubernetes, which is root's: 0440, and the group of fsGroup.
_OWN, _FOREIGN = 0o077, 0o027


def read_file(path: Path) -> str:
    """The token in a file, which has that alone and perhaps the end of a line, and which others may not read. The file
    may be a pipe. Raises ConfigError, which says what is wrong with the file, and never what was found there."""
    return _read(path, lambda: path.open("rb"))


def _read(path: Path, opened: Callable[[], BinaryIO]) -> str:
    try:
        with opened() as file:
            _check_mode(path, file)
            data = file.read(_MOST)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} {error}") from None
    try:
        return admin_token(data.decode("ascii").removesuffix("\n").removesuffix("\r"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} has something that is not ASCII text") from None
    except ValueError as error:
        raise ConfigError(f"{path} {error}") from None


def _check_mode(path: Path, file: BinaryIO) -> None:
    """Of the file that is open, not of a link to it. A pipe has its other end in a process, not in a folder."""
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        return
    mode = stat.S_IMODE(found.st_mode)
    if mode & (_OWN if _is_own(found) else _FOREIGN):
        raise ConfigError(f"{path} is open to other users (mode {mode:04o}): chmod 600 {path}")


def _is_own(found: os.stat_result) -> bool:
    """Whether the file is this user's own, so that no group needs a right. In a container that runs as root, a Secret
    is root's too; then its group is that of fsGroup, one of this process."""
    if found.st_uid != os.geteuid():
        return False
    return found.st_uid != 0 or found.st_gid == 0 or found.st_gid not in os.getgroups()


class TokenFile:
    """The token of a file, read again when the file has changed. While that is no good, the token before counts."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError. The file may be a pipe, so this may take a while; a pipe is read once."""
        self._path = path
        self._state = self._look()
        self._is_followed = self._state is not None
        self._token = read_file(path)

    def current(self) -> str:
        """The token as the file has it now. For an event loop: what is no file is not opened."""
        state = self._look()
        if state != self._state and self._is_followed:
            self._state = state
            try:
                if not state:
                    raise ConfigError(f"{self._path} is gone, or not a file any more")
                self._token = _read(self._path, lambda: regularfile.open_regular(self._path))
                log.info("admin: the token file has changed; requests must show the new token")
            except ConfigError as error:
                log.error("admin: --admin-token-file: %s; the previous token still counts", error)
        return self._token

    def _look(self) -> tuple[int, ...] | None:
        """What changes with the file, also where it is a link to others (as in Kubernetes); None: it is no file."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        # Its ctime too: a mode that was wrong may be right now.
        return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size


def has_token(authorization: str, token: str, *, basic: bool = False) -> bool:
    """Whether an Authorization header has the token (RFC 6750 §2.1); with `basic` also as the password of any user
    (RFC 7617 §2), which is how a browser can show it. Takes as long for any wrong one."""
    scheme, _, rest = authorization.strip().partition(" ")
    shown = rest.strip().encode("latin-1")
    if basic and scheme.lower() == "basic":
        try:
            shown = base64.b64decode(shown, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(shown, token.encode())
