"""The local ports of a profile that configures none itself: a window of its own, the same at each start.

Window 1 begins at 19391: the admin endpoint, the next port for the listener, the following for the nodes. `kproxy run`
has the window before it, from 19091 on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kproxy.base.errors import ConfigError
from kproxy.cli.profiles import paths
from kproxy.net.freeports import is_free

_FIRST, _SIZE, _WINDOWS = 19391, 300, 40
_HOST = "127.0.0.1"
_FILE = "ports.json"


@dataclass(frozen=True, slots=True)
class Window:
    """The ports from `first` on."""

    first: int

    @property
    def admin(self) -> str:
        """The address of the admin endpoint."""
        return f"{_HOST}:{self.first}"

    @property
    def listen(self) -> str:
        """The address of the listener."""
        return f"{_HOST}:{self.first + 1}"

    @property
    def free(self) -> bool:
        """True if both ports are free."""
        return all(is_free(_HOST, port) for port in (self.first, self.first + 1))


def window(name: str) -> Window:
    """Return the window of a profile that does not run: its former one, or the first free one.

    The former window is not used if another process listens there. The other must not belong to another profile. Raises
    ConfigError if there is none.
    """
    former = _former_window(name)
    if former is not None and former.free:
        return former
    others = (path.parent.name for path in paths.state_directory().glob(f"*/{_FILE}"))
    taken = {_former_window(other) for other in others if other != name}
    windows = (Window(_FIRST + _SIZE * number) for number in range(_WINDOWS))
    chosen = next((candidate for candidate in windows if candidate not in taken and candidate.free), None)
    if chosen is None:
        raise ConfigError(f"no window of ports is free from {_FIRST} on; give the profile 'listen' and 'admin'")
    (paths.profile_directory(name) / _FILE).write_text(json.dumps({"first": chosen.first}))
    return chosen


def _former_window(name: str) -> Window | None:
    file: Path = paths.state_directory() / name / _FILE
    try:
        first = json.loads(file.read_text())["first"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    valid = isinstance(first, int) and (first - _FIRST) % _SIZE == 0 and 0 <= (first - _FIRST) // _SIZE < _WINDOWS
    return Window(first) if valid else None
