"""The command `observe`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.migrate.commands.arguments import FILE, JSON, echo_escaped, interrupted_by_sigterm, parse_duration

if TYPE_CHECKING:
    from kproxy.migrate.usage.observed import ObservedUsage
    from kproxy.migrate.usage.waves import Wave

_LONGEST = 7 * 24 * 3600


def observed_path(file: Path, name: str) -> Path:
    """Return the file to which `observe` writes, and which `plan` reads, unless another one is given."""
    return file.absolute().parent / f"kproxy-observed-{name}.json"


def read_observed(file: Path, name: str, path: Path | None = None) -> ObservedUsage | None:
    """Return what was observed for the migration of FILE; None if it was not observed. Raises ConfigError."""
    from kproxy.migrate.usage.observed import read_usage

    default = observed_path(file, name)
    return read_usage(path or default) if path is not None or default.exists() else None


@click.command("observe")
@FILE
@click.option(
    "--for",
    "seconds",
    default="1h",
    show_default=True,
    metavar="DURATION",
    callback=parse_duration(1, _LONGEST),
    help="How long.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="File of the result. [default: kproxy-observed-NAME.json beside FILE]",
)
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH", help="Also write the picture as SVG."
)
@JSON
def observe(file: Path, seconds: float, output: Path | None, svg: Path | None, as_json: bool) -> int:
    """Record what clients use at the kproxies, and show what must move together.

    \b
      kproxy migrate observe move.yaml --for 1h
      kproxy migrate plan move.yaml

    FILE is the YAML file of the migration, whose section 'switch' has the kproxies. For each client it records the
    topics that it writes and reads, its groups and transactional ids. From that, and from what the source knows, the
    command shows the waves: what may move separately. It names producers that go round the kproxies. Choose a time in
    which all that matters runs: a job that runs at night only is not there by day.

    Ctrl-C ends the observation, and keeps what there is. 'kproxy migrate plan' reads the file of the result.

    The exit code is 0, 1 if a producer goes round the kproxies, and 2 if the command cannot begin.
    """
    from rich.console import Console

    from kproxy.base.diagnostic import exit_code, show, to_json
    from kproxy.migrate.spec.document import read_migration
    from kproxy.migrate.switch.observation_run import run_observation
    from kproxy.migrate.usage.coverage import coverage_findings
    from kproxy.migrate.usage.unseen import check_unseen
    from kproxy.migrate.usage.wavecuts import check_waves
    from kproxy.migrate.usage.waves import find_waves, waves_to_json
    from kproxy.migrate.usage.wavetext import draw_waves

    migration = read_migration(file)
    path = output or observed_path(file, migration.name)
    with interrupted_by_sigterm():
        usage = run_observation(migration, seconds, path, lambda text: echo_escaped(text, err=True))
    waves = find_waves(usage)
    findings = [*coverage_findings(usage), *check_unseen(usage), *check_waves(migration.waves, usage)]
    if as_json:
        result = {"file": str(path), "waves": waves_to_json(waves), "findings": [to_json(each) for each in findings]}
        click.echo(json.dumps(result, indent=2))
    else:
        console = Console(file=sys.stdout, highlight=False)
        console.print(draw_waves(waves) if waves else "No client has used a topic.")
        show(findings, console)
        echo_escaped(f"Written to {path}. Next: kproxy migrate plan {file}")
    if svg is not None:
        _write_svg(svg, waves)
    return exit_code(findings)


def _write_svg(path: Path, waves: Sequence[Wave]) -> None:
    import io

    from rich.console import Console

    from kproxy.base.errors import ConfigError
    from kproxy.migrate.usage.wavetext import draw_waves

    picture = Console(file=io.StringIO(), record=True, width=100, highlight=False)
    picture.print(draw_waves(waves))
    try:
        path.write_text(picture.export_svg(title="kproxy migrate observe"), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--svg {path}: {error.strerror}; allowed: a file that can be written") from None
