"""The group of commands, for `kproxy migrate` and for `python -m kproxy.migrate`."""

from __future__ import annotations

import click

from kproxy.migrate.preparing import plan, prepare, undo


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def migrate() -> None:
    """Move topics from one cluster to another, and prove that they are the same.

    \b
      kproxy migrate plan move.yaml
      kproxy migrate prepare move.yaml
    """


for each in (plan, prepare, undo):
    migrate.add_command(each)
