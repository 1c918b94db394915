"""What is said of the hops of --via: which of them fails, how to try it by hand, and that kproxy is needed. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kproxy.address import Address
from kproxy.config.hop import Hop
from kproxy.doctor.causes import Cause, cause_of
from kproxy.doctor.findings import Finding, Whose
from kproxy.doctor.found import Contact, Examination
from kproxy.remedies.faults import Fault

# Addresses that are named.
_NAMED = 3


def failing(found: Examination) -> Finding | None:
    """The finding of a hop that fails, so that nothing behind it can be checked."""
    contact = next((one for one in (*found.bootstrap, *found.nodes) if one.via_failed), None)
    if contact is None:
        return None
    hop = _named_in(contact.problem, found.via)
    why = f"The hop itself fails, so nothing behind it can be checked: {contact.problem}."
    fix = tuple(_by_hand(Hop.parse(hop), contact.reason, contact.address)) if hop else ()
    return Finding(Fault.HOP_FAILED, (hop,) if hop else found.via, why, Whose.HOP, fix=fix)


def needed(found: Examination) -> Iterator[Finding]:
    """That a client on this machine does not reach the cluster without the hops, which it cannot use."""
    servers = [one for one in found.direct if one.expected is None]
    lost = [one for one in found.direct if one.expected is not None and not is_usable(one, found)]
    if servers and not any(is_usable(one, found) for one in servers):
        lost = servers
    if not lost:
        return
    bare = replace(found, via=(), login=None, mapped=False)
    causes = [(one, cause) for one in lost if (cause := _cause(one, bare)) is not None]
    said = "; ".join(f"{one.advertised or one.address}: {cause.why}" for one, cause in causes[:_NAMED])
    more = f"; and {len(causes) - _NAMED} more" if len(causes) > _NAMED else ""
    why = (
        f"A client connects by itself: it cannot use {', then '.join(found.via)}, as kproxy does. Without that, this"
        f" machine does not reach the cluster: {said}{more}."
    )
    about = tuple(str(one.advertised or one.address) for one in lost)
    yield Finding(Fault.HOP_NEEDED, about, why, Whose.NETWORK, symptom=causes[0][1].fault if causes else None)


def reached_without(found: Examination) -> bool | None:
    """Whether a client on this machine reaches every broker without the hops; None if only a login could tell."""
    if not found.direct or any(needed(found)):
        return False
    return None if any(one.wants_login for one in found.direct) else True


def is_usable(contact: Contact, found: Examination) -> bool:
    """Whether a client can use an address without the hops, as far as can be seen without a login."""
    cluster_id = None if found.asked is None else found.asked.cluster_id
    return contact.wants_login or (contact.is_right and contact.cluster_id in (None, cluster_id))


def _cause(contact: Contact, bare: Examination) -> Cause | None:
    found = cause_of(contact, bare)
    if found is not None or contact.identity is None:
        return found
    why = f"another Kafka cluster answers there, with the id {contact.cluster_id}"
    return Cause(Fault.WRONG_CLUSTER, why, Whose.NETWORK)


def _named_in(problem: str, via: Sequence[str]) -> str:
    """The hop that a message is about; "" if it names none. The longest, as one's name may begin another's."""
    return max((one for one in via if f"--via {one}" in problem), key=len, default="")


def _by_hand(hop: Hop, reason: str, broker: Address) -> Iterator[str]:
    """How to try this hop by itself."""
    if hop.scheme == "ssh":
        yield from _ssh(hop, reason)
    elif hop.scheme == "kubernetes":
        context = f" --context {shlex.quote(hop.user)}" if hop.user else ""
        yield f"kubectl{context} --namespace {hop.host} get pods   # must work without a question; else log in again"
    elif hop.scheme == "docker":
        yield f"docker network inspect {hop.host}   # does this user see the network, and are the brokers in it?"
    else:
        user = " --proxy-user USER" if hop.user else ""
        through = "--socks5-hostname" if hop.scheme == "socks5" else "--proxytunnel --proxy"
        proxy = shlex.quote(f"{'https://' if hop.scheme == 'https' else ''}{Address(hop.host, hop.port or 0)}")
        target = shlex.quote(f"telnet://{broker}")
        yield f"curl -v {through} {proxy}{user} {target}   # does the proxy accept it, and connect?"
        if reason == "proxy-auth":
            yield f"KPROXY_VIA={hop.scheme}://USER:PASSWORD@{Address(hop.host, hop.port or 0)}   # not in the arguments"


def _ssh(hop: Hop, reason: str) -> Iterator[str]:
    user = f"{hop.user}@" if hop.user else ""
    port = f"-p {hop.port} " if hop.port else ""
    server = f"{port}{shlex.quote(user + hop.host)}"
    known_as = f"[{hop.host}]:{hop.port}" if hop.port not in (None, 22) else hop.host
    if reason == "ssh-host-key":
        yield f"ssh-keygen -F {shlex.quote(known_as)}   # the key that this user knows, if any"
        yield f"ssh {server} true   # shows the server's key: compare it before you accept it"
    elif reason == "ssh-auth":
        yield "ssh-add -l   # the keys of the agent: one with a passphrase must be there"
        yield f"ssh -o BatchMode=yes {server} true   # must work: kproxy cannot answer questions either"
    else:
        yield f"ssh -v -o BatchMode=yes {server} true   # does the server answer, and where does the login end?"
