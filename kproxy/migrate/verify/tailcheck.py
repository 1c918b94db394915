"""The end of each partition of the target, as a verification sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence

from kproxy.migrate.clusters.topic_identities import MigratedTopic
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.verify.comparison import PartitionComparison, uncopied_partition
from kproxy.migrate.verify.trailing_records import CopiedEnd, LogOffsets, find_unknown_records, list_log_offsets

Where = tuple[str, int]

# While a leader moves, in seconds.
_PATIENCE = 30.0
_SILENT = (
    "the target does not tell where this partition ends, so what lies behind its last copied record is unknown: has it"
    " a leader, and may this principal describe it?"
)


class TailCheck:
    """Looks up to the target's end. `clients_write`: whether clients may write there now, so that nothing can be said
    of what lies behind the last copied record. `reached` asks the state topic how far partitions of the target are
    copied by now; None: as when the verification began."""

    def __init__(
        self,
        target: str,
        clients_write: Callable[[], bool],
        reached: Callable[[], Mapping[Where, CopiedEnd]] | None,
        show_bytes: bool,
    ) -> None:
        self._target, self._clients_write = target, clients_write
        self._reached, self._show_bytes = reached, show_bytes

    def check(self, those: MutableMapping[Where, PartitionComparison], topics: Sequence[MigratedTopic]) -> None:
        """Behind what was copied, and in partitions to which nothing was copied: if something is there, they come to
        `those`. Raises UpstreamError and WireError."""
        names = {one.target_topic for one in topics}
        every = {(one.copied.target_topic, one.copied.partition): one for one in those.values()}
        at = {where: one for where, one in every.items() if where[0] in names}
        cluster = ClusterClient(self._target)
        try:
            layout = retry(cluster, lambda: cluster.refresh_metadata(sorted(names)), _PATIENCE)
            places = {
                (one.target_topic, led.index): one
                for one in topics
                for led in layout.topics.get(one.target_topic, (0, ()))[1]
            }
            ends = retry(cluster, lambda: list_log_offsets(cluster, places.keys() | at.keys()), _PATIENCE)
            ask = self._reached or (lambda: {where: CopiedEnd(one.copied.target_next) for where, one in at.items()})
            if not self._clients_write():
                found = find_unknown_records(cluster, ends, ask, show_bytes=self._show_bytes)
                # Else they are of clients that were led there just now.
                if not found or not self._clients_write():
                    for where, some in found.items():
                        if where not in at:
                            at[where] = uncopied_partition(places[where], where[1], "")
                            those[at[where].where] = at[where]
                        at[where].add_unknown(some)
                    _undecided(at, ends)
                    for where in at.keys() - ends.keys():
                        at[where].add_unknown(_SILENT)
                    return
            _of_clients(at, ends, ask())
        finally:
            cluster.close()


def _undecided(at: Mapping[Where, PartitionComparison], ends: Mapping[Where, LogOffsets]) -> None:
    for where, one in at.items():
        if where in ends:
            one.undecided_offsets = ends[where].high - ends[where].stable


def _of_clients(
    at: Mapping[Where, PartitionComparison], ends: Mapping[Where, LogOffsets], reached: Mapping[Where, CopiedEnd]
) -> None:
    for where, one in at.items():
        if where in ends and where in reached:
            marker = 1 if reached[where].has_marker else 0
            one.client_offsets = max(0, ends[where].high - reached[where].upto - marker)
