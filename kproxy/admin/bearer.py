"""The token of the admin endpoint: from its file, and whether a request shows it. It is never logged or shown."""

from __future__ import annotations

import base64
import binascii
import hmac
from pathlib import Path

from kproxy.config.values import admin_token
from kproxy.errors import ConfigError

# A token has some dozen characters; this stops a wrong path from filling the memory.
_MOST = 64 * 1024


def read_file(path: Path) -> str:
    """The token in a file, which has that alone and perhaps the end of a line. Raises ConfigError, which says what is
    wrong with the file, and never what was found there."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    try:
        return admin_token(data.decode("ascii").removesuffix("\n").removesuffix("\r"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} has something that is not ASCII text") from None
    except ValueError as error:
        raise ConfigError(f"{path} {error}") from None


def is_shown(authorization: str, token: str, *, basic: bool = False) -> bool:
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
