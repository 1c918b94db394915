"""The click group, for `kproxy migrate` and for `python -m kproxy.migrate`."""

from __future__ import annotations

import click

from kproxy.migrate.commands.copy import copy, pause, resume, status
from kproxy.migrate.commands.observe import observe
from kproxy.migrate.commands.offsets import offsets
from kproxy.migrate.commands.prepare import plan, prepare, schema, undo
from kproxy.migrate.commands.report import report
from kproxy.migrate.commands.schemas import schemas
from kproxy.migrate.commands.switch import finish, rollback, switch
from kproxy.migrate.commands.verify import verify_command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def migrate() -> None:
    """Move topics from one cluster to another, and prove that they are the same.

    \b
      kproxy migrate observe move.yaml --for 1h
      kproxy migrate plan move.yaml
      kproxy migrate prepare move.yaml
      kproxy migrate schemas move.yaml
      kproxy migrate copy move.yaml --follow
      kproxy migrate verify move.yaml
      kproxy migrate offsets move.yaml
      kproxy migrate switch move.yaml
    """


for each in (
    observe,
    plan,
    prepare,
    schemas,
    copy,
    verify_command,
    offsets,
    switch,
    rollback,
    report,
    finish,
    pause,
    resume,
    status,
    undo,
    schema,
):
    migrate.add_command(each)
