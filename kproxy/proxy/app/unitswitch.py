"""The switch of one unit in this process: passes events to `kproxy.proxy.switching.participant`, and runs the effects.

Each step is written to the state directory first, and done then: a kproxy that is killed continues from there. What
cannot be written is not done, except for the undo at the deadline: another process would find a state whose deadline
has passed, and undo it too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any

from kproxy.base.errors import ConfigError
from kproxy.base.messages.switches import (
    CLIENTS_FLIPPED,
    CLIENTS_WRITE_AGAIN,
    COMMITTED_WITHOUT_DRIVER,
    HELD_AFTER_DEADLINE,
    NO_STATE_DIR,
    RETRIES_OF_PREDECESSOR,
    RETRIES_POSSIBLE,
    RETRY_POSSIBLE,
    ROUTED_AS_SWITCHED,
    SWITCH_CONTINUES,
    SWITCH_DEFECT,
    SWITCH_UNDER_WAY,
    UNDONE_AT_DEADLINE,
    UPSTREAM_NOT_CONFIGURED,
    WRITES_COMMITTED,
    WRITES_HELD,
    WRITES_WAIT,
)
from kproxy.base.printable import one_line
from kproxy.proxy.app.effects import SwitchEffects
from kproxy.proxy.app.statedir import StateDir, StateWriter
from kproxy.proxy.status.model import SwitchStatus
from kproxy.proxy.switching import asjson, participant
from kproxy.proxy.switching.asjson import SavedState
from kproxy.proxy.switching.doubts import GIVEN_UP_LATE, Doubt
from kproxy.proxy.switching.participant import (
    MAX_HOLD_SECONDS,
    Command,
    Effect,
    ParticipantState,
    Phase,
    SwitchConditions,
    Transition,
)
from kproxy.proxy.switching.parts import split_unit
from kproxy.proxy.switching.positions import WaitingConsumer

log = logging.getLogger(__name__)

# The pause before another attempt to write a state, or to settle, in seconds.
_AGAIN, _SOON = 1.0, 0.1
# How often kproxy logs that it has committed and waits, in seconds.
_REMIND = 30.0
# For this long after a flip, a restarted kproxy guards all clients: each may be one
# that has not asked for its positions yet. Later, most have, and would wait in vain. In seconds.
_GUARDED = 300.0


class UnitSwitch:
    """The switch of one unit, a cluster or a part of it.

    `parts`: the names of a cluster's parts. `clients`: those of a part.
    """

    def __init__(
        self,
        cluster: str,
        configured: str,
        upstreams: Sequence[str],
        directory: StateDir | None,
        effects: SwitchEffects,
        now: Callable[[], float],
        is_stopping: Callable[[], bool],
        *,
        among_clients: bool = False,
        part_of: UnitSwitch | None = None,
        clients: Sequence[str] = (),
    ) -> None:
        """Read the state. Raises ConfigError if kproxy cannot continue with it.

        `now` returns a Unix time that never goes back. `among_clients`: there were sessions before, whose unanswered
        requests were not recorded. `part_of`: a new part with these clients is made of this cluster.
        """
        self.cluster = cluster
        self.configured = configured
        self.upstreams = upstreams
        self.directory = directory
        self._writer = StateWriter(directory, cluster)
        self._effects = effects
        self._now = now
        self._is_stopping = is_stopping
        self._timers: list[asyncio.TimerHandle] = []
        self._write_timer: asyncio.TimerHandle | None = None
        self._defect = ""
        self._has_begun = False
        stored = self._stored = None if directory is None or part_of is not None else directory.read(cluster)
        self.state = ParticipantState(configured) if stored is None else stored.state
        self.parts = () if stored is None else stored.parts
        self.clients = tuple(clients) if stored is None else stored.clients
        for name in {self.state.active, self.state.former, self.state.to} - {"", *upstreams}:
            raise ConfigError(UPSTREAM_NOT_CONFIGURED(cluster=cluster, name=name, upstreams=", ".join(upstreams)))
        self._fetched = None if stored is None or not stored.ended else stored.fetched
        unsure = unknown = GIVEN_UP_LATE
        if stored is not None and not among_clients:
            # Once held, nothing is unanswered; else the process before this one may have left something. So may one
            # that has gone back at its deadline, and could not write that.
            over = self.state.deadline is not None and self.state.deadline <= now()
            held = self.state.phase not in (Phase.SERVING, Phase.HOLDING) and not over
            unsure = min(stored.unsure, GIVEN_UP_LATE) if stored.ended else 0.0 if held else GIVEN_UP_LATE
            # The same of which clients have fetched: no process knows those that have not come again since then.
            unknown = GIVEN_UP_LATE if self._fetched is None else min(stored.unknown, GIVEN_UP_LATE)
        self._doubts_until, self._fetched_unknown_until = now() + unsure, now() + unknown
        if part_of is not None:
            self._fetched_unknown_until = part_of._fetched_unknown_until
            self.state = ParticipantState(part_of.state.active, count=part_of.state.count)
            self._doubts_until, self._has_begun = part_of._doubts_until, part_of._has_begun

    def write(self) -> None:
        """Write down the present state. Raises ConfigError."""
        stored = self._stored
        # If nothing has happened so far, perhaps nothing will: a good end stays one.
        problem = self._write(self.state) if self._has_begun or stored is None else self._writer.write(stored)
        if problem:
            raise ConfigError(problem)

    def _write(self, participant: ParticipantState) -> str:
        """Write down a state. Return why that was not possible, or ""."""
        return self._writer.write(SavedState(participant, parts=self.parts, clients=self.clients))

    def begin(self) -> None:
        """Continue where the former process was, unless this has begun already. Raises ConfigError."""
        if self.directory is None or self._has_begun:
            return
        self._has_begun = True
        step = participant.restart(self.state, self._now())
        before, self.state = self.state, step.state
        self.write()  # also so that no start takes a former end for its own
        if self.state.active != self.configured:
            log.warning(ROUTED_AS_SWITCHED(cluster=self.cluster, active=self.state.active, configured=self.configured))
        if step.state.holds:
            log.warning(SWITCH_CONTINUES(cluster=self.cluster, switch=self.state.switch, phase=self.state.phase))
        if self._fetched:
            self._effects.restore_fetched(self.cluster, self._fetched)
        self._run_effects(before, step)
        if self._was_flipped_recently():
            self._effects.guard_everyone(self.cluster)

    def _was_flipped_recently(self) -> bool:
        """Check whether clients may come with positions of the former upstream, which only the former process knew."""
        now, last = self.state, self.state.last
        if now.holds:
            return now.active != now.former
        return last is not None and last.flipped and self._now() - last.at < _GUARDED

    def end(self) -> None:
        """End, and store what the next process may rely on if no write is unanswered.

        That includes for how long clients may still repeat a write, of the processes before this one too.
        """
        self._disarm()
        if self._write_timer is not None:
            self._write_timer.cancel()
        writes, now = self._effects.writes(self.cluster), self._now()
        if self.directory is None or not self._has_begun or writes.unanswered or self.state.holds:
            return
        unsure = max(0.0, self._doubts_until - now, *(doubt.left for doubt in writes.doubts))
        unknown = max(0.0, self._fetched_unknown_until - now)
        fetched = self._effects.fetched(self.cluster)
        self._writer.write(SavedState(self.state, True, self.parts, self.clients, fetched, unsure, unknown))

    def apply(self, command: Command) -> str:
        """Apply a command; return why that is not possible, or ""."""
        if self._defect:
            return self._defect
        step = participant.apply(self.state, command, self._facts(command.seconds), self._now())
        return self._enter(step) or step.problem

    @property
    def part_problem(self) -> str:
        """Why no part can be made or dissolved now, or ""."""
        if self.state.holds:
            return SWITCH_UNDER_WAY(switch=self.state.switch, phase=self.state.phase)
        return self._defect or self._refusal(0.0, 0.0)

    def extend(self, clients: Sequence[str], cluster: UnitSwitch) -> str:
        """Let the part have these clients, of this cluster. Return why the state cannot be written, or ""."""
        before, self.clients = self.clients, tuple(clients)
        if problem := self._write(self.state):
            self.clients = before
            return problem
        self._doubts_until = max(self._doubts_until, cluster._doubts_until)
        self._fetched_unknown_until = max(self._fetched_unknown_until, cluster._fetched_unknown_until)
        return ""

    # What happens by itself

    def _on_settled(self) -> None:
        step = participant.settle(self.state, self._facts())
        if self._enter(step) or (step.state.phase is Phase.HOLDING and not self._defect):
            self._timers.append(asyncio.get_running_loop().call_later(_SOON, self._on_settled))

    def _on_deadline(self) -> None:
        step = participant.expire(self.state, self._now())
        if not (problem := self._enter(step)):
            return
        if self._writer.may_be_committed:
            # Another process would continue as committed, and might receive a release.
            log.error(HELD_AFTER_DEADLINE(cluster=self.cluster, problem=problem))
            self._timers.append(asyncio.get_running_loop().call_later(_AGAIN, self._on_deadline))
            return
        log.error(UNDONE_AT_DEADLINE(cluster=self.cluster, problem=problem))
        before, self.state = self.state, step.state
        self._run_effects(before, step)

    def _write_again(self) -> None:
        """Write the state again, until that succeeds."""
        self._write_timer = None
        if self._writer.problem and self._write(self.state):
            self._write_again_soon()

    def _write_again_soon(self) -> None:
        if self._write_timer is None:
            self._write_timer = asyncio.get_running_loop().call_later(_AGAIN, self._write_again)

    def _remind(self) -> None:
        log.warning(
            COMMITTED_WITHOUT_DRIVER(
                cluster=self.cluster, switch=self.state.switch, seconds=self._now() - self.state.since
            )
        )
        self._timers.append(asyncio.get_running_loop().call_later(_REMIND, self._remind))

    # Steps

    def _enter(self, step: Transition) -> str:
        """Write the next state down, then run its effects. Return why that was not possible, or ""."""
        if step.state == self.state:
            return ""
        if problem := self._write(step.state):
            self._write_again_soon()
            return problem
        before, self.state = self.state, step.state
        self._run_effects(before, step)
        return ""

    def _run_effects(self, before: ParticipantState, step: Transition) -> None:
        self._disarm()
        try:
            for effect in step.effects:
                self._perform(effect)
        except Exception as error:
            # Half of it may be done. A new process does all of it, for the state is written.
            self._defect = SWITCH_DEFECT()
            log.critical("cluster %s: %s", self.cluster, self._defect, exc_info=error)
            return
        self._arm()
        if before.phase is not self.state.phase or before.switch != self.state.switch:
            self._log_phase(before)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Effect.HOLD:
                self._effects.begin_write_hold(self.cluster, self._on_settled)
            case Effect.FLIP:
                self._effects.flip(self.cluster, self.state.active, everyone=self._now() < self._fetched_unknown_until)
            case Effect.RELEASE:
                self._effects.release_write_hold(self.cluster)

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        if self.state.deadline is not None:
            self._timers.append(loop.call_later(max(0.0, self.state.deadline - self._now()), self._on_deadline))
        if self.state.phase is Phase.COMMITTED:
            self._timers.append(loop.call_later(_REMIND, self._remind))

    def _disarm(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _log_phase(self, before: ParticipantState) -> None:
        now, title = self.state, f"cluster {self.cluster}: switch {self.state.switch or before.switch}"
        match now.phase:
            case Phase.HOLDING:
                seconds_left = (now.deadline or 0.0) - self._now()
                log.info(WRITES_WAIT(switch=title, former=now.former, to=now.to, seconds=seconds_left))
            case Phase.HELD:
                log.info(WRITES_HELD(switch=title, seconds=self._now() - now.since))
            case Phase.FLIPPED:
                log.info(CLIENTS_FLIPPED(switch=title, active=now.active))
            case Phase.COMMITTED:
                log.info(WRITES_COMMITTED(switch=title))
            case Phase.SERVING if now.last is not None:
                last = now.last
                log.warning(
                    CLIENTS_WRITE_AGAIN(
                        switch=title, outcome=last.outcome, why=last.why, active=now.active, seconds=last.held
                    )
                )

    # What is known

    @property
    def _problem(self) -> str:
        return self._defect or self._writer.problem

    def _facts(self, seconds: float = 0.0) -> SwitchConditions:
        writes = self._effects.writes(self.cluster)
        doubts = [_doubt_text(doubt) for doubt in writes.doubts]
        unsure = self._doubts_until - self._now()
        if unsure > 0:
            doubts.append(RETRIES_OF_PREDECESSOR(seconds=unsure))
        upstreams = {name: upstream.problem for name, upstream in self._effects.upstreams(self.cluster).items()}
        return SwitchConditions(upstreams, self._refusal(unsure, seconds), writes.unanswered, doubts)

    def _refusal(self, unsure: float, seconds: float) -> str:
        if self.directory is None:
            return NO_STATE_DIR()
        if self._is_stopping():
            return "kproxy is stopping"
        if unsure > min(seconds, MAX_HOLD_SECONDS):
            return RETRIES_POSSIBLE(seconds=unsure)
        return ""

    def as_json(self) -> dict[str, Any]:
        """Return the cluster's object in /switch. `kproxy.proxy.switching.asjson` parses it."""
        writes = self._effects.writes(self.cluster)
        doubts = [{**asdict(doubt), "seconds_ago": round(doubt.seconds_ago, 1)} for doubt in writes.doubts]
        unsure = self._doubts_until - self._now()
        if unsure > 0 and self.directory is not None:
            doubts.append({"client": "", "address": "", "node": "", "seconds_ago": 0.0, "left": unsure})
        return {
            "name": self.cluster,
            "members": list(self.clients),
            **asjson.state_as_json(self.state),
            "configured": self.configured,
            "upstreams": {name: asdict(upstream) for name, upstream in self._effects.upstreams(self.cluster).items()},
            "unanswered": writes.unanswered,
            "held": writes.held,
            "doubts": doubts,
            "waiting": [_waiting_json(upstream) for upstream in self._effects.waiting(self.cluster)],
            "problem": self._problem,
            "beside": asdict(self._effects.port_sharers(split_unit(self.cluster)[0])),
        }

    def status(self) -> SwitchStatus:
        """Return the status for /status."""
        now, writes = self.state, self._effects.writes(self.cluster)
        return SwitchStatus(
            part=split_unit(self.cluster)[1],
            phase=now.phase.value,
            switch=now.switch,
            active=now.active,
            configured=self.configured,
            to=now.to,
            seconds=round(self._now() - now.since, 1) if now.holds else 0.0,
            seconds_left=None if now.deadline is None else round(max(0.0, now.deadline - self._now()), 1),
            unanswered=writes.unanswered if now.holds else 0,
            held=writes.held,
            doubts=len(writes.doubts),
            waiting=len(self._effects.waiting(self.cluster)),
            last=_last_text(now),
            problem=self._problem,
            stuck=bool(self._defect) or now.phase is Phase.COMMITTED,
        )


def _doubt_text(doubt: Doubt) -> str:
    client = one_line(doubt.client, 60) or "a client without a name"
    return RETRY_POSSIBLE(client=client, address=doubt.address, seconds=doubt.left)


def _waiting_json(waiting: WaitingConsumer) -> dict[str, Any]:
    return {
        "client": waiting.identity.client_id,
        "address": waiting.identity.address,
        "topic": waiting.topic.decode("utf-8", "replace"),
        "partition": waiting.partition,
        "offset": waiting.offset,
        "seconds": round(perf_counter() - waiting.since, 1),
    }


def _last_text(now: ParticipantState) -> str:
    if now.last is None:
        return ""
    return f"switch {now.last.switch} to {now.last.to}: {now.last.outcome} ({now.last.why}), {now.last.held:.1f} s"
