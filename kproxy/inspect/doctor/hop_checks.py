"""The finding of a failing hop of --via, and commands that try the hop by hand. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from kproxy.base.address import Address
from kproxy.base.faults import Fault
from kproxy.config.hop import Hop
from kproxy.inspect.doctor.evidence import Examination
from kproxy.inspect.doctor.findings import HOP, DoctorDiagnostic, finding


def failing_hop(examination: Examination) -> DoctorDiagnostic | None:
    """Return the finding of a failing hop, behind which nothing can be checked."""
    contact = next((contact for contact in (*examination.bootstrap, *examination.nodes) if contact.via_failed), None)
    if contact is None:
        return None
    hop = _named_in(contact.problem, examination.via)
    why = f"The hop itself fails, so nothing behind it can be checked: {contact.problem}."
    fix = tuple(_by_hand(Hop.parse(hop), contact.reason, contact.address)) if hop else ()
    return finding(Fault.HOP_FAILED, (hop,) if hop else examination.via, why, HOP, fix=fix)


def _named_in(problem: str, via: Sequence[str]) -> str:
    """Return the hop that a message is about; "" if it names none.

    The longest one: a hop's name may begin another's.
    """
    return max((hop for hop in via if f"--via {hop}" in problem), key=len, default="")


def _by_hand(hop: Hop, reason: str, broker: Address) -> Iterator[str]:
    """Yield commands that try this hop alone."""
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
