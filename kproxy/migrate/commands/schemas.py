"""The command `schemas`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.migrate.commands.arguments import (
    DRY_RUN,
    FILE,
    JSON,
    echo_escaped,
    interrupted_by_sigterm,
    parse_duration,
)

if TYPE_CHECKING:
    from kproxy.migrate.schemas.transfer import SchemaTransfer, TransferResult

_EXAMPLE = "schemas: {source: http://registry-old:8081, target: http://registry-new:8081}"


@click.command("schemas")
@FILE
@DRY_RUN
@click.option("--watch", is_flag=True, help="Copy what is new at the source, again and again, until Ctrl-C.")
@click.option(
    "--every",
    "pause",
    default="30s",
    show_default=True,
    metavar="DURATION",
    callback=parse_duration(1, 24 * 3600),
    help="With --watch: the pause between two rounds.",
)
@click.option(
    "--reverse", is_flag=True, help="Before a rollback: copy what clients have registered at the target to the source."
)
@JSON
def schemas(file: Path, dry_run: bool, watch: bool, pause: float, reverse: bool, as_json: bool) -> int:
    """Copy the schemas of a registry to another one, with the same ids, and verify them.

    \b
      kproxy migrate schemas move.yaml --dry-run
      kproxy migrate schemas move.yaml --watch

    FILE is the YAML file of the migration, whose section 'schemas' has both registries. The command copies subjects,
    versions, references, compatibility and modes. It never changes the source. It changes nothing at all if a
    version or an id means something else at the target. At the end, it reads each version and each id at the target.

    With --reverse, the file's target is the source, and the other way round.

    The exit code is 0 if the target has all schemas under their ids, 1 if not (with --dry-run: not yet), and 2 if the
    file is wrong or a registry cannot be asked.
    """
    from kproxy.base.diagnostic import NOT_CHECKED, exit_code
    from kproxy.base.errors import ConfigError
    from kproxy.migrate.schemas.registry import RegistryClient, RegistryError
    from kproxy.migrate.schemas.transfer import SchemaTransfer, TransferStopped
    from kproxy.migrate.spec.document import read_migration

    section = read_migration(file).schemas
    if section is None:
        raise ConfigError(f"{file}: has no section 'schemas'; allowed: {_EXAMPLE}")
    if reverse:
        section = section.reversed()
    if dry_run and watch:
        raise click.UsageError("--dry-run and --watch exclude each other")

    def log(text: str) -> None:
        echo_escaped(text, err=True)

    with RegistryClient("source", section.source) as source, RegistryClient("target", section.target) as target:
        transfer = SchemaTransfer(section, source, target, log)
        if watch:
            return _watch(transfer, pause, as_json=as_json)
        try:
            result = transfer.run_round(dry_run=dry_run)
        except TransferStopped:
            raise
        except RegistryError as error:
            echo_escaped(f"error: {error}", err=True)
            return NOT_CHECKED
        _show(result, dry_run=dry_run, as_json=as_json)
        return exit_code(result.findings)


def _watch(transfer: SchemaTransfer, pause: float, *, as_json: bool) -> int:
    """Copy until Ctrl-C or SIGTERM; return the exit code of the last round."""
    from kproxy.base.diagnostic import NOT_CHECKED, exit_code
    from kproxy.migrate.schemas.registry import RegistryError
    from kproxy.migrate.schemas.transfer import TransferStopped

    code, before = NOT_CHECKED, None
    with interrupted_by_sigterm():
        try:
            while True:
                try:
                    result = transfer.run_round()
                    code = exit_code(result.findings)
                    if result.changes or before is None or result.findings != before.findings:
                        _show(result, dry_run=False, as_json=as_json)
                    before = result
                except TransferStopped:
                    raise
                except RegistryError as error:  # a registry that restarts is there again in a later round
                    code, before = NOT_CHECKED, None
                    echo_escaped(f"error: {error}", err=True)
                time.sleep(pause)
        except KeyboardInterrupt:
            return code


def _show(result: TransferResult, *, dry_run: bool, as_json: bool) -> None:
    from kproxy.base.diagnostic import show, to_json
    from kproxy.base.format import format_count

    if as_json:
        value = {
            "subjects": result.subjects,
            "versions": result.versions,
            "ids": result.ids,
            "verified": result.is_verified,
            "changes": list(result.changes),
            "findings": [to_json(finding) for finding in result.findings],
        }
        click.echo(json.dumps(value))
        return
    if dry_run:
        for change in result.changes:
            echo_escaped(f"would {change}")
        if not result.changes and result.is_verified:
            echo_escaped("Nothing to do.")
    show(finding for finding in result.findings if not (dry_run and result.changes and finding.severity == "error"))
    counts = f"{format_count(result.versions, 'version')} of {format_count(result.subjects, 'subject')}"
    if result.is_verified:
        echo_escaped(f"{counts} and {format_count(result.ids, 'id')} were read at the target: all are the source's.")
    elif not result.changes:
        echo_escaped("Nothing was changed at the target.")
