"""Draws docs/images/session.svg: a terminal in which a client fails, kproxy starts, and the client works.

    python -m tools.sessionpicture

The cluster, kproxy and kcat are real; each command runs in a terminal of its own, and its output is not edited. It uses
ports 19091 to 19096, so no other kproxy may run on them.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kproxy.dev.devcluster import DevCluster
from tests.harness.topics import produce

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "session.svg"
_COLUMNS, _ROWS = 92, 40
_READY = "ready; bootstrap.servers"
_SECONDS = 60.0


class Terminal:
    """A command in a terminal of this width."""

    def __init__(self, *words: str) -> None:
        self._fd, other_side = pty.openpty()
        fcntl.ioctl(other_side, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color"}
        env.pop("COLUMNS", None)
        self._process = subprocess.Popen(words, env=env, stdin=other_side, stdout=other_side, stderr=other_side)
        os.close(other_side)
        self.text = ""

    def read_until(self, text: str | None) -> str:
        """Return the output up to this text, or up to the end of the command."""
        end = time.monotonic() + _SECONDS
        while text is None or text not in self.text:
            if time.monotonic() > end:
                raise TimeoutError(self.text)
            try:
                self.text += os.read(self._fd, 4096).decode()
            except OSError:  # the other side was closed
                break
        return self.text

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._fd)


def main() -> None:
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)

    def show(words: str, output: str) -> None:
        console.print(Text.assemble(("$ ", "green"), (words, "bold")))
        console.print(Text.from_ansi(output.replace("\r", "").rstrip()), soft_wrap=False)
        console.print()

    with ExitStack() as held:
        own = held.enter_context(DevCluster(brokers=3, advertised="kafka-{id}.prod.internal:9092"))
        produce(own.direct_bootstrap, "orders", [b"order 4711"])
        addresses = [str(own.dial[node]).replace("127.0.0.1", "localhost") for node in (1, 2, 3)]
        for server in (addresses[0], None):
            if server is None:
                run = Terminal(sys.executable, "-m", "kproxy", "run", ",".join(addresses))
                held.callback(run.end)
                run.read_until(_READY)
                show(f"kproxy run {','.join(addresses)}", run.read_until("\n"))
            kcat = Terminal("kcat", "-b", server or "127.0.0.1:19092", "-C", "-t", "orders", "-e", "-q")
            held.callback(kcat.end)
            output = kcat.read_until(None if server is None else "resolve")
            show(f"kcat -b {server or '127.0.0.1:19092'} -C -t orders -e -q", output)
    svg = console.export_svg(title="kproxy")
    # rich names fonts of another server.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S) + "\n")


if __name__ == "__main__":
    main()
