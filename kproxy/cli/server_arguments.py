"""The bootstrap servers as arguments, in place of `-b`: `kproxy run HOST:PORT`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from kproxy.cli import first_contact
from kproxy.cli.flags import ConfiguredCommand

Command = TypeVar("Command", bound=Callable[..., Any])

# How the name of a file ends, and the option for such a file.
_FILES = {".yaml": "-c", ".yml": "-c", ".properties": "--client-config"}
# No file has a longer name, and no host.
_LONGEST = 256
_WITH_PORT = re.compile(r".*:\d{1,5}", re.DOTALL)


def servers_argument(command: Command) -> Command:
    """Add the argument `[HOST:PORT[,...]]...`, for `add_servers`."""
    return click.argument("servers", nargs=-1, metavar="[HOST:PORT[,...]]")(command)


def add_servers(flags: dict[str, object], servers: Sequence[str]) -> None:
    """Put the arguments into the flags, as `-b` does.

    Raises UsageError if they are given twice, or are no servers.
    """
    if not servers:
        return
    if "bootstrap_servers" in flags:
        raise click.UsageError("the bootstrap servers are given twice: HOST:PORT and -b")
    for word in servers:
        if mistake := _mistake(word):
            raise click.UsageError(mistake)
    flags["bootstrap_servers"] = tuple(servers)


def _mistake(word: str) -> str:
    """Return the mistake if a word is a file or a profile; "" if it may be a server."""
    from kproxy.base.printable import one_line
    from kproxy.cli.profiles import paths

    if word.startswith("@"):
        return f"{one_line(word, 70)}: a profile must be the first word, before all options"
    if ":" in word or "," in word:
        return ""
    option = _FILES.get(Path(word).suffix)
    if option is not None and len(word) < _LONGEST and Path(word).is_file():
        return f"{one_line(word, 200)} is a file; to read it: {option} {one_line(word, 200)}"
    if word in paths.names():
        return f"{word} is a profile; to use it: @{word}"
    return ""


class BeforeCommand(ConfiguredCommand):
    """A command that runs another one: each HOST:PORT before that one's words, and before `--`, is a server.

    A port is required here. Without it, `run.sh` would be a host.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as `ConfiguredCommand` does, and put the servers among the parameters."""
        profile = args[:1] if args and args[0].startswith("@") else []
        words, servers = args[len(profile) :], []
        while (at := self._first_word(ctx, words)) is not None and _is_server(words[at]):
            servers.append(words.pop(at))
        remaining = super().parse_args(ctx, [*profile, *words])
        ctx.params["servers"] = tuple(servers)
        return remaining

    def _first_word(self, ctx: click.Context, words: Sequence[str]) -> int | None:
        """Return the index of the first word that is no option and no option's value.

        None if `--` or nothing comes first.
        """
        (command,) = (parameter for parameter in self.params if isinstance(parameter, click.Argument))
        try:
            remaining = self.make_parser(ctx).parse_args(list(words))[0].get(str(command.name))
        except click.UsageError:  # `super().parse_args` says it
            return None
        if not isinstance(remaining, tuple) or not remaining:  # a version of click has a value of its own for none
            return None
        at = len(words) - len(remaining)
        return None if words[at - 1 : at] == ["--"] else at


def _is_server(word: str) -> bool:
    return first_contact.is_address(word) and all(_WITH_PORT.fullmatch(part) for part in word.split(","))
