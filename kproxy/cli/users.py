"""`kproxy users`: the file of the users who log in at kproxy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from kproxy.cli import completion
from kproxy.cli.findings import format_option, print_findings
from kproxy.cli.group import kproxy, needs_unix

if TYPE_CHECKING:
    from kproxy.users.document import User

# The longest password that standard input may have, in characters.
_LONGEST_PASSWORD = 64 * 1024
_STDIN = "-"

_file = click.argument("file", type=click.Path(path_type=Path), shell_complete=completion.files)
_name = click.argument("name", shell_complete=completion.users)
_mechanisms = click.option(
    *("--mechanism", "mechanisms"),
    type=click.Choice(["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    multiple=True,
    help="The mechanism that the user may log in with; may be given twice.  [default: both]",
)


@kproxy.group("users", invoke_without_command=True)
@click.pass_context
def users_group(ctx: click.Context) -> int:
    """Keep the file of the users who log in at kproxy.

    \b
      kproxy users add users.yaml alice
      kproxy users import users.yaml zookeeper.txt

    The file has SCRAM verifiers in place of passwords, and must be private (mode 0600). A running kproxy reads it again
    when it changes.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@users_group.command()
@_file
@_name
@_mechanisms
@click.option("--iterations", type=int, default=4096, show_default=True, help="The iterations of SCRAM: 4096 to 16384.")
@click.pass_context
def add(ctx: click.Context, file: Path, name: str, mechanisms: tuple[str, ...], iterations: int) -> int:
    """Add the user NAME to FILE, or give this user another password.

    \b
      kproxy users add users.yaml alice
      kproxy users add users.yaml alice < password.txt

    The command asks for the password, or reads the first line of standard input. Logins for upstreams stay.
    """
    from kproxy.users.document import User, name_problem
    from kproxy.users.editing import edit_users
    from kproxy.users.verifier import HASHES, ScramVerifier

    needs_unix(ctx)
    if problem := name_problem(name):
        raise click.UsageError(f"the name {problem}")
    if not 4096 <= iterations <= 16384:
        raise click.UsageError(f"--iterations: {iterations} is out of range; allowed: 4096 to 16384, as in Kafka")
    password = _password(f"Password of {name}")
    verifiers = {
        mechanism: ScramVerifier.from_password(mechanism, password, iterations=iterations)
        for mechanism in mechanisms or HASHES
    }
    with edit_users(file) as users:
        before = users.get(name)
        users[name] = User(name, verifiers, before.logins if before else {})
    click.echo(f"{'changed' if before else 'added'}: {name} ({', '.join(verifiers)})")
    return 0


@users_group.command("login")
@_file
@_name
@click.argument("upstream")
@click.option("--username", metavar="NAME", help="The user name at the upstream.  [default: NAME]")
@click.option(
    "--mechanism",
    type=click.Choice(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]),
    help="The mechanism to log in with.  [default: that of the upstream]",
)
@click.pass_context
def login(ctx: click.Context, file: Path, name: str, upstream: str, username: str | None, mechanism: str | None) -> int:
    """Set the login with which kproxy logs in to UPSTREAM for the user NAME.

    \b
      kproxy users login users.yaml alice green --username sa-4711

    The command asks for the password at the upstream, or reads the first line of standard input. With OAUTHBEARER, this
    is the token.
    """
    from dataclasses import replace

    from kproxy.users.document import UpstreamLogin, login_problem
    from kproxy.users.editing import edit_users

    needs_unix(ctx)
    secret = _password(f"Password of {username or name} at {upstream}")
    if mechanism == "OAUTHBEARER":
        entry = UpstreamLogin(username or "", token=secret, mechanism=mechanism)
    else:
        entry = UpstreamLogin(username or name, password=secret, mechanism=mechanism)
    if problem := login_problem(entry):
        raise click.UsageError(f"this login {problem}")
    with edit_users(file) as users:
        user = _known(users, name, file)
        users[name] = replace(user, logins={**user.logins, upstream: entry})
    click.echo(f"set: {name} logs in to {upstream} as {entry.username or 'the user of the token'}")
    return 0


@users_group.command()
@_file
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=completion.users)
@click.pass_context
def remove(ctx: click.Context, file: Path, names: tuple[str, ...]) -> int:
    """Remove users from FILE. Their open sessions continue until they must log in again."""
    from kproxy.users.editing import edit_users

    needs_unix(ctx)
    with edit_users(file) as users:
        for name in dict.fromkeys(names):
            _known(users, name, file)
            del users[name]
    click.echo(f"removed: {', '.join(dict.fromkeys(names))}")
    return 0


@users_group.command("list")
@_file
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(file: Path, as_json: bool) -> int:
    """List the users of FILE: what each may log in with, and the upstreams with a login. It shows no secret."""
    from kproxy.users.usersfile import read_users_file

    users = read_users_file(file).users
    if as_json:
        click.echo(json.dumps({"users": [_as_json(user) for user in users.values()]}, indent=2, ensure_ascii=False))
        return 0
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table("user", "logs in with", "upstreams", box=box.SIMPLE_HEAD)
    for user in users.values():
        mechanisms = ", ".join(f"{name} ({made.iterations})" for name, made in user.verifiers.items())
        logins = ", ".join(f"{name} as {login.username or '(token)'}" for name, login in user.logins.items())
        table.add_row(*map(_cell, (user.name, mechanisms or "-", logins or "-")))
    Console(highlight=False).print(table)
    return 0


@users_group.command("check")
@_file
@format_option
def check_file(file: Path, form: str) -> int:
    """Check FILE, and report all mistakes with their lines. The exit code is 0 without mistakes, otherwise 1."""
    from kproxy.base.diagnostic import exit_code
    from kproxy.base.errors import ConfigError
    from kproxy.base.format import format_count
    from kproxy.users.usersfile import read_text, read_users_file

    read_text(file)  # a file that cannot be read, or that is open to others, is no list of mistakes
    try:
        users = read_users_file(file).users
    except ConfigError as error:
        print_findings(error.diagnostics, form)
        return exit_code(error.diagnostics)
    if form != "text":
        print_findings([], form)
        return 0
    verified = sum(bool(user.verifiers) for user in users.values())
    mapped = sum(bool(user.logins) for user in users.values())
    count = format_count(len(users), "user")
    click.echo(f"ok: {count}, {verified} with a password, {mapped} with logins for upstreams")
    return 0


@users_group.command("import")
@_file
@click.argument("sources", nargs=-1, metavar="[SOURCE]…", type=str, shell_complete=completion.files)
@click.option("--user", metavar="NAME", help="The user of a node of ZooKeeper, if the text does not have its path.")
@click.pass_context
def import_(ctx: click.Context, file: Path, sources: tuple[str, ...], user: str | None) -> int:
    """Add the users of a cluster to FILE, with the passwords that they have there.

    \b
      kafka-configs --zookeeper ZK:2181 --describe --entity-type users > zk.txt
      kproxy users import users.yaml zk.txt

    \b
      zookeeper-shell ZK:2181 get /config/users/alice > alice.txt
      kproxy users import users.yaml alice.txt --user alice

    \b
      kafka-dump-log --cluster-metadata-decoder --files LOG > log.txt
      kproxy users import users.yaml log.txt

    SOURCE is what these commands print, in the order of the log; without SOURCE, standard input. They print the SCRAM
    verifiers that the brokers have, so no password is needed. LOG is a *.log or *.checkpoint in the directory
    __cluster_metadata-0 of a controller; give the last *.checkpoint first, then the later *.log. A verifier in FILE is
    replaced; logins for upstreams stay. The exit code is 1 if a verifier was left out.
    """
    from kproxy.base.diagnostic import NOTE, WARNING, Diagnostic, show
    from kproxy.base.errors import ConfigError
    from kproxy.base.format import abbreviate, format_count
    from kproxy.users.document import User
    from kproxy.users.editing import edit_users
    from kproxy.users.kafkaoutput import ScramReader

    needs_unix(ctx)
    reader = ScramReader(user)
    for source in sources or (_STDIN,):
        reader.read(_lines(source))
    result = reader.result
    if result.users:
        with edit_users(file) as users:
            present = users.keys() & result.removed
            added = [name for name in result.users if name not in users]
            for name, verifiers in result.users.items():
                before = users.get(name) or User(name, {}, {})
                users[name] = User(name, {**before.verifiers, **verifiers}, before.logins)
        changed = len(result.users) - len(added)
        click.echo(f"imported {format_count(len(result.users), 'user')}: {len(added)} added, {changed} changed")
    else:
        present = set()
    findings = [Diagnostic(WARNING, name, f"left out: {problem}") for name, problem in result.problems]
    if result.without:
        names = abbreviate(sorted(result.without))
        findings.append(Diagnostic(NOTE, names, "left out: no SCRAM verifier, only other settings such as quotas"))
    if present:
        names = abbreviate(sorted(present))
        findings.append(Diagnostic(NOTE, names, f"removed there, and still in {file}: kproxy users remove"))
    show(findings)
    if not result.users:
        hint = "it is none of what the commands in --help print"
        if result.has_described_only:
            hint = "kafka-configs --bootstrap-server prints no keys; see --help for what does"
        raise ConfigError(f"{', '.join(sources) or 'standard input'}: no SCRAM verifier that can be used: {hint}")
    return 1 if result.problems else 0


def _lines(source: str) -> Iterator[str]:
    """Yield the lines of a source. Raises ConfigError."""
    from kproxy.base.errors import ConfigError
    from kproxy.base.regularfile import reason_of

    try:
        if source == _STDIN:
            if sys.stdin.isatty():
                click.echo("Reading standard input; Ctrl-D ends it.", err=True)
            yield from _bounded(sys.stdin.buffer)
            return
        with open(source, "rb") as file:
            yield from _bounded(file)
    except OSError as error:
        raise ConfigError(f"{source}: {reason_of(error)}") from None


def _bounded(file: BinaryIO) -> Iterator[str]:
    """Yield lines, and of a longer one the parts: a file without line ends must not fill the memory."""
    while line := file.readline(4 * 1024 * 1024):
        yield line.decode(errors="replace")


def _password(what: str) -> str:
    """Ask for a password, or read it from standard input. Raises ClickException."""
    if sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True, confirmation_prompt=True))
    try:
        line = sys.stdin.buffer.readline(_LONGEST_PASSWORD + 1).decode()
    except UnicodeDecodeError:
        raise click.UsageError("the password on standard input is not UTF-8 text") from None
    password = line.removesuffix("\n").removesuffix("\r")
    if not password or len(line) > _LONGEST_PASSWORD or "\0" in password:
        problem = "is empty" if not password else "is too long, or is not text"
        raise click.UsageError(f"the password on standard input {problem}; allowed: one line")
    return password


def _known(users: dict[str, User], name: str, file: Path) -> User:
    if name not in users:
        from difflib import get_close_matches

        from kproxy.base.errors import ConfigError

        near = get_close_matches(name, users, 1)
        if not users:
            raise ConfigError(f"{file} has no users: kproxy users add {file} {name}")
        more = f"; did you mean {near[0]}?" if near else f": kproxy users list {file}"
        raise ConfigError(f"{file} has no user {name}{more}")
    return users[name]


def _as_json(user: User) -> dict[str, object]:
    return {
        "name": user.name,
        "mechanisms": {mechanism: {"iterations": made.iterations} for mechanism, made in user.verifiers.items()},
        "logins": {
            upstream: {"username": login.username, "mechanism": login.mechanism, "has_token": login.token is not None}
            for upstream, login in user.logins.items()
        },
    }


def _cell(text: str) -> str:
    from rich.markup import escape

    from kproxy.base.printable import escaped

    return escape(escaped(text))
