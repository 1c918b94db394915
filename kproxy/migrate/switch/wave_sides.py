"""The topics of a switch, and the side of all else: waves beside each other, and what has moved before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.journal.switch_journal import MovedPart, SwitchEntry
from kproxy.migrate.spec.migration import Migration, WaveSelection
from kproxy.migrate.switch.client_selection import ClientSelection, SelectedPart
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.sourcestate import SourceChange, read_groups
from kproxy.migrate.usage.waveboundary import WaveBoundary, WaveMembers
from kproxy.proxy.switching.parts import Part


def narrow(migration: Migration, selection: ClientSelection | None, last: SwitchEntry | None) -> Migration:
    """Return the migration of what is switched: of a wave its topics, else all but those of waves that have moved."""
    if selection is not None and selection.wave:
        return migration.of_wave(selection.wave, migration.waves[selection.wave].topics)
    return migration if last is None else migration.without_moved(last.moved_topics)


def require_moved_wave(last: SwitchEntry | None, wave: str) -> MovedPart:
    """Return the wave that is on the target. Raises ConfigError if it is not there by itself."""
    if last is None or wave not in last.waves_on_target:
        names = "" if last is None else ", ".join(last.waves_on_target)
        raise ConfigError(f"--wave {wave}: is not on the target by itself; waves that are: {names or 'none'}")
    return last.waves_on_target[wave]


def wave_boundary(
    migration: Migration,
    selected: SelectedPart,
    moved_parts: Iterable[MovedPart],
    *,
    to_target: bool,
    allow_split_readers: bool,
) -> WaveBoundary:
    """Return the sides after the wave to which `migration` is narrowed has moved."""
    groups = migration.waves[migration.wave].groups if migration.wave in migration.waves else ()
    globs = WaveSelection(groups=groups, topics=migration.topics.within)
    others = tuple(
        WaveMembers(part.name, Part(part.name, part.clients), part.groups, WaveSelection(topics=part.topics))
        for part in moved_parts
        if part.wave != migration.wave
    )
    wave = WaveMembers(migration.wave, selected.part, selected.groups, globs)
    return WaveBoundary(wave, others, to_target, allow_split_readers)


def with_groups_now(
    usage: ObservedUsage | None, side: Admin, migration: Migration, to_target: bool
) -> ObservedUsage | None:
    """Return what was observed, with the groups that the side that the wave leaves has now.

    The groups that were observed on the source are kept for the way back, as the target does not have those.
    """
    if usage is None:
        return None
    source = usage.source or SourceChange(usage.began, usage.ended)
    unreadable = list(source.unreadable)
    groups = read_groups(side, migration.whole(), unreadable)
    groups = groups if to_target else {**source.groups, **groups}
    return replace(usage, source=replace(source, groups=groups, unreadable=tuple(unreadable)))
