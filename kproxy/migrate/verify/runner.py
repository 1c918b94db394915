"""Runs one verification of a migration, and saves its result on the target."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from kproxy.migrate.clusters.topic_identities import merge_topics
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import copied_partitions
from kproxy.migrate.copy.statereader import StateReader
from kproxy.migrate.journal.driver import write_once
from kproxy.migrate.journal.switch_journal import SwitchEntry, read_last_switch
from kproxy.migrate.verify.driverhashing import DriverHashing
from kproxy.migrate.verify.results import (
    VerificationReport,
    VerifiedRange,
    parse_verified_ranges,
    verified_key,
)
from kproxy.migrate.verify.trailing_records import CopiedEnd
from kproxy.migrate.verify.verification import Verification

# How long a leader may be missing, in seconds.
_TIMEOUT = 30.0


def run_verification(
    spark: Any,
    source: str,
    target: str,
    name: str,
    *,
    sample: float | None = None,
    show_bytes: bool = False,
    full: bool = False,
    others_write: bool | None = None,
    selects_topic: Callable[[str], bool] | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
    driver_hashing: DriverHashing | None = None,
    state_reader: StateReader | None = None,
) -> VerificationReport:
    """Compare the copied offsets of a migration that are not verified yet, and save the result unless it is a sampling.

    `full`: compare all copied offsets. `others_write`: clients that were routed to the target have written there, and
    their records are no difference; None: as the journal of switches says. `selects_topic`: of which source topics;
    None: of all but those of waves that are on the target, where clients write. `driver_hashing` reads few records
    without a Spark job; None if Spark reads them all. `state_reader`: a complete one that has read before, so that only
    what is new is read.
    """
    last = read_last_switch(target, name)
    parts_write = _clients_write(last)[0] if others_write is None else others_write
    selects = selects_topic or partial(_stays, () if last is None else last.moved_topics)
    own_reader = StateReader(target, name, complete=True) if state_reader is None else nullcontext(state_reader)
    with own_reader as reader:
        snapshot = reader.read(_TIMEOUT)
        run = Verification(
            spark,
            source,
            target,
            sample_share=sample,
            show_bytes=show_bytes,
            full=full,
            save=lambda ranges: _save_ranges(target, name, ranges),
            on_progress=on_progress,
            others_write=parts_write,
            clients_write=lambda: parts_write or any(_clients_write(read_last_switch(target, name))),
            read_copied_ends=lambda: _read_copied_ends(reader),
            driver_hashing=driver_hashing,
        )
        copied = copied_partitions(snapshot.values, snapshot.states)
        return run.run(
            name,
            {place: partition for place, partition in copied.items() if selects(place[0])},
            parse_verified_ranges(snapshot.values),
            {
                topic: migrated
                for topic, migrated in merge_topics(snapshot.values, snapshot.states).items()
                if selects(topic)
            },
        )


def _stays(moved_topics: Collection[str], topic: str) -> bool:
    """Return True unless this source topic is one of a wave that is on the target."""
    return not any(fnmatchcase(topic, glob) for glob in moved_topics)


def _clients_write(last: SwitchEntry | None) -> tuple[bool, bool]:
    """Return whether clients of parts may have written to the target, and whether all clients are there now.

    Waves do not count while they are parts: they write to topics of their own.
    """
    if last is None:
        return False, False
    parts = (*last.parts, *last.parts_on_target)
    return any(part.writes and not part.wave for part in parts), last.is_moved


def _read_copied_ends(reader: StateReader) -> dict[TopicPartition, CopiedEnd]:
    """Return the current copied end of each target partition."""
    states = reader.read(_TIMEOUT).states
    return {(state.target_topic, partition): CopiedEnd.of(state) for (_, partition), state in states.items()}


def _save_ranges(target: str, name: str, ranges: Mapping[TopicPartition, VerifiedRange]) -> None:
    """Write the verified ranges to the state topic."""
    timestamp = time.time_ns() // 1_000_000
    records = {
        verified_key(topic_partition): verified.to_record(timestamp) for topic_partition, verified in ranges.items()
    }
    write_once(target, name, records, "verify")
