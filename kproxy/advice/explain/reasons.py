"""The reasons that the messages of a cause give, and the heading that names one of them (pure).

The fault of a cause is the name of a family. The notes of its messages, and what its address shows, name the mistake itself.
"""

from __future__ import annotations

import re

from kproxy.advice.explain.causes import Cause
from kproxy.advice.explain.facts import split_address
from kproxy.advice.explain.hostnames import NameKind, name_kind
from kproxy.advice.remedies.services import demand_of
from kproxy.base.addressclass import AddressClass, classify
from kproxy.base.faults import Fault, fault_set

# Each of these is the name of many mistakes. The notes of their messages begin with the mistake, and say what to do.
_WIDE_FAULTS = fault_set(
    """
    wrong-node not-authorized credentials-unreadable credentials-refused kerberos jaas clock configuration listener-configuration kraft-configuration
    broker-storage library-lacks-feature option-removed group transaction overloaded broker-missing no-controller
    no-coordinator too-many-files closed port-closed filtered tls-failed
    """
)
_HEADING_END = re.compile(r": |\. ")
_UNRESOLVED_BOOTSTRAP = (
    "The name of the bootstrap server cannot be resolved where the client runs: correct `bootstrap.servers`, or let the client "
    "run where the name is known. A name of a container or of Kubernetes is known in its own network only: from elsewhere, use "
    "the published address. kproxy does not help with this name, because it must resolve it too."
)
_ENDED_BY_ONE_BROKER = (
    "A broker ends the connection at its advertised address, although one has answered the client before: it is stopping or "
    "overloaded, or the load balancer or port-forward at this address has no target. Its log shows whether the connection "
    "has reached it."
)
_CHOSEN_WILDCARD = (
    "The client connects to the wildcard address, which is for listening: set `bootstrap.servers` to the name or address of "
    "the broker's machine. 127.0.0.1 is right only if the broker runs on the client's own machine, and inside a container, "
    "that is the container itself."
)
# The headings if the text does not show whether a broker advertises the name.
_UNKNOWN_ORIGIN = {
    Fault.CONTAINER_NAME_ADVERTISED: "A name cannot be resolved that may be a container's",
    Fault.SHORT_NAME_ADVERTISED: "A name without a dot cannot be resolved",
    Fault.KUBERNETES_NAME_ADVERTISED: "A name of a Kubernetes cluster cannot be resolved",
}


def notes_of(cause: Cause) -> list[str]:
    """Return what holds for its messages, and not for each message of the fault.

    A message around the reason has nothing to add to the advice for the reason.
    """
    notes = (match.pattern.note for match in cause.matches if match.pattern and match.pattern.note)
    return _reasons(cause) or list(dict.fromkeys(notes))


def precise_title(cause: Cause) -> str:
    """Return the heading that is more precise than its fault's; empty if there is none."""
    if len(cause.faults) != 1:
        return ""
    fault = cause.faults[0]
    if fault in _UNKNOWN_ORIGIN and all(_has_unknown_origin(cause, address) for address in cause.addresses()):
        return _UNKNOWN_ORIGIN[fault]
    patterns = [match.pattern for match in cause.matches if match.pattern] if fault in _WIDE_FAULTS else []
    sure = [pattern.note for pattern in patterns if pattern.note and pattern.faults == cause.faults]
    reasons = [note for note in _reasons(cause) if note in sure] or _shown_by_address(cause)
    return heading_of_note(reasons[0]) if reasons else ""


def has_whole_advice(cause: Cause) -> bool:
    """Check whether the note behind its precise heading says more: then the advice for the fault adds nothing."""
    title = precise_title(cause)
    reason = next((note for note in _reasons(cause) if title and heading_of_note(note) == title), "")
    return _HEADING_END.search(reason) is not None


def heading_of_note(note: str) -> str:
    """Return what a note says first: its first sentence, or the part of it before a colon."""
    return _HEADING_END.split(note, maxsplit=1)[0].rstrip(".")


def _reasons(cause: Cause) -> list[str]:
    """Return the notes of messages that are reasons themselves, or else what the address shows."""
    patterns = (match.pattern for match in cause.matches if match.pattern)
    notes = dict.fromkeys(pattern.note for pattern in patterns if pattern.note and not pattern.is_general)
    longest = [note for note in notes if not any(other != note and other.startswith(note) for other in notes)]
    return longest or _shown_by_address(cause)


def _shown_by_address(cause: Cause) -> list[str]:
    """Return what it means that this address, and no other, does not work."""
    if cause.faults == (Fault.CREDENTIALS_REFUSED,):
        demands = (demand_of(*split_address(address)) for address in cause.addresses())
        return [demand.refusal for demand in demands if demand is not None and demand.refusal][:1]
    if cause.faults == (Fault.ADDRESS_FORM,) and cause.addresses() and all(map(_is_wildcard, cause.addresses())):
        return [_CHOSEN_WILDCARD]
    if cause.faults == (Fault.CLOSED,) and all(match.answered for match in cause.matches):
        return [_ENDED_BY_ONE_BROKER]
    chosen = [
        match.facts.bootstrap is True or "bootstrap.servers" in match.text
        for match in cause.matches
        if match.facts.address or "bootstrap.servers" in match.text
    ]
    if cause.faults == (Fault.NAME_NOT_RESOLVED,) and chosen and all(chosen):
        return [_UNRESOLVED_BOOTSTRAP]
    return []


def _is_wildcard(address: str) -> bool:
    return classify(split_address(address)[0].strip("[]")) is AddressClass.WILDCARD


def _has_unknown_origin(cause: Cause, address: str) -> bool:
    """Check whether the text does not show who has chosen an address. Docker's own ids are never chosen."""
    facts = [match.facts for match in cause.matches if match.facts.address == address]
    return name_kind(split_address(address)[0]) is not NameKind.CONTAINER_ID and all(
        fact.bootstrap is None for fact in facts
    )
