"""The command `verify`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.base.errors import ConfigError
from kproxy.migrate.commands.arguments import FILE, JSON

if TYPE_CHECKING:
    from kproxy.migrate.verify.results import LagSample


def _read_lag_samples(target: str, name: str) -> list[LagSample]:
    """Return the lag of the copy over time, from the driver's record."""
    from kproxy.migrate.copier.statetopic import read_state
    from kproxy.migrate.journal.driver import JOB_KEY
    from kproxy.migrate.verify.results import LagSample

    value = read_state(target, name, JOB_KEY.__eq__).get(JOB_KEY, b"{}")
    try:
        return [LagSample(int(time), int(lag)) for time, lag in json.loads(value).get("lag", [])]
    except (ValueError, TypeError, AttributeError):  # it is for a picture
        return []


@click.command("verify")
@FILE
@click.option(
    "--sample",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Compare only this share of the blocks; nothing counts as verified then.",
)
@click.option("--full", is_flag=True, help="Also compare what was verified before.")
@click.option("--show-bytes", is_flag=True, help="Show the first bytes of keys and values that differ.")
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Also write an HTML report."
)
@JSON
@click.option("--master", metavar="URL", help="Spark's master. [default: spark-submit's, else local[*]]")
def verify_command(
    file: Path,
    sample: float | None,
    full: bool,
    show_bytes: bool,
    report: Path | None,
    as_json: bool,
    master: str | None,
) -> int:
    """Compare what was copied with the source, record by record.

    \b
      kproxy migrate verify move.yaml --report verified.html

    Spark reads both clusters with its own Kafka source, and compares counts and hashes of keys, values, headers,
    timestamps, order and partitions. Verified records stay verified: the next run compares the records that were copied
    since, and with --full all records again. The first differing record of each partition is shown.

    The exit code is 0 if all copied records are equal, 1 if records differ or could not be compared, and 2 if the
    verification cannot begin.
    """
    from kproxy.base.format import abbreviate
    from kproxy.migrate.clusters.endpoints import open_endpoints
    from kproxy.migrate.copy.sparksession import spark_session
    from kproxy.migrate.journal.switch_journal import read_last_switch
    from kproxy.migrate.spec.document import read_migration
    from kproxy.migrate.verify.report import render_text, to_json
    from kproxy.migrate.verify.reportpage import render_page
    from kproxy.migrate.verify.runner import run_verification

    migration = read_migration(file)
    with (
        spark_session(f"kproxy migrate {migration.name}", master, reads_kafka=True) as spark,
        open_endpoints(migration, spark) as endpoints,
    ):
        result = run_verification(
            spark,
            endpoints.source,
            endpoints.target,
            migration.name,
            sample=sample,
            show_bytes=show_bytes,
            full=full,
            on_progress=lambda line: click.echo(line, err=True),
        )
        result = replace(result, lag=_read_lag_samples(endpoints.target, migration.name))
        last = read_last_switch(endpoints.target, migration.name)
    if last is not None and last.waves_on_target:
        waves = abbreviate(list(last.waves_on_target))
        text = (
            f"not compared: topics of wave {waves}, which were compared when it moved; clients write on the target now"
        )
        click.echo(text, err=True)
    if as_json:
        click.echo(json.dumps(to_json(result), indent=2))
    else:
        fancy = "utf" in (sys.stdout.encoding or "").lower()
        for line in render_text(result, fancy=fancy):
            click.echo(line)
    if report is not None:
        try:
            report.write_text(render_page(result), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--report {report}: {error.strerror}") from None
    return result.exit_code
