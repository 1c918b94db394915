"""Contacts as a client on this machine makes them, without the options that only kproxy has.

These are hops, maps, and a name for all certificates.
"""

from __future__ import annotations

import asyncio

from kproxy.config import ClusterConfig
from kproxy.inspect.doctor.contact import ContactMaker
from kproxy.inspect.doctor.direct_access import is_usable
from kproxy.inspect.doctor.evidence import Contact, Examination

# Addresses that are contacted at the same time.
_AT_ONCE = 64
# There is no login: without the hops, anything may answer there.
_AS_A_CLIENT = {"via": (), "map": (), "tls_server_name": None, "sasl": None}


def kproxy_only_options(config: ClusterConfig) -> tuple[str, ...]:
    """Return the options of this configuration that only kproxy has."""
    hops = [f"--via {hop}" for hop in config.via]
    maps = ["--map"] if config.map else []
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
