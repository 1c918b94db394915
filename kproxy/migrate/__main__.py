"""The entry point of `python -m kproxy.migrate`, also under spark-submit: the commands of `kproxy migrate`."""

from __future__ import annotations

import sys

import click

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.commands.group import migrate

_FAILED, _USAGE, _INTERRUPTED = 1, 2, 130


def main() -> int:
    """Run the command line, print errors to stderr, and return the exit code."""
    try:
        return int(migrate.main(prog_name="python -m kproxy.migrate", standalone_mode=False) or 0)
    except click.ClickException as error:
        return _complain(_USAGE, error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except ConfigError as error:
        return _complain(_USAGE, *error.problems)
    except KproxyError as error:
        return _complain(_FAILED, str(error))


def _complain(code: int, *lines: str) -> int:
    for line in lines:
        click.echo(f"kproxy: {' '.join(line.split())}", err=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
