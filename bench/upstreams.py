"""The cost of two upstreams: kproxy with a plain cluster, with a cluster that can be switched, and after a switch.

Versions are capped for a cluster with upstreams, so all loads have versions that each of the three passes. After a
switch each session has a guard. Here each client counts as one from before the switch, as after a restart, and the half
minute in which first writes pass one at a time is over.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import report
from bench.loads import KIB, LOADS, Kind, Load
from bench.machine import Cores
from bench.native import BROKER_PORT, FETCH, PRODUCE, Request, StubBroker
from bench.peers import KPROXY, Peer, launch, standard_peers
from bench.windows import Bench, Settings
from kproxy.proxy.switching import asjson
from kproxy.proxy.switching.asjson import SavedState
from kproxy.proxy.switching.participant import LastSwitch, ParticipantState, SwitchOutcome

SWITCHABLE, GUARDED = "kproxy-upstreams", "kproxy-guarded"
FIRST_WRITES_S = 31.0
"""Seconds after a start in which first writes pass one at a time, and a little more."""
_NAMES = ("fetch-1M-c4", "fetch-16K-c16", "produce-16K-c4", "ping-c1", "ping-c64", "pipelined-d32-c16", "connect-c16")
SWITCH_LOADS = (
    *(load for load in LOADS if load.name in _NAMES),
    Load("pipelined-fetch-v12-d32-c16", Kind.FRAMES, Request(FETCH, 12, 1, 100), 16, 32),
    Load("pipelined-produce-v12-d32-c16", Kind.FRAMES, Request(PRODUCE, 12, 1, 100), 16, 32),
    Load("fetch-v12-4K-c16", Kind.BULK, Request(FETCH, 12, 1, 4 * KIB), 16, 1),
)
_COMPARED = ("frames_per_s", "cpu_s_per_million", "p50_us", "p99_us", "rss_mib")


def measure(
    directory: Path,
    cores: Cores,
    broker: StubBroker,
    settings: Settings,
    files: int,
    chosen: Callable[[str], bool],
    progress: Callable[[str], None],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Return the figures of each load, with the ratios to a plain cluster's."""
    result = {}
    with ExitStack() as running:
        relays = [
            running.enter_context(launch(peer, at, BROKER_PORT, cores, directory, files))
            for at, peer in enumerate(_peers(directory, cores))
        ]
        progress("waits until first writes are over")
        time.sleep(FIRST_WRITES_S)
        bench = Bench(directory, cores, [broker.pid], relays, settings)
        for load in (load for load in SWITCH_LOADS if chosen(load.name)):
            figures = bench.measure(load, progress)
            result[load.name] = {
                "kind": load.kind.value,
                "peers": report.rounded(figures),
                "to_kproxy": ratios(figures),
            }
            say("upstreams " + report.table(load, figures))
    return result


def ratios(figures: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the ratios of each peer to the plain kproxy."""
    base = figures[KPROXY]
    return {
        name: {
            what: round(peer_figures[what] / base[what], 3)
            for what in _COMPARED
            if what in peer_figures and base.get(what)
        }
        for name, peer_figures in figures.items()
        if name != KPROXY
    }


def _peers(directory: Path, cores: Cores) -> list[Peer]:
    plain = next(peer for peer in standard_peers() if peer.name == KPROXY)
    last = LastSwitch("x", "blue", SwitchOutcome.UNDONE, "for a benchmark", time.time(), 1.0, flipped=True)
    return [
        plain,
        _with_upstreams(SWITCHABLE, directory, ParticipantState("blue")),
        _with_upstreams(GUARDED, directory, ParticipantState("blue", last=last)),
    ]


def _with_upstreams(name: str, directory: Path, state: ParticipantState) -> Peer:
    """Return a configuration whose two upstreams are both the stub broker; no switch happens."""
    state_file = directory / f"{name}.state"
    state_file.mkdir(exist_ok=True)
    saved = SavedState(state, ended=True, fetched=())
    (state_file / "cluster-default.json").write_bytes(asjson.encode_state_file("default", saved))
    servers = {"bootstrap-servers": f"127.0.0.1:{BROKER_PORT}"}
    file = directory / f"{name}.yaml"
    file.write_text(
        json.dumps({"active": "blue", "upstreams": {"blue": servers, "green": servers}, "state-dir": str(state_file)})
    )
    run = ("run", "--config", str(file), "--listen", "{listen}", "--admin", "{admin}")
    return Peer(name, (sys.executable, "-m", "kproxy", *run), admin=True)
