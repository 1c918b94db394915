"""TLS to the broker: kproxy and HAProxy, both plaintext towards the client, before the same TLS.

The stub broker does not speak TLS. Another HAProxy in front of it, on the broker's core, terminates the TLS.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trustme

from bench import report
from bench.loads import LOADS
from bench.machine import BenchError, Cores, start, stop
from bench.native import BROKER_PORT, StubBroker
from bench.peers import HAPROXY, HAPROXY_FLAGS, KPROXY, TUNED, Peer, find_haproxy, launch, standard_peers, wait_ready
from bench.windows import Bench, Settings

_TLS_PORT = 9093
_LOADS = ("fetch-1M-c4", "produce-16K-c4", "ping-c1", "pipelined-d32-c16", "connect-c16")
_TERMINATOR = """\
global
    nbthread 1{tuning}
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen broker
    bind 127.0.0.1:{port} ssl crt {certificate}
    server stub 127.0.0.1:{stub}
"""


class _Terminator:
    """Terminates TLS in front of the stub broker."""

    def __init__(self, directory: Path, core: int) -> None:
        haproxy = find_haproxy()
        if haproxy is None:
            raise BenchError("haproxy was not found (Debian package haproxy): it takes TLS off before the stub broker")
        certificate, configuration = directory / "broker.pem", directory / "terminator.cfg"
        leaf = trustme.CA().issue_cert("kafka.bench")
        certificate.write_bytes(leaf.private_key_and_cert_chain_pem.bytes())
        configuration.write_text(
            _TERMINATOR.format(tuning=TUNED, port=_TLS_PORT, certificate=certificate, stub=BROKER_PORT)
        )
        self.process = start([haproxy, *HAPROXY_FLAGS, str(configuration)], [core], stderr=subprocess.DEVNULL)

    def __enter__(self) -> _Terminator:
        try:
            wait_ready(self.process, _TLS_PORT, None)
        except BaseException:
            stop(self.process)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        stop(self.process)


def _peers() -> list[Peer]:
    """Return HAProxy and kproxy as in the other loads, with TLS to the broker; neither checks the certificate."""
    peers = {peer.name: peer for peer in standard_peers()}
    haproxy, kproxy = peers[HAPROXY], peers[KPROXY]
    assert kproxy.command is not None
    return [
        Peer(HAPROXY, haproxy.command, haproxy.tuning, server="ssl verify none"),
        # The stub broker's ten brokers have no TLS in front of them.
        Peer(KPROXY, (*kproxy.command, "--tls", "--tls-insecure", "--map", "*={upstream}"), admin=True),
    ]


def measure(
    directory: Path,
    cores: Cores,
    broker: StubBroker,
    settings: Settings,
    files: int,
    progress: Callable[[str], None],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Return the figures of each load, with the ratios to HAProxy."""
    result = {}
    with _Terminator(directory, cores.broker) as terminator:
        peers = _peers()
        running = [launch(peer, at, _TLS_PORT, cores, directory, files) for at, peer in enumerate(peers)]
        try:
            bench = Bench(directory, cores, [broker.pid, terminator.process.pid], running, settings)
            for load in (load for load in LOADS if load.name in _LOADS):
                figures = bench.measure(load, progress)
                result[load.name] = report.with_ratios(load, figures)
                say("TLS " + report.table(load, figures))
        finally:
            for relay in running:
                relay.__exit__()
    return result
