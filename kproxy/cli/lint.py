"""`kproxy lint`: mistakes in Kafka's configuration files."""

from __future__ import annotations

from pathlib import Path

import click

from kproxy.cli import completion
from kproxy.cli.findings import format_option
from kproxy.cli.group import kproxy

_KINDS = (
    *("server", "env", "compose", "kubernetes", "helm", "redpanda"),
    *("client", "librdkafka", "jaas", "connect", "connector", "appsettings", "spark", "application"),
)


@kproxy.command(short_help="Find mistakes in configurations of brokers and clients.")
@click.argument("files", nargs=-1, metavar="FILE…", type=str, shell_complete=completion.files)
@click.option(
    *("--as", "kind"),
    type=click.Choice(_KINDS),
    metavar="KIND",
    help=f"What the files are, if kproxy does not see it: {', '.join(_KINDS)}.",
)
@click.option(
    "--host", default="", metavar="HOST", help="The host by which clients reach the brokers, for corrected lines."
)
@format_option
@click.option("--fix", is_flag=True, help="Show the corrected files as a diff.")
@click.option("--write", is_flag=True, help="With --fix: write the corrected files.")
@click.option("--explain", "rule", metavar="RULE", help="Say why a rule is there, with an example; read no file.")
def lint(
    files: tuple[str, ...], kind: str | None, host: str, form: str, fix: bool, write: bool, rule: str | None
) -> int:
    """Find mistakes in configurations of brokers and clients, and say who can connect where.

    \b
      kproxy lint server.properties
      kproxy lint docker-compose.yml client.properties
      kproxy lint --fix --write docker-compose.yml
      kproxy lint --explain advertised-wildcard

    FILE is what configures a broker or a client: a server.properties, a Docker Compose file, an .env, manifests of
    Kubernetes, Helm values, a redpanda.yaml, a client.properties, a file of librdkafka, a JAAS file, the worker or a
    connector of Kafka Connect, or the configuration of Spark, Spring, Quarkus, AKHQ or kafka-ui. '-' is standard
    input. Files that are given together are looked at together. The command opens no connection. The exit code is 0
    without mistakes, 1 with mistakes, and 2 if a file cannot be read.
    """
    from dataclasses import replace

    from kproxy.advice.lint import fixes, output
    from kproxy.advice.lint.filekinds import FileKind
    from kproxy.advice.lint.linter import LintOptions
    from kproxy.advice.lint.linter import lint as run
    from kproxy.advice.lint.source import STDIN, SourceFile, UnreadableError, read_source

    if rule is not None:
        return _explain(rule, form)
    if not files:
        raise click.UsageError("name the files to look at, or a rule with --explain")
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
    report = replace(report, unreadable={**unreadable, **report.unreadable})
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
        report = replace(report, sources=fixed.after.sources, findings=fixed.after.findings)
    return 2 if report.unreadable else 1 if report.has_mistakes else 0


def _explain(name: str, form: str) -> int:
    """Print one rule."""
    from difflib import get_close_matches

    from kproxy.advice.lint import output
    from kproxy.advice.lint.rules.table import RULES

    rule = RULES.get(name.strip().strip("[]").lower())
    if rule is None:
        near = get_close_matches(name, RULES, 1)
        more = f"did you mean {near[0]}?" if near else "a finding has its rule in brackets at the end of its first line"
        raise click.UsageError(f"--explain: kproxy lint has no rule '{output.clean(name)}'; {more}")
    if form == "json":
        click.echo(output.rule_json(rule))
    else:
        click.echo("\n".join(output.rule_text(rule)))
    return 0


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
