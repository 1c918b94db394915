"""Finds an address at which this machine reaches each broker, whatever the broker advertises.

It may be that of a bootstrap server, the advertised one, or a port of the bootstrap server's host that leads there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kproxy.base.address import Address
from kproxy.inspect.doctor.contact import ContactMaker, FollowUp
from kproxy.inspect.doctor.evidence import Contact, Examination
from kproxy.proxy.cluster.topology import NodeKey

# Nodes for which other addresses are tried.
_MOST_NODES = 64


async def find_broker_addresses(
    examination: Examination, contacts: ContactMaker, then: FollowUp
) -> Mapping[NodeKey, Address]:
    """One address of each broker that is reached. `then` asks more on the connections that are made for this. None is
    made if kproxy would have to log in: a port may lead to something that must not see the credentials."""
    if examination.asked is None or examination.asked.identity is None:
        return {}
    here = dict(_known(examination))
    lost = [
        contact
        for contact in examination.nodes
        if not contact.is_right and contact.expected is not None and contact.expected not in here
    ]
    if lost and not contacts.logs_in:
        here |= await _at_the_same_host(examination, examination.asked, lost[:_MOST_NODES], contacts.quiet(), then)
    return here


def _known(examination: Examination) -> Mapping[NodeKey, Address]:
    """The brokers that were met already."""
    assert examination.asked is not None
    here: dict[NodeKey, Address] = {}
    for contact in examination.nodes:
        if contact.is_right and contact.expected is not None:
            here[contact.expected] = contact.address
    for one in examination.bootstrap:
        key = one.identity.key if one.identity is not None else None
        if key is not None and one.is_right and one.cluster_id == examination.asked.cluster_id:
            here.setdefault(key, one.address)
    return here


async def _at_the_same_host(
    examination: Examination, asked: Contact, lost: Sequence[Contact], contacts: ContactMaker, then: FollowUp
) -> Mapping[NodeKey, Address]:
    """Ports of the bootstrap server's host: the advertised ones, and those in the order of the brokers' ids, as people
    forward them."""
    host, known = asked.address.host, {contact.address for contact in examination.bootstrap}
    ids = sorted(contact.expected.node_id for contact in examination.nodes if contact.expected is not None)
    first = asked.identity.key if asked.identity is not None else None

    async def leads(contact: Contact, port: int) -> Address | None:
        address = Address(host, port)
        if address in known or not 0 < port < 65536:
            return None
        tried = await contacts.contact(address, contact.expected, contact.advertised, then)
        identity = tried.identity
        right = identity is not None and identity.key == contact.expected and identity.cluster_id == asked.cluster_id
        return address if right and tried.is_right else None

    async def look(contact: Contact) -> tuple[NodeKey, Address | None]:
        assert contact.expected is not None
        at = await leads(contact, (contact.advertised or contact.address).port)
        if at is None and first is not None and first.node_id in ids:
            at = await leads(
                contact, asked.address.port + ids.index(contact.expected.node_id) - ids.index(first.node_id)
            )
        return contact.expected, at

    return {key: at for key, at in await asyncio.gather(*[look(one) for one in lost]) if at is not None}
