"""The command `report`."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.migrate.commands.arguments import FILE, JSON, echo_escaped
from kproxy.migrate.commands.observe import read_observed

if TYPE_CHECKING:
    from kproxy.base.errors import KproxyError
    from kproxy.migrate.report.record import MigrationRecord
    from kproxy.migrate.spec.migration import Migration


@click.command("report")
@FILE
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="HTML", help="File of the report."
)
@JSON
def report(file: Path, output: Path | None, as_json: bool) -> int:
    """Write what the migration has done, and what is not proven, as one HTML file or as JSON.

    \b
      kproxy migrate report move.yaml -o report.html
      kproxy migrate report move.yaml --json

    The report has what was copied and compared, with digests by partition, each switch and rollback with its kproxies
    and its operator, the positions of groups, and the changes of 'kproxy migrate prepare'. It repeats what the state
    topics on both clusters have; nothing else is read. 'kproxy migrate finish' deletes them: write the report before.

    The exit code is 0, 1 if the report has an error among what is not proven, and 2 if it cannot be made.
    """
    from kproxy.base.diagnostic import exit_code, show
    from kproxy.base.errors import ConfigError
    from kproxy.migrate.report.asjson import record_to_json
    from kproxy.migrate.report.doubts import find_doubts
    from kproxy.migrate.report.movepage import render_page
    from kproxy.migrate.spec.document import read_migration

    if output is None and not as_json:
        raise click.UsageError("nothing to write; allowed: -o FILE, --json")
    migration = read_migration(file)
    record = _read(migration, file)
    doubts = find_doubts(record)
    if output is not None:
        try:
            output.write_text(render_page(record), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"-o {output}: {error.strerror}; allowed: a file that can be written") from None
    if as_json:
        click.echo(json.dumps(record_to_json(record), indent=2))
    else:
        show(doubts)
        echo_escaped(f"Written to {output}")
    return exit_code(doubts)


def _read(migration: Migration, file: Path) -> MigrationRecord:
    """Read the record from the target, and from the source if records were copied back, as far as it can be reached."""
    from kproxy.base.errors import KproxyError
    from kproxy.migrate.clusters.endpoints import open_endpoints, open_target
    from kproxy.migrate.journal.switch_journal import read_last_switch
    from kproxy.migrate.report.record import read_record

    with ExitStack() as stack:
        target = stack.enter_context(open_target(migration))
        last = read_last_switch(target, migration.name)
        source: str | KproxyError | None = None
        if last is not None:
            try:
                source = stack.enter_context(open_endpoints(migration)).source
            except KproxyError as error:
                source = error
        usage = read_observed(file, migration.name)
        return read_record(migration, target, source, time.time_ns() // 1_000_000, usage)
