"""The commands `switch`, `rollback` and `finish`."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.migrate.commands.arguments import AS_END, DRY_RUN, FILE, MASTER, echo_escaped
from kproxy.migrate.commands.observe import observed_path, read_observed

if TYPE_CHECKING:
    from kproxy.migrate.commands.screen import Screen
    from kproxy.migrate.switch.opening import PrintResult
    from kproxy.migrate.switch.report import SwitchResult


def _observed_clients(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the clients that `--only` can name and that begin so, from the file of `observe`.

    If there are none, return what a name can be of, such as `group=`.
    """
    from kproxy.base.completion import file_argument, is_plain_word
    from kproxy.base.errors import ConfigError
    from kproxy.migrate.spec.document import read_migration
    from kproxy.migrate.switch.client_selection import KINDS, selectable_names

    file = file_argument(ctx)
    try:
        usage = read_observed(file, read_migration(file).name) if file is not None else None
    except ConfigError:  # a shell has no place for an error
        usage = None
    names = selectable_names(usage.clients) if usage is not None else ()
    words = sorted(f"{kind}={name}" for kind, name in names if is_plain_word(name))
    begun = [word for word in words if word.startswith(incomplete)]
    return begun or [f"{kind}=" for kind in KINDS if f"{kind}=".startswith(incomplete) and f"{kind}=" != incomplete]


CHECK_ONLY = click.option("--dry-run", is_flag=True, help="Run only the steps before writes are held.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
LOG = click.option(
    "--log",
    "log_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="LOG",
    help="The file for details and for what Spark prints. [default: kproxy-migration-NAME.log beside FILE]",
)
ALLOW_UNSEEN = click.option(
    "--allow-unseen",
    multiple=True,
    metavar="TOPIC",
    help="A producer may go round the kproxies to this topic, a name or a glob. [repeatable]",
)
LOST = click.option("--lost", multiple=True, metavar="KPROXY", help="This kproxy will not come back. [repeatable]")
_FINE, _STOPPED, _UNDONE, _INCOMPLETE = 0, 1, 3, 4


@click.command("switch")
@FILE
@CHECK_ONLY
@click.option(
    "--reversible",
    is_flag=True,
    help="Copy records from the target back to the source, so that a rollback is possible.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="WHICH=NAME",
    shell_complete=_observed_clients,
    help="Switch only these clients: group=GROUP, client-id=ID (it may end with *). [repeatable]",
)
@click.option(
    "--wave", default="", metavar="NAME", help="Switch only this wave of FILE: its clients, groups and topics."
)
@click.option(
    "--allow-split-readers",
    is_flag=True,
    help="With --only or --wave: other clients may continue to read on the source.",
)
@ALLOW_UNSEEN
@AS_END
@click.option("--resume", is_flag=True, help="Continue a switch or rollback whose driver has died.")
@click.option(
    "--abort", is_flag=True, help="Undo such a switch or rollback, if no client may write to the other cluster yet."
)
@LOST
@LOG
@JSON
@MASTER
def switch(
    file: Path,
    dry_run: bool,
    reversible: bool,
    only: tuple[str, ...],
    wave: str,
    allow_split_readers: bool,
    allow_unseen: tuple[str, ...],
    as_end: tuple[str, ...],
    resume: bool,
    abort: bool,
    lost: tuple[str, ...],
    log_path: Path | None,
    as_json: bool,
    master: str | None,
) -> int:
    """Move the clients of all kproxies to the target cluster.

    \b
      kproxy migrate switch move.yaml --dry-run
      kproxy migrate switch move.yaml

    All kproxies hold writes, the last records are copied and compared, the last positions are translated, and all
    sessions are moved to the target. Clients observe a pause of some seconds, and their connections end once. If a step
    fails, or a kproxy does not reply, everything is undone.

    The screen has the steps, and each finding once. Details, and what Spark prints, are in a log file, which the first
    line names.

    With --reversible the command continues after the switch: it copies records from the target back to the source until
    it is stopped. 'kproxy migrate copy --reverse --follow' does that too.

    If 'kproxy migrate observe' has found a producer that goes round the kproxies, the switch does not begin, unless
    --allow-unseen names the topic. After the switch, what is still written to the source is reported.

    If a switch or rollback was interrupted, wherever, the same command continues it, and no more: forward if possible,
    else back. It says what had happened, and starts the copy back again where it is due. With --resume it does so even
    if the former driver may still live, and with --abort it goes back unless clients may already write to the other
    cluster.

    With --only, the clients of these groups or with these client ids are moved, and all others stay: consumers first,
    then producers. 'kproxy migrate switch' without it moves all others. Open transactions of these clients are ended if
    they are named too: --only transactional-id=ID.

    With --wave, the clients and groups of a wave of FILE (section 'waves') are moved together with its topics, and all
    else stays. What it is connected to must not stay behind, so this needs 'kproxy migrate observe' before. Waves may
    go one after the other; 'kproxy migrate switch' without --wave moves what is left.

    The exit code is 0 if the switch is done (with --dry-run: if it can be done), 1 if a finding blocks it before writes
    are held, 2 if it cannot begin, 3 if it was undone, and 4 if it has not finished: then run it with --resume or
    --abort.
    """
    from kproxy.base.errors import ConfigError
    from kproxy.migrate.commands.screen import open_screen
    from kproxy.migrate.spec.document import read_migration
    from kproxy.migrate.switch.client_selection import parse_selection, select_wave
    from kproxy.migrate.switch.operations import run_switch
    from kproxy.migrate.switch.resumption import resume_or_abort
    from kproxy.migrate.switch.unseen_check import UnseenCheck

    if sum((dry_run, resume, abort)) > 1 or (reversible and (resume or abort)) or (lost and not (resume or abort)):
        raise ConfigError(
            "allowed: one of --dry-run, --resume and --abort; --lost with one of the last two, --reversible with none"
        )
    chosen = parse_selection(only, allow_split_readers=allow_split_readers)
    if chosen is not None and (reversible or resume or abort or wave):
        raise ConfigError("--only: allowed with --dry-run, --allow-split-readers, --as-end, --json and --master")
    if wave and (resume or abort):
        raise ConfigError("--wave: not with --resume or --abort, which know what was interrupted")
    if as_end and (resume or abort):
        raise ConfigError("--as-end: not with --resume or --abort")
    if allow_split_readers and chosen is None and not wave:
        raise ConfigError("--allow-split-readers: allowed with --only or --wave")
    migration = read_migration(file).with_as_end(as_end)
    if wave:
        chosen = select_wave(migration, wave, allow_split_readers=allow_split_readers)
    with open_screen("switch", migration.name, file, log_path, plain=as_json) as screen:
        report = partial(_print_result, screen, as_json=as_json)
        if resume or abort:
            result = resume_or_abort(migration, master, screen, report, abort=abort, lost=lost)
        else:
            unseen = UnseenCheck(observed_path(file, migration.name), allow_unseen)
            result = run_switch(
                migration,
                master,
                screen,
                report,
                dry_run=dry_run,
                reversible=reversible,
                selection=chosen,
                unseen=unseen,
                usage=read_observed(file, migration.name),
            )
        return _exit_code(result, report)


@click.command("rollback")
@FILE
@CHECK_ONLY
@click.option(
    "--only",
    multiple=True,
    metavar="WHICH=NAME",
    shell_complete=_observed_clients,
    help="Roll back only these of the clients that were switched with --only. [repeatable]",
)
@click.option("--wave", default="", metavar="NAME", help="Roll back only this wave.")
@AS_END
@LOST
@LOG
@JSON
@MASTER
def rollback(
    file: Path,
    dry_run: bool,
    only: tuple[str, ...],
    wave: str,
    as_end: tuple[str, ...],
    lost: tuple[str, ...],
    log_path: Path | None,
    as_json: bool,
    master: str | None,
) -> int:
    """Move the clients back to the source.

    While a switch has not finished, this is 'kproxy migrate switch --abort'. A rollback that was interrupted is
    continued. After a switch, the records that clients have
    written to the target must have been copied back ('switch --reversible'); then the steps of a switch are done in the
    other direction.

    Clients that were switched with --only, and have only read on the target, are moved back by themselves. With --wave,
    a wave that was switched with --reversible is moved back with what it wrote, and all else stays.

    The exit codes are those of 'kproxy migrate switch'.
    """
    from kproxy.base.errors import ConfigError
    from kproxy.migrate.commands.screen import open_screen
    from kproxy.migrate.spec.document import read_migration
    from kproxy.migrate.switch.client_selection import ClientSelection, parse_selection
    from kproxy.migrate.switch.operations import run_rollback

    chosen = parse_selection(only, allow_split_readers=False)
    if wave and chosen is not None:
        raise ConfigError("--wave and --only: allowed: one of them")
    if wave:
        chosen = ClientSelection(wave=wave)
    migration = read_migration(file).with_as_end(as_end)
    with open_screen("rollback", migration.name, file, log_path, plain=as_json) as screen:
        report = partial(_print_result, screen, as_json=as_json)
        usage = read_observed(file, migration.name)
        result = run_rollback(
            migration, master, screen, report, dry_run=dry_run, lost=lost, selection=chosen, usage=usage
        )
        return _exit_code(result, report)


@click.command("finish")
@FILE
@DRY_RUN
@ALLOW_UNSEEN
@click.option(
    "--force", is_flag=True, help="Finish even if the source or a kproxy does not reply, or the source is written."
)
def finish(file: Path, dry_run: bool, allow_unseen: tuple[str, ...], force: bool) -> int:
    """End the migration. A rollback is impossible afterwards.

    \b
      kproxy migrate finish move.yaml --dry-run
      kproxy migrate finish move.yaml

    The command first shows which clients use which kproxy and which side, by user and client, and what still uses the
    source: who writes to it, so that nothing brings these records to the target, and which groups have members there.
    It says whether the source can be switched off by what it has tried, and what it cannot see. If records are still
    written to the source, it ends there.

    Then the topics of the target get the configurations that 'kproxy migrate prepare' held open, and the state of the
    migration is deleted. The last lines show what to remove from the configuration of kproxy, and how clients connect
    to the target without it.

    The exit code is 0 if all is done, 1 if something stays, and 2 if a switch has not finished or a cluster cannot be
    reached.
    """
    from rich.console import Console

    from kproxy.base.diagnostic import grouped, show
    from kproxy.migrate.spec.document import read_migration
    from kproxy.migrate.switch.finish import FinishOptions, run_finish

    migration = read_migration(file)
    console = Console(file=sys.stdout, highlight=False)
    options = FinishOptions(dry_run, force, allow_unseen)
    remaining = run_finish(
        migration,
        echo_escaped,
        lambda findings: show(grouped(findings), console),
        options,
        read_observed(file, migration.name),
    )
    for text in remaining:
        echo_escaped(f"stays: {text}")
    return _STOPPED if remaining else _FINE


def _exit_code(result: SwitchResult, report: PrintResult) -> int:
    from kproxy.proxy.switching.twophase import CoordinatorOutcome

    if not result.reported:
        report(result)
    if result.drive_result is None:
        return _STOPPED if result.blocked else _FINE
    codes = {CoordinatorOutcome.RELEASED: _FINE, CoordinatorOutcome.UNDONE: _UNDONE}
    return codes.get(result.drive_result.end, _INCOMPLETE)


def _print_result(screen: Screen, result: SwitchResult, *, as_json: bool) -> None:
    from kproxy.migrate.switch.report import result_lines, result_to_json

    if as_json:
        click.echo(json.dumps(result_to_json(result), indent=2))
    elif result.drive_result is None:
        for line in result.message.splitlines():
            screen.result(line)
    else:
        for line in result_lines(result):
            screen.result(line)
