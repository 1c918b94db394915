"""One sentence about a cause, with the addresses, nodes and topics of the text."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.advice.explain.causes import Cause
from kproxy.advice.explain.facts import host_of, is_ip
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.explain.patterns import LISTED_BROKER
from kproxy.advice.explain.reasons import has_whole_advice, notes_of, precise_title
from kproxy.advice.remedies import remedy_of
from kproxy.base.faults import Fault
from kproxy.base.format import abbreviate

# {subject}: the address, and which broker has it. {address}: the address alone.
_SENTENCES: dict[Fault, str] = {
    Fault.NAME_NOT_RESOLVED: "{subject}: your machine cannot resolve it.",
    Fault.DNS_SILENT: "{subject}: the resolver of your machine gave no answer for it.",
    Fault.LOOPBACK_ADVERTISED: "{subject}. For your machine, it is your machine itself, and nothing listens there.",
    Fault.WILDCARD_ADVERTISED: '{subject}. It means "every interface" and is no address to connect to.',
    Fault.CONTAINER_NAME_ADVERTISED: "{subject}: it may be a container's name, and your machine cannot resolve it.",
    Fault.SHORT_NAME_ADVERTISED: "{subject}: your machine cannot resolve it.",
    Fault.HOST_GATEWAY: "{subject}: it is not defined where the client runs.",
    Fault.KUBERNETES_NAME_ADVERTISED: "{subject}. Only pods of its Kubernetes cluster can resolve it.",
    Fault.PRIVATE_ADDRESS_ADVERTISED: "{subject}. It is of a private network, and does not answer your machine.",
    Fault.PORT_CLOSED: "{subject}: the machine refuses the connection, because nothing listens on that port.",
    Fault.FILTERED: "{subject}: nothing answers there.",
    Fault.NO_ROUTE: "{subject}: your machine has no route to it.",
    Fault.IPV6_ONLY: "{subject}: your machine cannot use an address of this family.",
    Fault.SILENT: "{subject}: the server accepts the connection and answers nothing.",
    Fault.CLOSED: "{subject}: the server closes the connection without an answer.",
    Fault.NOT_KAFKA: "{subject}: the server there is not a Kafka broker.",
    Fault.TLS_TO_PLAINTEXT: "{subject}: the client speaks TLS, and the listener there does not.",
    Fault.PLAINTEXT_TO_TLS: "{subject}: the listener there speaks TLS, and the client does not.",
    Fault.CERTIFICATE_NAME: "{subject}: the certificate there is for another name.",
    Fault.CERTIFICATE_EXPIRED: "{subject}: a certificate there has expired.",
    Fault.CERTIFICATE_UNTRUSTED: "{subject}: the client does not trust the CA of the certificate there.",
    Fault.CLIENT_CERTIFICATE_MISSING: "{subject}: the listener there requires a certificate of the client.",
    Fault.CLIENT_CERTIFICATE_REFUSED: "{subject}: the listener there refuses the client's certificate.",
    Fault.CREDENTIALS_REFUSED: "{subject}: the broker refuses the client's login.",
    Fault.SASL_MECHANISM: "{subject}: the broker has not enabled the client's SASL mechanism{mechanism}.",
    Fault.LOGIN_NOT_OFFERED: "{subject}: the listener there has no SASL, and the client wants to log in.",
    Fault.LOGIN_NEEDED: "{subject}: the listener there requires a login.",
}
# A note may give another reason than their sentence.
_WITH_SEVERAL_REASONS = frozenset({Fault.CLOSED, Fault.FILTERED, Fault.PORT_CLOSED})
_TOPIC_SENTENCES: dict[Fault, str] = {
    Fault.NOT_AUTHORIZED: "The user lacks a right on {topic}.",
    Fault.TOPIC_UNKNOWN: "The cluster has no {topic}.",
    Fault.NO_LEADER: "{topic} has a partition without a leader.",
}


def sentence(cause: Cause) -> str:
    """Return what happened, with its address or topic; empty if the text names neither."""
    if not cause.faults:
        return ""
    fault = cause.faults[0]
    topics = list(dict.fromkeys(match.facts.topic for match in cause.matches if match.facts.topic))
    if fault in _TOPIC_SENTENCES and topics:
        word = "topic" if len(topics) == 1 else "topics"
        text = _TOPIC_SENTENCES[fault].format(topic=f"{word} {abbreviate(topics)}")
        return text[0].upper() + text[1:]
    addresses = cause.addresses()
    if len(cause.faults) > 1 or (fault in _WITH_SEVERAL_REASONS and has_whole_advice(cause)):
        return f"The text is about {abbreviate(addresses)}." if addresses else ""
    if fault not in _SENTENCES or not addresses:
        return ""
    if cause.matches[0].broker:
        return f"The other node is {abbreviate(addresses)}." if cause.is_between_nodes else ""
    if len(addresses) == 1:
        subject = _describe_address(cause.matches, addresses[0])
    else:
        subject = _describe_addresses(cause.matches, addresses)
    if all(match.text == LISTED_BROKER for match in cause.matches):
        return f"{subject}. The list does not show whether your machine reaches it."
    mechanism = next((f" {match.facts.mechanism}" for match in cause.matches if match.facts.mechanism), "")
    return _SENTENCES[fault].format(subject=subject, mechanism=mechanism)


def _describe_addresses(matches: Sequence[MessageMatch], addresses: Sequence[str]) -> str:
    origins = {match.facts.bootstrap for match in matches if match.facts.address in addresses}
    role = " is a bootstrap server" if origins == {True} else " is an advertised address" if origins == {False} else ""
    return f"Each of {abbreviate(addresses)}{role}"


def _describe_address(matches: Sequence[MessageMatch], address: str) -> str:
    facts = next(match.facts for match in matches if match.facts.address == address)
    node = f" of broker {facts.node}" if facts.node is not None and facts.node >= 0 else ""
    if facts.bootstrap:
        return f"{address} is a bootstrap server"
    if facts.bootstrap is False:
        return f"{address} is the advertised address{node}"
    return address


def fill_in(text: str, cause: Cause, server: str) -> str:
    """Replace placeholders in a remedy's text by the addresses of this cause."""
    address = next((address for address in cause.addresses() if host_of(address) != address), "")
    host = host_of(address)
    words = {"BOOTSTRAP": server} if server else {}
    if address:
        words |= {
            "HOST:PORT": address,
            "HOST PORT": f"{host} {address[len(host) + 1 :]}",
        }
        if host != "localhost" and not is_ip(host):  # then it is an advertised name that the text does not show
            words["hosts NAME"] = f"hosts {host}"
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def title(cause: Cause) -> str:
    """Return the heading of a cause."""
    if not cause.faults:
        return f"Kafka's error {cause.matches[0].text}"
    if len(cause.faults) > 1:
        return _title_of_several(cause)
    if cause.is_elsewhere and (notes := notes_of(cause)):
        return f"It is not about reaching Kafka. {' '.join(notes)}".rstrip(".")
    return precise_title(cause) or remedy_of(cause.faults[0]).title


def _title_of_several(cause: Cause) -> str:
    """Return a heading that names the likeliest of several causes, and how many others there are."""
    faults = cause.faults
    if cause.is_between_nodes:
        return f"A broker or controller does not reach another node, for one of {len(faults)} reasons"
    if Fault.PORT_CLOSED in faults and all(match.answered for match in cause.matches):
        return (
            "A broker has answered the client, but an advertised address does not work for it, for one of "
            f"{len(faults)} reasons"
        )
    if {Fault.PORT_CLOSED, Fault.CLOSED}.issubset(faults):
        return f"The client cannot reach or use a broker, for one of {len(faults)} reasons"
    first, second = (remedy_of(fault).title for fault in faults[:2])
    rest = len(faults) - 2
    others = "" if not rest else ", or it is another cause" if rest == 1 else f", or it is one of {rest} other causes"
    if not second.startswith("Kafka"):
        second = second[0].lower() + second[1:]
    return f"{first}; or {second}{others}"
