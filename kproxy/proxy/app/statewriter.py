"""The writer of one unit's state into the state directory, and what kproxy assumes if that fails."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from kproxy.base.errors import ConfigError
from kproxy.proxy.app.statedir import StateDir
from kproxy.proxy.switching.doubts import ClientIdentity
from kproxy.proxy.switching.participant import ParticipantState, Phase

log = logging.getLogger(__name__)


class StateWriter:
    """The writer of one unit. `problem`: why the last write failed, or "". `directory`: None if nothing is stored."""

    def __init__(self, directory: StateDir | None, unit: str) -> None:
        self.directory = directory
        self.problem = ""
        self._unit = unit
        self._tried_commit = False  # since something was written

    def write(
        self,
        state: ParticipantState,
        *,
        ended: bool = False,
        parts: Sequence[str] = (),
        clients: Sequence[str] = (),
        fetched: Collection[ClientIdentity] | None = (),
        unsure: float = 0.0,
        unknown: float = 0.0,
    ) -> str:
        """Store this from now on. Return why that was not possible, or ""."""
        if self.directory is None:
            return ""
        try:
            self.directory.write(
                self._unit,
                state,
                ended=ended,
                parts=parts,
                clients=clients,
                fetched=fetched,
                unsure=unsure,
                unknown=unknown,
            )
        except OSError as error:
            self._tried_commit |= state.phase is Phase.COMMITTED
            problem = f"the state cannot be written to --state-dir: {error.strerror}"
            if problem != self.problem:
                log.error("cluster %s: %s; kproxy tries again each second", self._unit, problem)
            self.problem = problem
            return problem
        if self.problem:
            log.warning("cluster %s: the state is written to --state-dir again", self._unit)
        self.problem, self._tried_commit = "", False
        return ""

    @property
    def may_be_committed(self) -> bool:
        """True if another process may find a commit here though its write failed: it may be there all the same."""
        if self.directory is None or not self._tried_commit:
            return False
        try:
            stored = self.directory.read(self._unit)
        except ConfigError:
            return True
        return stored is None or stored.state.phase is Phase.COMMITTED
