"""The switches of this kproxy's clusters that have upstreams, and of their parts.

`/switch`, `/status` and the metrics show them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kproxy import __version__
from kproxy.base.errors import ConfigError
from kproxy.base.format import abbreviate
from kproxy.base.messages.switches import RELOAD_DURING_SWITCH, STATE_OF_EARLIER_SWITCH, SWITCH_DURING_RELOAD
from kproxy.base.printable import one_line
from kproxy.config import ClusterConfig, Config
from kproxy.config.changes import may_be_same_cluster
from kproxy.proxy.admin.handlers import SwitchCommandResult
from kproxy.proxy.app.effects import SwitchEffects
from kproxy.proxy.app.statedir import StateDir
from kproxy.proxy.app.unitswitch import UnitSwitch
from kproxy.proxy.metrics.registry import SwitchMetrics
from kproxy.proxy.status.model import SessionStatus, SwitchStatus
from kproxy.proxy.switching import asjson
from kproxy.proxy.switching.asjson import PartCommand
from kproxy.proxy.switching.parts import MAX_PARTS, Part, covers, overlap_problem, split_unit, unit_name

log = logging.getLogger(__name__)


class SwitchRegistry:
    """All switches of the process.

    They are adopted before their clusters are opened, because the state determines the active upstream; they begin when
    the listeners are bound, before the event loop turns.
    """

    def __init__(
        self,
        directory: StateDir | None,
        effects: SwitchEffects,
        is_stopping: Callable[[], bool],
        served: Iterable[str] = (),
    ) -> None:
        """Begin without switches. `served`: clusters without upstreams that have had clients before."""
        self._directory = directory
        self._effects = effects
        self._is_stopping = is_stopping
        self._switches: dict[str, UnitSwitch] = {}  # by unit
        self._adopted: dict[str, UnitSwitch] = {}  # used as soon as their clusters are served
        self._is_adopting = False
        self._served = frozenset(served)  # the clusters, with upstreams or without
        self._configured_active: dict[str, str] = {}  # the active upstream in the configuration, by cluster
        self._offset = time.time() - asyncio.get_running_loop().time()

    def _now(self) -> float:
        return asyncio.get_running_loop().time() + self._offset

    def adopt(self, config: Config, directory: StateDir | None = None) -> Config:
        """Return the configuration with the active upstream of each cluster's state, or else as configured.

        `directory` stores the states from now on, if none did. Nothing changes before `begin`, or `discard_adopted`,
        and no hold begins. Raises ConfigError.
        """
        directory = directory or self._directory
        served = {cluster.name: cluster for cluster in config.served if cluster.upstream}
        self._adopted = {}
        for name, cluster in served.items():
            switch = self._adopted[name] = self._adopt_unit(config, cluster, directory)
            for part in switch.parts:
                self._adopted[unit_name(name, part)] = self._adopt_unit(config, cluster, directory, part)
        self._is_adopting = True
        return _with_active(config, {name: switch.state.active for name, switch in self._adopted.items()})

    def _adopt_unit(
        self, config: Config, cluster: ClusterConfig, directory: StateDir | None, part: str = ""
    ) -> UnitSwitch:
        names = [cluster.upstream, *(upstream_config.upstream for upstream_config in config.others(cluster.name))]
        name = unit_name(cluster.name, part)
        existing = self._switches.get(name)
        if existing is not None and existing.directory is directory:
            return existing
        serves = cluster.name in self._served
        switch = UnitSwitch(
            name,
            cluster.upstream,
            names,
            directory=directory,
            effects=self._effects,
            now=self._now,
            is_stopping=self._is_stopping,
            among_clients=serves,
        )
        if part and not switch.clients:
            assert directory is not None
            raise ConfigError(
                f"--state-dir: cluster {cluster.name} has part {part}, and {directory.file(name)} is missing: put it"
                f" back, or remove {directory.file(cluster.name)} too if you know to which upstream the others route"
            )
        if serves and directory is not None and (switch.state.holds or switch.state.active != cluster.upstream):
            raise ConfigError(
                STATE_OF_EARLIER_SWITCH(
                    name=name, active=switch.state.active, upstream=cluster.upstream, file=directory.file(name)
                )
            )
        switch.write()  # nothing that can fail comes later
        return switch

    def discard_adopted(self) -> None:
        """Discard what was adopted."""
        self._adopted, self._is_adopting = {}, False

    def begin(self, config: Config, directory: StateDir | None = None) -> None:
        """Use the adopted switches: their clusters are served. Raises ConfigError if a state cannot be written."""
        self._directory = directory or self._directory
        former, self._switches = self._switches, self._adopted
        self.discard_adopted()
        served = {cluster.name: cluster for cluster in config.served}
        for name in former.keys() - self._switches.keys():
            former[name].end()
        for name, switch in self._switches.items():
            cluster, part = split_unit(name)
            cluster_config = served[cluster]
            switch.upstreams = [
                cluster_config.upstream,
                *(upstream_config.upstream for upstream_config in config.others(cluster)),
            ]
            switch.configured = self._configured_active.get(cluster, switch.configured)
            if part and name not in former:
                self._effects.make_part(cluster, Part(part, switch.clients), switch.state.active)
            switch.begin()
        for cluster in {split_unit(name)[0] for name in self._switches}:
            if problem := self._effects.claim_route(cluster):
                if former:
                    log.error("%s", problem)
                else:
                    raise ConfigError(problem)
        if self._directory is not None:
            for name in [name for name, cluster_config in served.items() if not cluster_config.upstream]:
                _forget(self._directory, name)
        self._served = frozenset(served)

    def end(self) -> None:
        """End all switches: the process ends, and has no sessions any more."""
        for switch in self._switches.values():
            switch.end()

    def with_active_upstreams(self, old: Config, new: Config) -> Config:
        """Return the new configuration with the present active upstreams, except where it names a new one.

        Raises ConfigError while a switch is under way.
        """
        for name, switch in self._switches.items():
            if switch.state.holds:
                raise ConfigError(RELOAD_DURING_SWITCH(name=name, switch=switch.state.switch))
        self._check_parts(old, new)
        before = {cluster.name: cluster.upstream for cluster in old.served}
        self._configured_active = {cluster.name: cluster.upstream for cluster in new.served}
        active = {name: switch.state.active for name, switch in self._switches.items() if not split_unit(name)[1]}
        return _with_active(
            new,
            {name: to for name, to in active.items() if self._configured_active.get(name) in (before.get(name), to)},
        )

    def _check_parts(self, old: Config, new: Config) -> None:
        """Raise ConfigError if a part would lose the upstream that only its clients are routed to."""
        later = {(cluster_config.name, cluster_config.upstream): cluster_config for cluster_config in new.clusters}
        served = {cluster_config.name for cluster_config in new.served}
        for name, switch in self._switches.items():
            cluster, part = split_unit(name)
            active = switch.state.active
            if cluster not in served or active == self._switches[cluster].state.active:
                continue
            former = next(
                cluster_config
                for cluster_config in old.clusters
                if (cluster_config.name, cluster_config.upstream) == (cluster, active)
            )
            if not may_be_same_cluster(former, later.get((cluster, active))):
                raise ConfigError(
                    f"cluster {cluster}: upstream {active} must stay as it is: part {part} is routed there, and all"
                    " others are not"
                )

    def _switch_of_part(self, cluster: str, part: str) -> UnitSwitch:
        return self._switches[unit_name(cluster, part)]

    # What others see

    def status(self, cluster: str) -> SwitchStatus | None:
        """Return the status of a cluster's switch and its parts; None if the cluster cannot be switched."""
        switch = self._switches.get(cluster)
        if switch is None:
            return None
        return replace(
            switch.status(), parts=tuple(self._switch_of_part(cluster, part).status() for part in switch.parts)
        )

    def switch_numbers(self) -> Iterator[SwitchMetrics]:
        """Yield the numbers of each unit, for the metrics."""
        for name, switch in self._switches.items():
            status, last = switch.status(), switch.state.last
            yield SwitchMetrics(
                name,
                upstreams=switch.upstreams,
                ready=[
                    upstream
                    for upstream, upstream_state in self._effects.upstreams(name).items()
                    if not upstream_state.problem
                ],
                active=status.active,
                phase=status.phase,
                unanswered=status.unanswered,
                held=status.held,
                doubts=status.doubts,
                waiting=status.waiting,
                last_seconds=0.0 if last is None else last.held,
                seconds=status.seconds,
            )

    def as_json(self, sessions: Sequence[SessionStatus]) -> bytes:
        """Return the body of GET /switch."""
        clients = self._clients_by_unit(sessions)
        clusters = [{**switch.as_json(), "clients": clients.get(name, [])} for name, switch in self._switches.items()]
        kproxy = {"version": __version__, "time": time.time(), "state_dir": self._directory is not None}
        return _json({"kproxy": kproxy, "clusters": clusters})

    def _clients_by_unit(self, sessions: Sequence[SessionStatus]) -> Mapping[str, list[dict[str, Any]]]:
        """Return the connected clients by unit: address, client id, software."""
        sessions_by_client: dict[str, dict[tuple[str, str, str], list[SessionStatus]]] = {}
        units: dict[tuple[str, str], str] = {}
        for session in sessions:
            key = session.cluster, session.client_id
            if key not in units:
                units[key] = self._unit_of(*key)
            client = session.client.rpartition(":")[0], session.client_id, session.software
            sessions_by_client.setdefault(units[key], {}).setdefault(client, []).append(session)
        return {
            name: [
                {
                    "address": address,
                    "client": client,
                    "software": software,
                    "sessions": len(client_sessions),
                    "reads": any(session.reads for session in client_sessions),
                    "writes": any(session.writes for session in client_sessions),
                    "user": next((session.user for session in client_sessions if session.user), ""),
                    "broker_user": next((each.broker_user for each in client_sessions if each.broker_user), ""),
                    "login": next((session.login for session in client_sessions if session.login), ""),
                    "produces": next((session.produces for session in client_sessions if session.produces), ""),
                }
                for (address, client, software), client_sessions in clients.items()
            ]
            for name, clients in sessions_by_client.items()
        }

    def _unit_of(self, cluster: str, client_id: str) -> str:
        switch = self._switches.get(cluster)
        parts = () if switch is None else switch.parts
        return next(
            (
                unit_name(cluster, part)
                for part in parts
                if Part(part, self._switch_of_part(cluster, part).clients).has(client_id)
            ),
            cluster,
        )

    def handle_request(self, body: object) -> SwitchCommandResult:
        """Handle the body of POST /switch; return the result and the response body."""
        try:
            name, command = asjson.parse_command(body)
            if name not in self._switches:
                names = ", ".join(self._switches) or "none"
                raise ValueError(f"there is no cluster {name} with upstreams; those that can be switched: {names}")
        except ValueError as error:
            return SwitchCommandResult("nonsense", _json({"problem": str(error), "cluster": None}))
        switch = self._switches[name]
        if self._is_adopting and not switch.state.holds:
            problem = SWITCH_DURING_RELOAD()
        elif isinstance(command, PartCommand):
            problem = self._make_part(switch, command) if command.clients else self._end_part(switch, command.part)
            switch = self._switches.get(unit_name(name, command.part), switch)
        else:
            problem = switch.apply(command)
        body = _json({"problem": problem, "cluster": switch.as_json()})
        return SwitchCommandResult("refused" if problem else "done", body)

    # Parts

    def _make_part(self, cluster: UnitSwitch, command: PartCommand) -> str:
        """Make a part of a cluster. Return why that is not possible, or ""."""
        part = Part(command.part, command.clients)
        name = unit_name(cluster.cluster, part.name)
        if name in self._switches:
            return self._extend_part(cluster, self._switches[name], part)
        others = self._parts_of(cluster)
        problem = cluster.part_problem or overlap_problem(part, others)
        if problem or len(others) >= MAX_PARTS:
            return problem or f"a cluster has at most {MAX_PARTS} parts"
        part_switch = UnitSwitch(
            name,
            cluster.configured,
            cluster.upstreams,
            directory=cluster.directory,
            effects=self._effects,
            now=self._now,
            is_stopping=self._is_stopping,
            part_of=cluster,
            clients=part.clients,
        )
        before = cluster.parts
        try:
            part_switch.write()
            cluster.parts = (*before, part.name)
            cluster.write()  # from here on the part exists, also after a restart
        except ConfigError as error:
            cluster.parts = before
            return str(error)
        self._effects.make_part(cluster.cluster, part, part_switch.state.active)
        self._switches[name] = part_switch
        log.info(
            "cluster %s: its clients %s can be switched by themselves", name, one_line(", ".join(part.clients), 200)
        )
        return ""

    def _parts_of(self, cluster: UnitSwitch) -> list[Part]:
        return [Part(name, self._switch_of_part(cluster.cluster, name).clients) for name in cluster.parts]

    def _extend_part(self, cluster: UnitSwitch, part_switch: UnitSwitch, part: Part) -> str:
        """Give a part more clients of the cluster, also if it was switched, and back. Return why not, or ""."""
        if part_switch.clients == part.clients:
            return ""
        if lost := [client for client in part_switch.clients if not covers(part.clients, client)]:
            return f"there is a part {part.name} already, with other clients: {abbreviate(lost)}"
        if part_switch.state.active != cluster.state.active:
            return _routed_elsewhere(cluster, part_switch)
        others = [other for other in self._parts_of(cluster) if other.name != part.name]
        if problem := cluster.part_problem or part_switch.part_problem or overlap_problem(part, others):
            return problem
        before = part_switch.clients
        if problem := part_switch.extend(part.clients, cluster):
            return problem
        if problem := self._effects.extend_part(cluster.cluster, part):
            part_switch.extend(before, cluster)
            return problem
        clients = one_line(", ".join(part.clients), 200)
        log.info("cluster %s: part %s has more clients; all that it has: %s", cluster.cluster, part.name, clients)
        return ""

    def _end_part(self, cluster: UnitSwitch, part: str) -> str:
        """Dissolve a part. Return why that is not possible, or ""."""
        name = unit_name(cluster.cluster, part)
        if name not in self._switches:
            return ""
        part_switch = self._switches[name]
        problem = cluster.part_problem or part_switch.part_problem
        if problem or part_switch.state.active != cluster.state.active:
            return problem or _routed_elsewhere(cluster, part_switch)
        if problem := self._effects.end_part(cluster.cluster, part):
            return problem
        del self._switches[name]
        cluster.parts = tuple(part_name for part_name in cluster.parts if part_name != part)
        try:
            cluster.write()
        except ConfigError as error:
            return f"{error}; a restart would make part {part} again"
        assert self._directory is not None
        _remove(self._directory, name)
        log.info("cluster %s: its clients are routed with all others again", name)
        return ""


def _routed_elsewhere(cluster: UnitSwitch, part: UnitSwitch) -> str:
    name = split_unit(part.cluster)[1]
    return f"part {name} is routed to {part.state.active}, and all others to {cluster.state.active}"


def _forget(directory: StateDir, cluster: str) -> None:
    """Remove the state of a cluster that has no upstreams any more: it could misroute the clients of a later switch.

    Raises ConfigError if its switch has not ended.
    """
    try:
        stored = directory.read(cluster)
    except ConfigError:
        return  # it is not needed now, and reading it later reports the problem
    if stored is None:
        return
    if stored.state.holds:
        raise ConfigError(
            f"--state-dir: cluster {cluster} is in switch {stored.state.switch} ({stored.state.phase}), and the"
            f" configuration has no upstreams for it: put them back, or remove {directory.file(cluster)}"
        )
    for name in (cluster, *(unit_name(cluster, part) for part in stored.parts)):
        _remove(directory, name)


def _remove(directory: StateDir, name: str) -> None:
    try:
        directory.forget(name)
    except OSError as error:
        text = "cluster %s: --state-dir: the state of the last switch cannot be removed: %s"
        log.warning(text, name, error.strerror)


def _with_active(config: Config, active: Mapping[str, str]) -> Config:
    """Return the configuration with other active upstreams, where it has them."""
    existing = {(cluster.name, cluster.upstream) for cluster in config.clusters}
    clusters = [
        cluster.replace(active=cluster.upstream == active[cluster.name])
        if (cluster.name, active.get(cluster.name)) in existing
        else cluster
        for cluster in config.clusters
    ]
    return config.replace(clusters=tuple(clusters))


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"
