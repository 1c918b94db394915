"""The commands `schema`, `plan`, `prepare` and `undo`."""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kproxy.migrate.commands.arguments import DRY_RUN, FILE, JSON, echo_escaped, parse_duration
from kproxy.migrate.commands.observe import read_observed

_FINE, _STOPPED = 0, 1
_WIDTH = 80
_PATIENCE = 60.0  # seconds until a coordinator is ready


@click.command()
def schema() -> int:
    """Print the JSON Schema of the YAML file of a migration, for editors.

    \b
      kproxy migrate schema > move.schema.json
    """
    from kproxy.migrate.spec.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return _FINE


@click.command()
@FILE
@JSON
@click.option(
    "--sample",
    default="5s",
    show_default=True,
    metavar="DURATION",
    callback=parse_duration(0, 3600),
    help="How long to measure the rates of the source.",
)
@click.option(
    "--observed",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="Result of 'kproxy migrate observe'. [default: kproxy-observed-NAME.json beside FILE, if there is one]",
)
def plan(file: Path, as_json: bool, sample: float, observed: Path | None) -> int:
    """Show what a migration would do, what it cannot keep, and how long it takes.

    FILE is the YAML file of the migration. The command changes nothing. The exit code is 0 if the migration can
    continue, 1 if a finding blocks it, and 2 if the file is wrong or a cluster cannot be reached.
    """
    from kproxy.base.diagnostic import WARNING, exit_code
    from kproxy.migrate.clusters.endpoints import open_endpoints
    from kproxy.migrate.plan.display import show_plan
    from kproxy.migrate.plan.plan import plan_to_json
    from kproxy.migrate.prepare.cluster_pair import ClusterPair
    from kproxy.migrate.schemas.needs import check_planned_schemas
    from kproxy.migrate.spec.document import read_migration
    from kproxy.migrate.switch.hanging import check_hanging
    from kproxy.migrate.switch.user_logins import check_planned_logins

    migration = read_migration(file)
    usage = read_observed(file, migration.name, observed)
    with open_endpoints(migration) as endpoints, ClusterPair(migration, endpoints) as clusters:
        migration_plan = clusters.examine(sample, _log_progress).plan
        _log_progress("sampling records")
        partitions = {topic.name: len(topic.partitions) for topic, _ in migration_plan.topic_pairs()}
        findings = list(check_planned_schemas(migration, endpoints.source, partitions))
        # What is before them can be copied, so they do not block the migration yet, as they block a switch.
        hanging = check_hanging(clusters.source, migration.selects_topic, time.monotonic() + _PATIENCE)
        findings += [replace(finding, severity=WARNING) for finding in hanging]
    findings += check_planned_logins(migration, migration_plan.source, usage)
    migration_plan = replace(migration_plan, other_findings=tuple(findings), usage=usage)
    if as_json:
        click.echo(json.dumps(plan_to_json(migration_plan), indent=2))
    else:
        show_plan(migration_plan, _console())
    return exit_code(migration_plan.findings)


@click.command()
@FILE
@DRY_RUN
def prepare(file: Path, dry_run: bool) -> int:
    """Make the target ready: topics, ACLs, quotas, producer ids, the state of the migration.

    FILE is the YAML file of the migration. Existing topics of the target keep their configurations, except those that
    would spoil records while they are copied: retention, compaction and bounds of timestamps are held open until the
    switch. A second run makes the missing changes. 'kproxy migrate undo' reverts the changes.

    The exit code is 0 if all changes are made, 1 if a finding blocks them or the target refuses one, and 2 if the file
    is wrong or a cluster cannot be reached.
    """
    from kproxy.base.diagnostic import NOTE, show
    from kproxy.migrate.clusters.endpoints import open_endpoints
    from kproxy.migrate.format import describe_action
    from kproxy.migrate.prepare.cluster_pair import ClusterPair
    from kproxy.migrate.prepare.preparation import Preparation
    from kproxy.migrate.spec.document import read_migration

    migration = read_migration(file)
    with open_endpoints(migration) as endpoints, ClusterPair(migration, endpoints) as clusters:
        examination = clusters.examine(0.0, _log_progress)
        show(finding for finding in examination.plan.findings if finding.severity is not NOTE)
        if examination.plan.is_blocked:
            echo_escaped("Nothing was changed. Resolve the items marked 'error'.")
            return _STOPPED
        if dry_run:
            for change in examination.plan.changes:
                echo_escaped(describe_action(str(change), dry_run=True))
            echo_escaped("would raise the target's producer ids above the source's, if they are not higher already")
            return _FINE
        result = Preparation(clusters, examination, echo_escaped).run()
    for text in result.failed:
        echo_escaped(text)
    if not result.applied and not result.failed:
        echo_escaped("Nothing to do: the target is prepared.")
    return _STOPPED if result.failed else _FINE


@click.command()
@FILE
@DRY_RUN
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="Revert only the changes for this topic of the source, and forget its copy. [repeatable]",
)
@click.option(
    "--force",
    is_flag=True,
    help="Also delete topics with records that kproxy did not copy, and topics that clients of the target use.",
)
def undo(file: Path, dry_run: bool, topics: tuple[str, ...], force: bool) -> int:
    """Revert the changes of 'kproxy migrate prepare', by its journal on the target.

    FILE is the YAML file of the migration. Topics that prepare created are deleted, with the records that were copied
    to them; a topic with other records stays, and so does a value that was changed since.

    To copy one topic again, as after a loss of records on the target:

    \b
      kproxy migrate undo move.yaml --topic orders
      kproxy migrate prepare move.yaml
      kproxy migrate copy move.yaml

    The exit code is 0 if all changes are reverted, 1 if one stays or the target refuses it, and 2 if the file is wrong,
    a cluster cannot be reached or there is nothing to undo.
    """
    from kproxy.migrate.clusters.endpoints import open_endpoints
    from kproxy.migrate.prepare.cluster_pair import ClusterPair
    from kproxy.migrate.prepare.undo import Undo
    from kproxy.migrate.spec.document import read_migration

    migration = read_migration(file)
    with open_endpoints(migration) as endpoints, ClusterPair(migration, endpoints) as clusters:
        result = Undo(clusters, echo_escaped, topics=topics, force=force, dry_run=dry_run).run()
    for text in [f"stays: {text}" for text in result.remaining] + result.failed:
        echo_escaped(text)
    return _STOPPED if result.remaining or result.failed else _FINE


def _log_progress(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"kproxy: {text}", err=True)


def _console() -> Any:
    from rich.console import Console

    width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
    return Console(file=sys.stdout, width=width, highlight=False)
