"""The kproxy that a keeper runs: `python -m kproxy.spark.proxy LISTEN`, the configuration on stdin.

Its stdout is a socket to the keeper. There it reports its state, a line of JSON whenever that changes. When the keeper
is gone, however that ended, this process ends too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from kproxy.base.errors import KproxyError
from kproxy.config import load
from kproxy.proxy.app.main import App, run
from kproxy.proxy.status.readiness import LEVELS, Requires
from kproxy.spark.wording import replace_flags

# How often it is looked whether it is ready, in seconds: until it is, and then.
_SOON, _LATER = 0.05, 1.0


def defaults(listen: str) -> Mapping[str, str]:
    """What differs from the defaults of `kproxy run`. As for `kproxy exec`, nobody has asked for an admin endpoint, and
    all nodes must be reachable."""
    return {"admin": "off", "log-level": "warning", "ready-requires": "all", "listen": listen}


async def _until_alone(keeper: socket.socket, proxy: App) -> int:
    """What App.run does until it is over."""
    alone = asyncio.Event()
    # A keeper never writes: only its end is there to be read.
    asyncio.get_running_loop().add_reader(keeper, alone.set)
    bootstrap = str(next(iter(proxy.bootstrap.values())))
    told = ""
    while not (alone.is_set() or proxy.control.stopping.is_set()):
        not_ready = {level: "; ".join(proxy.not_ready(level)) for level in LEVELS}
        useless = {level: "; ".join(proxy.lasting_problems(level)) if not_ready[level] else "" for level in LEVELS}
        said = json.dumps({"bootstrap": bootstrap, "not_ready": _of_file(not_ready), "useless": _of_file(useless)})
        if said != told:
            _tell(keeper, said)
            told = said
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SOON if any(not_ready.values()) else _LATER):
                await alone.wait()
    return 0


def _of_file(texts: Mapping[Requires, str]) -> Mapping[str, str]:
    return {level: replace_flags(text) for level, text in texts.items()}


class _Record(logging.LogRecord):
    """A line of the log, in the words of a configuration's file."""

    def getMessage(self) -> str:
        return replace_flags(super().getMessage())


def _tell(keeper: socket.socket, said: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        keeper.sendall(said.encode() + b"\n")


def main(listen: str) -> int:
    """Returns an exit code."""
    logging.setLogRecordFactory(_Record)
    with socket.socket(fileno=os.dup(sys.stdout.fileno())) as keeper:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            config = load({}, {}, Path("/dev/stdin"), defaults(listen))
            # `kproxy.spark.logtail` reads the lines.
            return run(config.model_copy(update={"log_format": "text"}), lambda proxy: _until_alone(keeper, proxy))
        except KproxyError as error:
            _tell(keeper, json.dumps({"failed": replace_flags(str(error))}))
            return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
