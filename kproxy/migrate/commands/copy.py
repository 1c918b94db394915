"""The commands `copy`, `pause`, `resume` and `status`."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from datetime import time as clock_time
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from kproxy.migrate.commands.arguments import FILE, JSON, MASTER
from kproxy.migrate.copier.requests import TopicPartition

if TYPE_CHECKING:
    from kproxy.migrate.copy.copyrun import CopyRun
    from kproxy.migrate.report.status import MigrationStatus
    from kproxy.migrate.spec.migration import Migration

_INCOMPLETE = 1


def _end_time(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """Return the next moment with a time of day, or with a date and time."""
    if value is None:
        return None
    now = datetime.now().astimezone()
    try:
        if re.fullmatch(r"\d\d:\d\d", value):
            until = datetime.combine(now.date(), clock_time.fromisoformat(value)).astimezone()
            if until <= now:
                until = datetime.combine(now.date() + timedelta(days=1), clock_time.fromisoformat(value)).astimezone()
        else:
            until = datetime.fromisoformat(value).astimezone()
    except ValueError:
        raise click.BadParameter(f"{value!r} is no time; allowed: HH:MM, or as 2026-11-27T02:00") from None
    if until <= now:
        raise click.BadParameter(f"{value} is over; allowed: a time to come")
    return until


@click.command("copy")
@FILE
@click.option("--follow", is_flag=True, help="Continue with new records until the command is stopped.")
@click.option(
    "--max-rate", type=click.FloatRange(min=0, min_open=True), metavar="MB/S", help="The limit of the whole job."
)
@click.option(
    "--until",
    metavar="TIME",
    callback=_end_time,
    help="End after the round at this time of this host: HH:MM, or as 2026-11-27T02:00.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve the copy's metrics for Prometheus there, at /metrics.")
@MASTER
@click.option("--reverse", is_flag=True, help="After a reversible switch: copy from the target to the source.")
@click.option("--wave", default="", metavar="NAME", help="With --reverse: copy the topics of this wave.")
@click.option("--take-over", is_flag=True, help="Replace a driver that is already copying.")
@click.option(
    "--skip-deleted",
    multiple=True,
    metavar="TOPIC:PARTITION:OFFSET",
    help="Continue at this offset although the source has deleted records before it that were not copied. [repeatable]",
)
def copy(
    file: Path,
    follow: bool,
    max_rate: float | None,
    until: datetime | None,
    metrics: str | None,
    master: str | None,
    reverse: bool,
    wave: str,
    take_over: bool,
    skip_deleted: tuple[str, ...],
) -> int:
    """Copy the topics, as Spark jobs.

    \b
      kproxy migrate copy move.yaml
      spark-submit --master yarn kproxy-move.py copy move.yaml --follow

    The command resumes where the last one ended, however it ended: the target has the state of the copy. Without
    --follow it ends when all records that existed at its start are copied. Run 'kproxy migrate prepare' before. Topics
    of waves that are on the target are left out.

    With --until, the copy starts no round after that time, so that it does not load the clusters by day; a round lasts
    about half a minute.

    The exit code is 0 if all records are copied or the time of --until has come, 1 if not (the last lines have the
    reason), and 2 if the copy cannot begin.
    """
    from kproxy.migrate.clusters.endpoints import open_endpoints
    from kproxy.migrate.copy.copyrun import CopyRun
    from kproxy.migrate.copy.display import batches_line, display_progress, message_lines, serve_metrics, summary_line
    from kproxy.migrate.copy.scope import build_copy_spec
    from kproxy.migrate.copy.sparksession import spark_session
    from kproxy.migrate.journal.switch_journal import read_last_switch
    from kproxy.migrate.spec.document import read_migration
    from kproxy.migrate.switch.inverse_offset_map import swap_endpoints

    if wave and not reverse:
        raise click.UsageError("--wave: allowed with --reverse; the copy to the target has all topics on the source")
    migration = read_migration(file)
    skip = dict(_parse_skip(text) for text in skip_deleted)
    with (
        spark_session(f"kproxy migrate {migration.name}", master) as spark,
        open_endpoints(migration, spark) as endpoints,
    ):
        allowed = None
        last = read_last_switch(endpoints.target, migration.name)
        if reverse:
            from kproxy.migrate.switch.reverse_copy import check_reverse_copy_allowed, read_reverse_migration
            from kproxy.migrate.switch.wave_sides import require_moved_wave

            forward, forward_endpoints = migration, endpoints
            if wave:
                forward = forward.of_wave(wave, require_moved_wave(last, wave).topics)
            allowed = partial(check_reverse_copy_allowed, forward_endpoints.target, forward)
            allowed()
            migration, endpoints = read_reverse_migration(forward, forward_endpoints), swap_endpoints(forward_endpoints)
        elif last is not None:
            migration = migration.without_moved(last.moved_topics)
        scope = build_copy_spec(migration, endpoints, follow=follow, max_rate=max_rate, take_over=take_over, skip=skip)
        running: list[CopyRun] = []
        with (
            serve_metrics(metrics, lambda: running[0].progress if running else None),
            display_progress(sys.stderr) as shown,
        ):
            running.append(CopyRun(spark, endpoints.source, endpoints.target, scope, shown, allowed))
            with (
                _ending_at(running[0], until) as is_over,
                _stopping_on_signal(running[0]) as signals,
                suppress(KeyboardInterrupt),
            ):
                progress = running[0].run()
            if signals:
                click.echo("Interrupted. Run the same command to resume.", err=True)
                return 130
    click.echo(summary_line(progress))
    if progress.batch_counts:
        click.echo(batches_line(progress))
    for line in message_lines(progress):
        click.echo(line, err=True)
    if is_over.is_set() and not progress.stuck:
        click.echo("Ended, as --until says. Run the same command to resume.", err=True)
        return 0
    if progress.lag and not progress.stuck:
        click.echo(
            f"Copy incomplete: no progress for {scope.stall_timeout:.0f} s. Run the same command to resume.",
            err=True,
        )
    return _INCOMPLETE if progress.stuck or progress.lag else 0


@contextmanager
def _ending_at(running: CopyRun, until: datetime | None) -> Iterator[threading.Event]:
    """Start no round after this time. Yields what is set then."""
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        running.finish_round()

    if until is None:
        yield is_over
        return
    timer = threading.Timer(max(0.0, (until - datetime.now().astimezone()).total_seconds()), end)
    timer.daemon = True
    timer.start()
    try:
        yield is_over
    finally:
        timer.cancel()


@contextmanager
def _stopping_on_signal(running: CopyRun) -> Iterator[list[int]]:
    """Interrupt the round on SIGTERM and Ctrl-C. Yields a list that receives the signals.

    An exception from a signal handler is lost during a round: py4j takes it for a failed connection, and Python
    drops it in a destructor. So the handler raises only before the rounds, where nothing else would end the wait,
    and at a second signal.
    """
    signals: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        signals.append(number)
        running.cancel()
        if len(signals) > 1 or not running.is_copying:
            raise KeyboardInterrupt

    handlers = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _parse_skip(text: str) -> tuple[TopicPartition, int]:
    match = re.fullmatch(r"(.+):(\d+):(\d+)", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not TOPIC:PARTITION:OFFSET", param_hint="--skip-deleted")
    return (match[1], int(match[2])), int(match[3])


@click.command("pause")
@FILE
def pause(file: Path) -> int:
    """Pause the copy: running tasks end within half a minute, and no new ones start."""
    return _send_order(file, paused=True)


@click.command("resume")
@FILE
def resume(file: Path) -> int:
    """Resume a paused copy."""
    return _send_order(file, paused=False)


def _send_order(file: Path, *, paused: bool) -> int:
    from kproxy.migrate.clusters.endpoints import open_target
    from kproxy.migrate.journal.driver import ORDER_KEY, DriverOrder, write_once
    from kproxy.migrate.spec.document import read_migration

    migration = read_migration(file)
    with open_target(migration) as target:
        write_once(target, migration.name, {ORDER_KEY: DriverOrder(paused).to_record()}, "orders")
    click.echo(f"{migration.name}: {'paused: running tasks end within half a minute' if paused else 'resumed'}")
    return 0


@click.command("status")
@FILE
@JSON
def status(file: Path, as_json: bool) -> int:
    """Show the status of the migration, read from the target cluster alone.

    If waves are on the target, the source is asked too: a topic of such a wave that is still written or read there is a
    warning. After a --reversible switch, the source is asked for what was copied back.

    The exit code is 0, 1 if a topic of the target no longer exists, or is not the one to which records were copied, or
    if there is a warning, or 2 if the target cannot be reached.
    """
    from kproxy.migrate.clusters.endpoints import open_target
    from kproxy.migrate.report.status import read_status, status_lines
    from kproxy.migrate.spec.document import read_migration

    migration = read_migration(file)
    with open_target(migration) as target:
        migration_status = read_status(target, migration.name, tuple(migration.waves))
    migration_status = _with_source_side(migration, migration_status)
    if as_json:
        click.echo(migration_status.to_json())
    else:
        for line in status_lines(migration_status):
            click.echo(line)
    return _INCOMPLETE if migration_status.has_warnings else 0


def _with_source_side(migration: Migration, migration_status: MigrationStatus) -> MigrationStatus:
    """Return the status with what the source tells: uses of topics that have moved with waves, and copies back."""
    from kproxy.base.diagnostic import WARNING, Diagnostic
    from kproxy.base.errors import KproxyError
    from kproxy.migrate.clusters.endpoints import open_endpoints
    from kproxy.migrate.report.reversecopies import copied_back_now, read_reverse_copies
    from kproxy.migrate.switch.wave_alarms import check_moved_waves

    last = migration_status.last_switch
    waves = copied_back_now(last)
    if last is None or not (waves or last.waves_on_target):
        return migration_status
    try:
        with open_endpoints(migration) as endpoints:
            alarms = tuple(check_moved_waves(endpoints, migration, last))
            copies = read_reverse_copies(migration, waves, endpoints.source)
    except KproxyError as error:
        text = f"it is not known whether topics of waves are still used there: {error}"
        alarms = (Diagnostic(WARNING, "source", text),) if last.waves_on_target else ()
        copies = read_reverse_copies(migration, waves, error)
    return replace(migration_status, alarms=alarms, reverse_copies=copies)
