"""What is wrong, or worth knowing: one finding for each cause, however many addresses have it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kproxy.advice.remedies.faults import Fault


class Responsible(Enum):
    """Who can mend it."""

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
    """One cause. `about`: the addresses, topics or nodes that have it; `why` in whole sentences; `line`: the one line
    that is wrong, "" if there is none; `fix`: lines that mend it for good. One that is no `problem` is a note.
    `symptom`: what clients meet, if their messages are not those of the fault itself. `advice`: what to do, if
    the fault's remedy does not say it."""

    fault: Fault
    about: tuple[str, ...]
    why: str
    whose: Responsible
    line: str = ""
    fix: tuple[str, ...] = ()
    problem: bool = True
    symptom: Fault | None = None
    advice: str = ""
