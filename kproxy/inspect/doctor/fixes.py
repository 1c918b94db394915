"""The lines that fix a finding for good: the broker's settings, a client's properties, commands. Pure.

Lines are as exact as the evidence allows. Values that only the user knows are in capitals: HOST, NAME, PASSWORD.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from kproxy.base.faults import Fault, fault_set
from kproxy.inspect.doctor import advertised_lines, by_hand, client_lines
from kproxy.inspect.doctor import listeners as settings
from kproxy.inspect.doctor.evidence import Contact, Examination

# Faults of an advertised address that another advertised address fixes.
_OF_ADDRESSES = fault_set(
    """
    name-not-resolved container-name-advertised kubernetes-name-advertised private-address-advertised
    loopback-advertised wildcard-advertised port-closed name-resolves-wrongly not-kafka wrong-node wrong-cluster
    mixing-load-balancer
    """
)
# Faults that can also be fixed on this machine, or in the network.
_OF_THE_WAY = fault_set("filtered no-route silent closed dns-silent ipv6-only")


def advertised(fault: Fault, contacts: Sequence[Contact], examination: Examination) -> tuple[str, tuple[str, ...]]:
    """Return the wrong line, and the corrected ones, for a fault with advertised addresses."""
    lines = _of_certificate(fault, contacts[0], examination) or _of_login(fault, contacts[0], examination)
    if lines:
        return "", lines
    contact = examination.contact_with_answering(contacts)
    wrong = contact.name
    if examination.mapped and contact.address != contact.advertised:
        return f"--map {contact.advertised}={contact.address}", (f"--map {contact.advertised}=HOST:PORT",)
    if fault in _OF_THE_WAY:
        return "", (
            f"# Let {examination.dialler} reach {wrong} (firewall, security group, VPN, route), or advertise another",
        )
    if fault not in _OF_ADDRESSES:
        return "", ()
    listeners = settings.listeners_of(examination.settings) if examination.settings else []
    listener = settings.listener_that_advertises(listeners, wrong)
    name = listener.name if listener else "NAME"
    works_here = all(contact.is_right for contact in contacts)
    lines = advertised_lines.lines(fault, contacts, examination, for_others=works_here)
    return f"advertised.listeners={name}://{wrong}", lines


def bootstrap(fault: Fault, contact: Contact, examination: Examination) -> tuple[str, ...]:
    """Return lines for a bootstrap server that fails."""
    lines = _of_certificate(fault, contact, examination) or _of_login(fault, contact, examination)
    if lines:
        return lines
    if fault is Fault.NAME_NOT_RESOLVED:
        return tuple(by_hand.check_commands(contact, examination))
    if fault in (Fault.PORT_CLOSED, Fault.NOT_KAFKA, Fault.FILTERED, Fault.NO_ROUTE):
        return (
            f"# HOST:PORT: the address of a broker that {examination.dialler} can reach",
            "bootstrap.servers=HOST:PORT",
        )
    return ()


def _of_certificate(fault: Fault, contact: Contact, examination: Examination) -> tuple[str, ...]:
    host, address = contact.name.host, shlex.quote(str(contact.address))
    logs_in = examination.login is not None
    if fault is Fault.PLAINTEXT_TO_TLS:
        only = "# and, if the CA of the certificate is not one that the client trusts anyway:"
        return (client_lines.protocol(tls=True, login=logs_in), only, *client_lines.trust(examination, "ca.pem"))
    if fault is Fault.TLS_TO_PLAINTEXT:
        return (client_lines.protocol(tls=False, login=logs_in),)
    if fault is Fault.CERTIFICATE_NAME:
        san = "ip" if contact.resolved == (host,) else "dns"
        return (
            f"keytool -genkeypair -alias broker -keyalg RSA -keysize 3072 -dname {shlex.quote(f'CN={host}')}"
            f" -ext {shlex.quote(f'SAN={san}:{host}')} -keystore broker.p12 -storetype PKCS12",
            "# and have your CA sign it: clients check the advertised name",
        )
    if fault is Fault.CERTIFICATE_EXPIRED:
        return (
            "keytool -list -v -keystore broker.p12   # shows the dates; have the CA sign the same key again",
            f"openssl s_client -connect {address} -showcerts </dev/null | openssl x509 -noout -dates"
            f"{_there(examination)}",
        )
    if fault is Fault.CERTIFICATE_NOT_YET_VALID:
        return ("timedatectl status   # is this machine's clock right, and was that of the CA?",)
    if fault is Fault.CERTIFICATE_UNTRUSTED:
        return (
            f"openssl s_client -connect {address} -showcerts </dev/null   # the last certificate is nearest to the CA"
            f"{_there(examination, '; ')}",
            "# ca.pem: the certificate of that CA, from its administrator: what a server sends proves nothing",
            *client_lines.trust(examination, "ca.pem"),
        )
    if fault in (Fault.CLIENT_CERTIFICATE_MISSING, Fault.CLIENT_CERTIFICATE_REFUSED):
        return client_lines.own_certificate(examination)
    return ()


def _there(examination: Examination, before: str = "   # ") -> str:
    """Return a comment that says where to run a command that connects to a broker without kproxy."""
    return f"{before}run it where {examination.via[-1]} leads" if examination.via else ""


def _of_login(fault: Fault, contact: Contact, examination: Examination) -> tuple[str, ...]:
    if fault is Fault.LOGIN_NEEDED:
        return tuple(client_lines.login(examination, contact.mechanisms or ()))
    if fault is Fault.LOGIN_NOT_OFFERED:
        return (client_lines.protocol(tls=examination.tls, login=False),)
    if fault is Fault.SASL_MECHANISM:
        return ("# MECHANISM: one of those that the broker has enabled", "sasl.mechanism=MECHANISM")
    return ()


def protocol(name: str) -> tuple[str, ...]:
    """Return the client's property for a listener's protocol, if it is not the default."""
    return () if name == "PLAINTEXT" else (f"security.protocol={name}",)


def same_address(contacts: Sequence[Contact], examination: Examination) -> tuple[str, tuple[str, ...]]:
    """Return the wrong and the corrected lines for several brokers with one advertised address."""
    wrong = contacts[0].advertised or contacts[0].address
    return f"advertised.listeners=NAME://{wrong}", advertised_lines.lines(
        Fault.SAME_ADDRESS_TWICE, contacts, examination
    )


def leaderless(examination: Examination) -> tuple[str, ...]:
    """Return the command that lists partitions without a leader."""
    return (f"{_tool('kafka-topics', examination)} --describe --unavailable-partitions",)


def under_min_isr(examination: Examination, topic: str) -> tuple[str, ...]:
    """Return the command that lists the partitions of a topic that have too few replicas in sync."""
    described = f"--describe --under-min-isr-partitions --topic {shlex.quote(topic)}"
    return (f"{_tool('kafka-topics', examination)} {described}",)


def rights(examination: Examination, topic: str, operations: Sequence[str]) -> tuple[str, ...]:
    """Return the command that gives this user rights on a topic."""
    return (_acls(examination, [f"--topic {shlex.quote(topic)}"], operations),)


def group_rights(examination: Examination, operations: Sequence[str]) -> tuple[str, ...]:
    """Return the command that gives this user rights on a group."""
    return (_acls(examination, [f"--group {shlex.quote(examination.intent.group or 'GROUP')}"], operations),)


def _acls(examination: Examination, resource: list[str], operations: Sequence[str]) -> str:
    user = shlex.quote(principal(examination))
    wanted = " ".join(f"--operation {name}" for name in operations)
    return f"{_tool('kafka-acls', examination)} --add --allow-principal {user} {wanted} {' '.join(resource)}"


def principal(examination: Examination) -> str:
    """Return Kafka's default principal of this user: `User:` and a name."""
    if examination.login is not None:
        return f"User:{examination.user or 'NAME'}"
    return "User:CN=…" if examination.certificate_given else "User:ANONYMOUS"


def _tool(name: str, examination: Examination) -> str:
    """Return the first words of one of Kafka's tools: it cannot use a hop, so kproxy runs it along the hop."""
    if examination.exec_words:
        return f"{shlex.join(examination.exec_words)} {name} --bootstrap-server '{{bootstrap}}'"
    contact = examination.bootstrap[0] if examination.answering is None else examination.answering
    return f"{name} --bootstrap-server {contact.address}"
