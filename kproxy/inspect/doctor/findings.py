"""The findings of doctor: one for each cause, for all addresses that have it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One cause."""

    fault: Fault
    subjects: tuple[str, ...]
    """The addresses, topics or nodes that have it."""
    why: str
    """The cause, in whole sentences."""
    responsible: Responsible
    line: str = ""
    """The one line that is wrong, "" if there is none."""
    fix: tuple[str, ...] = ()
    """Lines that fix it for good."""
    problem: bool = True
    """False for a note."""
    symptom: Fault | None = None
    """The fault that clients see, if their messages are not those of `fault`."""
    advice: str = ""
    """The advice, if it is not that of the fault's remedy."""
