"""What an address in a message adds to its words: whose name it is, and where it can work."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import replace

from kproxy.advice.explain.facts import is_ip
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.remedies import Fault, Program

_NOT_REACHED = frozenset({Fault.PORT_CLOSED, Fault.FILTERED, Fault.NO_ROUTE})


def refine(finding: MessageMatch, servers: Collection[str]) -> MessageMatch:
    """The finding, with a more precise fault if its address shows one.

    A bootstrap server is the user's own choice. Only an advertised address can be wrong in the broker.
    """
    facts = finding.facts
    certain = len(finding.faults) == 1 or set(finding.faults) <= _NOT_REACHED
    if not certain or not facts.address or finding.broker or finding.program is Program.KPROXY:
        return finding
    if facts.address in servers or facts.bootstrap is True:
        return finding
    unclear = facts.bootstrap is None and not servers
    if unclear and finding.faults[0] is not Fault.NAME_NOT_RESOLVED:
        return finding
    fault = _by_address(finding.faults[0], host_of(facts.address)) if finding.faults else None
    return replace(finding, faults=(fault,)) if fault else finding


def _by_address(fault: Fault, host: str) -> Fault | None:
    if fault is Fault.NAME_NOT_RESOLVED:
        if host.endswith((".svc", ".cluster.local")) or ".svc." in host:
            return Fault.KUBERNETES_NAME_ADVERTISED
        if "." not in host:
            return Fault.CONTAINER_NAME_ADVERTISED
    if fault in (Fault.PORT_CLOSED, Fault.FILTERED, Fault.NO_ROUTE):
        if host == "localhost" or host.startswith("127.") or host == "[::1]":
            return Fault.LOOPBACK_ADVERTISED if fault is Fault.PORT_CLOSED else None
        if host in ("0.0.0.0", "[::]"):
            return Fault.WILDCARD_ADVERTISED
        if fault is not Fault.PORT_CLOSED and is_ip(host) and ipaddress.ip_address(host.strip("[]")).is_private:
            return Fault.PRIVATE_ADDRESS_ADVERTISED
    return None


def host_of(address: str) -> str:
    """The host of an address, or the address if it has no port."""
    host, colon, port = address.rpartition(":")
    return host if colon and port.isdigit() else address
