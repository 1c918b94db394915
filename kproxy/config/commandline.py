"""Options as the words of a command line, such as `kproxy run …`, and changes to them (pure)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kproxy.config.declarations import Setting
from kproxy.config.hop import mask
from kproxy.config.options import all_settings


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Options by name, as `kproxy.config.load` takes flags, and the file. Secrets are in neither: they have no flag."""

    options: Mapping[str, object] = field(default_factory=dict)
    file: Path | None = None

    def with_options(self, **changes: object) -> CommandLine:
        """Return a copy with other options.

        None removes an option; a tuple is put before the present values.
        """
        options = dict(self.options)
        for name, value in changes.items():
            before = options.pop(name, ())
            if isinstance(value, tuple):
                options[name] = (*value, *(before if isinstance(before, tuple | list) else ()))
            elif value is not None:
                options[name] = value
        return CommandLine(options, self.file)

    def words(self, command: str = "run") -> list[str]:
        """Return `kproxy`, the command and the options, with the passwords of URLs masked."""
        return ["kproxy", command, *option_words(self.file, self.options)]

    def __str__(self) -> str:
        return shell(self.words())

    @property
    def has_masked(self) -> bool:
        """True if a password in a URL was left out of the words."""
        return any("***" in word for word in self.words())


def option_words(
    file: Path | None,
    options: Mapping[str, object],
    is_wanted: Callable[[Setting], bool] = lambda _: True,
    *,
    names_users: bool = True,
    mask_passwords: bool = True,
) -> Iterator[str]:
    """Yield a configuration file and options as words, without the passwords of URLs.

    `names_users` False: for a log, no user is named.
    """
    if file is not None:
        yield from ("-c", str(file))
    for setting in all_settings():
        value = options.get(setting.name)
        if value is None or not is_wanted(setting):
            continue
        if setting.is_switch:
            yield setting.flag if value in (True, "true", "on") else setting.off
            continue
        if setting.name == "sasl_username" and not names_users:
            value = "USER"
        for item in value if isinstance(value, tuple | list) else (value,):
            yield from (setting.short or setting.flag, mask(str(item)) if mask_passwords else str(item))


def shell(words: Sequence[str]) -> str:
    """Return the words as a shell takes them."""
    return " ".join(shlex.quote(word) for word in words)
