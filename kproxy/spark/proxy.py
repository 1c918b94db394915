"""The kproxy that a keeper runs: `python -m kproxy.spark.proxy`, the configuration on stdin.

Its stdout is a socket to the keeper: there it says how it is, a line of JSON whenever that changes; and when the keeper
is gone, however that ended, it ends too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from pathlib import Path

from kproxy.app.main import App, run
from kproxy.config import load
from kproxy.errors import KproxyError

# As for `kproxy exec`: nobody has asked for these.
DEFAULTS = {"admin": "off", "log-level": "warning"}
# How often it is looked whether it is ready, in seconds: until it is, and then.
_SOON, _LATER = 0.05, 1.0


async def _until_alone(keeper: socket.socket, proxy: App) -> int:
    """What App.run does until it is over."""
    alone = asyncio.Event()
    # A keeper never writes: only its end is there to be read.
    asyncio.get_running_loop().add_reader(keeper, alone.set)
    bootstrap = str(next(iter(proxy.bootstrap.values())))
    told = ""
    while not (alone.is_set() or proxy.control.stopping.is_set()):
        problem = "; ".join(proxy.not_ready())
        said = json.dumps({"bootstrap": bootstrap, "ready": not problem, "problem": problem})
        if said != told:
            _tell(keeper, said)
            told = said
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SOON if problem else _LATER):
                await alone.wait()
    return 0


def _tell(keeper: socket.socket, said: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        keeper.sendall(said.encode() + b"\n")


def main() -> int:
    """Returns an exit code."""
    with socket.socket(fileno=os.dup(sys.stdout.fileno())) as keeper:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            config = load({}, {}, Path("/dev/stdin"), DEFAULTS)
            return run(config, lambda proxy: _until_alone(keeper, proxy))
        except KproxyError as error:
            _tell(keeper, json.dumps({"failed": str(error)}))
            return 1


if __name__ == "__main__":
    sys.exit(main())
