"""`kproxy lint`: mistakes in Kafka's configuration files."""

from __future__ import annotations

from pathlib import Path

import click

from kproxy.cli import completion
from kproxy.cli.findings import format_option
from kproxy.cli.group import kproxy

_KINDS = ("server", "client", "connect", "spark", "compose", "kubernetes")


@kproxy.command(short_help="Find mistakes in the listeners of Kafka configurations.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=str, shell_complete=completion.files)
@click.option("--as", "kind", type=click.Choice(_KINDS), help="What the files are, if kproxy does not see it.")
@click.option(
    "--host", default="", metavar="HOST", help="The host by which clients reach the brokers, for corrected lines."
)
@format_option
@click.option("--fix", is_flag=True, help="Show the corrected files as a diff.")
@click.option("--write", is_flag=True, help="With --fix: write the corrected files.")
def lint(files: tuple[str, ...], kind: str | None, host: str, form: str, fix: bool, write: bool) -> int:
    """Find mistakes in the listeners of Kafka configurations, and say who can connect where.

    \b
      kproxy lint server.properties
      kproxy lint docker-compose.yml client.properties
      kproxy lint --fix --write docker-compose.yml

    FILE is a server.properties, a Docker Compose file, a Kafka resource of Strimzi or CFK, or the file of a client, of
    Kafka Connect or of Spark. '-' is standard input. Files that are given together are looked at together. The command
    opens no connection. The exit code is 0 without mistakes, 1 with mistakes, and 2 if a file cannot be read.
    """
    from kproxy.advice.lint import fixes, output
    from kproxy.advice.lint.filekinds import FileKind
    from kproxy.advice.lint.linter import LintOptions, LintReport
    from kproxy.advice.lint.linter import lint as run
    from kproxy.advice.lint.source import STDIN, SourceFile, UnreadableError, read_source

    if write and not fix:
        raise click.UsageError("--write needs --fix")
    if write and STDIN in files:
        raise click.UsageError("--write cannot write standard input: give the file's name")
    sources: list[SourceFile] = []
    unreadable: dict[str, str] = {}
    for name in dict.fromkeys(files):
        try:
            sources.append(read_source(name))
        except UnreadableError as error:
            unreadable[name] = str(error)
    variables = {source.name: _variables(source.path) for source in sources}
    options = LintOptions(FileKind(kind) if kind else None, host, variables)
    report = run(sources, options)
    report = LintReport(
        report.sources, report.findings, report.reachability, report.unchecked, {**unreadable, **report.unreadable}
    )
    fixed = fixes.fix(report, options) if fix else None
    difference = list(fixes.diff_lines(fixed)) if fixed is not None else None
    for name, why in report.unreadable.items():
        click.echo(f"kproxy: {output.clean(name)}: {why}", err=True)
    if form == "json":
        click.echo(output.as_json(report, difference))
    else:
        if form == "github":
            click.echo("".join(f"{line}\n" for line in output.annotations_of(report)), nl=False)
        else:
            output.print_text(report)
        for line in difference or ():
            click.echo(line)
    if fixed is not None and write and sources:
        fixes.write_files(fixed)
        click.echo(f"kproxy: wrote {len(fixed.changed)} of {len(sources)} files", err=True)
        report = LintReport(fixed.after.sources, fixed.after.findings, (), (), report.unreadable)
    return 2 if report.unreadable else 1 if report.has_mistakes else 0


def _variables(path: Path | None) -> dict[str, str]:
    """Return the variables of the `.env` file beside a file, as Docker Compose reads it."""
    from kproxy.advice.lint.source import UnreadableError, read_source
    from kproxy.advice.lint.variables import parse_env

    if path is None or not (beside := path.parent / ".env").is_file():
        return {}
    try:
        return parse_env(read_source(str(beside)).text)
    except UnreadableError:
        return {}
