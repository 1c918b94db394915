"""The findings of doctor: one for each cause, for all addresses that have it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kproxy.advice.remedies import remedy_of
from kproxy.base.diagnostic import ERROR, NOTE, Diagnostic
from kproxy.base.faults import Fault


class Responsible(Enum):
    """The place where a cause can be fixed."""

    BROKER = "the broker's configuration"
    CLIENT = "the client's configuration"
    ADDRESS = "the bootstrap address in the client's configuration; or the server itself, which may be down"
    MACHINE = "this machine"
    NETWORK = "the network between this machine and the broker"
    HOP = "the hop (--via)"
    CLUSTER = "the cluster's brokers"
    RIGHTS = "the cluster's access rights"
    CERTIFICATE = "the broker's certificate"


BROKER, CLIENT, ADDRESS, MACHINE, NETWORK, HOP, CLUSTER, RIGHTS, CERTIFICATE = Responsible


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorDiagnostic(Diagnostic):
    """One cause. `text` has it in whole sentences."""

    subjects: tuple[str, ...]
    """The addresses, topics or nodes that have it."""
    responsible: Responsible
    line: str
    """The one line that is wrong, "" if there is none."""
    symptom: Fault | None
    """The fault that clients see, if their messages are not those of `fault`."""
    advice: str
    """The remedy, in sentences."""

    @property
    def is_error(self) -> bool:
        return self.severity is ERROR


def finding(
    fault: Fault,
    subjects: tuple[str, ...],
    text: str,
    responsible: Responsible,
    line: str = "",
    fix: tuple[str, ...] = (),
    *,
    is_error: bool = True,
    symptom: Fault | None = None,
    advice: str = "",
) -> DoctorDiagnostic:
    """Return the finding of one cause, an error or a note. Without `advice`, it is that of the fault's remedy."""
    return DoctorDiagnostic(
        ERROR if is_error else NOTE,
        ", ".join(subjects),
        text,
        fault,
        fix=fix,
        subjects=subjects,
        responsible=responsible,
        line=line,
        symptom=symptom,
        advice=advice or remedy_of(fault).fix,
    )
