"""The test for direct access, which a client on this machine makes without the options that only kproxy has.

These options are hops, maps, and a name for all certificates. All but `contacts_of_a_client` is pure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from kproxy.base.faults import Fault
from kproxy.config import ClusterConfig
from kproxy.inspect.doctor.causes import ContactCause, cause_of
from kproxy.inspect.doctor.contact import ContactMaker
from kproxy.inspect.doctor.evidence import Contact, Examination
from kproxy.inspect.doctor.findings import NETWORK, DoctorDiagnostic, finding

# Addresses that are named.
_NAMED = 3
# Addresses that are contacted at the same time.
_AT_ONCE = 64
# There is no login: without the hops, anything may answer there.
_AS_A_CLIENT = {"via": (), "map": (), "forward_command": (), "tls_server_name": None, "sasl": None}


def kproxy_only_options(config: ClusterConfig) -> tuple[str, ...]:
    """Return the options of this configuration that only kproxy has."""
    hops = [f"--via {hop}" for hop in config.via]
    maps = [*(["--map"] if config.map else []), *(["--forward-command"] if config.forward_command else [])]
    return (*hops, *maps, *(["--tls-server-name"] if config.tls_server_name is not None else []))


async def contacts_of_a_client(
    config: ClusterConfig, examination: Examination, tasks: asyncio.TaskGroup
) -> tuple[Contact, ...]:
    """Return the contacts with the bootstrap servers and, if one is usable, with the nodes' advertised addresses."""
    contacts = ContactMaker(config.replace(**_AS_A_CLIENT), tasks, lambda step: None)
    limit = asyncio.Semaphore(_AT_ONCE)

    async def again(contact: Contact) -> Contact:
        async with limit:
            advertised = contact.advertised
            return await contacts.contact(advertised or contact.address, contact.expected, advertised)

    try:
        servers = await asyncio.gather(*[again(contact) for contact in examination.bootstrap])
        if not any(is_usable(contact, examination) for contact in servers):
            return tuple(servers)
        return (*servers, *await asyncio.gather(*[again(contact) for contact in examination.nodes]))
    finally:
        await contacts.close()


def needs_kproxy(examination: Examination) -> Iterator[DoctorDiagnostic]:
    """Find that only kproxy reaches the cluster.

    If kproxy does not either, other findings come first.
    """
    failed = _unusable_contacts(examination)
    if not failed or not all(contact.is_right for contact in examination.nodes):
        return
    without_options = replace(examination, via=(), login=None, mapped=False)
    causes = [(contact, cause) for contact in failed if (cause := _cause(contact, without_options)) is not None]
    reasons = "; ".join(f"{contact.name}: {cause.why}" for contact, cause in causes[:_NAMED])
    more = f"; and {len(causes) - _NAMED} more" if len(causes) > _NAMED else ""
    why = (
        f"kproxy reaches the cluster with {option_names(examination)}. A client connects without that, and does not"
        f" reach it from this machine: {reasons}{more}."
    )
    subjects = tuple(str(contact.name) for contact in failed)
    yield finding(Fault.KPROXY_NEEDED, subjects, why, NETWORK, symptom=causes[0][1].fault if causes else None)


def option_names(examination: Examination) -> str:
    """Return the options that only kproxy has, in words."""
    return " and ".join(examination.kproxy_options)


def is_reached(examination: Examination) -> bool | None:
    """Return True if a client reaches every broker by itself; None if only a login could tell."""
    if not examination.direct_contacts or _unusable_contacts(examination):
        return False
    return None if any(contact.wants_login for contact in examination.direct_contacts) else True


def is_usable(contact: Contact, examination: Examination) -> bool:
    """Return True if a client can use an address by itself, as far as kproxy can tell without a login."""
    cluster_id = None if examination.answering is None else examination.answering.cluster_id
    return contact.wants_login or (contact.is_right and contact.cluster_id in (None, cluster_id))


def _unusable_contacts(examination: Examination) -> list[Contact]:
    """Return the contacts that keep a client from the cluster.

    One bootstrap server is enough, and each broker is needed.
    """
    servers = [contact for contact in examination.direct_contacts if contact.expected is None]
    if not any(is_usable(contact, examination) for contact in servers):
        return servers
    return [
        contact
        for contact in examination.direct_contacts
        if contact.expected is not None and not is_usable(contact, examination)
    ]


def _cause(contact: Contact, without_options: Examination) -> ContactCause | None:
    cause = cause_of(contact, without_options)
    if cause is not None or contact.identity is None:
        return cause
    why = f"another Kafka cluster answers there, with the id {contact.cluster_id}"
    return ContactCause(Fault.WRONG_CLUSTER, why, NETWORK)
