"""The words of a `kproxy run …` command line: the options of the user, and changes to them. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
        words = ["kproxy", command, *(["-c", str(self.file)] if self.file else [])]
        for setting in all_settings():
            if setting.name not in self.options:
                continue
            value = self.options[setting.name]
            if setting.is_switch:
                words.append(setting.flag if value in (True, "true", "on") else setting.off)
                continue
            flag = setting.short or setting.flag
            for item in value if isinstance(value, tuple | list) else (value,):
                words += [flag, mask(str(item))]
        return words

    def __str__(self) -> str:
        return shell(self.words())

    @property
    def has_masked(self) -> bool:
        """True if a password in a URL was left out of the words."""
        return any("***" in word for word in self.words())


def shell(words: Sequence[str]) -> str:
    """Return the words as a shell takes them."""
    return " ".join(shlex.quote(word) for word in words)
