"""The last edge of a command: each error becomes one line on stderr, and an exit code."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import click

from kproxy.base.errors import ConfigError, KproxyError, NotBegun
from kproxy.base.packages import explain_missing

FAILED, USAGE, INTERRUPTED = 1, 2, 130


@dataclass(slots=True)
class CliSession:
    """The state of one run of a command."""

    debug: bool = field(default_factory=lambda: os.environ.get("KPROXY_DEBUG", "") not in ("", "0"))
    """True to show the traceback of an unexpected error."""


def invoke_command(command: click.Command, name: str, arguments: Sequence[str]) -> int:
    """Run a command with these arguments and return its exit code."""
    session = CliSession()
    try:
        # Not standalone: click would print errors in its own words.
        return int(command.main(list(arguments), prog_name=name, standalone_mode=False, obj=session) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.format_message())
        return 0
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else _command_path(command, name, arguments)
        return _complain(USAGE, f"{_lower(error.format_message())} (see '{path} --help')")
    except click.ClickException as error:
        return _complain(USAGE, _lower(error.format_message()))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last edge: anything else is a defect, and says so
        causes = list(_causes(error))
        if session.debug:
            traceback.print_exception(error)
        code = USAGE if all(isinstance(cause, ConfigError | NotBegun) for cause in causes) else FAILED
        return _complain(code, *(line for cause in causes for line in _lines(cause)))


def _command_path(command: click.Command, name: str, arguments: Sequence[str]) -> str:
    """Return the words of the subcommand that these arguments name; click's parser of options does not know it."""
    words = [name]
    for word in arguments:
        if not isinstance(command, click.Group):
            break
        if (subcommand := command.get_command(click.Context(command), word)) is not None:
            command = subcommand
            words.append(word)
    return " ".join(words)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that a TaskGroup has wrapped, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


def _lines(error: BaseException) -> Sequence[str]:
    if isinstance(error, ConfigError):
        return error.problems
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return [f"{where}{error.strerror or error or type(error).__name__}"]
    if isinstance(error, KproxyError):
        return [str(error)]
    if isinstance(error, ModuleNotFoundError) and (text := explain_missing(error)):
        return [text]
    return [f"{type(error).__name__}: {error}; this is a defect of kproxy (KPROXY_DEBUG=1 shows where)"]


def _complain(code: int, *lines: str) -> int:
    for line in lines:
        click.echo(f"kproxy: {' '.join(line.split())}", err=True)
    return code


def _lower(sentence: str) -> str:
    """Return a sentence of click for the middle of a line."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")
