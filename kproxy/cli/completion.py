"""`kproxy completion`: the script with which a shell completes kproxy's words, and what only a machine knows of them.

click makes the scripts, and completes commands, options, the words of a choice and files. Here are the names of
profiles, of the clusters and nodes of a running kproxy, and of users. `kproxy migrate` has its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click import shell_completion
from click.shell_completion import CompletionItem

from kproxy.base.completion import file_argument, is_plain_word
from kproxy.cli.group import kproxy

if TYPE_CHECKING:
    from kproxy.config import Config

VARIABLE = "_KPROXY_COMPLETE"
"""The variable with which a shell asks for completions."""
_SHELLS = ("bash", "zsh", "fish")
# A person waits for it.
_SECONDS = 3.0


@kproxy.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> int:
    """Print the script that completes kproxy's words in a shell.

    \b
      eval "$(kproxy completion bash)"      # in ~/.bashrc
      eval "$(kproxy completion zsh)"       # in ~/.zshrc, after compinit
      kproxy completion fish | source       # in ~/.config/fish/config.fish

    It completes commands, options, their words, files, and profiles. For the names of clusters and nodes ('kproxy tap
    --cluster' and '--node', 'kproxy reload --accept-cluster'), it asks the kproxy at --admin. The names of users are
    those of FILE ('kproxy users', 'kproxy config check --as'). Those of clients ('kproxy migrate switch --only') are in
    the file that 'kproxy migrate observe' has written. bash must be 4.4 or later; that of macOS is 3.2.
    """
    maker = shell_completion.get_completion_class(shell)
    assert maker is not None
    click.echo(maker(kproxy, {}, "kproxy", VARIABLE).source())
    return 0


class _WholeWords(shell_completion.ShellComplete):
    """Completion that returns whole words: for `--log-level=d`, click returns `debug` alone, which loses the flag."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        flag, equals, _ = incomplete.partition("=")
        items = super().get_completions(args, incomplete)
        if equals and flag.startswith("--"):
            return [CompletionItem(f"{flag}={item.value}", item.type, item.help) for item in items]
        return items


@shell_completion.add_completion_class
class _Zsh(_WholeWords, shell_completion.ZshComplete):
    """Completion for zsh. Behind `group=`, a name follows at once: no space."""

    source_template = shell_completion.ZshComplete.source_template.replace(
        "compadd -U -V unsorted -a completions",
        """local -a suffix
        [[ $completions[1] == *= ]] && suffix=(-S '')
        compadd -U -V unsorted "${suffix[@]}" -a completions""",
    )


@shell_completion.add_completion_class
class _Fish(_WholeWords, shell_completion.FishComplete):
    pass


@shell_completion.add_completion_class
class _Bash(_WholeWords, shell_completion.BashComplete):
    """Completion for bash, which takes `@`, `:` and `=` for the ends of words.

    The script of click sends the words as bash divides them: `@` and `staging`. This one sends the line. bash replaces
    only what is behind the last of these characters, and `@` with it (readline's rl_special_prefixes), so an answer has
    only that. Behind `group=`, a name follows at once: no space.
    """

    source_template = shell_completion.BashComplete.source_template.replace(
        'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD',
        'COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS"',
    ).replace("COMPREPLY+=($value)", "COMPREPLY+=($value); [[ $value == *= ]] && compopt -o nospace")
    _kept = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        _, *words = shell_completion.split_arg_string(line) or [""]
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        last = max((incomplete.rfind(character) for character in os.environ.get("COMP_WORDBREAKS", "")), default=-1)
        self._kept = incomplete[:last] if incomplete[last:].startswith("@") else incomplete[: last + 1]
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{str(item.value).removeprefix(self._kept)}"


def profiles(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the profiles that begin so, as `@NAME`, where a profile may stand: as the first word."""
    from kproxy.cli.profiles import paths

    if any(source is click.core.ParameterSource.COMMANDLINE for source in map(ctx.get_parameter_source, ctx.params)):
        return []
    return [CompletionItem(f"@{name}") for name in paths.names() if f"@{name}".startswith(incomplete)]


def files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def apis(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of APIs that begin so."""
    from kproxy.protocol.wire.api import ApiKey

    names = sorted(api.name for api in ApiKey)
    return [CompletionItem(name) for name in names if name.lower().startswith(incomplete.lower())]


def families(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the families of APIs that begin so."""
    from kproxy.config.access import FAMILIES

    return [CompletionItem(name) for name in FAMILIES if name.startswith(incomplete)]


def clusters(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the clusters of the kproxy at --admin whose names begin so; none if it does not answer at once."""
    return _items((cluster.get("name") for cluster in _clusters(ctx)), incomplete)


def nodes(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the nodes of the kproxy at --admin whose names begin so; none if it does not answer at once."""
    names = [node.get("node") for cluster in _clusters(ctx) for node in _objects(cluster.get("nodes"))]
    return _items(["bootstrap", *names], incomplete)


def users(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the users of the users file FILE whose names begin so; none if the file cannot be read."""
    return _items(_names_in(file_argument(ctx)), incomplete)


def configured_users(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the users of the configuration FILE whose names begin so: of its users files and of its rules."""
    from kproxy.base.errors import ConfigError
    from kproxy.config import read

    file = file_argument(ctx)
    try:
        config = read({}, os.environ, file).config if file is not None else None
    except ConfigError:
        config = None
    return _items(_users_of(config) if config is not None else (), incomplete)


def _users_of(config: Config) -> Iterator[str]:
    for cluster in config.served:
        yield from _names_in(cluster.users_file)
        for rule in cluster.rules:
            yield from map(str, rule.users)


def _names_in(file: Path | None) -> Iterable[str]:
    """Return the names of the users of a users file; none if it cannot be read."""
    from kproxy.base.errors import ConfigError
    from kproxy.users.usersfile import read_users_file

    try:
        return read_users_file(file).users if file is not None else ()
    except ConfigError:
        return ()


def _items(names: Iterable[object], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin so, and that a shell takes as they are: any program may listen at --admin."""
    plain = {name for name in names if isinstance(name, str) and is_plain_word(name)}
    return [CompletionItem(name) for name in sorted(plain) if name.startswith(incomplete)]


def _clusters(ctx: click.Context) -> list[Mapping[str, object]]:
    from kproxy.base.errors import AdminError, ConfigError
    from kproxy.cli.admin_access import admin_client

    admin, ca, token_file = (ctx.params.get(name) for name in ("admin", "admin_ca", "admin_token_file"))
    try:
        status = admin_client(str(admin), ca, token_file, _SECONDS).get("/status")
    except (AdminError, ConfigError, click.UsageError):  # a shell has no place for an error
        return []
    return _objects(status.get("clusters")) if isinstance(status, dict) else []


def _objects(value: object) -> list[Mapping[str, object]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
