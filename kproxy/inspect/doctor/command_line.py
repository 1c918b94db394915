"""The words of a `kproxy run …` line, made of options as the user gave them and what is changed in them. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kproxy.config.hop import mask
from kproxy.config.options import all_settings


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Options by name, as `kproxy.config.load` takes flags, and the file beside them. Secrets are in neither: they have
    no flag."""

    options: Mapping[str, object] = field(default_factory=dict)
    file: Path | None = None

    def with_options(self, **changes: object) -> CommandLine:
        """The same with other options; one that is None is left out, one that is a tuple comes before what is there."""
        options = dict(self.options)
        for name, value in changes.items():
            before = options.pop(name, ())
            if isinstance(value, tuple):
                options[name] = (*value, *(before if isinstance(before, tuple | list) else ()))
            elif value is not None:
                options[name] = value
        return CommandLine(options, self.file)

    def words(self, command: str = "run") -> list[str]:
        """`kproxy`, the command and the options, with the passwords of URLs masked."""
        words = ["kproxy", command, *(["-c", str(self.file)] if self.file else [])]
        for setting in all_settings():
            if setting.name not in self.options:
                continue
            value = self.options[setting.name]
            if setting.is_switch:
                words.append(setting.flag if value in (True, "true", "on") else setting.option.off)
                continue
            flag = setting.option.short or setting.flag
            for one in value if isinstance(value, tuple | list) else (value,):
                words += [flag, mask(str(one))]
        return words

    def __str__(self) -> str:
        return shell(self.words())

    @property
    def has_masked(self) -> bool:
        """Whether a password in a URL was left out of the words."""
        return any("***" in word for word in self.words())


def shell(words: Sequence[str]) -> str:
    """Words as a shell takes them."""
    return " ".join(shlex.quote(word) for word in words)
