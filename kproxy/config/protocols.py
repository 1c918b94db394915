"""A security protocol before a bootstrap server, `SASL_SSL://kafka:9092`, as in client.properties.

Java's clients ignore it. Here it must agree with the options: it changes nothing, since a server without it must behave
the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kproxy.base.messages.start import PREFIX_FORBIDS_LOGIN, PREFIX_FORBIDS_TLS, PREFIX_NEEDS_TLS
from kproxy.config.checks import OptionPath, Violation
from kproxy.config.kinds import PROTOCOLS

if TYPE_CHECKING:
    from kproxy.config.options import ClusterConfig, Config

SERVERS = "bootstrap-servers"

ServerProtocols = dict[OptionPath, str]
"""The protocol of each server, by its path."""


def strip_protocols(cluster: int, values: dict[str, object]) -> ServerProtocols:
    """Remove the protocols from the servers of a cluster, whose values are not validated yet, and return them."""
    servers, server_protocols = values.get(SERVERS), ServerProtocols()
    if isinstance(servers, list):
        for index, server in enumerate(servers):
            if match := re.match(rf"({'|'.join(PROTOCOLS)})://", str(server), re.IGNORECASE):
                server_protocols["clusters", cluster, SERVERS, index] = match[1].upper()
                servers[index] = str(server)[match.end() :]
    return server_protocols


def find_contradictions(config: Config, server_protocols: ServerProtocols) -> Iterator[Violation]:
    """Yield where a protocol and the options differ; each protocol of a cluster once."""
    reported = set()
    for loc, protocol in server_protocols.items():
        assert isinstance(loc[1], int)
        for key, text in _differences(config.clusters[loc[1]], protocol):
            if (*loc[:2], protocol, key) not in reported:
                reported.add((*loc[:2], protocol, key))
                yield Violation((loc, (*loc[:2], key)), f"{protocol}:// {text}")


def _differences(cluster: ClusterConfig, protocol: str) -> Iterator[tuple[str, str]]:
    if protocol.endswith("SSL") and not cluster.tls:
        yield "tls", PREFIX_NEEDS_TLS()
    if protocol.endswith("PLAINTEXT") and cluster.tls:
        yield "tls", PREFIX_FORBIDS_TLS()
    # The other way round, SASL without sasl, is well: clients log in themselves then.
    if not protocol.startswith("SASL_") and cluster.sasl is not None:
        text = PREFIX_FORBIDS_LOGIN(sasl=cluster.sasl)
        yield "sasl", f"{text}; allowed: SASL_{protocol}://, HOST:PORT alone, or no --sasl"
