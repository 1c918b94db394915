"""The screen of a switch, and the file that has everything else.

A person reads the steps, the time for which writes are held, and each finding once. The log file has the same with all
details, and what Spark, its package manager and libraries print.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from shutil import get_terminal_size
from typing import TextIO

import click

from kproxy.base.diagnostic import Diagnostic, grouped, headline, show
from kproxy.base.errors import ConfigError, KproxyError
from kproxy.base.printable import escaped

_CLEAR_LINE = "\r\x1b[K"


class Screen:
    """The terminal and the log file of one command.

    `plain`: nothing but the result goes to the standard output, which a program reads. Methods may be called from any
    thread. A log file that cannot be written, as on a full disk, stops nothing.
    """

    def __init__(self, log: TextIO, *, plain: bool = False) -> None:
        self.log_file = log
        self._plain, self._lock = plain, threading.Lock()
        self._shown: set[Diagnostic] = set()
        self._has_live_line = False

    def log(self, text: str) -> None:
        """Print a step with the time."""
        with self._lock:
            self._clear()
            click.echo(f"{datetime.now():%H:%M:%S} {escaped(text)}", err=True)
        self._write(escaped(text))

    def report(self, findings: Iterable[Diagnostic]) -> None:
        """Print findings: those that are alike in one line, and none twice. The log file has each of them."""
        from rich.console import Console

        findings = list(findings)
        for finding in findings:
            self._write(headline(finding))
        with self._lock:
            new = [finding for finding in grouped(findings) if finding not in self._shown]
            self._shown.update(new)
            self._clear()
            show(new, Console(stderr=self._plain, highlight=False))

    def show_hold(self, text: str) -> None:
        """Show how far the hold is, in a line of a terminal that is written again and again."""
        if not sys.stderr.isatty():
            return
        with self._lock:
            click.echo(f"{_CLEAR_LINE}{escaped(text)[: get_terminal_size().columns - 1]}", nl=False, err=True)
            self._has_live_line = True

    def result(self, text: str) -> None:
        """Print a line of the result."""
        with self._lock:
            self._clear()
            click.echo(escaped(text))
        self._write(escaped(text))

    def _clear(self) -> None:
        if self._has_live_line:
            click.echo(_CLEAR_LINE, nl=False, err=True)
            self._has_live_line = False

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # no space, or closed: a thread may still end
            print(
                f"{datetime.now().isoformat(sep=' ', timespec='milliseconds')} {text}", file=self.log_file, flush=True
            )


class _LogFileHandler(logging.StreamHandler[TextIO]):
    """Writes messages of libraries to the log file."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # its name in logging
        """Drop a message that cannot be written: on a full disk, logging would print a traceback on the screen."""


@contextmanager
def open_screen(command: str, name: str, file: Path, path: Path | None, *, plain: bool = False) -> Iterator[Screen]:
    """Open the screen of a command while the context is open, and name its log file.

    `path` is the log file; None for `kproxy-migration-NAME.log` beside the migration's `file`, or in the directory for
    temporary files if that cannot be written. Messages of libraries and warnings of Python go to the log file. Raises
    ConfigError if `path` cannot be written.
    """
    with _open_log(name, file, path) as log:
        screen = Screen(log, plain=plain)
        screen._write(f"kproxy migrate {command}")
        screen.log(f"log file: {log.name}")
        handler = _LogFileHandler(log)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root = logging.getLogger()
        root.addHandler(handler)
        logging.captureWarnings(True)
        try:
            yield screen
        except KproxyError as error:
            screen._write(f"error: {escaped(str(error))}")
            raise
        finally:
            logging.captureWarnings(False)
            root.removeHandler(handler)


def _open_log(name: str, file: Path, path: Path | None) -> TextIO:
    try:
        return (path or file.absolute().parent / f"kproxy-migration-{name}.log").open(
            "a", encoding="utf-8", errors="replace"
        )
    except OSError as error:
        if path is not None:
            raise ConfigError(f"--log {path}: {error.strerror}; allowed: a file that can be written") from None
    return tempfile.NamedTemporaryFile(
        "a", prefix=f"kproxy-migration-{name}-", suffix=".log", delete=False, encoding="utf-8"
    )  # type: ignore[return-value]
