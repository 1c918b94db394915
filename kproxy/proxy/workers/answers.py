"""What the main process answers to a worker that asks about a cluster."""

from __future__ import annotations

import logging

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.endpoints import NotYet
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.tasks import said
from kproxy.proxy.cluster.topology import Node
from kproxy.proxy.workers import messages

log = logging.getLogger(__name__)


def view(gateway: Gateway) -> messages.View:
    """What a worker is to know of this cluster."""
    nodes = {
        key: Node(key, node.advertised, _port(gateway, node), node.absent_since)
        for key, node in gateway.topology.nodes.items()
    }
    return messages.View(nodes, gateway.reach.known, gateway.own.addresses())


def _port(gateway: Gateway, node: Node) -> int:
    """The port that clients are told; 0 if none may be."""
    return gateway.local_address(node, "").port if gateway.is_bound(node) else 0


def localised(gateway: Gateway, question: messages.Localise) -> messages.Localised | messages.NotLocalised:
    """The local addresses of endpoints; a defect ends one session, as it would in this process."""
    try:
        return messages.Localised(_addresses(gateway, question), view(gateway))
    except WireError as error:
        return messages.NotLocalised(error.reason, str(error))
    except Exception as error:
        log.exception("defect in cluster %s, please report it", gateway.config.name)
        return messages.NotLocalised("defect", f"defect of kproxy: {said(error)}")


def _addresses(gateway: Gateway, question: messages.Localise) -> tuple[Address, ...]:
    """The worker waits for the answer, and has all sessions of its own wait: nothing is gained by small steps."""
    while True:
        try:
            return tuple(gateway.localise(question.host, question.endpoints))
        except NotYet as not_yet:
            for _ in not_yet.steps:
                pass
