"""What the usual clients say for a finding, with its own address in the place of what varies. Pure."""

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
    """Program and message, the most telling first."""
    told_by_brokers = [one.partition(" at ")[2] for one in finding.about if " at " in one]
    address = next(iter(told_by_brokers or finding.about), "")
    shown = dict.fromkeys(_PROGRAMS, 0)
    found = remedies.remedy_of(finding.symptom or finding.fault).messages
    # A client that has reached a bootstrap server does not complain of those.
    for message in sorted(found, key=lambda one: bool(told_by_brokers) and "bootstrap" in one.text.lower()):
        if shown.get(message.program, _MOST) < _MOST:
            shown[message.program] += 1
            yield message.program.value, _BEFORE_ADDRESS.sub(lambda match: match[1] + address, message.text, count=1)
