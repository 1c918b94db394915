"""One sentence about a cause, with the addresses, nodes and topics of the text."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.advice.explain.addressfaults import host_of
from kproxy.advice.explain.causes import Cause
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.remedies import Fault, remedy_of

_MOST = 3

# {who}: the address and whose it is. {address}: the address alone.
_SENTENCES: dict[Fault, str] = {
    Fault.NAME_NOT_RESOLVED: "{who}: your machine cannot resolve it.",
    Fault.DNS_SILENT: "{who}: the resolver of your machine gave no answer for it.",
    Fault.LOOPBACK_ADVERTISED: "{who}. For your machine, it is your machine itself, and nothing listens there.",
    Fault.WILDCARD_ADVERTISED: '{who}. It means "every interface" and is no address to connect to.',
    Fault.CONTAINER_NAME_ADVERTISED: "{who}. It looks like a container's name, and your machine cannot resolve it.",
    Fault.KUBERNETES_NAME_ADVERTISED: "{who}. Only pods of its Kubernetes cluster can resolve it.",
    Fault.PRIVATE_ADDRESS_ADVERTISED: "{who}. It is of a private network, and does not answer your machine.",
    Fault.PORT_CLOSED: "{who}: the machine refuses the connection, because nothing listens on that port.",
    Fault.FILTERED: "{who}: nothing answers there.",
    Fault.NO_ROUTE: "{who}: your machine has no route to it.",
    Fault.IPV6_ONLY: "{who}: your machine cannot use an address of this family.",
    Fault.SILENT: "{who}: the server accepts the connection and answers nothing.",
    Fault.CLOSED: "{who}: the server closes the connection without an answer.",
    Fault.NOT_KAFKA: "{who}: the server there is not a Kafka broker.",
    Fault.TLS_TO_PLAINTEXT: "{who}: the client speaks TLS, and the listener there does not.",
    Fault.PLAINTEXT_TO_TLS: "{who}: the listener there speaks TLS, and the client does not.",
    Fault.CERTIFICATE_NAME: "{who}: the certificate there is for another name.",
    Fault.CERTIFICATE_EXPIRED: "{who}: a certificate there has expired.",
    Fault.CERTIFICATE_UNTRUSTED: "{who}: the client does not trust the CA of the certificate there.",
    Fault.CLIENT_CERTIFICATE_MISSING: "{who}: the listener there requires a certificate of the client.",
    Fault.CLIENT_CERTIFICATE_REFUSED: "{who}: the listener there refuses the client's certificate.",
    Fault.CREDENTIALS_REFUSED: "{who}: the broker refuses the client's user or password.",
    Fault.SASL_MECHANISM: "{who}: the broker has not enabled the client's SASL mechanism{mechanism}.",
    Fault.LOGIN_NOT_OFFERED: "{who}: the listener there has no SASL, and the client wants to log in.",
    Fault.LOGIN_NEEDED: "{who}: the listener there requires a login.",
}
_OF_TOPICS: dict[Fault, str] = {
    Fault.NOT_AUTHORIZED: "The user lacks a right on {topic}.",
    Fault.TOPIC_UNKNOWN: "The cluster has no {topic}.",
    Fault.NO_LEADER: "{topic} has a partition without a leader.",
}


def sentence(cause: Cause) -> str:
    """What happened, as far as the text says where. Empty if it names no place."""
    if not cause.faults:
        return ""
    fault = cause.faults[0]
    topics = list(dict.fromkeys(finding.facts.topic for finding in cause.matches if finding.facts.topic))
    if fault in _OF_TOPICS and topics:
        word = "topic" if len(topics) == 1 else "topics"
        text = _OF_TOPICS[fault].format(topic=f"{word} {_list(topics)}")
        return text[0].upper() + text[1:]
    addresses = cause.addresses()
    if len(cause.faults) > 1:
        return f"The text is about {_list(addresses)}." if addresses else ""
    if fault not in _SENTENCES or not addresses or cause.matches[0].broker:
        return ""
    who = _who(cause.matches, addresses[0]) if len(addresses) == 1 else _list(addresses)
    mechanism = next((f" {finding.facts.mechanism}" for finding in cause.matches if finding.facts.mechanism), "")
    return _SENTENCES[fault].format(who=who, mechanism=mechanism)


def _who(findings: Sequence[MessageMatch], address: str) -> str:
    facts = next(finding.facts for finding in findings if finding.facts.address == address)
    node = f" of broker {facts.node}" if facts.node is not None and facts.node >= 0 else ""
    if facts.bootstrap:
        return f"{address} is a bootstrap server"
    if facts.bootstrap is False:
        return f"{address} is the advertised address{node}"
    return address


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST])
    return f"{shown} and {len(names) - _MOST} more" if len(names) > _MOST else shown


def fill_in(text: str, cause: Cause, server: str) -> str:
    """A text of a remedy with the addresses of this case in its commands."""
    address = next((one for one in cause.addresses() if host_of(one) != one), "")
    host = host_of(address)
    words = {"BOOTSTRAP": server} if server else {}
    if address:
        words |= {
            "HOST:PORT": address,
            "HOST PORT": f"{host} {address[len(host) + 1 :]}",
            "hosts NAME": f"hosts {host}",
        }
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def title(cause: Cause) -> str:
    """The heading of a cause."""
    if not cause.faults:
        return f"Kafka's error {cause.matches[0].text}"
    if len(cause.faults) > 1:
        return "Words that fit several causes"
    return remedy_of(cause.faults[0]).title
