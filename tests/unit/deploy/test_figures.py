"""The memory that the documents of deploy/ state is what the code may keep and what was measured."""

from __future__ import annotations

import re

import pytest

from kproxy.proxy.relay import pump
from tests.unit.deploy.deployed import ROOT

# A document says "about": a new measurement need not change it for every MiB.
_ABOUT = 0.1


def only(pattern: str, document: str) -> tuple[float, ...]:
    """The numbers in the one place of a document that has this text, however its lines are broken."""
    (found,) = re.finditer(pattern, " ".join((ROOT / document).read_text().split()))
    return tuple(float(number) for number in found.groups())


def test_what_slow_peers_may_cost_is_what_the_pump_keeps() -> None:
    kept, before = 0, 0
    for most, size in pump._SIZES:
        kept, before = kept + (most - before) * size, most
    mib = kept / 2**20

    for document in ("deploy/README.md", "docs/security.md"):
        limit, copy, peers = only(r"(\d+) MiB [^.]{,30}?(\d+) KiB for each \w+ peer beyond (\d+)", document)
        assert limit == pytest.approx(mib, rel=0.02)
        assert (copy, peers) == (pump.COPY / 1024, before)


@pytest.mark.parametrize("document", ["deploy/README.md", "deploy/spark/README.md"])
def test_what_an_idle_kproxy_takes_is_what_was_measured(document: str) -> None:
    (measured,) = only(r"\| RSS, idle \| ≤ \d+ MiB \| ([\d.]+) \|", "docs/performance.md")
    (stated,) = only(r"about (\d+) MiB", document)

    assert stated == pytest.approx(measured, rel=_ABOUT)
