"""kproxy: a local Kafka proxy that makes unreachable advertised broker addresses just work.

Wings, from top to bottom. A wing may import from those below it only; `make check` enforces this:

    cli       commands, exit codes, named set-ups
    connection  `connect`: a kproxy for as long as a part of a Python program runs
    migrate   moves topics and clients to another cluster
    spark     kproxy beside Spark: a proxy on the driver's host and on each executor's
    inspect   asks a live cluster: why a client fails, what is in it, where brokers could be
    dev       Kafka on this machine, for trying and testing
    proxy     the running proxy
    advice    reads text, and finds and explains mistakes in it
    client    kproxy as a Kafka client: its own requests and its own logins
    config    each option, declared once
    net       opens sockets: resolving, connecting, TLS
    protocol  Kafka's bytes, without I/O
    users     the users who log in at kproxy, and their logins for each upstream
    base      errors, addresses, text, processes

docs/architecture.md describes the wings, and defines the words of this code base.
"""

from __future__ import annotations

import os as _os

TYPE_CHECKING = False  # type checkers take it for true; typing itself takes longer to import than this package
if TYPE_CHECKING:
    from typing import Any

    from kproxy.base.errors import KproxyError as KproxyError
    from kproxy.connection import connect as connect

    __version__: str

if _os.environ.get("KPROXY_PURE", "") not in ("", "0"):
    from kproxy.base import compilation

    compilation.use_sources()


def __getattr__(name: str) -> Any:
    """Return `kproxy.connect`, `kproxy.KproxyError` or `kproxy.__version__`.

    They are looked up on access, because reading the metadata takes a third of the start-up time.
    """
    if name == "connect":
        from kproxy.connection import connect

        return connect
    if name == "KproxyError":
        from kproxy.base.errors import KproxyError

        return KproxyError
    if name != "__version__":
        raise AttributeError(f"module 'kproxy' has no attribute '{name}'")
    from importlib.metadata import PackageNotFoundError, version

    from kproxy.base.packages import DISTRIBUTION

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"
