"""Actions on a cluster as text for people (pure), and where a command writes its lines."""

from __future__ import annotations

from collections.abc import Callable

LogWriter = Callable[[str], None]
"""Receives a line about the progress of a command."""

_PAST_TENSE = {
    "add": "added",
    "alter": "altered",
    "create": "created",
    "delete": "deleted",
    "forget": "forgot",
    "raise": "raised",
    "record": "recorded",
    "restore": "restored",
    "set": "set",
}


def describe_action(action: str, *, dry_run: bool = False) -> str:
    """Return "would create …" in a dry run, else "created …", for an action such as "create …"."""
    verb, _, rest = action.partition(" ")
    return f"would {action}" if dry_run else f"{_PAST_TENSE[verb]} {rest}"
