"""The switches of this kproxy's clusters: those that have upstreams. What `/switch`, `/status` and the metrics show."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kproxy import __version__
from kproxy.admin.pages import Switched
from kproxy.app.statedir import StateDir
from kproxy.app.switch import Effects, Switch
from kproxy.config import ClusterConfig, Config
from kproxy.errors import ConfigError
from kproxy.metrics.record import SwitchNumbers
from kproxy.status.shown import SessionStatus, SwitchStatus
from kproxy.switching import asjson

log = logging.getLogger(__name__)


class Switching:
    """All of them. They are adopted before their clusters are opened, for the state says which upstream one leads to;
    they begin when the listeners are there, before the event loop turns."""

    def __init__(
        self,
        directory: StateDir | None,
        effects: Effects,
        is_stopping: Callable[[], bool],
        served: Iterable[str] = (),
    ) -> None:
        """`served`: clusters, without upstreams, that have had clients before there was this."""
        self._directory = directory
        self._effects = effects
        self._is_stopping = is_stopping
        self._switches: dict[str, Switch] = {}
        self._next: dict[str, Switch] = {}  # as soon as its clusters are there
        self._adopts = False
        self._served = frozenset(served)  # the clusters, with upstreams or without
        self._said: dict[str, str] = {}  # which upstream the configuration calls active, by cluster
        self._offset = time.time() - asyncio.get_running_loop().time()

    def _now(self) -> float:
        return asyncio.get_running_loop().time() + self._offset

    def adopt(self, config: Config, directory: StateDir | None = None) -> Config:
        """The configuration as it holds: each cluster with upstreams leads to where it did before, or else as
        configured. `directory`: keeps their states from now on, if none did. Nothing changes before `begin`, or
        `stay`, and no hold begins. Raises ConfigError."""
        directory = directory or self._directory
        served = {cluster.name: cluster for cluster in config.served if cluster.upstream}
        self._next = {name: self._adopted(config, one, directory) for name, one in served.items()}
        self._adopts = True
        return _led(config, {name: switch.state.active for name, switch in self._next.items()})

    def _adopted(self, config: Config, cluster: ClusterConfig, directory: StateDir | None) -> Switch:
        names = [cluster.upstream, *(other.upstream for other in config.others(cluster.name))]
        there = self._switches.get(cluster.name)
        if there is not None and there.directory is directory:
            return there
        serves = cluster.name in self._served
        switch = Switch(
            cluster.name, cluster.upstream, names, directory, self._effects, self._now, self._is_stopping,
            among_clients=serves,
        )  # fmt: skip
        if serves and directory is not None and (switch.state.holds or switch.state.active != cluster.upstream):
            raise ConfigError(
                f"--state-dir: cluster {cluster.name} was led to upstream {switch.state.active} when it was switched"
                f" last, and clients are led to {cluster.upstream} now: remove {directory.file(cluster.name)}"
            )
        switch.write()  # nothing that can fail comes later
        return switch

    def stay(self) -> None:
        """What was adopted does not come."""
        self._next, self._adopts = {}, False

    def begin(self, config: Config, directory: StateDir | None = None) -> None:
        """The clusters that were adopted are there. Raises ConfigError if a state cannot be written."""
        self._directory = directory or self._directory
        former, self._switches = self._switches, self._next
        self.stay()
        served = {cluster.name: cluster for cluster in config.served}
        for name in former.keys() - self._switches.keys():
            former[name].end()
        for name, switch in self._switches.items():
            one = served[name]
            switch.upstreams = [one.upstream, *(other.upstream for other in config.others(name))]
            switch.configured = self._said.get(name, switch.configured)
            switch.begin()
        if self._directory is not None:
            for name in [name for name, one in served.items() if not one.upstream]:
                _forget(self._directory, name)
        self._served = frozenset(served)

    def end(self) -> None:
        """The process ends, and has no sessions any more."""
        for switch in self._switches.values():
            switch.end()

    def follow(self, old: Config, new: Config) -> Config:
        """The new configuration without what it says about the active upstream, where that is not new, or so already.
        Raises ConfigError while a switch is under way."""
        for name, switch in self._switches.items():
            if switch.state.holds:
                raise ConfigError(f"cluster {name} is in switch {switch.state.switch}: reload when that is over")
        before = {cluster.name: cluster.upstream for cluster in old.served}
        self._said = {cluster.name: cluster.upstream for cluster in new.served}
        active = {name: switch.state.active for name, switch in self._switches.items()}
        return _led(new, {name: to for name, to in active.items() if self._said.get(name) in (before.get(name), to)})

    # What others see

    def status(self, cluster: str) -> SwitchStatus | None:
        switch = self._switches.get(cluster)
        return None if switch is None else switch.status()

    def numbers(self) -> Iterator[SwitchNumbers]:
        for name, switch in self._switches.items():
            status, last = switch.status(), switch.state.last
            yield SwitchNumbers(
                name,
                switch.upstreams,
                [upstream for upstream, one in self._effects.upstreams(name).items() if not one.problem],
                status.active,
                status.phase,
                status.unanswered,
                status.held,
                status.doubts,
                status.waiting,
                0.0 if last is None else last.held,
                status.seconds,
            )

    def shown(self, sessions: Sequence[SessionStatus]) -> bytes:
        """What GET /switch answers."""
        clusters = [{**one.shown(), "clients": _clients(name, sessions)} for name, one in self._switches.items()]
        kproxy = {"version": __version__, "time": time.time(), "state_dir": self._directory is not None}
        return _json({"kproxy": kproxy, "clusters": clusters})

    def obey(self, body: object) -> Switched:
        """What POST /switch does, and answers."""
        try:
            name, command = asjson.command(body)
            if name not in self._switches:
                known = ", ".join(self._switches) or "none"
                raise ValueError(f"there is no cluster {name} with upstreams; those that can be switched: {known}")
        except ValueError as error:
            return Switched("nonsense", _json({"problem": str(error), "cluster": None}))
        switch = self._switches[name]
        if self._adopts and not switch.state.holds:
            problem = "the configuration is being reloaded: ask again"
        else:
            problem = switch.obey(command)
        body = _json({"problem": problem, "cluster": switch.shown()})
        return Switched("refused" if problem else "done", body)


def _forget(directory: StateDir, cluster: str) -> None:
    """This cluster has no upstreams. What its last switch has left could lead the clients of a next one wrong. Raises
    ConfigError if that switch has not ended."""
    try:
        kept = directory.read(cluster)
    except ConfigError:
        return  # nobody needs it now, and it says itself what is wrong with it if somebody does
    if kept is None:
        return
    if kept.state.holds:
        raise ConfigError(
            f"--state-dir: cluster {cluster} is in switch {kept.state.switch} ({kept.state.phase}), and the"
            f" configuration has no upstreams for it: put them back, or remove {directory.file(cluster)}"
        )
    try:
        directory.forget(cluster)
    except OSError as error:
        text = "cluster %s: --state-dir: the state of the last switch cannot be removed: %s"
        log.warning(text, cluster, error.strerror)


def _led(config: Config, active: Mapping[str, str]) -> Config:
    """With other active upstreams, where the configuration has them."""
    there = {(cluster.name, cluster.upstream) for cluster in config.clusters}
    clusters = [
        cluster.model_copy(update={"active": cluster.upstream == active[cluster.name]})
        if (cluster.name, active.get(cluster.name)) in there
        else cluster
        for cluster in config.clusters
    ]
    return config.model_copy(update={"clusters": tuple(clusters)})


def _clients(cluster: str, sessions: Sequence[SessionStatus]) -> list[dict[str, Any]]:
    """Who is connected: where, and how they name themselves."""
    found = Counter(
        (one.client.rpartition(":")[0], one.client_id, one.software) for one in sessions if one.cluster == cluster
    )
    return [
        {"address": address, "client": client, "software": software, "sessions": count}
        for (address, client, software), count in found.items()
    ]


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"
