"""Alarms about topics of moved waves that are still used on the source, by writers or by members of groups."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.base.diagnostic import WARNING, Diagnostic
from kproxy.base.errors import KproxyError
from kproxy.base.format import abbreviate
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.journal.switch_journal import SwitchEntry
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.source_use import check_still_written
from kproxy.migrate.usage.sourcestate import read_groups


def check_moved_waves(
    endpoints: ClusterEndpoints, migration: Migration, last: SwitchEntry | None
) -> Iterator[Diagnostic]:
    """Yield topics of waves on the target that are written on the source, and groups whose members read them there.

    `endpoints` are those of the file, and `migration` is of any of its topics.
    """
    for part in () if last is None else last.waves_on_target.values():
        wave = migration.whole().of_wave(part.wave, part.topics)
        try:
            with Admin(endpoints.source) as admin:
                yield from check_still_written(wave, admin, endpoints.target)[1]
                yield from _check_readers(admin, wave)
        except KproxyError as error:
            text = f"it is not known whether its topics are still used on the source: {error}"
            yield Diagnostic(WARNING, f"wave {part.wave}", text)


def _check_readers(admin: Admin, wave: Migration) -> Iterator[Diagnostic]:
    unreadable: list[str] = []
    for name, group in read_groups(admin, wave, unreadable).items():
        if group.topics and group.members:
            text = (
                f"has members on the source ({abbreviate(group.members)}), and positions in {abbreviate(group.topics)}:"
                f" topics of wave {wave.wave}, which get no records there; stop these members, or move them too"
            )
            yield Diagnostic(WARNING, f"group {name}", text)
    for text in unreadable:
        yield Diagnostic(WARNING, f"wave {wave.wave}", f"its readers on the source could not be read: {text}")
