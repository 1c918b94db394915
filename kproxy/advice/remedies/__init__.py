"""The only table of faults between a Kafka client and its brokers, with their remedies (pure).

__init__       `remedy_of`: the remedy of a fault; `all_remedies`
remedy         `Remedy`: the cause of a fault, how to check it, how to fix it, and the messages that programs print for it
advertised     the advertised addresses
network        the network between client and address
peers          the server that answers, and the cluster's state
encryption     TLS and certificates
login          logins and rights
loginsetup     what a client needs before a login: JAAS, its own build
credentials    messages about key stores, tokens, tickets and rights
versions       versions and limits
miscellaneous  settings, load, groups, transactions
addressforms   addresses whose own form is the fault
between        what answers in the broker's place, and options that are gone
start          a broker's start: its data directory, KRaft
elsewhere      what is not about reaching Kafka
traffic        faults that only a proxy can observe
runtimes       the words of operating systems, languages and TLS libraries
programs       messages of more clients, and of programs that contain one
connecting     messages about a connection: opening it, its TLS handshake, its login, its end
clientsetup    messages with which clients refuse their own settings
clusterstate   messages about requests that fail: the cluster's state, rights, versions, settings
groups         messages about coordinators, consumer groups and transactions
serverstart    more messages of servers at their start: listeners, voters, data directories
errorwords     the words of Kafka's error codes in clients that print no code
services       what the addresses of cloud services demand
ports          default ports of programs around Kafka
own            the sections of kproxy's own messages (`kproxy.base.messages`)
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from kproxy.advice.remedies.remedy import ProgramMessage, Remedy
from kproxy.base.faults import Fault


@cache
def remedies_by_family() -> dict[str, tuple[Remedy, ...]]:
    """Return the remedies by family, in the order in which users meet them."""
    from kproxy.advice.remedies import (
        addressforms,
        advertised,
        between,
        elsewhere,
        encryption,
        login,
        loginsetup,
        miscellaneous,
        network,
        peers,
        start,
        traffic,
        versions,
    )

    families = {
        "The advertised address": advertised.TABLE + addressforms.TABLE,
        "The network": network.TABLE + between.NETWORK,
        "Who answers": peers.TABLE + between.PEERS,
        "TLS": encryption.TABLE + between.TLS,
        "Logins and rights": login.TABLE + loginsetup.TABLE,
        "Versions and limits": versions.TABLE + between.VERSIONS,
        "A broker's start": start.TABLE,
        "Settings, load and groups": miscellaneous.TABLE,
        "Other subjects": elsewhere.TABLE,
        "What a proxy sees": traffic.TABLE,
    }
    return {family: tuple(map(_with_more_messages, table)) for family, table in families.items()}


def _with_more_messages(remedy: Remedy) -> Remedy:
    """Return the remedy with the messages of the tables that are sorted by program."""
    messages = {(message.program, message.text): message for message in remedy.messages}
    for message in _more_messages().get(remedy.fault, ()):
        messages[message.program, message.text] = message
    return replace(remedy, messages=tuple(messages.values()))


@cache
def _more_messages() -> dict[Fault, tuple[ProgramMessage, ...]]:
    from kproxy.advice.remedies import (
        clientsetup,
        clusterstate,
        connecting,
        credentials,
        errorwords,
        groups,
        programs,
        runtimes,
        serverstart,
        start,
    )

    more: dict[Fault, tuple[ProgramMessage, ...]] = {}
    modules = (
        start,
        serverstart,
        credentials,
        clientsetup,
        runtimes,
        programs,
        connecting,
        clusterstate,
        groups,
        errorwords,
    )
    for module in modules:
        for fault, messages in module.MESSAGES.items():
            more[fault] = more.get(fault, ()) + messages
    return more


@cache
def _by_fault() -> dict[Fault, Remedy]:
    return {remedy.fault: remedy for remedy in all_remedies()}


def all_remedies() -> tuple[Remedy, ...]:
    """Return the remedy of each fault, in the order of the families."""
    return tuple(remedy for table in remedies_by_family().values() for remedy in table)


def remedy_of(fault: Fault) -> Remedy:
    """Return the remedy of a fault."""
    return _by_fault()[fault]
