"""The points that the record of a migration does not prove: an auditor must see them before the rest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic
from kproxy.base.format import format_count, format_duration
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import PartitionState
from kproxy.migrate.report.record import MigrationRecord, outcome_of
from kproxy.migrate.report.status import MigrationStatus
from kproxy.migrate.usage.coverage import coverage_findings
from kproxy.migrate.usage.unseen import check_unseen
from kproxy.migrate.verify.results import VerifiedRange

_NAMED = 5


def find_doubts(record: MigrationRecord) -> list[Diagnostic]:
    """Return what the record does not prove, the worst first."""
    doubts = [
        *_copy_doubts(record.status, "copy"),
        *_back_doubts(record),
        *_switch_doubts(record),
        *_usage_doubts(record),
        *_always(record),
    ]
    order = (ERROR, WARNING, NOTE)
    return sorted(doubts, key=lambda doubt: order.index(doubt.severity))


def _copy_doubts(status: MigrationStatus, subject: str) -> Iterator[Diagnostic]:
    if not status.partitions:
        yield Diagnostic(ERROR, subject, "no record was copied, by the state topic")
    for topic, why in sorted(status.lost_topics.items()):
        yield Diagnostic(ERROR, f"topic {topic}", f"{why}. Nothing of it counts as verified")
    verified = status.verified

    def sum_up(
        template: Diagnostic, count: Callable[[TopicPartition, PartitionState, VerifiedRange | None], int]
    ) -> Iterator[Diagnostic]:
        counts = {
            place: number
            for place, state in status.partitions.items()
            if place[0] not in status.lost_topics and (number := count(place, state, verified.get(place)))
        }
        if counts:
            text = template.text.format(count=f"{sum(counts.values()):,}", where=_places(counts))
            yield replace(template, text=text)

    yield from sum_up(
        Diagnostic(ERROR, subject, "{count} source offsets were copied and never compared: {where}"),
        lambda _, state, kept: max(0, state.source_next - (state.source_begin if kept is None else kept.upto)),
    )
    yield from sum_up(
        Diagnostic(
            ERROR,
            subject,
            "{count} records or more stood on the target after the last copied one, which kproxy did not copy: {where}",
        ),
        lambda _, __, kept: 0 if kept is None else kept.unknown,
    )
    yield from sum_up(
        Diagnostic(WARNING, subject, "{count} source offsets were left out, as the source had deleted them: {where}"),
        lambda _, state, __: state.skipped,
    )
    yield from sum_up(
        Diagnostic(
            WARNING, subject, "{count} source offsets could not be compared, as the source had deleted them: {where}"
        ),
        lambda _, __, kept: 0 if kept is None else kept.deleted,
    )
    yield from sum_up(
        Diagnostic(NOTE, subject, "{count} records were removed by compaction before they were compared: {where}"),
        lambda _, __, kept: 0 if kept is None else kept.compacted,
    )
    yield from sum_up(
        Diagnostic(
            NOTE,
            subject,
            "{count} partitions have no digest over all compared records, though these are equal on both sides:"
            " {where}. kproxy migrate verify FILE --full makes one of what the source still has",
        ),
        lambda _, __, kept: int(kept is not None and kept.records > 0 and kept.digest is None),
    )


def _places(places: Iterable[TopicPartition]) -> str:
    places = sorted(places)
    names = ", ".join(f"{topic}-{partition}" for topic, partition in places[:_NAMED])
    return names + (f" and {len(places) - _NAMED} more partitions" if len(places) > _NAMED else "")


def _back_doubts(record: MigrationRecord) -> Iterator[Diagnostic]:
    for copy in record.reverse_copies:
        if copy.status is None:
            text = f"what was copied back to the source is not in this report: {copy.problem}"
            yield Diagnostic(WARNING, copy.subject, text)
        else:
            yield from _copy_doubts(copy.status, copy.subject)


def _switch_doubts(record: MigrationRecord) -> Iterator[Diagnostic]:
    for entry in record.switches:
        subject = f"{entry.what} {entry.switch}"
        if not entry.ended:
            yield Diagnostic(ERROR, subject, f"{outcome_of(entry)}: a kproxy may still hold writes")
        if not entry.user:
            yield Diagnostic(NOTE, subject, "was driven by a version of kproxy that did not record its user")
    last = record.status.last_switch
    if last is not None and last.again and len(record.switches) == 1:
        text = "earlier ones were driven by a version of kproxy that kept only the last one"
        yield Diagnostic(WARNING, "switches", text)
    if last is not None and last.is_moved:
        yield Diagnostic(
            NOTE,
            "switches",
            f"what clients have written to {last.target_upstream} since the switch was not compared with anything: it"
            " exists only there, unless it was copied back",
        )


def _usage_doubts(record: MigrationRecord) -> Iterator[Diagnostic]:
    if record.migration.switch is None:
        yield Diagnostic(NOTE, "clients", "no kproxies are in the file: how clients were moved is not recorded")
        return
    usage = record.usage
    if usage is None:
        text = "it was not observed whether producers went round the kproxies (kproxy migrate observe FILE)"
        yield Diagnostic(WARNING, "kproxies", text)
        return
    yield Diagnostic(
        NOTE,
        "kproxies",
        f"were observed for {format_duration(max(0.0, usage.ended - usage.began))}: clients that did nothing then are"
        " not known",
    )
    yield from coverage_findings(usage)
    yield from check_unseen(usage)


def _always(record: MigrationRecord) -> Iterator[Diagnostic]:
    topic = record.migration.state_topic
    yield Diagnostic(
        NOTE,
        "this report",
        f"repeats topic {topic} of the target, which is not signed: a user who may write to it can change what is here."
        " The operator is the user of the process, as its host named it",
    )
    yield Diagnostic(
        NOTE,
        "digests",
        "are sums of xxHash64, which shows accidents, and not what a person has forged on purpose",
    )
    yield Diagnostic(
        NOTE,
        "positions",
        f"those of {format_count(len(record.positions), 'group')} are here, as kproxy wrote them; what consumers"
        " committed later is not in this report, and neither are groups that were not translated",
    )
    yield Diagnostic(NOTE, "schemas", "what kproxy migrate schemas has copied and compared is not in this report")
    yield Diagnostic(
        NOTE, "ACLs, quotas", "were compared by kproxy migrate plan and prepare at their time, and not since"
    )
