"""Java's archive of loaded classes (class-data sharing), with which Kafka's programs start in about half the time.

A broker that starts only for this purpose makes it once for each set of jars and each Java. It is in the directory of
the jars, and is removed with them. Java checks by itself that an archive fits, and ignores one that does not.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kproxy.base.address import Address
from kproxy.base.watchdog import Watchdog
from kproxy.dev.devcluster import properties as props
from kproxy.dev.devcluster.jars import Progress, exclusive_lock
from kproxy.dev.devcluster.node import NodeProcess
from kproxy.dev.devcluster.properties import CONTROLLER, INTERNAL, NodeListener
from kproxy.dev.devcluster.readiness import live_brokers
from kproxy.dev.devcluster.tools import Programs
from kproxy.net.freeports import HOST, free_ports

_POLL_S = 0.05

# Each for the start and for the end, which writes the archive; about three seconds on an idle machine.
_TIMEOUT_S = 60


def make_archive(programs: Programs, progress: Progress | None = None) -> None:
    """Make the archive of these programs if there is none yet; they use it from then on.

    If that is impossible (a Java before 13, a cache that is read-only), they start without it.
    """
    archive, jars = programs.archive, programs.jars
    with suppress(OSError, subprocess.TimeoutExpired):
        if archive.exists():
            return
        with exclusive_lock(jars.with_name(f"{jars.name}.lock"), progress):
            if archive.exists():  # another process made it while this one waited
                return
            if progress:
                progress("preparing Kafka's classes for quick starts (a few seconds, only once)")
            with tempfile.TemporaryDirectory(prefix=f".{archive.name}.", dir=jars.parent) as directory:
                made = Path(directory, archive.name)
                _run_broker(programs, made, Path(directory, "node"))
                made.touch()  # an empty file means that it failed, so that no later start tries again
                made.rename(archive)


def _run_broker(programs: Programs, archive: Path, directory: Path) -> None:
    """Start a broker that is its own controller, so that it loads the classes of both; it writes them at its end."""
    node = NodeProcess(1, directory)
    addresses = (Address(HOST, port) for port in free_ports(2))
    internal, controller = (
        NodeListener(name, at, at) for name, at in zip((INTERNAL, CONTROLLER), addresses, strict=True)
    )
    broker_properties = props.broker_properties(
        1,
        node.data,
        listeners=[internal],
        controller=(1, controller),
        brokers=1,
        extra={"process.roles": "broker,controller"},
    )
    broker_properties["listeners"] += f",{CONTROLLER}://{controller.bound}"
    path = node.write(broker_properties)
    formatted = programs.run("kafka-storage", "format", "-t", props.new_uuid(), "-c", str(path))
    if formatted.returncode != 0:
        return
    with Watchdog() as watchdog:
        watchdog.remove(directory.parent)
        try:
            node.start(replace(programs, options=(f"-XX:ArchiveClassesAtExit={archive}",)), "256m", watchdog)
            until = time.monotonic() + _TIMEOUT_S
            while node.running and not _is_ready(internal.bound) and time.monotonic() < until:
                time.sleep(_POLL_S)
            if node.could_not_bind:
                raise OSError("another process took a port of the broker")  # the next start tries again
            node.terminate()
            node.wait(_TIMEOUT_S, watchdog)
        finally:
            node.kill()
            node.wait(_TIMEOUT_S, watchdog)


def _is_ready(broker: Address) -> bool:
    try:
        return bool(live_brokers(broker))
    except OSError:
        return False
