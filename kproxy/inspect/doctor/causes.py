"""The cause of a failed contact: the fault, in words, and who can fix it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address

from kproxy.base.addressclass import AddressClass, classify, is_loopback, is_private
from kproxy.base.faults import Fault
from kproxy.inspect.doctor.by_hand import describe_name
from kproxy.inspect.doctor.evidence import Contact, Examination, PortProtocol
from kproxy.inspect.doctor.findings import ADDRESS, BROKER, CERTIFICATE, CLIENT, HOP, MACHINE, NETWORK, Responsible


@dataclass(frozen=True, slots=True)
class ContactCause:
    """The cause of a failed contact. `why` is a sentence without the address, which precedes it."""

    fault: Fault
    why: str
    responsible: Responsible


_BY_NAME = {
    AddressClass.CONTAINER: (
        Fault.CONTAINER_NAME_ADVERTISED,
        "this is a container's name, which only its network knows",
    ),
    AddressClass.SHORT_NAME: (
        Fault.CONTAINER_NAME_ADVERTISED,
        "this name has no domain: only the network that the broker runs in knows it, usually one of Docker or Compose",
    ),
    AddressClass.KUBERNETES: (
        Fault.KUBERNETES_NAME_ADVERTISED,
        "only pods of that Kubernetes cluster can resolve this name",
    ),
}
# Reasons of a hop that does not connect to an address, whatever listens there.
_OF_HOPS = ("ssh-forbidden", "proxy", "kubernetes", "kubernetes-forbidden", "docker", "other")
_NOT_KAFKA = {
    PortProtocol.HTTP: "a web server or an HTTP proxy listens there (it speaks HTTP)",
    PortProtocol.SSH: "an SSH server listens there",
    PortProtocol.SOCKS: "a SOCKS proxy listens there",
    PortProtocol.PROXY: "the server expects the PROXY protocol before Kafka's: it is behind a load balancer that sends"
    " it, and cannot be reached directly",
    PortProtocol.TLS: "a TLS server listens there that is not a Kafka broker",
    PortProtocol.OTHER: "the server there does not speak Kafka's protocol",
}


def cause_of(contact: Contact, examination: Examination, now: datetime | None = None) -> ContactCause | None:
    """Return why a client cannot use this address; None if it can, as far as was checked."""
    if contact.via_failed:
        return ContactCause(Fault.HOP_FAILED, contact.problem, HOP)
    if contact.wants_login:
        return _wants_login(contact, examination)
    if contact.reason:
        return _failure(contact, examination, now or datetime.now(UTC))
    return _wrong_broker(contact, examination)


def _wrong_broker(contact: Contact, examination: Examination) -> ContactCause | None:
    """Return the cause if a broker has answered, but the wrong one."""
    if contact.other_clusters:
        ids = ", ".join(
            cluster_id for cluster_id in (contact.cluster_id, *contact.other_clusters) if cluster_id is not None
        )
        why = f"connections to it lead to different Kafka clusters, with the ids {ids}"
        return ContactCause(Fault.MIXED_CLUSTERS, why, NETWORK)
    identity, asked = contact.identity, examination.answering.identity if examination.answering else None
    if identity is None or contact.expected is None:
        return _mixing_balancer(contact)
    if asked is not None and asked.cluster_id and identity.cluster_id not in (None, asked.cluster_id):
        where = f" (it resolves to {', '.join(contact.resolved)})" if _is_name(contact) else ""
        why = f"another Kafka cluster answers there, with the id {identity.cluster_id}{where}"
        return ContactCause(Fault.WRONG_CLUSTER, why, BROKER)
    mixes = _mixing_balancer(contact)
    if mixes is None and identity.key is not None and identity.key != contact.expected:
        why = f"{identity.key} of this cluster answers there, not {contact.expected}"
        return ContactCause(Fault.WRONG_NODE, why, BROKER)
    return mixes


def _mixing_balancer(contact: Contact) -> ContactCause | None:
    if not contact.others or contact.expected is None:
        return None  # a load balancer in front of all brokers is a good bootstrap server
    first = contact.identity.key if contact.identity is not None else None
    brokers = ", ".join(str(key) for key in (first, *contact.others) if key is not None)
    why = f"connections to it lead to different brokers ({brokers}): a load balancer mixes them"
    return ContactCause(Fault.MIXING_LOAD_BALANCER, why, NETWORK)


def _wants_login(contact: Contact, examination: Examination) -> ContactCause:
    if contact.mechanisms:
        names = ", ".join(contact.mechanisms)
        return ContactCause(Fault.LOGIN_NEEDED, f"this listener needs a SASL login; it offers {names}", CLIENT)
    text = "the broker closes the connection on the first request without a login"
    return ContactCause(Fault.LOGIN_NEEDED, text, CLIENT)


def _failure(contact: Contact, examination: Examination, now: datetime) -> ContactCause:
    reason = contact.reason
    if reason == "resolve":
        return _resolve_failure(contact, examination)
    if reason == "other" and contact.protocol is PortProtocol.UNKNOWN and not contact.answered and not examination.via:
        return ContactCause(Fault.NO_ROUTE, contact.problem, ADDRESS if contact.expected is None else BROKER)
    if examination.via and reason in ("proxy", "unreachable") and not contact.answered and not _is_forbidden(contact):
        return _proxy_failure(contact, examination)
    if examination.via and reason in _OF_HOPS and not contact.answered:
        return ContactCause(Fault.HOP_FAILED, contact.problem, HOP)
    if (
        reason in ("refused", "timeout", "unreachable")
        and not contact.answered
        and contact.protocol is PortProtocol.UNKNOWN
    ):
        return _connect_failure(contact, examination)
    if reason == "limit":
        return ContactCause(Fault.TOO_MANY_FILES, contact.problem, MACHINE)
    if reason == "loop":
        return ContactCause(Fault.PROXY_LOOP, contact.problem, MACHINE)
    if contact.refused:
        return ContactCause(Fault.CREDENTIALS_REFUSED, _without_prefix(contact.problem), CLIENT)
    if reason == "sasl" and contact.protocol in (PortProtocol.UNKNOWN, PortProtocol.KAFKA, PortProtocol.KAFKA_TLS):
        return _login_failure(contact)
    if reason.startswith("tls") and examination.tls:
        return _tls_failure(contact, examination, now)
    return _protocol_failure(contact, examination)


def _is_forbidden(contact: Contact) -> bool:
    """Check whether a hop has refused the address by its rules: then these are at fault."""
    return any(words in contact.problem for words in ("does not allow", "forbids"))


def _proxy_failure(contact: Contact, examination: Examination) -> ContactCause:
    """Return the cause if the last hop, which does its part, could not connect to this address.

    Proxies have one answer for names that they cannot resolve and for hosts that they cannot reach.
    """
    if not _is_name(contact) or contact.resolved:
        return _connect_failure(contact, examination)
    advertised = contact.expected is not None
    cannot = f"{examination.dialler} could not connect: it cannot resolve the name, or has no route there"
    name_cause = _BY_NAME.get(classify(contact.address.host)) if advertised else None
    if name_cause is not None:
        return ContactCause(name_cause[0], f"{cannot}. {name_cause[1].capitalize()}", BROKER)
    return ContactCause(Fault.NO_ROUTE, cannot, BROKER if advertised else ADDRESS)


def _resolve_failure(contact: Contact, examination: Examination) -> ContactCause:
    if "no answer from DNS" in contact.problem:
        return ContactCause(Fault.DNS_SILENT, "this machine's resolver did not answer in time", MACHINE)
    host = (contact.address).host
    name_cause = _BY_NAME.get(classify(host)) if contact.expected is not None else None
    cannot = f"{examination.dialler} cannot resolve the name"
    if name_cause is not None:
        return ContactCause(name_cause[0], f"{cannot}: {name_cause[1]}", BROKER)
    if contact.expected is not None:
        return ContactCause(Fault.NAME_NOT_RESOLVED, cannot, BROKER)
    return ContactCause(Fault.NAME_NOT_RESOLVED, f"{cannot}. It {describe_name(host)}", ADDRESS)


def _connect_failure(contact: Contact, examination: Examination) -> ContactCause:
    host, reason = contact.address.host, contact.reason
    advertised = contact.expected is not None
    if advertised and classify(host) is AddressClass.WILDCARD:
        why = "this means every interface of the broker; a client takes it for its own machine"
        return ContactCause(Fault.WILDCARD_ADVERTISED, why, BROKER)
    if advertised and is_loopback(host) and not _answers_on_this_machine(examination):
        whose = f"the machine of {examination.via[-1]}" if examination.via else "the client's own machine"
        why = f"localhost is {whose}, where no broker listens"
        return ContactCause(Fault.LOOPBACK_ADVERTISED, why, BROKER)
    where = f"the name resolves to {', '.join(contact.resolved)}" if _is_name(contact) and contact.resolved else ""
    if reason == "refused":
        if advertised and _is_name(contact) and contact.resolved and all(map(is_loopback, contact.resolved)):
            why = f"{where}, which is this machine itself, and nothing listens on the port"
            return ContactCause(Fault.NAME_RESOLVES_WRONGLY, why, MACHINE)
        why = "connection refused: the host answers, and nothing listens on that port" + (f"; {where}" if where else "")
        same_host = examination.answering is not None and examination.answering.address.host == host
        if advertised and same_host and examination.answering is not None:
            why += (
                f". The broker itself answers on port {examination.answering.address.port} of the same host: the port"
                " is published, forwarded or mapped under another number"
            )
        return ContactCause(Fault.PORT_CLOSED, why, BROKER if advertised else ADDRESS)
    addresses = contact.resolved or (host,)
    if reason == "unreachable" and all(":" in address for address in addresses):
        why = f"it has IPv6 addresses only, and {examination.dialler} has no route for IPv6"
        return ContactCause(Fault.IPV6_ONLY, why, MACHINE)
    how = (
        "no route leads there"
        if reason in ("unreachable", "proxy")
        else "nothing answers (a firewall drops the packets)"
    )
    if advertised and any(is_private(address) for address in addresses):
        text = f"{where}, a private address" if where else "this is a private address"
        why = f"{text}, which {examination.dialler} cannot reach: {how}"
        return ContactCause(Fault.PRIVATE_ADDRESS_ADVERTISED, why, BROKER)
    fault = Fault.NO_ROUTE if reason in ("unreachable", "proxy") else Fault.FILTERED
    return ContactCause(fault, f"{where}: {how}" if where else how, NETWORK if advertised else ADDRESS)


def _login_failure(contact: Contact) -> ContactCause:
    """Return the cause of a failed login, by the text of `kproxy.client.sasl`: the reason is the same for all."""
    text = _without_prefix(contact.problem)
    if "has not enabled" in text:
        return ContactCause(Fault.SASL_MECHANISM, text, CLIENT)
    if "does not support SASL" in text:
        return ContactCause(Fault.LOGIN_NOT_OFFERED, text, CLIENT)
    if "Kerberos" in text or "KDC" in text:
        fault = Fault.CLOCK if "clock skew" in text.lower() else Fault.KERBEROS
        return ContactCause(fault, text, CLIENT)
    if any(word in text for word in ("cannot be read", "the command", "token endpoint", "AWS", "package")):
        return ContactCause(Fault.CREDENTIALS_UNREADABLE, text, MACHINE)
    return ContactCause(Fault.CREDENTIALS_REFUSED, text, CLIENT)


def _tls_failure(contact: Contact, examination: Examination, now: datetime) -> ContactCause:
    reason, certificate = contact.reason, contact.certificate
    names = f" It has the names {', '.join(certificate.names[:5])}." if certificate and certificate.names else ""
    if reason == "tls-name":
        expected = contact.name.host
        return ContactCause(Fault.CERTIFICATE_NAME, f"the certificate is not for {expected}.{names}", CERTIFICATE)
    if reason == "tls-expired":
        clock = f"this machine's clock says {now:%Y-%m-%d %H:%M} UTC"
        if certificate is not None and certificate.not_before > now:
            begins = f"{certificate.not_before:%Y-%m-%d %H:%M} UTC"
            why = f"the certificate is valid from {begins} on, and {clock}: one of the two clocks is wrong"
            return ContactCause(Fault.CERTIFICATE_NOT_YET_VALID, why, MACHINE)
        ended = f"ended {certificate.not_after:%Y-%m-%d %H:%M} UTC" if certificate else "has ended"
        return ContactCause(Fault.CERTIFICATE_EXPIRED, f"the certificate {ended}, and {clock}", CERTIFICATE)
    if reason == "tls-untrusted":
        issuer = f" (issuer: {certificate.issuer})" if certificate else ""
        why = f"the certificate is of a CA that this machine does not trust{issuer}"
        return ContactCause(Fault.CERTIFICATE_UNTRUSTED, why, CLIENT)
    if reason == "tls-client-certificate":
        fault = Fault.CLIENT_CERTIFICATE_REFUSED if examination.certificate_given else Fault.CLIENT_CERTIFICATE_MISSING
        missing = "the broker requires a client certificate, and the client has none"
        return ContactCause(
            fault, _without_prefix(contact.problem) if examination.certificate_given else missing, CLIENT
        )
    if reason == "tls-version":
        return ContactCause(Fault.TLS_VERSION, _without_prefix(contact.problem), BROKER)
    if contact.protocol is PortProtocol.KAFKA:
        return ContactCause(Fault.TLS_TO_PLAINTEXT, "the listener speaks plaintext, and TLS was asked for", CLIENT)
    if contact.protocol in _NOT_KAFKA and contact.protocol is not PortProtocol.TLS:
        return ContactCause(Fault.NOT_KAFKA, _NOT_KAFKA[contact.protocol], CLIENT)
    if contact.protocol in (PortProtocol.TLS, PortProtocol.KAFKA_TLS) and not examination.certificate_given:
        why = "the broker ends the handshake, as one does that wants a client certificate"
        return ContactCause(Fault.CLIENT_CERTIFICATE_MISSING, why, CLIENT)
    return ContactCause(Fault.TLS_FAILED, _without_prefix(contact.problem), BROKER)


def _protocol_failure(contact: Contact, examination: Examination) -> ContactCause:
    """Return the cause if the connection was accepted, but its bytes are no response of a broker."""
    spoken = contact.protocol
    if spoken is PortProtocol.KAFKA_TLS and not examination.tls:
        return ContactCause(Fault.PLAINTEXT_TO_TLS, "the listener speaks TLS, and the client does not", CLIENT)
    if spoken is PortProtocol.TLS and not examination.tls:
        why = "the server speaks TLS, and the client does not; whether it is a Kafka broker shows after the handshake"
        return ContactCause(Fault.PLAINTEXT_TO_TLS, why, CLIENT)
    if spoken is PortProtocol.KAFKA and examination.tls:
        return ContactCause(Fault.TLS_TO_PLAINTEXT, "the listener speaks plaintext, and TLS was asked for", CLIENT)
    if spoken in _NOT_KAFKA:
        return ContactCause(Fault.NOT_KAFKA, _NOT_KAFKA[spoken], CLIENT)
    if spoken is PortProtocol.CLOSED or contact.reason == "closed":
        why = "the server accepts the connection and closes it without an answer: a port-forward or load balancer whose"
        return ContactCause(Fault.CLOSED, f"{why} target is down, or a broker that is stopping", NETWORK)
    why = "the server accepts the connection and answers nothing: a port-forward or load balancer whose target is"
    return ContactCause(Fault.SILENT, f"{why} unreachable, a hanging broker, or not a Kafka broker", NETWORK)


def _answers_on_this_machine(examination: Examination) -> bool:
    """Return True if the broker that answered listens on this machine."""
    asked = examination.answering
    return asked is not None and all(map(is_loopback, asked.resolved or (asked.address.host,)))


def _is_name(contact: Contact) -> bool:
    try:
        ip_address(contact.address.host.partition("%")[0])
    except ValueError:
        return True
    return False


def _without_prefix(problem: str) -> str:
    """Return a problem without the address and the word before it."""
    return problem.removeprefix("SASL: ").removeprefix("TLS: ")
