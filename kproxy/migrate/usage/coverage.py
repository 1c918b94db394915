"""What an observation did not record, so that there may be more than it shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.base.diagnostic import WARNING, Diagnostic
from kproxy.base.format import format_duration
from kproxy.migrate.usage.observed import KproxyCoverage, ObservedUsage


def coverage_findings(usage: ObservedUsage) -> Iterator[Diagnostic]:
    """Yield what is not in the record, so that its waves may be too small."""
    for kproxy in usage.kproxies:
        yield from _kproxy_findings(kproxy)
    if usage.source is not None:
        for text in usage.source.unreadable:
            yield Diagnostic(WARNING, "source", f"could not be read: {text}")


def _kproxy_findings(kproxy: KproxyCoverage) -> Iterator[Diagnostic]:
    subject = f"kproxy {kproxy.name}"
    if not kproxy.began:
        yield Diagnostic(WARNING, subject, f"was not observed, so its clients are not here: {kproxy.problem}")
        return
    if kproxy.problem:
        yield Diagnostic(WARNING, subject, f"did not answer at the end: {kproxy.problem}")
    for start, end in kproxy.gaps:
        seconds = format_duration(max(0.0, end - start))
        yield Diagnostic(WARNING, subject, f"was restarted: what clients did in the {seconds} before is not known")
    if kproxy.left_out:
        kinds = ", ".join(f"{count} times {kind}" for kind, count in kproxy.left_out.items())
        yield Diagnostic(WARNING, subject, f"had no room in its record: {kinds}")
