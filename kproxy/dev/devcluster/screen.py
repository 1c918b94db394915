"""Output of the demo: headings, facts and commands; a spinner while it waits on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.status import Status
from rich.table import Table
from rich.text import Text

_INDENT = 2


class Screen:
    """A rich console: text is wrapped to its width on a terminal, and never elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._told = ""
        self._steps = 0
        unicode = console.encoding.lower().startswith("utf")
        self._good, self._bad = ("\N{CHECK MARK} ", "\N{BALLOT X} ") if unicode else ("+ ", "x ")

    def title(self, text: str) -> None:
        self._console.print(Text(text, style="bold"), soft_wrap=True)

    def step(self, text: str) -> None:
        """Begin the next part of the story."""
        self._steps += 1
        self._console.print()
        self._console.print(Text(f"{self._steps}. {text}", style="bold cyan"), soft_wrap=True)

    def say(self, text: str) -> None:
        self._write(Text(text))

    def good(self, text: str) -> None:
        self._write(Text.assemble((self._good, "bold green"), text))

    def bad(self, text: str) -> None:
        self._write(Text.assemble((self._bad, "bold red"), text))

    def command(self, text: str) -> None:
        """Print a command line, never broken, so that it can be copied."""
        line = Text.assemble(" " * _INDENT, ("$ ", "dim"), (text, "bold"))
        self._console.print(line, soft_wrap=True)

    def output(self, lines: Sequence[str]) -> None:
        """Print the output of a program: each line as it is, cut at the edge of a terminal."""
        for line in lines:
            text = Text(" " * (_INDENT + 2) + line.rstrip(), style="dim")
            if self._console.is_terminal:
                self._console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
            else:
                self._console.print(text, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(Padding(table, (0, 0, 0, _INDENT)))

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show what the demo waits for while the body runs; `progress` can show more."""
        self._told = ""
        if not self._console.is_terminal:
            self.progress(text)
            yield
            return
        with self._console.status(text) as status:
            self._status = status
            try:
                yield
            finally:
                self._status = None

    def progress(self, text: str) -> None:
        """Show news on what the demo waits for; without a terminal, counting up (`what: 1 of 3`) is no news."""
        if self._status is not None:
            self._status.update(text)
        elif not self._console.is_terminal and text.partition(":")[0] != self._told:
            self._told = text.partition(":")[0]
            self._write(Text(f"... {self._told}"))

    def _write(self, text: Text) -> None:
        if self._console.is_terminal:
            shown: RenderableType = Padding(text, (0, 0, 0, _INDENT))
            self._console.print(shown)
        else:
            self._console.print(Text(" " * _INDENT).append_text(text), soft_wrap=True)
