"""The rollback of a wave whose records were copied back (`switch --wave NAME --reversible`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters.groups import GroupMembers
from kproxy.migrate.journal.switch_journal import MovedPart, SwitchEntry, require_ended
from kproxy.migrate.switch.client_selection import ClientSelection, SelectedPart
from kproxy.migrate.switch.partial_rollback import check_part
from kproxy.migrate.switch.switch_run import SwitchContext
from kproxy.migrate.switch.synced_switch import SwitchSetup, SyncedSwitch
from kproxy.migrate.switch.wave_sides import require_moved_wave
from kproxy.proxy.switching.parts import Part, unit_name


class WaveRollback(SyncedSwitch):
    """The rollback of one wave, which is a part at each kproxy already. `setup` is that of a rollback."""

    def __init__(self, context: SwitchContext, setup: SwitchSetup, moved_part: MovedPart) -> None:
        selection = ClientSelection(moved_part.groups, moved_part.clients, wave=moved_part.wave)
        super().__init__(context, replace(setup, selection=selection))
        self._moved_part = moved_part
        self.choose_unit(unit_name(self.section.cluster, moved_part.name))

    def _check_may_begin(self, last: SwitchEntry | None) -> None:
        require_ended(last)
        if require_moved_wave(last, self._wave) != self._moved_part:
            raise ConfigError("another driver has started meanwhile; no writes were held")

    def _other_parts(self, last: SwitchEntry | None) -> tuple[MovedPart, ...]:
        return () if last is None else tuple(part for part in last.parts_on_target if part.wave != self._wave)

    def _since(self, last: SwitchEntry | None) -> int:
        return self._moved_part.since

    def _choose_groups(self, parts: Sequence[MovedPart], members: GroupMembers) -> None:
        part = Part(self._moved_part.name, self._moved_part.clients)
        clients = [client for reply in self.unit_replies() for client in reply.clients]
        groups = {name for name, ids in members.items() if any(map(part.has, ids))} | set(self._moved_part.groups)
        self.report_findings(check_part(part, groups, members, clients, may_write=True))
        self._selected = SelectedPart(part, frozenset(groups), True)
        self._sync.groups = groups.__contains__

    def _choose_units(self, direction: object, *, dry_run: bool) -> None:
        """Do nothing: the unit is chosen."""
