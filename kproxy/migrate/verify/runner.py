"""One verification of a migration: what was copied and not verified yet, and its result on the target."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kproxy.migrate.clusters.topic_identities import migrated_topics, partition_states
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.slices import Job
from kproxy.migrate.copier.state import state_topic_name
from kproxy.migrate.copier.statetopic import StateTopic, parse_copied_partitions, read_state_topic
from kproxy.migrate.journal.driver import write_once
from kproxy.migrate.journal.switch_journal import read_last_switch
from kproxy.migrate.verify.results import (
    LagSample,
    VerificationReport,
    VerifiedRange,
    parse_verified_ranges,
    verified_key,
)
from kproxy.migrate.verify.trailing_records import CopiedEnd
from kproxy.migrate.verify.verification import Verification

Where = tuple[str, int]

# While a leader moves, in seconds.
_PATIENCE = 30.0


def run_verification(
    spark: Any,
    source: str,
    target: str,
    name: str,
    *,
    sample: float | None = None,
    show_bytes: bool = False,
    again: bool = False,
    lag: Sequence[LagSample] = (),
    others_write: bool | None = None,
    said: Callable[[str], None] = lambda _: None,
) -> VerificationReport:
    """Compare what the migration with this name has copied and not verified yet, or with `again` whatever it has
    copied, and keep the result on the target, unless it is a sampling. `others_write`: clients that were led to the
    target have written there, and their records are no difference; None: as the journal of switches says. Raises
    KproxyError."""
    in_parts = _clients_write(target, name)[0] if others_write is None else others_write
    cluster = ClusterClient(target)
    try:
        topic = read_state_topic(cluster, name)
        values = topic.values

        def save(now: Mapping[Where, VerifiedRange]) -> None:
            _keep(target, name, len(topic.logs), now)

        run = Verification(
            spark,
            source,
            target,
            share=sample,
            show_bytes=show_bytes,
            again=again,
            save=save,
            said=said,
            others_write=in_parts,
            clients_write=lambda: in_parts or any(_clients_write(target, name)),
            reached=lambda: _reached(cluster, topic),
        )
        return run.run(
            name, parse_copied_partitions(values), parse_verified_ranges(values), lag, migrated_topics(values)
        )
    finally:
        cluster.close()


def _clients_write(target: str, name: str) -> tuple[bool, bool]:
    """Whether clients of parts may have written to the target, among what is copied there, and whether all clients are
    there now, as the journal of switches says."""
    last = read_last_switch(target, name)
    if last is None:
        return False, False
    return any(one.writes for one in (*last.parts, *last.parts_on_target)), last.is_moved


def _reached(cluster: ClusterClient, topic: StateTopic) -> dict[Where, CopiedEnd]:
    """How far partitions of the target are copied by now. Raises UpstreamError and WireError."""
    retry(cluster, topic.read, _PATIENCE)
    states = partition_states(topic.values)
    return {(state.target_topic, partition): CopiedEnd.of(state) for (_, partition), state in states.items()}


def _keep(target: str, name: str, partitions: int, now: Mapping[Where, VerifiedRange]) -> None:
    """Write what is verified now to the state topic."""
    at = time.time_ns() // 1_000_000
    records = {verified_key(where): kept.to_record(at) for where, kept in now.items()}
    write_once(target, Job(name, state_topic_name(name), partitions), records, "verify")
