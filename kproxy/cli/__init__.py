"""Commands, exit codes, and error output.

    __init__          `main`: converts each error to one line and an exit code
    group             the command `kproxy` itself, the modules of its commands, and code that they share
    first_contact     the output of `kproxy` alone, or of `kproxy HOST:PORT`
    about             help, version
    run               run, exec
    control           wait, reload
    doctor            doctor
    discover          discover
    ls                ls
    tap               tap
    config            config check, show, schema
    lint              lint
    explain           explain
    findings          the formats in which commands print what a check finds
    sandbox           demo, devcluster
    profiles          named set-ups: up, down, list
    migrate           migrate, of the wing migrate
    admin_access      the options of commands that ask a running kproxy
    server_arguments  HOST:PORT as an argument, in place of -b
    flags             makes flags from the declaration in `kproxy.config`, and their grouped help

Exit codes: 0 fine; 1 failed while running; 2 wrong usage or configuration; 130 ended by Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import NoReturn

import click

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.base.packages import explain_missing
from kproxy.cli.group import CliSession, kproxy

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main() -> NoReturn:
    """Run the console script."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors go to stderr, one line for each."""
    session = CliSession(debug=os.environ.get("KPROXY_DEBUG", "") not in ("", "0"))
    try:
        # Not standalone: click would print errors in its own words.
        return int(kproxy.main(list(arguments), prog_name="kproxy", standalone_mode=False, obj=session) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.format_message())
        return 0
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "kproxy"
        return _complain(USAGE, f"{_lower(error.format_message())} (see '{command} --help')")
    except click.ClickException as error:
        return _complain(USAGE, _lower(error.format_message()))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except ConfigError as error:
        return _complain(USAGE, *error.problems)
    except Exception as error:  # noqa: BLE001 - the last edge: anything else is a defect, and says so
        causes = list(_causes(error))
        if session.debug:
            traceback.print_exception(error)
        code = USAGE if all(isinstance(cause, ConfigError) for cause in causes) else FAILED
        return _complain(code, *(line for cause in causes for line in _say(cause)))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that a TaskGroup has wrapped, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


def _say(error: BaseException) -> Sequence[str]:
    if isinstance(error, ConfigError):
        return error.problems
    return [_in_one_line(error)]


def _in_one_line(error: BaseException) -> str:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error or type(error).__name__}"
    if isinstance(error, KproxyError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (text := explain_missing(error)):
        return text
    return f"{type(error).__name__}: {error}; this is a defect of kproxy (KPROXY_DEBUG=1 shows where)"


def _complain(code: int, *lines: str) -> int:
    for line in lines:
        click.echo(f"kproxy: {' '.join(line.split())}", err=True)
    return code


def _lower(sentence: str) -> str:
    """Return a sentence of click for the middle of a line."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")
