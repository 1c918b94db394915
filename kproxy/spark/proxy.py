"""The kproxy that a keeper runs: `python -m kproxy.spark.proxy LISTEN`, the configuration on stdin.

Its stdout is a socket to the keeper, to which it reports its state, one line of JSON at each change. When the keeper
ends, for whatever reason, this process ends too.
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
from kproxy.spark.source import CONFIGURED
from kproxy.spark.wording import replace_flags

# How often readiness is checked, in seconds: before kproxy is ready, and after.
_SOON, _LATER = 0.05, 1.0


def defaults(listen: str) -> Mapping[str, str]:
    """Return the differences from the defaults of `kproxy run`: no admin endpoint, and all nodes must be reachable."""
    return {"admin": "off", "log-level": "warning", "ready-requires": "all", "listen": listen}


async def _until_alone(keeper: socket.socket, proxy: App) -> int:
    """Report the state until the keeper ends or kproxy stops."""
    alone = asyncio.Event()
    # A keeper never writes: the socket becomes readable only when the keeper ends.
    asyncio.get_running_loop().add_reader(keeper, alone.set)
    bootstrap = str(next(iter(proxy.bootstrap.values())))
    reported = ""
    while not (alone.is_set() or proxy.control.stopping.is_set()):
        levels: Mapping[str, Requires] = {**{level: level for level in LEVELS}, CONFIGURED: proxy.ready_requires}
        not_ready = {name: "; ".join(proxy.not_ready(level)) for name, level in levels.items()}
        useless = {
            name: "; ".join(proxy.lasting_problems(level)) if not_ready[name] else "" for name, level in levels.items()
        }
        report = json.dumps(
            {"bootstrap": bootstrap, "not_ready": _replace_all_flags(not_ready), "useless": _replace_all_flags(useless)}
        )
        if report != reported:
            _tell(keeper, report)
            reported = report
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SOON if any(not_ready.values()) else _LATER):
                await alone.wait()
    return 0


def _replace_all_flags(texts: Mapping[str, str]) -> Mapping[str, str]:
    return {name: replace_flags(text) for name, text in texts.items()}


class _Record(logging.LogRecord):
    """A log record with keys of a configuration file in place of flags."""

    def getMessage(self) -> str:
        return replace_flags(super().getMessage())


def _tell(keeper: socket.socket, text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        keeper.sendall(text.encode() + b"\n")


def main(listen: str) -> int:
    """Run kproxy and return its exit code."""
    logging.setLogRecordFactory(_Record)
    with socket.socket(fileno=os.dup(sys.stdout.fileno())) as keeper:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            config = load({}, {}, Path("/dev/stdin"), defaults(listen))
            # `kproxy.spark.logtail` reads the lines.
            return run(config.replace(log_format="text"), lambda proxy: _until_alone(keeper, proxy))
        except KproxyError as error:
            _tell(keeper, json.dumps({"failed": replace_flags(str(error))}))
            return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
