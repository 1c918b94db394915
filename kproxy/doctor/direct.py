"""What a client on this machine meets at the same addresses. It cannot use the hops of --via: only kproxy can."""

from __future__ import annotations

import asyncio

from kproxy.config import ClusterConfig
from kproxy.doctor.contact import Contacts
from kproxy.doctor.found import Contact, Examination
from kproxy.doctor.hops import is_usable

# Addresses that are contacted at the same time.
_AT_ONCE = 64
# There is no login: who answers without the hops may be anybody. A client knows no maps.
_AS_A_CLIENT = {"via": (), "map": (), "sasl": None}


async def contacts_without_hops(
    config: ClusterConfig, found: Examination, tasks: asyncio.TaskGroup
) -> tuple[Contact, ...]:
    """The contacts with the bootstrap servers and, if one of them can be used, with what the nodes advertise."""
    contacts = Contacts(config.model_copy(update=_AS_A_CLIENT), tasks, lambda step: None)
    limit = asyncio.Semaphore(_AT_ONCE)

    async def again(contact: Contact) -> Contact:
        async with limit:
            advertised = contact.advertised
            return await contacts.contact(advertised or contact.address, contact.expected, advertised)

    try:
        servers = await asyncio.gather(*[again(one) for one in found.bootstrap])
        if not any(is_usable(one, found) for one in servers):
            return tuple(servers)
        return (*servers, *await asyncio.gather(*[again(one) for one in found.nodes]))
    finally:
        await contacts.close()
