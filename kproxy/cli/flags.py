"""Options of a command, made from the declaration in `kproxy.config` when they are first needed, and its servers.

The bootstrap servers may be arguments in place of `-b`: `kproxy run HOST:PORT`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from kproxy.cli.completion import profiles
from kproxy.cli.group import Command, is_address

if TYPE_CHECKING:
    from kproxy.config.declarations import Setting

_OFF = "__off"  # ends the names of flags that say no
_FILE = "config_file"
# How the name of a file ends, and the option for such a file.
_FILES = {".yaml": "-c", ".yml": "-c", ".properties": "--client-config"}
# No file has a longer name, and no host.
_LONGEST = 256
_WITH_PORT = re.compile(r".*:\d{1,5}", re.DOTALL)


class ConfiguredOption(click.Option):
    """An option that stands in a group of the help. Values stay text: `kproxy.config` judges all at once."""

    def __init__(self, *declarations: str, setting: Setting, **attributes: object) -> None:
        super().__init__(list(declarations), **attributes)  # type: ignore[arg-type]  # click checks them itself
        self.setting = setting

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the words of a choice; for files and directories, let the shell complete."""
        kind = {"FILE": "file", "PATH": "file", "DIRECTORY": "dir"}.get(self.setting.kind.metavar.partition("|")[0])
        if kind is not None:
            return [CompletionItem(incomplete, type=kind)]
        words = self.setting.kind.schema.get("enum")
        choices = words if isinstance(words, list) else []
        return [CompletionItem(word) for word in choices if word.startswith(incomplete)]


class ConfiguredCommand(click.Command):
    """A command with `-c FILE` and each declared option for which `offers` returns True.

    Its callback passes the values to `given_options`. `defaults` has, by key, the defaults that differ for this
    command. `takes_profile`: see `parse_args`.
    """

    _declared: list[click.Parameter] | None = None

    def __init__(
        self,
        *args: Any,
        defaults: Mapping[str, str] = MappingProxyType({}),
        offers: Callable[[Setting], bool] = lambda _: True,
        takes_profile: bool = True,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.defaults = defaults
        self._takes_profile = takes_profile
        self._offers = offers

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters.

        They are built late: the declaration costs more time to import than the rest of the CLI.
        """
        if self._declared is None:
            from kproxy.config.options import all_settings

            file = click.Option(
                ["-c", "--config", _FILE],
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Read this YAML file. The variable KPROXY_CONFIG does the same.",
            )
            settings = [setting for setting in all_settings() if setting.flag and self._offers(setting)]
            options = [option for setting in settings for option in _options(setting, self.defaults.get(setting.key))]
            self._declared = [file, *options]
        return [*self._declared, *super().get_params(ctx)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, but give every usage error its command: those of the parser have none.

        `@NAME` as the first word is `-c` with the file of that profile.
        """
        if self._takes_profile and args and args[0].startswith("@"):
            from kproxy.cli.profiles import paths  # few need it

            args = ["-c", str(paths.profile(args[0])), *args[1:]]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise _known(error) or error from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings of their groups, those of the command itself first."""

        def group(parameter: click.Parameter) -> str:
            return parameter.setting.group if isinstance(parameter, ConfiguredOption) else "Options"

        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        parameters = sorted(options, key=lambda parameter: group(parameter) != "Options")
        for heading, members in groupby(parameters, key=group):
            with formatter.section(heading):
                formatter.write_dl([record for member in members if (record := member.get_help_record(ctx))])


def _known(error: click.UsageError) -> click.UsageError | None:
    """Return the error for a flag that was removed, or for a secret, which other users could read in `ps`."""
    if not isinstance(error, click.NoSuchOption):
        return None
    from kproxy.config.options import all_settings
    from kproxy.config.sources import REMOVED

    if (instead := REMOVED.get(error.option_name.removeprefix("--"))) is not None:
        return click.UsageError(f"{error.option_name} {instead}", error.ctx)
    for setting in all_settings():
        if setting.secret and error.option_name == f"--{setting.key}":
            reason = "is not a flag, because other users can read a command line"
            places = f"{setting.env}, or {setting.key} in a file (-c FILE)"
            return click.UsageError(f"{error.option_name} {reason}; allowed: {places}", error.ctx)
    return None


def _options(setting: Setting, default_text: str | None) -> list[click.Parameter]:
    default = "required" if setting.required else f"default: {default_text or setting.default_text}"
    text = f"{setting.help}  [{default}{'; repeatable' if setting.repeatable else ''}]"
    if setting.is_switch:
        declaration = f"{setting.flag}/{setting.off}"
        return [ConfiguredOption(declaration, setting.name, setting=setting, default=None, help=text)]
    names = [setting.short, setting.flag, setting.name] if setting.short else [setting.flag, setting.name]
    options: list[click.Parameter] = [
        ConfiguredOption(*names, setting=setting, metavar=setting.kind.metavar, multiple=setting.repeatable, help=text)
    ]
    if setting.off:
        name = setting.name + _OFF
        help_text = f"Disable it; the same as {setting.flag} off."
        options.append(ConfiguredOption(setting.off, name, setting=setting, is_flag=True, help=help_text))
    return options


def given_options(values: Mapping[str, object], servers: Sequence[str] = ()) -> tuple[Path | None, dict[str, object]]:
    """Return the file and the flags that were given, as `kproxy.config.load` takes them.

    `servers` count as `-b`. Raises UsageError if they are given twice, or are no servers.
    """
    flags: dict[str, object] = {}
    for name, value in values.items():
        if name == _FILE or value is None or value == () or (name.endswith(_OFF) and not value):
            continue
        if name.endswith(_OFF):
            name, value = name.removesuffix(_OFF), "off"
            if values[name] is not None:
                flag = "--" + name.replace("_", "-")
                raise click.UsageError(f"{flag} is given together with the flag that turns it off")
        flags[name] = value
    if servers:
        _add_servers(flags, servers)
    file = values.get(_FILE)
    return (file if isinstance(file, Path) else None), flags


def is_connection_option(setting: Setting) -> bool:
    """Return True if an option says which cluster is used, or how kproxy connects to it and logs in.

    These are the options that a command needs that only sends requests to brokers.
    """
    from kproxy.config.declarations import CLUSTER, LOGIN, REACH, TLS

    return setting.group in (CLUSTER, REACH, TLS, LOGIN) and not setting.key.startswith("client-tls")


def servers_argument(command: Command) -> Command:
    """Add the argument `[HOST:PORT[,...]]...`, for `given_options`."""
    return click.argument("servers", nargs=-1, metavar="[HOST:PORT[,...]]", shell_complete=profiles)(command)


def _add_servers(flags: dict[str, object], servers: Sequence[str]) -> None:
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
    return is_address(word) and all(_WITH_PORT.fullmatch(part) for part in word.split(","))
