"""The only table of faults between a Kafka client and its brokers, with their remedies (pure).

__init__       `remedy_of`: the remedy of a fault; `all_remedies`
remedy         `Remedy`: the cause of a fault, how to check it, how to fix it, and the messages that programs print for it
advertised     the advertised addresses
network        the network between client and address
peers          the server that answers, and the cluster's state
encryption     TLS and certificates
login          logins and rights
versions       versions and limits
miscellaneous  settings, load, groups, transactions
traffic        faults that only a proxy can observe
own            the sections of kproxy's own messages (`kproxy.base.messages`)
"""

from __future__ import annotations

from functools import cache

from kproxy.advice.remedies.remedy import Remedy
from kproxy.base.faults import Fault


@cache
def remedies_by_family() -> dict[str, tuple[Remedy, ...]]:
    """Return the remedies by family, in the order in which users meet them."""
    from kproxy.advice.remedies import advertised, encryption, login, miscellaneous, network, peers, traffic, versions

    return {
        "The advertised address": advertised.TABLE,
        "The network": network.TABLE,
        "Who answers": peers.TABLE,
        "TLS": encryption.TABLE,
        "Logins and rights": login.TABLE,
        "Versions and limits": versions.TABLE,
        "Settings, load and groups": miscellaneous.TABLE,
        "What a proxy sees": traffic.TABLE,
    }


@cache
def _by_fault() -> dict[Fault, Remedy]:
    return {remedy.fault: remedy for remedy in all_remedies()}


def all_remedies() -> tuple[Remedy, ...]:
    """Return the remedy of each fault, in the order of the families."""
    return tuple(remedy for table in remedies_by_family().values() for remedy in table)


def remedy_of(fault: Fault) -> Remedy:
    """Return the remedy of a fault."""
    return _by_fault()[fault]
