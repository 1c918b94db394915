"""Finds an address at which this machine can connect to each broker, whatever the broker advertises.

It may be that of a bootstrap server, the advertised one, or a port of the bootstrap server's host that leads to the
broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from kproxy.base.address import Address
from kproxy.inspect.doctor.cluster_questions import AskNode
from kproxy.inspect.doctor.contact import ContactMaker
from kproxy.inspect.doctor.evidence import Contact, Examination
from kproxy.proxy.cluster.topology import NodeKey

# Nodes for which other addresses are tried.
_MOST_NODES = 64


async def find_broker_addresses(
    examination: Examination, contacts: ContactMaker, then: AskNode
) -> Mapping[NodeKey, Address]:
    """Return one address of each broker that can be reached.

    `then` asks more on the connections that are made for this. If kproxy has to log in, it only connects where TLS
    proves first that the broker is there: else a port may lead to a server that must not see the credentials.
    """
    if examination.answering is None or examination.answering.identity is None:
        return {}
    addresses = dict(_answered_addresses(examination))
    failed = [
        contact
        for contact in examination.nodes
        if not contact.is_right and contact.expected is not None and contact.expected not in addresses
    ]
    if failed and (not contacts.logs_in or contacts.verifies_names):
        addresses |= await _at_the_same_host(
            examination, examination.answering, failed[:_MOST_NODES], contacts.quiet(), then
        )
    return addresses


def _answered_addresses(examination: Examination) -> Mapping[NodeKey, Address]:
    """Return the addresses of brokers that have answered already."""
    assert examination.answering is not None
    addresses: dict[NodeKey, Address] = {}
    for contact in examination.nodes:
        if contact.is_right and contact.expected is not None:
            addresses[contact.expected] = contact.address
    for contact in examination.bootstrap:
        key = contact.identity.key if contact.identity is not None else None
        if key is not None and contact.is_right and contact.cluster_id == examination.answering.cluster_id:
            addresses.setdefault(key, contact.address)
    return addresses


async def _at_the_same_host(
    examination: Examination, asked: Contact, failed: Sequence[Contact], contacts: ContactMaker, then: AskNode
) -> Mapping[NodeKey, Address]:
    """Try ports of the bootstrap server's host.

    These are the advertised ones, and those in the order of the brokers' ids, as people forward them.
    """
    host, bootstrap_addresses = asked.address.host, {contact.address for contact in examination.bootstrap}
    ids = sorted(contact.expected.node_id for contact in examination.nodes if contact.expected is not None)
    first = asked.identity.key if asked.identity is not None else None

    async def leads(contact: Contact, port: int) -> Address | None:
        address = Address(host, port)
        if address in bootstrap_addresses or not 0 < port < 65536:
            return None
        attempt = await contacts.contact(address, contact.expected, contact.advertised, partial(then, contact.expected))
        identity = attempt.identity
        right = identity is not None and identity.key == contact.expected and identity.cluster_id == asked.cluster_id
        return address if right and attempt.is_right else None

    async def find_address(contact: Contact) -> tuple[NodeKey, Address | None]:
        assert contact.expected is not None
        address = await leads(contact, contact.name.port)
        if address is None and first is not None and first.node_id in ids:
            address = await leads(
                contact, asked.address.port + ids.index(contact.expected.node_id) - ids.index(first.node_id)
            )
        return contact.expected, address

    return {
        key: address
        for key, address in await asyncio.gather(*[find_address(contact) for contact in failed])
        if address is not None
    }
