"""Faults that the address in a message shows: a name or an address that cannot work for clients."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import replace

from kproxy.advice.explain.facts import is_ip
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.remedies.remedy import Program
from kproxy.base.faults import Fault

_NOT_REACHED = frozenset({Fault.PORT_CLOSED, Fault.FILTERED, Fault.NO_ROUTE})


def refine(match: MessageMatch, servers: Collection[str]) -> MessageMatch:
    """Return the match with a more precise fault if its address shows one.

    The user chooses the bootstrap servers, so only an advertised address can be a fault of the broker.
    """
    facts = match.facts
    certain = len(match.faults) == 1 or set(match.faults) <= _NOT_REACHED
    if not certain or not facts.address or match.broker or match.program is Program.KPROXY:
        return match
    if facts.address in servers or facts.bootstrap is True:
        return match
    unclear = facts.bootstrap is None and not servers
    if unclear and match.faults[0] is not Fault.NAME_NOT_RESOLVED:
        return match
    fault = _by_address(match.faults[0], host_of(facts.address)) if match.faults else None
    return replace(match, faults=(fault,)) if fault else match


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
    """Return the host of an address, or the address if it has no port."""
    host, colon, port = address.rpartition(":")
    return host if colon and port.isdigit() else address
