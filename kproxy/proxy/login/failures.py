"""The failed logins of addresses: how long the answer to each takes, and how many may wait at a time. Sans-IO.

A right password is never refused because another client of the address has a wrong one: an address behind NAT, or this
machine, has many clients. But an attempt costs time, and while too many of an address wait for their answer, kproxy
closes its further attempts unread; a client then connects again.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass

# Brokers wait 0.1 s (connection.failed.authentication.delay.ms); the pause doubles with each failure after the first
# few, up to the longest one.
_SHORTEST, _LONGEST, _FREE = 0.1, 5.0, 5
# An address is forgotten after so many seconds without a failure.
_KEPT = 300.0
_MOST_ADDRESSES = 10_000
MOST_WAITING = 32
"""The most failed attempts of an address that wait for their answer."""


@dataclass(slots=True)
class _Failures:
    count: int = 0
    waiting: int = 0
    last: float = 0.0


class LoginFailures:
    """The failed logins of each address. A host may have all addresses of an IPv6 /64 network: they count together."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, _Failures] = OrderedDict()  # the oldest first

    def must_wait(self, host: str) -> bool:
        """Check whether so many failed attempts of this address wait that no other may begin."""
        failures = self._failures.get(_network(host))
        return failures is not None and failures.waiting >= MOST_WAITING

    def begin(self, host: str, now: float) -> float:
        """Note a failure; return how many seconds its answer takes. `end` must follow."""
        network = _network(host)
        failures = self._failures.pop(network, None)
        if failures is None or (now - failures.last > _KEPT and not failures.waiting):
            failures = _Failures()
        self._failures[network] = failures
        if len(self._failures) > _MOST_ADDRESSES:
            self._failures.popitem(last=False)
        failures.count += 1
        failures.waiting += 1
        failures.last = now
        return float(min(_LONGEST, _SHORTEST * 2 ** min(max(0, failures.count - _FREE), 10)))

    def end(self, host: str) -> None:
        """Note that an attempt that failed has its answer, or has ended without one."""
        failures = self._failures.get(_network(host))
        if failures is not None and failures.waiting:
            failures.waiting -= 1


def _network(host: str) -> str:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), 64), strict=False))
    return host
