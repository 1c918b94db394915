"""The verdict on a client that connects by itself, where kproxy has options that no client has: hops, maps, a name for
all certificates. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kproxy.advice.remedies.faults import Fault
from kproxy.inspect.doctor.causes import ContactCause, cause_of
from kproxy.inspect.doctor.evidence import Contact, Examination
from kproxy.inspect.doctor.findings import DoctorFinding, Responsible

# Addresses that are named.
_NAMED = 3


def needs_kproxy(examination: Examination) -> Iterator[DoctorFinding]:
    """Find that only kproxy reaches the cluster. If kproxy does not either, other findings come first."""
    lost = _lost(examination)
    if not lost or not all(contact.is_right for contact in examination.nodes):
        return
    bare = replace(examination, via=(), login=None, mapped=False)
    causes = [(one, cause) for one in lost if (cause := _cause(one, bare)) is not None]
    said = "; ".join(f"{one.advertised or one.address}: {cause.why}" for one, cause in causes[:_NAMED])
    more = f"; and {len(causes) - _NAMED} more" if len(causes) > _NAMED else ""
    why = (
        f"kproxy reaches the cluster with {with_means(examination)}. A client connects without that, and does not reach"
        f" it from this machine: {said}{more}."
    )
    about = tuple(str(one.advertised or one.address) for one in lost)
    yield DoctorFinding(
        Fault.KPROXY_NEEDED, about, why, Responsible.NETWORK, symptom=causes[0][1].fault if causes else None
    )


def with_means(examination: Examination) -> str:
    """The options that only kproxy can use, in words."""
    return " and ".join(examination.means)


def is_reached(examination: Examination) -> bool | None:
    """Return True if a client reaches every broker by itself; None if only a login could tell."""
    if not examination.direct or _lost(examination):
        return False
    return None if any(contact.wants_login for contact in examination.direct) else True


def is_usable(contact: Contact, examination: Examination) -> bool:
    """Return True if a client can use an address by itself, as far as can be seen without a login."""
    cluster_id = None if examination.asked is None else examination.asked.cluster_id
    return contact.wants_login or (contact.is_right and contact.cluster_id in (None, cluster_id))


def _lost(examination: Examination) -> list[Contact]:
    """The contacts that keep a client from the cluster. One bootstrap server is enough, and each broker is needed."""
    servers = [contact for contact in examination.direct if contact.expected is None]
    if not any(is_usable(one, examination) for one in servers):
        return servers
    return [
        contact
        for contact in examination.direct
        if contact.expected is not None and not is_usable(contact, examination)
    ]


def _cause(contact: Contact, bare: Examination) -> ContactCause | None:
    found = cause_of(contact, bare)
    if found is not None or contact.identity is None:
        return found
    why = f"another Kafka cluster answers there, with the id {contact.cluster_id}"
    return ContactCause(Fault.WRONG_CLUSTER, why, Responsible.NETWORK)
