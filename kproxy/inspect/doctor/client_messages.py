"""The messages of the usual clients for a finding, with its own address in place of `…`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice import remedies
from kproxy.advice.remedies.remedy import Program
from kproxy.inspect.doctor.findings import DoctorFinding

_PROGRAMS = (Program.JAVA, Program.LIBRDKAFKA, Program.KAFKA_PYTHON, Program.SPARK)
# What is shown of each program.
_MOST = 2
# Where a message has the address that failed; what varies elsewhere is not known beforehand.
_BEFORE_ADDRESS = re.compile(r"(resolve '|[Nn]ode |lookup failed for |Connect to )…")


def messages(finding: DoctorFinding) -> Iterator[tuple[str, str]]:
    """Yield program and message, the most telling first."""
    advertised = [candidate.partition(" at ")[2] for candidate in finding.subjects if " at " in candidate]
    address = next(iter(advertised or finding.subjects), "")
    counts = dict.fromkeys(_PROGRAMS, 0)
    candidates = remedies.remedy_of(finding.symptom or finding.fault).messages
    # A client that has reached a bootstrap server does not complain of those.
    for message in sorted(candidates, key=lambda candidate: bool(advertised) and "bootstrap" in candidate.text.lower()):
        if counts.get(message.program, _MOST) < _MOST:
            counts[message.program] += 1
            yield message.program.value, _BEFORE_ADDRESS.sub(lambda match: match[1] + address, message.text, count=1)
