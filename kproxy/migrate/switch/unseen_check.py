"""Producers that go round the kproxies: found by an observation before a switch, and still writing after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kproxy.base.diagnostic import NOTE, WARNING, Diagnostic, Severity
from kproxy.base.errors import KproxyError
from kproxy.base.format import abbreviate, format_duration
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import LATEST, TopicPartition
from kproxy.migrate.usage.observed import read_usage
from kproxy.migrate.usage.sourcestate import count_records, read_own_producer_ids
from kproxy.migrate.usage.unseen import check_unseen, describe_writings

_SUBJECT = "kproxies"
# An observation that is older says little about today, in seconds.
_OLD = 7 * 24 * 3600.0
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class UnseenCheck:
    """The check of one switch: the file of the observation, and globs of topics where others may write."""

    path: Path
    allowed: tuple[str, ...] = ()
    selects_topic: Callable[[str], bool] = lambda _: True
    """The topics that are switched."""

    def before(self) -> Iterator[Diagnostic]:
        """Yield who went round the kproxies while they were observed. Raises ConfigError if the file cannot be used."""
        if not self.path.exists():
            text = "it was not observed whether a producer goes round them; kproxy migrate observe FILE finds out"
            yield Diagnostic(NOTE, _SUBJECT, text)
            return
        usage = read_usage(self.path)
        age = time.time() - usage.ended
        if age > _OLD:
            text = f"were observed {format_duration(age)} ago: observe again, as other clients may write now"
            yield Diagnostic(WARNING, _SUBJECT, text)
        yield from check_unseen(usage, self.allowed, self.selects_topic)

    def after(self, source: str, ends: Mapping[TopicPartition, int]) -> Iterator[Diagnostic]:
        """Yield topics whose logs at the source have more records than when the last ones were copied."""
        try:
            with Admin(source) as admin:
                own = read_own_producer_ids(admin)
            yield from find_still_written(source, ends, own.values(), self.allowed)
        except UnsupportedRequestError:
            text = "it is not known whether clients still write to it: its brokers list no transactions (before 3.0)"
            yield Diagnostic(NOTE, "source", text)
        except KproxyError as error:
            yield Diagnostic(WARNING, "source", f"it is not known whether clients still write to it: {error}")


def find_still_written(
    source: str,
    ends: Mapping[TopicPartition, int],
    own: Collection[int],
    allowed: Iterable[str] = (),
    severity: Severity = WARNING,
) -> Iterator[Diagnostic]:
    """Yield topics to which others than the producer ids `own` have written since these ends of their logs.

    `allowed`: names or globs of topics where that is a note, and not of this severity. Raises UpstreamError and
    BrokerError.
    """
    with ClusterClient(source) as cluster:
        now = cluster.list_offsets_until(ends, LATEST, time.monotonic() + _PATIENCE, committed=False)
        grown = {place: (ends[place], end) for place, end in now.items() if end > ends[place]}
        writings = [writing for place, span in grown.items() for writing in count_records(cluster, place, *span, own)]
    allowed = tuple(allowed)
    for topic, text in describe_writings(writings):
        yield Diagnostic(
            NOTE if any(fnmatchcase(topic, glob) for glob in allowed) else severity,
            f"topic {topic}",
            f"is still written on the source, and nothing copies that to the target: {text}; move this producer"
            " behind a kproxy, or give it the target's bootstrap servers",
        )
    if unknown := sorted(ends.keys() - now.keys()):
        names = abbreviate([f"{topic}-{partition}" for topic, partition in unknown])
        yield Diagnostic(
            WARNING, "source", f"it is not known whether clients still write to {names}: no leader replied"
        )
