"""Advice for names of bootstrap servers that are not resolved: the kind of name, and commands for it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from kproxy.config.hop import Hop
from kproxy.inspect.doctor.address_class import AddressClass, classify
from kproxy.inspect.doctor.evidence import Contact, Examination

# Ends of names that only the resolvers of a company, a cloud's network or a home know (RFC 6762, RFC 8375, RFC 9476).
_PRIVATE = (".internal", ".local", ".lan", ".corp", ".home", ".home.arpa", ".intranet", ".private", ".alt")


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
        user = f"{hop.user}@" if hop.user else ""
        port = f"-p {hop.port} " if hop.port else ""
        yield f"ssh {port}{shlex.quote(user + hop.host)} getent hosts {name}   # there the name is resolved"
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
