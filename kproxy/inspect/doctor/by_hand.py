"""Commands that try by hand a hop of --via that fails, or a name of a bootstrap server that is not resolved. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from kproxy.base.address import Address
from kproxy.base.addressclass import AddressClass, classify
from kproxy.base.faults import Fault
from kproxy.config.hop import Hop
from kproxy.inspect.doctor.evidence import Contact, Examination
from kproxy.inspect.doctor.findings import HOP, DoctorDiagnostic, finding

# Ends of names that only the resolvers of a company, a cloud's network or a home know (RFC 6762, RFC 8375, RFC 9476).
_PRIVATE = (".internal", ".local", ".lan", ".corp", ".home", ".home.arpa", ".intranet", ".private", ".alt")


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


def _ssh_server(hop: Hop) -> str:
    user = f"{hop.user}@" if hop.user else ""
    return (f"-p {hop.port} " if hop.port else "") + shlex.quote(user + hop.host)


def _ssh(hop: Hop, reason: str) -> Iterator[str]:
    server = _ssh_server(hop)
    known_as = f"[{hop.host}]:{hop.port}" if hop.port not in (None, 22) else hop.host
    if reason == "ssh-host-key":
        yield f"ssh-keygen -F {shlex.quote(known_as)}   # the key that this user knows, if any"
        yield f"ssh {server} true   # shows the server's key: compare it before you accept it"
    elif reason == "ssh-auth":
        yield "ssh-add -l   # the keys of the agent: one with a passphrase must be there"
        yield f"ssh -o BatchMode=yes {server} true   # must work: kproxy cannot answer questions either"
    else:
        yield f"ssh -v -o BatchMode=yes {server} true   # does the server answer, and where does the login end?"


# Names of bootstrap servers


def describe_name(host: str) -> str:
    """Return the kind of a name, in words that follow it."""
    name = host.lower().removesuffix(".")
    place = classify(name)
    if place is AddressClass.KUBERNETES:
        return "looks like the name of a Service or a pod: only pods of that Kubernetes cluster can resolve it"
    if place is AddressClass.CONTAINER:
        return "looks like the name of a container: only its network can resolve it"
    if place is AddressClass.SHORT_NAME:
        return (
            "has no domain: it looks like the name of a container or of a service of Compose, which only its network"
            " can resolve, or like a name to which a search domain belongs"
        )
    if name.endswith(_PRIVATE):
        return "ends as names do that only the resolver of a private network knows, behind a VPN for example"
    return "looks like a public name: it is misspelt, is not in DNS yet, or only some private network has it"


def advice_for_name(examination: Examination) -> str:
    """Return the advice for such a name. kproxy beside the client would not resolve it either."""
    return f"Correct the name in the bootstrap servers, or let {examination.dialler} resolve it. To find out which:"


def check_commands(contact: Contact, examination: Examination) -> Iterator[str]:
    """Yield commands that tell more, and the lines that would work for this kind of name."""
    host, address = contact.address.host, shlex.quote(str(contact.address))
    name = shlex.quote(host)
    if examination.via:
        yield from _behind(Hop.parse(examination.via[-1]), name)
        return
    place = classify(host.lower().removesuffix("."))
    if place is AddressClass.KUBERNETES:
        yield f"kubectl get services --all-namespaces | grep {shlex.quote(host.split('.')[0])}   # is it there?"
        hop = shlex.quote(f"k8s://{_namespace(host)}")
        yield f"kproxy doctor {address} --via {hop}   # kproxy then resolves it in the cluster"
        return
    if place in (AddressClass.CONTAINER, AddressClass.SHORT_NAME):
        yield "docker ps   # the container, and the port under which this machine has it"
        yield "kproxy discover   # brokers in containers, and the line for each"
        yield f"kproxy doctor {address} --via docker://NETWORK   # kproxy then resolves it in that network"
        return
    yield f"getent hosts {name} || nslookup {name}   # without an answer: spelling, VPN, /etc/resolv.conf"
    yield f"kproxy doctor {address} --via ssh://HOST   # if HOST, which you reach by SSH, can resolve it"


def _behind(hop: Hop, name: str) -> Iterator[str]:
    if hop.scheme == "ssh":
        yield f"ssh {_ssh_server(hop)} getent hosts {name}   # there the name is resolved"
    elif hop.scheme == "kubernetes":
        context = f" --context {shlex.quote(hop.user)}" if hop.user else ""
        yield f"kubectl{context} --namespace {hop.host} get services,pods   # there the name is looked for"
    elif hop.scheme == "docker":
        yield f"docker network inspect {hop.host}   # there the name is looked for"
    else:
        yield f"# {hop} resolves the name: ask its administrator, or give the IP address"


def _namespace(host: str) -> str:
    """Return the namespace in SERVICE.NAMESPACE.svc… or POD.SERVICE.NAMESPACE.svc…."""
    labels = host.lower().split(".")
    at = labels.index("svc") - 1 if "svc" in labels else -1
    return labels[at] if at > 0 else "NAMESPACE"
