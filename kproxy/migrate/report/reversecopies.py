"""The copies from the target back to the source: of all clients, or of waves, each in a state topic on the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.copier.state import state_topic_name
from kproxy.migrate.journal.switch_journal import SWITCHING, SwitchEntry
from kproxy.migrate.report.status import ReverseCopyStatus, read_status
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.inverse_offset_map import reverse_name
from kproxy.proxy.switching.twophase import JournalDecision

WaveTopics = Mapping[str, tuple[str, ...]]
"""By wave, the globs of its topics; "" is all clients."""


def ever_copied_back(switches: Iterable[SwitchEntry]) -> WaveTopics:
    """Return all that a reversible switch has moved at any time (pure)."""
    return {
        entry.wave: entry.topics
        for entry in switches
        if entry.what == SWITCHING and entry.reversible and entry.decision is JournalDecision.RELEASED
    }


def copied_back_now(last: SwitchEntry | None) -> WaveTopics:
    """Return all that is on the target after a reversible switch (pure)."""
    if last is None:
        return {}
    if last.is_moved:
        return {"": ()} if last.reversible else {}
    return {wave: part.topics for wave, part in last.waves_on_target.items() if part.reversible}


def read_reverse_copies(
    migration: Migration, waves: WaveTopics, source: str | KproxyError | None
) -> tuple[ReverseCopyStatus, ...]:
    """Read the state of these copies; `source`: its bootstrap servers, or why it cannot be reached."""
    return tuple(_read(migration.of_wave(wave, topics), source) for wave, topics in waves.items())


def _read(migration: Migration, source: str | KproxyError | None) -> ReverseCopyStatus:
    name, wave = reverse_name(migration), migration.wave
    try:
        if source is None or isinstance(source, KproxyError):
            raise source or KproxyError("there is no connection to it")
        return ReverseCopyStatus(wave, read_status(source, name))
    except ConfigError:
        return ReverseCopyStatus(wave, None, f"the source has no topic {state_topic_name(name)}")
    except KproxyError as error:
        return ReverseCopyStatus(wave, None, f"the source cannot be reached: {error}")
