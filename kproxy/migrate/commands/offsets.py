"""The command `offsets`."""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.migrate.commands.arguments import AS_END, FILE, JSON, echo_escaped
from kproxy.migrate.copier.requests import TopicPartition

if TYPE_CHECKING:
    from kproxy.migrate.copier.statetopic import CopiedPartition
    from kproxy.migrate.offsets.groupsync import GroupResult
    from kproxy.migrate.spec.migration import Migration

_FINE, _INCOMPLETE = 0, 1


@click.command("offsets")
@FILE
@click.option("--dry-run", is_flag=True, help="Only print what would be written.")
@click.option("--group", "groups", multiple=True, metavar="GLOB", help="Only groups whose names match. [repeatable]")
@AS_END
@click.option("--force", is_flag=True, help="Overwrite positions on the target that kproxy did not write.")
@click.option("--spark-checkpoint", nargs=2, metavar="OLD NEW", help="Make a Spark checkpoint for the target.")
@click.option("--starting-offsets", metavar="OLD", help="Print startingOffsets for a new query, from a checkpoint.")
@click.option("--reverse", is_flag=True, help="With a checkpoint, after a rollback: make it for the source.")
@JSON
def offsets(
    file: Path,
    dry_run: bool,
    groups: tuple[str, ...],
    as_end: tuple[str, ...],
    force: bool,
    spark_checkpoint: tuple[str, str] | None,
    starting_offsets: str | None,
    reverse: bool,
    as_json: bool,
) -> int:
    """Translate the positions of consumer groups, exactly, and write them to the target.

    \b
      kproxy migrate offsets move.yaml --dry-run
      kproxy migrate offsets move.yaml --group 'billing-*'
      kproxy migrate offsets move.yaml --spark-checkpoint /old/checkpoint /new/checkpoint
      kproxy migrate offsets move.yaml --reverse --spark-checkpoint /of/target /of/source

    Groups that have members on the target keep their positions, and so do groups with positions there that kproxy did
    not write. Run the command again while the copy continues. With --spark-checkpoint or --starting-offsets, no group
    is changed. --reverse is for checkpoints only: 'kproxy migrate rollback' translates the positions of groups.

    The exit code is 0 if every position was translated, 1 if not (the last lines have the reasons), and 2 if the
    command cannot begin.
    """
    from kproxy.base.errors import ConfigError
    from kproxy.migrate.spec.document import read_migration

    if (spark_checkpoint is not None or starting_offsets is not None) and (dry_run or groups or as_end or force):
        raise ConfigError(
            "--dry-run, --group, --as-end and --force are for groups: not allowed with a Spark checkpoint"
        )
    if spark_checkpoint is not None and starting_offsets is not None:
        raise ConfigError("give --spark-checkpoint or --starting-offsets, not both")
    if reverse and spark_checkpoint is None and starting_offsets is None:
        raise ConfigError(
            "--reverse is for Spark checkpoints only: kproxy migrate rollback translates the positions of groups"
        )
    migration = read_migration(file).with_as_end(as_end)
    if spark_checkpoint is not None:
        return _translate_checkpoint(
            _read_offset_maps(migration, spark_checkpoint[0], reverse), *spark_checkpoint, as_json
        )
    if starting_offsets is not None:
        return _print_starting_offsets(
            _read_offset_maps(migration, starting_offsets, reverse), starting_offsets, as_json
        )

    def is_selected(group: str) -> bool:
        return migration.selects_group(group) and (not groups or any(fnmatchcase(group, glob) for glob in groups))

    return _translate_groups(migration, is_selected, dry_run, force, as_json)


def _read_offset_maps(migration: Migration, checkpoint: str, reverse: bool) -> dict[TopicPartition, CopiedPartition]:
    """Return the offset maps of all copied partitions, and of empty partitions of this checkpoint.

    Asks the source only if the checkpoint has partitions that were not copied.
    """
    from kproxy.migrate.clusters.endpoints import open_endpoints, open_target
    from kproxy.migrate.copier.statetopic import read_copied_partitions
    from kproxy.migrate.offsets.checkpoint import kafka_partitions
    from kproxy.migrate.offsets.groupsync import find_empty_partitions

    partitions = kafka_partitions(checkpoint)
    if reverse:
        from kproxy.migrate.switch.checkpoint_rollback import read_inverse_maps

        with open_endpoints(migration) as endpoints:
            return read_inverse_maps(migration, endpoints, partitions)
    with open_target(migration) as target:
        maps = read_copied_partitions(target, migration.name)
    remaining = {place for place in partitions - maps.keys() if migration.selects_topic(place[0])}
    if remaining:
        with open_endpoints(migration) as endpoints:
            maps |= find_empty_partitions(endpoints.source, endpoints.target, migration, remaining)
    return maps


def _translate_groups(
    migration: Migration, is_selected: Callable[[str], bool], dry_run: bool, force: bool, as_json: bool
) -> int:
    from kproxy.migrate.clusters.administration import Admin
    from kproxy.migrate.clusters.endpoints import open_endpoints
    from kproxy.migrate.offsets.groupsync import GroupOffsetSync, unwritten_positions

    with open_endpoints(migration) as endpoints, Admin(endpoints.source) as source, Admin(endpoints.target) as target:
        offsets = GroupOffsetSync(migration, source, target, force).read_state().check_topics()
        results = offsets.run(is_selected, dry_run=dry_run)
    problems = unwritten_positions(results, migration)
    if as_json:
        click.echo(json.dumps({"dry_run": dry_run, "groups": [result.to_record() for result in results]}, indent=2))
    else:
        _print_table(results)
    for problem in problems:
        echo_escaped(problem.text, err=True)
    return _INCOMPLETE if problems else _FINE


def _print_table(results: list[GroupResult]) -> None:
    from kproxy.migrate.clusters.groups import SHARE
    from kproxy.migrate.offsets.groupsync import LOST

    if not results:
        echo_escaped("no group has committed offsets")
        return
    heads = ("group", "topic", "partition", "source", "target", "how", "")
    lines = [heads]
    for result in results:
        for entry in result.positions:
            position = entry.position
            renamed = "" if position.topic == position.target_topic else f" → {position.target_topic}"
            target = "–" if position.target is None else position.target
            numbers = str(position.partition), str(position.source), str(target)
            lines.append((result.group, position.topic + renamed, *numbers, position.match, entry.outcome))
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    for line in lines:
        cells = [
            cell.rjust(width) if column in (2, 3, 4) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        echo_escaped("  ".join(cells).rstrip())
    if any(result.kind == SHARE for result in results):
        echo_escaped(LOST)


def _translate_checkpoint(
    maps: dict[TopicPartition, CopiedPartition], old_checkpoint: str, new_checkpoint: str, as_json: bool
) -> int:
    from kproxy.migrate.offsets.checkpoint import to_record, translate_checkpoint

    translated = translate_checkpoint(old_checkpoint, new_checkpoint, maps)
    if as_json:
        click.echo(json.dumps(to_record(translated), indent=2))
        return _FINE
    batch = translated.batch
    if translated.rerun:
        text = f"batch {batch} was started and not committed: Spark runs it again, with the same records"
    else:
        text = f"the query continues after batch {batch}"
    echo_escaped(f"{new_checkpoint}: {text}")
    for before, after in translated.topics.items():
        if before != after:
            echo_escaped(f"the query must subscribe to {after} instead of {before}")
    if translated.left_out:
        echo_escaped(
            f"batches {translated.left_out[0]} to {translated.left_out[-1]} are omitted: Spark does not need them"
        )
    return _FINE


def _print_starting_offsets(maps: dict[TopicPartition, CopiedPartition], checkpoint: str, as_json: bool) -> int:
    from kproxy.migrate.offsets.checkpoint import starting_offsets

    sources = starting_offsets(checkpoint, maps)
    record: Any = {str(source): json.loads(line) for source, line in sources}
    if as_json:
        click.echo(json.dumps(record, indent=2))
        return _FINE
    for source, line in sources:
        echo_escaped(line if len(sources) == 1 else f"source {source}: {line}")
    return _FINE
