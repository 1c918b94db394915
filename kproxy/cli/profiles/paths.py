"""The directories and files of profiles on this machine.

A profile is a configuration file, `$XDG_CONFIG_HOME/kproxy/NAME.yaml`, else `~/.config/kproxy/NAME.yaml`. kproxy keeps
files for it in `$XDG_STATE_HOME/kproxy/NAME/`, else in `~/.local/state/kproxy/NAME/`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from kproxy.base.errors import ConfigError
from kproxy.base.printable import one_line

SUFFIX = ".yaml"
ALLOWED = "@ and 1 to 63 of a-z, 0-9, - and _"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def name_of(word: str) -> str:
    """Return the name of a profile from `@NAME`. Raises ConfigError."""
    if not word.startswith("@") or not _NAME.fullmatch(word[1:]):
        raise ConfigError(f"'{one_line(word, 70)}' names no profile; allowed: {ALLOWED}")
    return word[1:]


def profile(word: str) -> Path:
    """Return the file of the profile `@NAME`. Raises ConfigError if it does not exist."""
    file = profiles_directory() / f"{name_of(word)}{SUFFIX}"
    if not file.is_file():
        others = ", ".join(f"@{name}" for name in names())
        existing = f"there are: {others}" if others else "there is none so far"
        raise ConfigError(f"there is no profile {word}; write {file}, a file as for -c ({existing})")
    return file


def names() -> Sequence[str]:
    """Return the names of all profiles."""
    stems = (file.stem for file in profiles_directory().glob(f"*{SUFFIX}") if file.is_file())
    return sorted(name for name in stems if _NAME.fullmatch(name))


def profiles_directory() -> Path:
    """Return the directory of the profiles."""
    return _base("XDG_CONFIG_HOME", "~/.config") / "kproxy"


def state_directory() -> Path:
    """Return the directory with the state of all profiles."""
    return _base("XDG_STATE_HOME", "~/.local/state") / "kproxy"


def profile_directory(name: str) -> Path:
    """Return the directory with the state of one profile; create it, for this user only. Raises ConfigError."""
    path = state_directory() / name
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}") from None
    return path


def units_directory() -> Path:
    """Return the directory of this user's systemd units."""
    return _base("XDG_CONFIG_HOME", "~/.config") / "systemd" / "user"


def _base(variable: str, default: str) -> Path:
    given = os.environ.get(variable, "")
    # The specification: a path that is not absolute counts as not given.
    return Path(given) if given.startswith("/") else Path(default).expanduser()
