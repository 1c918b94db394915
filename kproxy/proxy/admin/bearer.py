"""The token of the admin endpoint: its file, and the check of requests. It is never logged or shown."""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from kproxy.base import regularfile
from kproxy.base.errors import ConfigError
from kproxy.base.messages.start import FILE_OPEN
from kproxy.config.values import admin_token

log = logging.getLogger(__name__)

# A token has some dozen characters; this stops a wrong path from filling the memory.
_MOST = 64 * 1024


def read_file(path: Path) -> str:
    """Return the token in a file, which has only the token and perhaps a line end, and is private to its owner.

    The file may be a pipe. Raises ConfigError, which names the mistake, and never the contents of the file.
    """
    return _read(path, lambda: path.open("rb"))


def _read(path: Path, open_file: Callable[[], BinaryIO]) -> str:
    try:
        with open_file() as file:
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
    """Raise ConfigError if other users may use the file. This checks the open file, not a link to it."""
    mode = regularfile.exposed_mode(os.fstat(file.fileno()))
    if mode is not None:
        raise ConfigError(FILE_OPEN(path=path, mode=mode))


class TokenFile:
    """The token of a file, which is read again when the file has changed.

    If the changed file is wrong, the former token stays valid.
    """

    def __init__(self, path: Path) -> None:
        """Read the file. It may be a pipe, which is read once, and may take a while. Raises ConfigError."""
        self._path = path
        self._state = regularfile.state_of(path)
        self._is_followed = self._state is not None
        self._token = read_file(path)

    def current(self) -> str:
        """Return the current token in the file. For an event loop: anything but a regular file is not opened."""
        state = regularfile.state_of(self._path)
        if state != self._state and self._is_followed:
            self._state = state
            try:
                if not state:
                    raise ConfigError(f"{self._path} does not exist, or is no longer a regular file")
                self._token = _read(self._path, lambda: regularfile.open_regular(self._path))
                log.info("admin: the token file has changed; requests must show the new token")
            except ConfigError as error:
                log.error("admin: --admin-token-file: %s; the previous token still counts", error)
        return self._token


def has_token(authorization: str, token: str, *, basic: bool = False) -> bool:
    """Return True if an Authorization header has the token (RFC 6750 §2.1).

    With `basic` also as the password of any user (RFC 7617 §2), which is how a browser can send it. It takes the same
    time for any wrong token.
    """
    scheme, _, credentials = authorization.strip().partition(" ")
    sent = credentials.strip().encode("latin-1")
    if basic and scheme.lower() == "basic":
        try:
            sent = base64.b64decode(sent, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(sent, token.encode())
