"""The examination of one cluster: its bootstrap servers, its metadata, and every address that it advertises.

All addresses are contacted at the same time, so that a cluster of many brokers behind a firewall costs one time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kproxy.base.address import Address
from kproxy.config import ClusterConfig
from kproxy.inspect.doctor.broker_addresses import find_broker_addresses
from kproxy.inspect.doctor.cluster_questions import ClusterQuestions
from kproxy.inspect.doctor.contact import ContactMaker, OnStep
from kproxy.inspect.doctor.evidence import ClientIntent, Contact, Examination, OtherListener
from kproxy.inspect.doctor.listeners import listeners_of
from kproxy.net.dial.routes import Routes
from kproxy.protocol.rewrite.endpoints import Endpoint, NodeKind
from kproxy.proxy.cluster.identity import BrokerIdentity
from kproxy.proxy.cluster.topology import NodeKey

# Addresses that are contacted at the same time.
_AT_ONCE = 64
# Addresses of the broker's other listeners that are tried.
_ELSEWHERE = 8


async def examine(
    config: ClusterConfig,
    contacts: ContactMaker,
    on_step: OnStep,
    intent: ClientIntent,
    of_nodes: ContactMaker | None = None,
) -> Examination:
    """Examine the cluster of this configuration, for a client with this intent. Raises no error of the network.

    With `of_nodes`, that one contacts the nodes.
    """
    of_nodes = of_nodes or contacts
    questions = ClusterQuestions(intent, config.connect_timeout, on_step)
    limit = asyncio.Semaphore(_AT_ONCE)
    servers = list(dict.fromkeys(config.bootstrap_servers))
    routes, node_routes = Routes(config.map, contacts.forwarded), Routes(config.map, of_nodes.forwarded)

    async def bootstrap(server: Address) -> Contact:
        dialled = routes.of_server(server).dial
        async with limit:
            name = server if dialled != server else None
            return await contacts.contact(dialled, name=name, then=partial(questions.ask, None))

    examination = Examination(
        bootstrap=tuple(await asyncio.gather(*[bootstrap(server) for server in servers])),
        intent=intent,
        tls=config.tls,
        login=config.sasl,
        user=config.sasl_username,
        certificate_given=config.tls_cert is not None,
        via=tuple(str(hop) for hop in config.via),
        mapped=bool(config.map or config.forward_command),
    )
    answered = [contact for contact in examination.bootstrap if contact.identity is not None]
    asked = next(
        (contact for contact in answered if contact.identity is questions.answering), answered[0] if answered else None
    )
    examination = replace(
        examination,
        answering=asked,
        contents=questions.contents,
        settings=questions.settings,
        coordinator=questions.coordinator,
        min_in_sync=questions.min_in_sync,
        not_checked=tuple(questions.not_checked),
    )
    if asked is None or asked.identity is None:
        return replace(examination, not_checked=_why_not_checked(examination))
    nodes = _nodes(examination.bootstrap, asked.identity)

    async def node(endpoint: Endpoint) -> Contact:
        key = NodeKey(endpoint.kind, endpoint.node_id)
        dialled = node_routes.candidates(key.label, endpoint.advertised)[0].dial
        same = next((contact for contact in examination.bootstrap if contact.address == dialled), None)
        # It was contacted already: kproxy does not log in twice. But a certificate was checked for one name only.
        if same is not None and (not config.tls or same.name.host == endpoint.advertised.host):
            return replace(same, expected=key, advertised=endpoint.advertised)
        async with limit:
            return await of_nodes.contact(dialled, key, endpoint.advertised, partial(questions.ask, key))

    contacts_of_nodes = tuple(await asyncio.gather(*[node(endpoint) for endpoint in nodes]))
    examination = replace(examination, nodes=contacts_of_nodes, **questions.answers(asked.cluster_id))
    if all(contact.is_right for contact in contacts_of_nodes):
        return examination
    # These expect the name that a broker advertises, and not one for all certificates.
    working_addresses = await find_broker_addresses(examination, of_nodes, questions.ask)
    examination = replace(examination, working_addresses=working_addresses, **questions.answers(asked.cluster_id))

    async def other(address: Address) -> OtherListener:
        async with limit:
            contact = await contacts.contact(address, asked.identity.key if asked.identity else None, address)
        if not contact.is_right or contact.identity is None:
            return OtherListener(contact)
        return OtherListener(
            contact, tuple(await asyncio.gather(*[node(contact) for contact in contact.identity.members.nodes]))
        )

    tried = await asyncio.gather(*[other(address) for address in _other_addresses(examination)])
    return replace(examination, other_listeners=tuple(tried))


def _nodes(bootstrap: Sequence[Contact], identity: BrokerIdentity) -> list[Endpoint]:
    """Return the nodes of the cluster of the answering server, as any bootstrap server of it names them."""
    endpoints: dict[tuple[NodeKind, int], Endpoint] = {}
    for contact in bootstrap:
        if contact.identity is not None and contact.identity.cluster_id == identity.cluster_id:
            for endpoint in contact.identity.members.nodes:
                endpoints.setdefault((endpoint.kind, endpoint.node_id), endpoint)
    return [endpoints[key] for key in sorted(endpoints, key=lambda key: (key[0].value, key[1]))]


def _other_addresses(examination: Examination) -> list[Address]:
    """Return the addresses that the answering broker advertises for its other listeners."""
    if examination.settings is None:
        return []
    contacted = {contact.address for contact in (*examination.bootstrap, *examination.nodes)}
    advertised = [
        listener.advertised for listener in listeners_of(examination.settings) if listener.advertised is not None
    ]
    return [address for address in dict.fromkeys(advertised) if address not in contacted][:_ELSEWHERE]


def _why_not_checked(examination: Examination) -> tuple[str, ...]:
    why = "no bootstrap server returned the addresses of the brokers"
    if any(contact.wants_login for contact in examination.bootstrap):
        why = "the brokers return their addresses to authenticated clients only: give the login (--sasl …)"
    return (*examination.not_checked, f"the advertised addresses: {why}")
